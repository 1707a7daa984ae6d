"""How much Gaussian noise buys how much privacy, and the noise itself.

Noise of standard deviation s D on a vector that one client moves by at most D is (epsilon, delta)
differentially private exactly if

    Phi(1 / (2 s) - epsilon s) - e^epsilon Phi(-1 / (2 s) - epsilon s) <= delta

(Balle and Wang, ICML 2018, theorem 8). R releases about the same clients with noise s each tell as
much as one with s / sqrt(R).

The discrete Gaussian, whose probabilities at whole numbers k go as exp(-k^2 / (2 s^2)), is
1 / (2 s^2)-concentrated; a rho-concentrated mechanism is (epsilon, delta) private with

    delta = min over a > 1 of exp((a - 1) (a rho - epsilon)) (1 - 1 / a)^a / (a - 1)

(Canonne, Kamath and Steinke, NeurIPS 2020, theorems 4 and 7, corollary 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, ndtri

from catchment.arrays import Integers
from catchment.federation.algorithm import Cost
from catchment.privacy.dp.entropy import random_words


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """Return the delta of Gaussian noise of `multiplier` times the sensitivity, at an epsilon.

    >>> round(gaussian_delta(3.7306, 1.0), 8)
    1e-05
    """
    half, shift = 0.5 / multiplier, epsilon * multiplier
    # In logarithms, because e^epsilon overflows long before the product does.
    kept, lost = float(log_ndtr(half - shift)), epsilon + float(log_ndtr(-half - shift))
    return math.exp(kept) * -math.expm1(min(lost - kept, 0.0))


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
    """Return the delta of a rho-concentrated mechanism at an epsilon.

    >>> concentrated_delta(0.01, 1.0) < 1e-5 < concentrated_delta(0.1, 1.0)
    True
    """

    def log_delta(a: float) -> float:
        return (a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1)

    # The exponent is convex in a; its slope changes sign between these ends.
    low, high = 1 + 1e-9, (epsilon + 1) / (2 * rho) + 2
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if log_delta(left) < log_delta(right):
            high = right
        else:
            low = left
    return math.exp(min(log_delta((low + high) / 2), 0.0))


def concentrated_multiplier(epsilon: float, delta: float) -> float:
    """Return the least discrete Gaussian noise that is (epsilon, delta) private, as a multiple.

    Somewhat more than `gaussian_multiplier`: the exact curve of the continuous Gaussian does not
    carry over to whole numbers in many dimensions, so this one goes through concentration.

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


def epsilon_of(cost: Cost, delta: float) -> float:
    """Return the least epsilon of releases of this cost together, at this delta.

    Gaussian releases add up to one Gaussian release; with discrete ones, through concentration.

    >>> one = Cost.of_discrete(concentrated_multiplier(1.0, 1e-5))
    >>> round(epsilon_of(one, 1e-5), 4), round(epsilon_of(one + one, 1e-5), 2)
    (1.0, 1.46)
    """
    if cost == Cost():
        return 0.0
    if cost.concentrated == 0:
        return gaussian_epsilon(cost.gaussian**-0.5, delta)
    return concentrated_epsilon(cost.concentrated + cost.gaussian / 2, delta)


def rounded_normal(spread: float, size: int) -> Integers:
    """Return whole numbers (size,): normal noise of standard deviation `spread`, rounded.

    Added to whole numbers this is the same as adding the unrounded noise and rounding the sum, so
    what holds for continuous noise holds for it, and no pattern of floating-point digits is left
    that could tell sums apart (Mironov, CCS 2012). Keep `spread` at a million or so and above: then
    the 53 digits of the computation are far finer than the grid.

    >>> len(set(rounded_normal(1e9, 100).tolist()))
    100
    """
    words = random_words(size)
    # The low bit is the sign; the others pick a tail probability, so both tails are equally fine.
    tail = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
    size_of = np.rint(-ndtri(tail) * spread).astype(np.int64)
    return np.where(words & np.uint64(1), size_of, -size_of)


def check_epsilon_delta(epsilon: float, delta: float) -> None:
    """Raise ValueError unless epsilon is positive and delta lies between 0 and 1."""
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon is {epsilon}; pass a positive number, such as 1 to 8")
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; pass a probability far below one over the clients")


def _smallest(enough: Callable[[float], bool]) -> float:
    """Return the smallest multiplier that is enough, to the last digits and never below."""
    low, high = 1e-6, 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _least_epsilon(enough: Callable[[float], bool]) -> float:
    return 0.0 if enough(0.0) else _smallest(enough)
