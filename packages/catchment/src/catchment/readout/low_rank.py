"""A Gram matrix of integers from a few of its rows, without a rounding.

The Gram matrix G of n rows has rank r <= n. Take r features P whose columns are independent, and
let B = G[P] be their rows (r, F) and A = B[:, P]. Then

    G = B' A^-1 B,

so the r F - r (r - 1) / 2 different entries of B say all F (F + 1) / 2 of G. The entries of B are
entries of G, as large as they were: nothing is gained in digits, and nothing is lost.

The right side is worked out modulo a few primes, where a division is exact, and G is the one matrix
of entries below the known bound that has these remainders. Remainders are float64 numbers of at
most half a prime below 2^23, so that a product of two is below 2^44 and a sum of `CHUNK` of them
is exact in any order: BLAS does the work. A sum may vanish modulo a prime although it is not zero,
about once in 2^23 / r; whoever takes G apart therefore puts it together again and looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from catchment.arrays import Array, Booleans, Integers
from catchment.errors import UploadError
from catchment.readout.statistics import packed_length

PRIMES = (8388593, 8388587, 8388581)  # the largest below 2^23
LARGEST = 1 << 62  # entries are below
CHUNK = 500
OUT = 256  # rows of the Gram matrix that are made together


def low_rank_length(rank: int, n_features: int) -> int:
    """Return how many different entries the rows of `rank` features have.

    >>> low_rank_length(2, 5), low_rank_length(5, 5)
    (9, 15)
    """
    return rank * n_features - rank * (rank - 1) // 2


def independent_rows(gram: Integers, n_features: int, most: int) -> tuple[Integers, Integers]:
    """Return independent features (r,) of a packed Gram matrix, and the entries of their rows.

    Parameters
    ----------
    gram
        Packed triangle of integers.
    most
        The rank cannot be larger, as there are so many rows behind the matrix.

    >>> independent_rows(np.array([4, 2, 6, 1, 3, 9]), 3, 1)
    (array([0]), array([4, 2, 6]))
    """

    def rows(which: int) -> Array:
        return _remainders(gram[_places(np.array([which]), n_features)[0]], PRIMES[0])

    _, _, pivots = _eliminated(rows, np.arange(n_features), PRIMES[0], most)
    return pivots, gram[_places(pivots, n_features)[_unseen(pivots, n_features)]]


def whole_gram(pivots: Integers, entries: Integers, n_features: int, bound: int) -> Integers:
    """Return the packed Gram matrix whose rows of the features `pivots` (r,) have these entries.

    UploadError if there is none of this rank.

    Parameters
    ----------
    entries
        Of the rows, those that were in an earlier row left out.
    bound
        No entry of the matrix is larger.

    >>> whole_gram(np.array([0]), np.array([4, 2, 6]), 3, 100)
    array([4, 2, 6, 1, 3, 9])
    """
    if bound >= LARGEST:
        raise UploadError("range", f"entries of up to {bound} do not fit 64 bits")
    if not len(pivots):
        return np.zeros(packed_length(n_features), dtype=np.int64)
    primes: list[int] = []
    while math.prod(primes) <= 2 * bound + 1:
        primes.append(PRIMES[len(primes)])
    B = np.zeros((len(pivots), n_features), dtype=np.int64)
    B[_unseen(pivots, n_features)] = entries
    B[:, pivots] += np.triu(B[:, pivots], 1).T
    solved = []  # U and X (r, F) with G = X'U, modulo each prime
    for p in primes:
        U, inverse, kept = _eliminated(_remainders(B, p).__getitem__, pivots, p, len(B))
        if len(kept) != len(B):
            raise UploadError("moments", "the rows of a low-rank upload are not independent")
        solved.append((U, _centered(U * inverse[:, None], p)))
    packed = np.empty(packed_length(n_features), dtype=np.int64)
    end = 0
    for first in range(0, n_features, OUT):
        last = min(first + OUT, n_features)
        remainders = []
        for (U, X), p in zip(solved, primes, strict=True):
            remainders.append(_product(X[:, first:last].T, U[:, first:], p))
        for k, row in enumerate(_from_remainders(remainders, primes)):
            packed[end : end + len(row) - k] = row[k:]
            end += len(row) - k
    return packed


def _from_remainders(remainders: Sequence[Array], primes: Sequence[int]) -> Integers:
    """Return the integers of at most half the primes' product that leave these remainders.

    They are x = v_0 + p_0 (v_1 + p_1 v_2), each v between -p / 2 and p / 2. A term may be beyond 64
    bits where x is not: what wraps around wraps back.
    """
    total = np.zeros(remainders[0].shape, dtype=np.int64)
    digits: list[Array] = []
    unit = 1
    for p, value in zip(primes, remainders, strict=True):
        for digit, q in zip(digits, primes, strict=False):
            value = _centered(_centered(value - digit, p) * _inverse(q, p), p)
        # A remainder of just above p / 2 is another digit, and would give another number.
        digits.append(_remainders(value.astype(np.int64), p))
        total += digits[-1].astype(np.int64) * np.int64(unit)
        unit *= p
    return total


def _eliminated(
    rows: Callable[[int], Array], at: Integers, p: int, most: int
) -> tuple[Array, Array, Integers]:
    """Return U (r, F), 1 / d (r,) and which rows are independent: all are combinations of U.

    Row k of `rows` is of feature `at[k]`, d is the diagonal of U, and all is modulo p.
    """
    U, inverse = np.empty((min(most, len(at)), len(rows(0)))), np.empty(min(most, len(at)))
    kept: list[int] = []
    for k, column in enumerate(at):
        r = len(kept)
        if r == len(inverse):
            break
        factors = _centered(U[:r, column] * inverse[:r], p)
        row = _centered(rows(k) - _product(factors[None], U[:r], p)[0], p)
        if pivot := int(row[column]) % p:
            U[r], inverse[r] = row, _inverse(pivot, p)
            kept.append(k)
    return U[: len(kept)], inverse[: len(kept)], np.array(kept, dtype=np.int64)


def _product(a: Array, b: Array, p: int) -> Array:
    """Return the product of two matrices of remainders."""
    if len(b) <= CHUNK:
        return _centered(a @ b, p)
    total = np.zeros((len(a), b.shape[1]))
    for start in range(0, len(b), CHUNK):
        total += _centered(a[:, start : start + CHUNK] @ b[start : start + CHUNK], p)
    return _centered(total, p)


def _remainders(x: Integers, p: int) -> Array:
    """Return integers modulo p, from -(p - 1) / 2 to (p - 1) / 2."""
    left: Integers = x % p
    left[left > p // 2] -= p
    return left.astype(np.float64)


def _centered(x: Array, p: int) -> Array:
    """Return integers of at most 53 bits modulo p, between -p / 2 and p / 2 but for 2."""
    q = x * (1.0 / p)
    np.rint(q, out=q)
    q *= p
    return np.subtract(x, q, out=q)


def _inverse(x: int, p: int) -> int:
    found = pow(x, -1, p)
    return found - p if found > p // 2 else found


def _places(which: Integers, size: int) -> Integers:
    """Return where the entries (r, F) of some rows lie in a packed matrix."""
    row, column = which[:, None], np.arange(size)[None, :]
    low, high = np.minimum(row, column), np.maximum(row, column)
    return np.asarray(low * size - low * (low - 1) // 2 + high - low)


def _unseen(pivots: Integers, n_features: int) -> Booleans:
    """Return which entries (r, F) of the pivots' rows are in no earlier row."""
    place = np.full(n_features, len(pivots))
    place[pivots] = np.arange(len(pivots))
    return place[None, :] >= np.arange(len(pivots))[:, None]
