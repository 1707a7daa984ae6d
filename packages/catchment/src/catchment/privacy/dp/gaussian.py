"""How much Gaussian noise buys how much privacy, and the noise itself.

Noise of standard deviation s D on a vector that one client moves by at most D is (epsilon, delta)
differentially private exactly if

    Phi(1 / (2 s) - epsilon s) - e^epsilon Phi(-1 / (2 s) - epsilon s) <= delta

(Balle and Wang, ICML 2018, theorem 8). R releases about the same clients with noise s each tell as
much as one with s / sqrt(R).

The discrete Gaussian, whose probabilities at integers k go as exp(-k^2 / (2 s^2)), is
1 / (2 s^2)-concentrated; a rho-concentrated mechanism is (epsilon, delta) private with

    delta = min over a > 1 of exp((a - 1) (a rho - epsilon)) (1 - 1 / a)^a / (a - 1)

(Canonne, Kamath and Steinke, NeurIPS 2020, theorems 4 and 7, corollary 13). Either delta is rounded
up by what floating point may be off by, so that the noise is never less than what was promised.

Samples of the discrete Gaussian are exact to 2^-200: by rejection from a discrete Laplace
distribution (algorithms 1 to 3 there), all coins tossed at once. A coin of probability exp(-g)
compares 64 random bits with exp(-g) in floating point, and where the two agree to such precision
that rounding could decide, more bits and exact arithmetic do. OpenDP's samples are exact too, but
come from no key and take 15 times as long a draw (docs/concepts/design.md).

Random words come from the operating system or from a secret key; there is no seed. A client whose
noise must be the same when it is asked for the same upload again draws it from a key that only its
own ledger has (`catchment.privacy.ledger`), as the output of SHAKE-256: without the key it cannot
be told from the operating system's.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Booleans, Integers
from catchment.federation.algorithm import Cost

Words = Callable[[int], NDArray[np.uint64]]
KEY_BYTES = 32
ROUNDING = 2.0**-49  # of a sum of logarithms: what it may be off by, as a share of their sizes
# Above this the proposals' squares would no longer be exact in floating point.
LARGEST_SPREAD = 1 << 26
TIE = 2.0**-42


def random_words(size: int) -> NDArray[np.uint64]:
    """Return independent uniform words (size,) of 64 bits; never the same twice.

    >>> bool((random_words(4) == random_words(4)).any())
    False
    """
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


@final
class KeyedWords:
    """Words that follow from a secret key (32,), new ones at every call.

    >>> one, other = KeyedWords(bytes(32)), KeyedWords(bytes(32))
    >>> bool((one(4) == other(4)).all()), bool((one(4) == one(4)).any())
    (True, False)
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key has {len(key)} bytes; pass {KEY_BYTES} secret ones")
        self._key, self._n_calls = key, 0

    def __call__(self, size: int) -> NDArray[np.uint64]:
        self._n_calls += 1
        drawn = hashlib.shake_256(self._key + self._n_calls.to_bytes(8, "little"))
        # In one byte order, so that a memory that is moved to another machine repeats its noise.
        return np.frombuffer(drawn.digest(8 * size), dtype="<u8").astype(np.uint64)


