"""Array types, and the checks that every user's array passes once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def as_matrix(value: Any, name: str) -> Array:
    """Return (T, n) float64 rows from a number sequence (one column) or a matrix.

    >>> as_matrix([1, 2, 3], "u").shape
    (3, 1)
    """
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"{name} has {array.ndim} dimensions, expected 2; pass an array (steps, columns)"
        )
    return array


def refuse_infinite(array: Array, name: str) -> None:
    """Raise ValueError, naming the first row, if any value is infinite; NaN means missing."""
    if np.isinf(array).any():
        row = int(np.argwhere(np.isinf(array))[0][0])
        raise ValueError(f"{name} is infinite at row {row}; remove or replace infinite values")


def refuse_nonfinite(array: Array, name: str) -> None:
    """Raise ValueError, naming the first row, if any value is NaN or infinite."""
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(f"{name} is not finite at row {row}; fill or drop missing values first")


def frozen(array: Array) -> Array:
    """Return the array itself, made read-only."""
    array.flags.writeable = False
    return array
