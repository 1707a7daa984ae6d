"""Values that say themselves what they are made of: how they add, compare, travel and are kept.

A frozen dataclass declares each field once, by its type and by what is written beside it:

    n_rows: Annotated[int, ROWS]                          # adds; counts rows
    weight: float                                         # adds
    cross: Annotated[Array, Shape("features", "targets")] # adds; has this shape
    gram: Annotated[Array, Triangle("features")]          # adds; a packed triangle
    fingerprint: str                                      # must be equal, or nothing adds

From that follow `+`, `-`, `==`, the form in which a value travels, and the checks of what arrives.
Numbers and arrays add; text, truth values, whole numbers marked SAME, and what can be written as
JSON must be equal. Other dataclasses, optional ones, tuples and mappings of them may lie inside.

On the wire the numbers of a value come first, as one vector, then its arrays, in the order of the
fields; what must be equal are facts. A value with others inside is those, joined.
"""

from __future__ import annotations

from typing import Self

from catchment.structure.adding import added, equal, is_whole, plus, subtracted
from catchment.structure.codec import put_together, taken_apart
from catchment.structure.fields import (
    ANY_FLOAT,
    CLIENTS,
    COUNTED,
    GATHERED,
    LATER,
    NOT_NEGATIVE,
    POOLED,
    REMARK,
    ROWS,
    SAME,
    SIGNED,
    WEIGHT,
    Declared,
    Kind,
    Measured,
    Shape,
    Triangle,
    kind_of,
    marked,
    measured,
    places_of,
)

# For the other packages and the tests; may change without notice.
from catchment.structure.gathered import FEW as FEW
from catchment.structure.gathered import Gathered as Gathered
from catchment.wire import Parts

__all__ = [
    "ANY_FLOAT",
    "CLIENTS",
    "COUNTED",
    "GATHERED",
    "LATER",
    "NOT_NEGATIVE",
    "POOLED",
    "REMARK",
    "ROWS",
    "SAME",
    "SIGNED",
    "WEIGHT",
    "Kind",
    "Measured",
    "Shape",
    "Structure",
    "Summable",
    "Triangle",
    "added",
    "equal",
    "is_whole",
    "kind_of",
    "marked",
    "measured",
    "places_of",
    "plus",
    "put_together",
    "subtracted",
    "taken_apart",
]


class Structure(Declared):
    """Base of frozen dataclasses that travel as their fields say; `KIND` names the message.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Pair(Structure):
    ...     n: int
    ...     name: str
    >>> Pair.from_parts(Parts.from_bytes(Pair(3, "x").parts().to_bytes()))
    Pair(n=3, name='x')
    """

    def parts(self) -> Parts:
        """Return the value as it travels."""
        return taken_apart(self)

    @classmethod
    def from_parts(cls, parts: Parts) -> Self:
        """Return the value that travelled.

        IntegrityError if it is malformed, UploadError if no data can have it.
        """
        return put_together(cls, parts)


class Summable(Structure):
    """Base of frozen dataclasses whose fields add.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Mean(Summable):
    ...     n: int
    ...     total: float
    >>> a = Mean(1, 2.5)
    >>> (a + a).total, a + a - a == a
    (5.0, True)
    """

    def __add__(self, other: Self) -> Self:
        return added(self, other)

    def __sub__(self, other: Self) -> Self:
        """Return the value without another that was added."""
        return subtracted(self, other)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and equal(self, other)

    __hash__ = None  # type: ignore[assignment]