def log_normal_cdf(x: float) -> float:
    """Return log Phi(x), the logarithm of the probability that a standard normal is below x.

    >>> round(log_normal_cdf(0.0), 12), round(log_normal_cdf(-40.0), 12)
    (-0.69314718056, -804.608442013754)
    """
    if x > -1.0:
        return math.log1p(-0.5 * math.erfc(x * math.sqrt(0.5)))
    if x > -20.0:
        return math.log(0.5 * math.erfc(-x * math.sqrt(0.5)))
    # Phi(x) is phi(x) / |x| times 1 - 1/x^2 + 3/x^4 - 15/x^6 + ..., here to the last digit.
    series = 0.0
    for k in range(19, 0, -2):
        series = -k / (x * x) * (1.0 + series)
    return math.log1p(series) - 0.5 * x * x - math.log(-x) - 0.5 * math.log(2.0 * math.pi)


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """Return the delta of Gaussian noise of `multiplier` times the sensitivity, at an epsilon.

    Never below the true one: the two tails are nearly the same where there is much noise, and what
    rounding may have done to their difference is added.

    >>> round(gaussian_delta(3.7306, 1.0), 8)
    1e-05
    """
    half, shift = 0.5 / multiplier, epsilon * multiplier
    if shift - half > 40.0:
        return 0.0  # less than any float64
    # In logarithms, because e^epsilon overflows long before the product does.
    kept, lost = log_normal_cdf(half - shift), epsilon + log_normal_cdf(-half - shift)
    slack = ROUNDING * (2.0 + (half + shift) * (half + shift))
    return math.exp(min(kept + slack, 0.0)) * -math.expm1(min(lost - kept, 0.0) - slack)


