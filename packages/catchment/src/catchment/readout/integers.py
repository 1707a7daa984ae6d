"""Arrays of integers of any size, added without a rounding and without an overflow.

An array is int64 where every entry fits and holds Python's integers where one does not. Which of
the two is a function of the values, so that equal values are equal arrays. For the journey a value
is cut into limbs of 40 binary digits, which leaves 23 for sums of limbs before they must carry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[Any]  # int64, or Python's integers

LIMB = 40  # binary digits
LARGEST_LIMB = 1 << 62  # so that a carry cannot overflow


def canonical(values: Whole) -> Whole:
    """Return the array as int64 if every entry fits, else as Python's integers.

    >>> canonical(np.array([1, 2], dtype=object)).dtype, canonical(np.array([2**70])).dtype
    (dtype('int64'), dtype('O'))
    """
    if values.dtype == np.int64:
        return values
    if values.dtype != object:
        raise TypeError(f"integers came as {values.dtype}; pass int64 or Python's integers")
    flat = values.ravel().tolist()
    if not flat or (min(flat) >= -(1 << 63) and max(flat) < 1 << 63):
        return values.astype(np.int64)
    return values


def added(one: Whole, other: Whole) -> Whole:
    """Return the exact sum of two arrays.

    >>> added(np.array([2**62]), np.array([2**62]))
    array([9223372036854775808], dtype=object)
    """
    if one.dtype == other.dtype == np.int64 and one.shape == other.shape:
        from catchment.readout.exact_kernels import add_int64

        total = np.empty(one.shape, dtype=np.int64)
        if add_int64(one.reshape(-1), other.reshape(-1), total.reshape(-1)):
            return total
    return canonical(one.astype(object) + other.astype(object))


def multiplied(values: Whole, factor: int) -> Whole:
    """Return the exact product of an array and an integer.

    >>> multiplied(np.array([2**40]), 2**30)
    array([1180591620717411303424], dtype=object)
    """
    values = canonical(values)
    if factor == 1 or not values.size:
        return values
    if largest(values) * abs(factor) < 1 << 63:
        return np.asarray(values * np.int64(factor))
    return canonical(values.astype(object) * factor)


def divided(values: Whole, digits: int) -> Whole | None:
    """Return the array over 2^digits, None if that is not whole.

    >>> divided(np.array([8, -4]), 2), divided(np.array([8, 3]), 2)
    (array([ 2, -1]), None)
    """
    if values.dtype == np.int64:
        if digits >= 63:
            return None if values.any() else values
        rest = values & np.int64((1 << digits) - 1)
        return None if rest.any() else values >> np.int64(digits)
    if any(value & ((1 << digits) - 1) for value in values.ravel().tolist()):
        return None
    return canonical(values >> digits)


def largest(values: Whole) -> int:
    """Return the largest absolute value, 0 of none.

    >>> largest(np.array([3, -7]))
    7
    """
    return max(-int(values.min()), int(values.max())) if values.size else 0


def to_limbs(values: Whole, n_limbs: int, digits: int = LIMB) -> NDArray[np.int64]:
    """Return limbs (n_limbs, ...) of which the array is the sum of limb i times 2^(digits i).

    All but the last are in [0, 2^digits); OverflowError if the last does not fit.

    >>> to_limbs(np.array([-1, 2**40 + 5]), 2)
    array([[1099511627775,             5],
           [           -1,             1]])
    """
    if n_limbs == 1:
        return values[None].astype(np.int64, copy=False)
    found = np.empty((n_limbs, *values.shape), dtype=np.int64)
    for k in range(n_limbs - 1):
        found[k] = values & ((1 << digits) - 1)
        values = values >> digits
    found[-1] = values
    return found


def count_limbs(values: Whole) -> int:
    """Return how many limbs hold every entry, none beyond `LARGEST_LIMB`.

    >>> count_limbs(np.array([2**62])), count_limbs(np.array([2**62 + 1]))
    (1, 2)
    """
    if largest(values) <= LARGEST_LIMB:
        return 1
    return 1 + -(-(largest(values).bit_length() - 63 + 1) // LIMB)


def from_limbs(limbs: NDArray[np.int64], digits: int = LIMB) -> Whole:
    """Return the array that limbs (m, ...) hold, also sums of limbs that were added one by one.

    >>> from_limbs(to_limbs(np.array([-1, 7]), 3) + to_limbs(np.array([-2, 2**40]), 3))
    array([           -3, 1099511627783])
    """
    low: Whole = limbs[0]
    if len(limbs) == 1:
        return low
    rest = limbs[1:].copy()
    rest[0] += low >> np.int64(digits)
    high, low = from_limbs(rest, digits), low & np.int64((1 << digits) - 1)
    top = 1 << (63 - digits)
    if high.dtype == np.int64 and (not high.size or (high.min() >= -top and int(high.max()) < top)):
        return (high << np.int64(digits)) + low
    return canonical(high.astype(object) * (1 << digits) + low.astype(object))
