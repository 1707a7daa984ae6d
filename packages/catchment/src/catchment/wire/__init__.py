"""How values travel and are kept, and values that say themselves what they are made of.

A message, `Parts`, is a kind, small facts and arrays, in a fixed binary form without pickle.

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

from catchment.wire.bits import CHUNK as CHUNK
from catchment.wire.bits import FEWEST as FEWEST
from catchment.wire.bits import check_length as check_length
from catchment.wire.bits import packed as packed
from catchment.wire.bits import unpacked as unpacked
from catchment.wire.fields import (
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
    Kind,
    Measured,
    Shape,
    Triangle,
    kind_of,
    marked,
    measured,
    places_of,
)
from catchment.wire.fields import FEW as FEW
from catchment.wire.fields import Gathered as Gathered
from catchment.wire.fields import gathered as gathered
from catchment.wire.messages import MAGIC as MAGIC
from catchment.wire.messages import MAX_DEPTH as MAX_DEPTH
from catchment.wire.messages import MAX_HEADER as MAX_HEADER
from catchment.wire.messages import NOTHING, Fact, Parts, digest, join, plain_text, split
from catchment.wire.messages import VERSION as VERSION
from catchment.wire.structure import (
    Structure,
    Summable,
    added,
    equal,
    is_whole,
    plus,
    put_together,
    subtracted,
    taken_apart,
)

__all__ = [
    "ANY_FLOAT",
    "CLIENTS",
    "COUNTED",
    "GATHERED",
    "LATER",
    "NOTHING",
    "NOT_NEGATIVE",
    "POOLED",
    "REMARK",
    "ROWS",
    "SAME",
    "SIGNED",
    "WEIGHT",
    "Fact",
    "Kind",
    "Measured",
    "Parts",
    "Shape",
    "Structure",
    "Summable",
    "Triangle",
    "added",
    "digest",
    "equal",
    "is_whole",
    "join",
    "kind_of",
    "marked",
    "measured",
    "places_of",
    "plain_text",
    "plus",
    "put_together",
    "split",
    "subtracted",
    "taken_apart",
]
