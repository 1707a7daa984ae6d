"""Exact samples of the discrete Gaussian, from random bits of `catchment.privacy.dp.entropy`.

Whole numbers k with probability proportional to exp(-k^2 / (2 s^2)), by rejection from a discrete
Laplace distribution (Canonne, Kamath and Steinke, NeurIPS 2020, algorithms 1 to 3). All coins are
tossed at once: a coin of probability exp(-g) compares 64 random bits with exp(-g) in floating
point, and where the two agree to such precision that rounding could decide, more bits and exact
arithmetic do. So the samples are exact to 2^-200.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from catchment.arrays import Array, Booleans, Integers
from catchment.privacy.dp.entropy import Words, random_words

# Above this the proposals' squares would no longer be exact in floating point.
LARGEST_SPREAD = 1 << 26
TIE = 2.0**-42


def discrete_gaussian(spread: int, size: int, words: Words | None = None) -> Integers:
    """Return whole numbers (size,) from the discrete Gaussian of parameter `spread`.

    Parameters
    ----------
    words
        Where random bits come from; the operating system if not given.

    >>> noise = discrete_gaussian(1000, 2000)
    >>> bool(900 < noise.std() < 1100)
    True
    """
    if not 1 <= spread <= LARGEST_SPREAD:
        raise ValueError(f"spread is {spread}; pass a whole number from 1 to {LARGEST_SPREAD}")
    scale = spread + 1
    centre = Fraction(spread * spread, scale)
    drawn, n_drawn = [np.empty(0, dtype=np.int64)], 0
    while n_drawn < size:
        # About three in four proposals are kept; a few more spare a further turn.
        k = discrete_laplace(scale, int(1.4 * (size - n_drawn)) + 16, words)
        away = np.abs(k)
        gap = (away - float(centre)) / spread

        def exponent(i: int, away: Integers = away) -> Fraction:
            return (int(away[i]) - centre) ** 2 / (2 * spread * spread)

        drawn.append(k[_heads(gap * gap / 2, exponent, words)])
        n_drawn += len(drawn[-1])
    return np.concatenate(drawn)[:size]


def discrete_laplace(scale: int, size: int, words: Words | None = None) -> Integers:
    """Return whole numbers (size,) with probability proportional to exp(-|k| / scale).

    >>> bool(0.5 < np.abs(discrete_laplace(100, 5000)).mean() / 100 < 1.5)
    True
    """
    drawn, n_drawn = [np.empty(0, dtype=np.int64)], 0
    while n_drawn < size:
        n = int(2.4 * (size - n_drawn)) + 16
        low = _below(scale, n, words)

        def exponent(i: int, low: Integers = low) -> Fraction:
            return Fraction(int(low[i]), scale)

        low = low[_heads(low / scale, exponent, words)]
        k = low + scale * _geometric(len(low), words)
        negative = ((words or random_words)(len(k)) & np.uint64(1)).astype(bool)
        kept = ~(negative & (k == 0))  # else zero would come twice as often
        drawn.append(np.where(negative, -k, k)[kept])
        n_drawn += len(drawn[-1])
    return np.concatenate(drawn)[:size]


def _geometric(size: int, words: Words | None) -> Integers:
    """Return how many coins of probability 1 / e fall heads before the first tails, (size,)."""
    count = np.zeros(size, dtype=np.int64)
    going = np.arange(size)
    while len(going):
        going = going[_heads(np.ones(len(going)), lambda i: Fraction(1), words)]
        count[going] += 1
    return count


def _below(bound: int, size: int, words: Words | None) -> Integers:
    """Return whole numbers (size,) from 0 up to the bound, each equally likely."""
    limit = np.uint64((1 << 64) // bound * bound - 1)
    draw = words or random_words
    drawn = draw(size).copy()
    while (high := drawn > limit).any():
        drawn[high] = draw(int(high.sum()))
    return (drawn % np.uint64(bound)).astype(np.int64)


def _heads(
    exponent: Array, exact: Callable[[int], Fraction], words: Words | None = None
) -> Booleans:
    """Return coins (n,) that fall heads with probability exp(-exponent)."""
    draw = words or random_words
    drawn = draw(len(exponent))
    chance = np.exp(-exponent)
    uniform = drawn.astype(np.float64) * 2.0**-64
    heads: Booleans = uniform < chance
    for i in np.flatnonzero(np.abs(uniform - chance) < TIE):
        heads[i] = _exact_head(int(drawn[i]), exact(int(i)), draw)
    return heads


def _exact_head(word: int, exponent: Fraction, draw: Words = random_words) -> bool:
    """Return whether a uniform number that begins with these 64 bits is below exp(-exponent)."""
    with localcontext() as context:
        context.prec = 100
        chance = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
        more = int.from_bytes(draw(3).tobytes(), "big")
        return Decimal((word << 192) | more) < chance * Decimal(1 << 256)
