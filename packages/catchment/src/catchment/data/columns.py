"""What a column holds: values, text, or nothing in some rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Booleans

Values = NDArray[Any]


def missing_values(values: Values) -> Booleans:
    """Return which values (n,) of a column are missing: NaN, NaT, None or pandas' NA.

    >>> missing_values(np.array(["a", None, np.nan], dtype=object))
    array([False,  True,  True])
    """
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind == "O":
        # Text is most of what there is, and never missing.
        missing = [not isinstance(value, str) and is_missing(value) for value in values]
        return np.array(missing, dtype=bool)
    return np.zeros(len(values), dtype=bool)


def is_missing(value: object) -> bool:
    """Return whether a value stands for none."""
    if value is None:
        return True
    # NaN and NaT do not equal themselves, and pandas' NA answers neither yes nor no.
    same = value == value
    return not (isinstance(same, bool | np.bool_) and bool(same))


def refuse_missing(values: Values, name: str) -> None:
    """Raise ValueError if a column lacks a value."""
    missing = np.flatnonzero(missing_values(values))
    if len(missing):
        raise ValueError(f"column {name!r} is empty in row {missing[0]}; fill it or drop the row")


def holds_text(values: Values) -> bool:
    """Return whether a column has any text."""
    return values.dtype.kind == "O" and any(isinstance(value, str) for value in values)


def first_text(values: Values) -> str | None:
    """Return the first text of a column that is no number and its row, or None if there is none.

    Rows count from 1, below the header.

    >>> first_text(np.array(["1.5", "oops"], dtype=object))
    "'oops' in row 2"
    """
    for row, value in enumerate(values.tolist(), start=1):
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return f"{value!r} in row {row}"
    return None
