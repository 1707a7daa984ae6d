"""Compiled passes over statistics of whole numbers: adding two, and looking at what came."""

from __future__ import annotations

from typing import Any

import numpy as np

from catchment.compiling import njit

SMALL = 2.0**40  # sums of so small whole numbers are exact


@njit(nogil=True, cache=True)
def add_int64(some: Any, others: Any, total: Any) -> Any:
    """Fill the total with the sums of vectors, one after another; False if one overflowed."""
    every, place = np.int64(0), 0
    for n in range(len(some)):
        one, other = some[n], others[n]
        for k in range(len(one)):
            a, b = one[k], other[k]
            c = a + b
            total[place + k] = c
            # A sum overflowed where both signs differ from its own.
            every |= (a ^ c) & (b ^ c)
        place += len(one)
    return every >= 0


@njit(nogil=True, cache=True)
def fill_moments(
    weight: float,
    feature_sum: Any,
    target_sum: Any,
    gram: Any,
    cross: Any,
    target_gram: Any,
    scale: Any,
    target_scale: float,
    M: Any,
) -> None:
    """Fill the upper triangle of the moments M (1 + F + K, 1 + F + K), each rounded once."""
    F, K = cross.shape
    M[0, 0] = weight
    for i in range(F):
        M[0, 1 + i] = feature_sum[i] * scale[i]
    for k in range(K):
        M[0, 1 + F + k] = target_sum[k] * target_scale
    place = 0
    for i in range(F):
        for j in range(i, F):
            M[1 + i, 1 + j] = gram[place] * (scale[i] * scale[j])
            place += 1
        for k in range(K):
            M[1 + i, 1 + F + k] = cross[i, k] * (scale[i] * target_scale)
    place = 0
    for i in range(K):
        for j in range(i, K):
            M[1 + F + i, 1 + F + j] = target_gram[place] * (target_scale * target_scale)
            place += 1


@njit(nogil=True, cache=True)
def within(values: Any, most: int) -> Any:
    """Return whether no absolute value of a vector is larger."""
    low, high = np.int64(0), np.int64(0)
    for k in range(len(values)):
        low, high = min(low, values[k]), max(high, values[k])
    return low >= -most and high <= most


@njit(nogil=True, cache=True)
def is_one_hot(M: Any, F: int, slack: float) -> Any:
    """Return whether targets have one class per row; False where their sum might be rounded."""
    total = 0.0
    for i in range(1 + F, len(M)):
        total += M[0, i]
        if abs(M[0, i]) > SMALL or abs(M[i, i] - M[0, i]) > slack:
            return False
        for j in range(i + 1, len(M)):
            if abs(M[i, j]) > slack:
                return False
    return abs(total - M[0, 0]) <= slack


@njit(nogil=True, cache=True)
def enlarge_diagonal(M: Any, slack: float) -> Any:
    """Enlarge the diagonal by what rounding may have done; False if some of it is negative."""
    for i in range(len(M)):
        if not M[i, i] >= 0.0:
            return False
        M[i, i] *= 1.0 + slack
        if M[i, i] == 0.0:
            M[i, i] = slack
    return True


@njit(nogil=True, cache=True)
def passes(
    sums: Any,
    weight: float,
    scale: Any,
    target_scale: float,
    most: Any,
    squares: Any,
    asked: Any,
    slack: Any,
    M: Any,
) -> Any:
    """Fill the moments M; return whether sums pass all but the factorisation of M.

    Parameters
    ----------
    sums
        Feature sum, target sum, packed Gram matrix, cross moments, packed Gram of targets.
    most
        The largest absolute values of the feature sum and of the Gram matrix.
    squares
        (F,) the largest sums of squares of features.
    asked
        Whether the first feature is one in every row, and whether targets are classes.
    slack
        What counts may be off by, and what the diagonal is enlarged by.
    """
    feature_sum, target_sum, gram, cross, target_gram = sums
    F = len(cross)
    if not (within(feature_sum, most[0]) and within(gram, most[1])):
        return False
    fill_moments(weight, feature_sum, target_sum, gram, cross, target_gram, scale, target_scale, M)
    for i in range(F):
        if M[1 + i, 1 + i] > squares[i]:
            return False
    if asked[0]:
        first, again = M[0, 1], M[1, 1]
        if abs(first - weight) > slack[0] or abs(again - weight) > slack[0]:
            return False
    if asked[1] and not is_one_hot(M, F, slack[0]):
        return False
    return enlarge_diagonal(M, slack[1])
