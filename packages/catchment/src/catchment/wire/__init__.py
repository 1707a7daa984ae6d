"""How values travel and are kept, and values that say themselves what they are made of.

A message, `Message`, is a kind, small facts and arrays, in a fixed binary form without pickle.

A frozen dataclass declares each field once, by its type and by what is written beside it:

    n_rows: Annotated[int, ROWS]                          # adds; counts rows
    weight: float                                         # adds
    cross: Annotated[Array, Shape("features", "targets")] # adds; has this shape
    gram: Annotated[Array, Triangle("features")]          # adds; a packed triangle
    fingerprint: str                                      # must be equal, or nothing adds

From that follow `+`, `-`, `==`, the form in which a value travels, and the checks of what arrives.
Numbers and arrays add; text, truth values, integers marked SAME, and what can be written as
JSON must be equal. Other dataclasses, optional ones, tuples and mappings of them may lie inside.

On the wire the numbers of a value come first, as one vector, then its arrays, in the order of the
fields; what must be equal are facts. A value with others inside is those, joined.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
