"""Random numbers that are the same bits on every machine.

A counter-based generator (Philox4x64-10; Salmon et al. 2011, "Parallel random numbers: as easy as
1, 2, 3") gives raw 64-bit words, a pure function of (seed, stream, position). Everything else is
mapped from the words here, with integer operations and the five operations that IEEE 754 rounds
correctly (+, -, *, /, sqrt), one array operation at a time. There are no normals, logarithms or
factorisations: those go through libraries whose last bits differ between machines and versions.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import final

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Booleans, Integers

Words64 = NDArray[np.uint64]


class Purpose(IntEnum):
    """What a stream of words is for: a new setting of one purpose leaves the draws of the rest."""

    RECURRENT_PLACES = 0
    RECURRENT_VALUES = 1
    INPUT_PLACES = 2
    INPUT_VALUES = 3
    BIAS = 4
    LEAK = 5
    ACTIVATION = 6
    PROBE = 7
    PROMPT = 8
    PROJECTION_SIGNS = 16
    PROJECTION_PLACES = 17
    CONVOLUTION_CHANNELS = 32
    CONVOLUTION_NOISE = 33
    HYDRA_KERNELS = 34
    HYDRA_CHANNELS = 35


@final
class Words:
    """The raw words of one stream, in order.

    >>> rng = Words(seed=7, layer=0, purpose=Purpose.BIAS)
    >>> rng.take(2)
    array([10178753427918985433,   385477333659443678], dtype=uint64)
    """

    def __init__(self, *, seed: int, layer: int, purpose: Purpose) -> None:
        stream = (layer << 8) | purpose
        self._bits = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64))

    def take(self, n: int) -> Words64:
        """Return the next n words (n,)."""
        return self._bits.random_raw(n).astype(np.uint64, copy=False)


def uniform(rng: Words, n: int, low: float = 0.0, high: float = 1.0) -> Array:
    """Return numbers (n,) between low and high, from the upper 53 bits of a word each.

    >>> uniform(Words(seed=7, layer=0, purpose=Purpose.BIAS), 2)
    array([0.55179133, 0.02089677])
    """
    fraction = (rng.take(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return low + (high - low) * fraction


def log_uniform(rng: Words, n: int, low: float, high: float) -> Array:
    """Return numbers (n,) between low and high whose logarithms are uniform.

    low * (high / low) ** fraction, as a product of repeated square roots of the ratio: one root
    for each bit of the fraction.

    >>> values = log_uniform(Words(seed=7, layer=0, purpose=Purpose.LEAK), 1000, 0.01, 1.0)
    >>> bool(abs(np.median(values) - 0.1) < 0.02)
    True
    """
    return _between(rng.take(n), low, high)


def geometric(n: int, low: float, high: float) -> Array:
    """Return numbers (n,) that fall from high to low, each the same fraction of the one before.

    >>> geometric(3, 0.25, 1.0)
    array([1.  , 0.5 , 0.25])
    """
    words = [((n - 1 - k) << 64) // (n - 1) for k in range(1, n)]
    return np.concatenate([[high][:n], _between(np.array(words, dtype=np.uint64), low, high)])


def _between(words: NDArray[np.uint64], low: float, high: float) -> Array:
    """Return low * (high / low) ** fraction (n,), the words being the bits of the fractions."""
    values = np.full(len(words), low)
    root = high / low
    for bit in range(63, 10, -1):
        root = math.sqrt(root)
        chosen = (words >> np.uint64(bit)) & np.uint64(1) == 1
        values = np.where(chosen, values * root, values)
    clipped: Array = np.clip(values, low, high)
    return clipped


def integers(rng: Words, n: int, bound: int) -> Integers:
    """Return integers (n,) from 0 to bound - 1, each exactly equally likely.

    >>> integers(Words(seed=7, layer=0, purpose=Purpose.BIAS), 5, 10)
    array([3, 8, 8, 4, 1])
    """
    # Words from the last, incomplete block of `bound` values would favour small remainders.
    last = (1 << 64) - (1 << 64) % bound - 1
    accepted = np.empty(0, dtype=np.uint64)
    while len(accepted) < n:
        words = rng.take(n - len(accepted))
        accepted = np.concatenate([accepted, words[words <= np.uint64(last)]])
    return (accepted % np.uint64(bound)).astype(np.int64)


def signs(rng: Words, n: int) -> Array:
    """Return -1 or 1 (n,), by the highest bit of a word each.

    >>> signs(Words(seed=7, layer=0, purpose=Purpose.BIAS), 4)
    array([ 1., -1.,  1.,  1.])
    """
    return np.where(rng.take(n) >> np.uint64(63) == 1, 1.0, -1.0)


def permutation(rng: Words, n: int) -> Integers:
    """Return 0 ... n - 1 in random order (n,): the order that sorts n words.

    >>> permutation(Words(seed=7, layer=0, purpose=Purpose.BIAS), 5)
    array([1, 0, 4, 3, 2])
    """
    return np.argsort(rng.take(n), kind="stable")


def distinct(rng: Words, n_rows: int, n: int, bound: int) -> Integers:
    """Return rows (n_rows, n) of n different integers below bound, ascending in each row.

    Few out of many are drawn and repeats drawn again, so memory follows n and not bound;
    otherwise the places of the n smallest of `bound` words are taken.

    >>> distinct(Words(seed=7, layer=0, purpose=Purpose.BIAS), 2, 3, 5)
    array([[0, 1, 4],
           [0, 1, 2]])
    """
    if n == bound:
        return np.tile(np.arange(bound), (n_rows, 1))
    if 4 * n > bound:
        words = rng.take(n_rows * bound).reshape(n_rows, bound)
        return np.sort(np.argsort(words, axis=1, kind="stable")[:, :n], axis=1)
    drawn = np.sort(integers(rng, n_rows * n, bound).reshape(n_rows, n), axis=1)
    while True:
        repeated: Booleans = np.zeros(drawn.shape, dtype=np.bool_)
        repeated[:, 1:] = drawn[:, 1:] == drawn[:, :-1]
        n_repeated = int(np.count_nonzero(repeated))
        if n_repeated == 0:
            return drawn
        drawn[repeated] = integers(rng, n_repeated, bound)
        drawn.sort(axis=1)


def orthogonal(rng: Words, n: int) -> Array:
    """Return an orthogonal matrix (n, n) with few or no zeros.

    A random signed permutation, whose rows are then mixed in rounds: random disjoint pairs of rows
    are rotated into each other by the cosine and sine (1 - t^2, 2t) / (1 + t^2), t uniform in
    (-1, 1). Each round doubles the number of rows that enter a row, so 2 log2(n) rounds mix all.

    >>> Q = orthogonal(Words(seed=7, layer=0, purpose=Purpose.RECURRENT_VALUES), 50)
    >>> bool(abs(Q @ Q.T - np.eye(50)).max() < 1e-14)
    True
    """
    Q = np.zeros((n, n))
    Q[np.arange(n), permutation(rng, n)] = signs(rng, n)
    half = n // 2
    for _ in range(2 * (n - 1).bit_length()):
        order = permutation(rng, n)
        first, second = order[:half], order[half : 2 * half]
        t = uniform(rng, half, -1.0, 1.0)
        norm = 1.0 + t * t
        cosine, sine = ((1.0 - t * t) / norm)[:, None], (2.0 * t / norm)[:, None]
        a, b = Q[first], Q[second]
        Q[first] = cosine * a - sine * b
        Q[second] = sine * a + cosine * b
    return Q
