"""Features on a grid: whole numbers times a power of two, whose products add up exactly.

Feature j of a map with a grid of b bits is k 2^-d_j with |k| <= 2^b, where d_j = b - r_j binary
digits after the point and 2^r_j is the feature's bound, rounded up to a power of two.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from catchment.arrays import Array, Integers

LEAST_BITS, MOST_BITS = 4, 24
AUTO_BITS = {"classes": 8, "numbers": 24}  # what "auto" is; docs/concepts/integers.md says why


def auto_bits(bits: int | Literal["auto"] | None, classes: bool) -> int | None:
    """Return the bits of features whose targets are classes or numbers.

    >>> auto_bits("auto", True), auto_bits(12, True), auto_bits(None, False)
    (8, 12, None)
    """
    if bits == "auto":
        return AUTO_BITS["classes" if classes else "numbers"]
    return bits


def digits_after_point(bounds: Array, bits: int) -> Integers:
    """Return the binary digits (F,) after the point of features with these bounds.

    >>> digits_after_point(np.array([1.0, 8.0, 0.3]), 12)
    array([12,  9, 13])
    """
    if not (np.isfinite(bounds).all() and (bounds > 0).all()):
        raise ValueError(
            f"a grid of {bits} bits needs finite bounds above zero, and a feature has "
            f"{bounds[~(np.isfinite(bounds) & (bounds > 0))][0]}; declare bounds, or use no grid"
        )
    # frexp is exact where a logarithm is not: bound = fraction 2^exponent, fraction in [1/2, 1).
    fraction, exponent = np.frexp(bounds)
    r = exponent - (fraction == 0.5)
    return np.asarray(bits - r, dtype=np.int64)


def on_grid(rows: Array, digits: Integers, bits: int) -> Array:
    """Return rows (n, F) rounded to the grid, ties to even, and cut off where it ends.

    >>> on_grid(np.array([[0.30, -9.0]]), np.array([2, 1]), 4)
    array([[ 0.25, -8.  ]])
    """
    unit = np.ldexp(1.0, digits)
    scaled = rows * unit
    np.rint(scaled, out=scaled)
    np.clip(scaled, -(2.0**bits), 2.0**bits, out=scaled)
    scaled /= unit
    scaled += 0.0  # turns -0 into 0, so that equal numbers have equal bits
    return scaled


def checked_bits(bits: object, name: str) -> int:
    """Return a number of bits that a grid can have.

    >>> checked_bits(20, "grid")
    20
    """
    if isinstance(bits, bool) or not isinstance(bits, int) or not (LEAST_BITS <= bits <= MOST_BITS):
        raise ValueError(
            f"{name} is {bits!r}; give {LEAST_BITS} to {MOST_BITS} bits, or None for float64"
        )
    return bits
