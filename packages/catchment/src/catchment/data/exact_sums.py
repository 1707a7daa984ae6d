"""Sums and sums of squares of numbers without rounding: the same bits in any order, on any machine.

A number is rounded once, to 60 binary digits after the point (ties to even), and must be below 2^40
in absolute value. It is then split into pieces of 20 binary digits,

    u = p0 2^20 + p1 + p2 2^-20 + p3 2^-40 + p4 2^-60,    |p_k| <= 2^20, whole,

so that products of two pieces, summed over up to 2^13 rows, are whole numbers below 2^53: float64
holds them exactly whatever the order of the sum, the blocks, the vector registers or the threads.
Sums of blocks go into whole numbers of any length.

Numbers leave as limbs of 32 bits in 64-bit words, value = sum_i limb_i 2^(32 i), the low ones in
[0, 2^32) and the top one signed; limbs of many clients can be added one by one and read afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers

Whole = NDArray[np.object_]  # Python's whole numbers

DIGITS = 60  # after the point
BOUND = 2.0**40
LIMB = 32
TOTAL_LIMBS, SQUARES_LIMBS = 4, 7  # for 2^33 values of largest size, with room in the top limb

_SHIFTS = (20, 0, -20, -40, -60)
_ROWS = 2**22  # whose sums fit 64 bits


class ExactSums:
    """Counts, sums and sums of squares (I,) of all rows added so far, about an origin (I,) or zero.

    NaN is not counted.

    >>> sums = ExactSums(1)
    >>> sums.add(np.array([[1e12], [2.0**-60], [np.nan], [-1e12]]))
    >>> sums.count, sums.total
    (array([3]), array([1], dtype=object))
    """

    def __init__(self, n_channels: int, origin: Array | None = None) -> None:
        I, m = n_channels, len(_SHIFTS)
        self._origin = np.zeros(I) if origin is None else np.ascontiguousarray(origin)
        self._sums, self._products = np.zeros((I, m), np.int64), np.zeros((I, m, m), np.int64)
        self._n_rows = 0
        self._total, self._squares = np.full((2, I), 0, dtype=object)
        self.count: Integers = np.zeros(I, dtype=np.int64)

    def add(self, u: Array) -> None:
        """Add rows (T, I), each less the origin; ValueError if a number is too large."""
        from catchment.data.exact_kernels import add_rows

        for first in range(0, len(u), _ROWS):
            part = np.ascontiguousarray(u[first : first + _ROWS])
            if self._n_rows + len(part) > _ROWS:
                self._flush()
            sums = (self.count, self._sums, self._products)
            done = add_rows(part, self._origin, BOUND, *sums)
            if done < len(part):
                raise _too_large(part[done:] - self._origin, first + done)
            self._n_rows += len(part)

    @property
    def total(self) -> Whole:
        """(I,) sums in units of 2^-60."""
        self._flush()
        return self._total.copy()

    @property
    def squares(self) -> Whole:
        """(I,) sums of squares in units of 2^-120."""
        self._flush()
        return self._squares.copy()

    def _flush(self) -> None:
        sums, products = self._sums.astype(object), self._products.astype(object)
        for p, shift in enumerate(_SHIFTS):
            self._total += sums[:, p] << (DIGITS + shift)
            for q, other in enumerate(_SHIFTS[p:], p):
                place = 2 * DIGITS + shift + other + (p != q)
                self._squares += products[:, p, q] << place
        self._sums[:], self._products[:], self._n_rows = 0, 0, 0


def _too_large(centred: Array, first: int) -> ValueError:
    large = ~(np.abs(centred) < BOUND) & ~np.isnan(centred)
    row, channel = (int(k) for k in np.argwhere(large)[0])
    return ValueError(
        f"channel {channel} has {centred[row, channel]:g} at row {first + row}; numbers to be "
        "scaled must be within 2^40 (about 1.1e12) of their origin, so change the unit of the "
        "channel, or make NaN of what stands for a missing value"
    )


def on_digits(values: Array, digits: int) -> Whole:
    """Return finite numbers (I,) as whole numbers of 2^-digits, ties to even.

    >>> on_digits(np.array([0.75, -2.0]), 1)
    array([2, -4], dtype=object)
    """
    rounded = [round(Fraction(value) * 2**digits) for value in np.asarray(values, float).tolist()]
    return whole_numbers(rounded)


def whole_numbers(values: Sequence[int]) -> Whole:
    """Return Python's whole numbers as an array (I,) of them."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def limbs_of(values: Whole, n_limbs: int) -> Integers:
    """Return whole numbers (I,) as limbs (n_limbs, I).

    >>> limbs_of(whole_numbers([2**32 + 5, -1]), 2)
    array([[         5, 4294967295],
           [         1,         -1]])
    """
    limbs = np.empty((n_limbs, len(values)), dtype=np.int64)
    rest = values
    for k in range(n_limbs - 1):
        limbs[k] = rest & (2**LIMB - 1)
        rest = rest >> LIMB
    limbs[-1] = rest
    return limbs


def from_limbs(limbs: Integers) -> Whole:
    """Return the whole numbers (I,) of limbs (m, I), which may be sums of limbs.

    >>> one = limbs_of(whole_numbers([2**32 + 5, -1]), 2)
    >>> from_limbs(one + one)
    array([8589934602, -2], dtype=object)
    """
    total: Any = np.full(limbs.shape[1], 0, dtype=object)
    for k, limb in enumerate(limbs):
        total = total + (limb.astype(object) << (LIMB * k))
    return whole_numbers(list(total))


def root(value: Fraction) -> float:
    """Return the square root of a number that is not negative, correctly rounded.

    >>> root(Fraction(2)) == math.sqrt(2), root(Fraction(1, 9)), root(Fraction(0))
    (True, 0.3333333333333333, 0.0)
    """
    if not value:
        return 0.0
    top, below = value.numerator, value.denominator
    # 64 digits or more before what is cut off, and one below that says whether anything was.
    shift = max(0, 66 - (top.bit_length() - below.bit_length()) // 2)
    quotient, cut = divmod(top << (2 * shift), below)
    found = math.isqrt(quotient)
    inexact = bool(cut) or found * found != quotient
    return (2 * found + inexact) / (1 << (shift + 1))