@lru_cache(maxsize=64)
def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the least noise, in units of the sensitivity, that is (epsilon, delta) private.

    >>> round(gaussian_multiplier(1.0, 1e-5), 4), round(gaussian_multiplier(8.0, 1e-5), 4)
    (3.7306, 0.6002)
    """
    check_epsilon_delta(epsilon, delta)
    return _smallest(lambda s: gaussian_delta(s, epsilon) <= delta)


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """Return the least epsilon at which Gaussian noise is private with this delta.

    >>> round(gaussian_epsilon(3.7306, 1e-5), 4)
    1.0
    """
    return _least_epsilon(lambda epsilon: gaussian_delta(multiplier, epsilon) <= delta)


def concentrated_delta(rho: float, epsilon: float) -> float:
    """Return the delta of a rho-concentrated mechanism at an epsilon; never below the formula's.

    >>> concentrated_delta(0.01, 1.0) < 1e-5 < concentrated_delta(0.1, 1.0)
    True
    """
    if epsilon - rho > 60.0 * math.sqrt(rho):
        return 0.0  # less than any float64

    def log_delta(t: float) -> float:  # t is a - 1, which may be small
        return t * ((1 + t) * rho - epsilon) - (1 + t) * math.log1p(1 / t) - math.log(t)

    # The exponent is convex in a; its slope changes sign between these ends.
    low, high = 1e-9, (epsilon + 1) / (2 * rho) + 1
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if log_delta(left) < log_delta(right):
            high = right
        else:
            low = left
    t = (low + high) / 2
    sizes = t * ((1 + t) * rho + epsilon) + (1 + t) * math.log1p(1 / t) + abs(math.log(t))
    return math.exp(min(log_delta(t) + ROUNDING * sizes, 0.0))


@lru_cache(maxsize=64)
def concentrated_multiplier(epsilon: float, delta: float) -> float:
    """Return the least discrete Gaussian noise that is (epsilon, delta) private, as a multiple.

    Somewhat more than `gaussian_multiplier`: the exact curve of the continuous Gaussian does not
    carry over to integers in many dimensions, so this one goes through concentration.

    >>> round(concentrated_multiplier(1.0, 1e-5), 4)
    4.0451
    """
    check_epsilon_delta(epsilon, delta)
    return _smallest(lambda s: concentrated_delta(0.5 / s**2, epsilon) <= delta)


def concentrated_epsilon(rho: float, delta: float) -> float:
    """Return the least epsilon at which a rho-concentrated mechanism is private with this delta.

    >>> round(concentrated_epsilon(0.5 / 4.0451**2, 1e-5), 4)
    1.0
    """
    return _least_epsilon(lambda epsilon: concentrated_delta(rho, epsilon) <= delta)


def epsilon_spent(cost: Cost, delta: float) -> float:
    """Return the least epsilon of releases of this cost together, at this delta.

    Gaussian releases add up to one Gaussian release; with discrete ones, through concentration.

    >>> one = Cost.of_discrete(concentrated_multiplier(1.0, 1e-5))
    >>> round(epsilon_spent(one, 1e-5), 4), round(epsilon_spent(one + one, 1e-5), 2)
    (1.0, 1.46)
    """
    if cost == Cost():
        return 0.0
    if cost.concentrated == 0:
        return gaussian_epsilon(cost.gaussian**-0.5, delta)
    return concentrated_epsilon(cost.concentrated + cost.gaussian / 2, delta)


def rounded_normal(spread: float, size: int) -> Integers:
    """Return integers (size,): normal noise of standard deviation `spread`, rounded.

    Added to integers this is the same as adding the unrounded noise and rounding the sum, so
    what holds for continuous noise holds for it, and no pattern of floating-point digits is left
    that could tell sums apart (Mironov, CCS 2012). Keep `spread` at a million or so and above: then
    the 53 digits of the computation are far finer than the step.

    >>> len(set(rounded_normal(1e9, 100).tolist()))
    100
    """
    # Two at once, at a distance and an angle (Box and Muller, Ann. Math. Stat. 29, 1958).
    words, turn = random_words(2 * (size - size // 2)).reshape(2, -1)
    # Of one word the low bit picks the end at which the others are a probability, near or far:
    # both ends are equally fine.
    end = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
    log = np.where(words & np.uint64(1), np.log(end), np.log1p(-end))
    distance, angle = spread * np.sqrt(-2.0 * log), turn * (2.0 * math.pi * 2.0**-64)
    both = np.concatenate([distance * np.cos(angle), distance * np.sin(angle)])[:size]
    return np.asarray(np.rint(both), dtype=np.int64)


def check_epsilon_delta(epsilon: float, delta: float) -> None:
    """Raise ValueError unless epsilon is positive and delta lies between 0 and 1."""
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon is {epsilon}; pass a positive number, such as 1 to 8")
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; pass a probability far below one over the clients")


def _smallest(enough: Callable[[float], bool]) -> float:
    """Return the smallest number that is enough, to the last digits and never below."""
    low, high = 1e-6, 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _least_epsilon(enough: Callable[[float], bool]) -> float:
    return 0.0 if enough(0.0) else _smallest(enough)


def discrete_gaussian(spread: int, size: int, words: Words | None = None) -> Integers:
    """Return integers (size,) from the discrete Gaussian of parameter `spread`.

    Parameters
    ----------
    words
        Where random bits come from; the operating system if not given.

    >>> noise = discrete_gaussian(1000, 2000)
    >>> bool(900 < noise.std() < 1100)
    True
    """
    if not 1 <= spread <= LARGEST_SPREAD:
        raise ValueError(f"spread is {spread}; pass an integer from 1 to {LARGEST_SPREAD}")
    scale = spread + 1
    center = Fraction(spread * spread, scale)
    drawn, n_drawn = [np.empty(0, dtype=np.int64)], 0
    while n_drawn < size:
        # About three in four proposals are kept; a few more spare a further turn.
        k = discrete_laplace(scale, int(1.4 * (size - n_drawn)) + 16, words)
        away = np.abs(k)
        gap = (away - float(center)) / spread

        def exponent(i: int, away: Integers = away) -> Fraction:
            return (int(away[i]) - center) ** 2 / (2 * spread * spread)

        drawn.append(k[_heads(gap * gap / 2, exponent, words)])
        n_drawn += len(drawn[-1])
    return np.concatenate(drawn)[:size]


def discrete_laplace(scale: int, size: int, words: Words | None = None) -> Integers:
    """Return integers (size,) with probability proportional to exp(-|k| / scale).

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
    """Return integers (size,) from 0 up to the bound, each equally likely."""
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
    with localcontext() as stage_inputs:
        stage_inputs.prec = 100
        chance = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
        more = int.from_bytes(draw(3).tobytes(), "big")
        return Decimal((word << 192) | more) < chance * Decimal(1 << 256)
