"""Noise: how much is needed, and that what is drawn is what was meant."""

from __future__ import annotations

import math
import os
from decimal import Decimal, localcontext
from fractions import Fraction
from inspect import getmodule

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from catchment.privacy.dp import (
    _heads,
    concentrated_delta,
    concentrated_epsilon,
    concentrated_multiplier,
    discrete_gaussian,
    discrete_laplace,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_multiplier,
    rounded_normal,
)


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 3.7306), (8.0, 0.6002)])
def test_known_multipliers(epsilon: float, multiplier: float) -> None:
    assert gaussian_multiplier(epsilon, 1e-5) == pytest.approx(multiplier, abs=1e-4)


@pytest.mark.parametrize("s", [0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 30.0])
def test_delta_against_an_integral(s: float, epsilon: float) -> None:
    """Delta is the mass by which one density exceeds e^epsilon times the other."""
    x = np.linspace(-12 * s, 12 * s + 1, 400_001)
    excess = stats.norm.pdf(x, 1, s) - math.exp(epsilon) * stats.norm.pdf(x, 0, s)
    expected = np.trapezoid(np.maximum(excess, 0), x)
    assert gaussian_delta(s, epsilon) == pytest.approx(expected, rel=1e-4, abs=1e-12)


def test_large_epsilon_does_not_overflow() -> None:
    s = gaussian_multiplier(800.0, 1e-5)
    assert 0 < s < 0.1
    assert gaussian_epsilon(s, 1e-5) == pytest.approx(800.0, rel=1e-9)


def test_epsilon_and_multiplier_are_inverse() -> None:
    for epsilon in (0.01, 1.0, 20.0):
        assert gaussian_epsilon(gaussian_multiplier(epsilon, 1e-6), 1e-6) == pytest.approx(epsilon)
        rho = 0.5 / concentrated_multiplier(epsilon, 1e-6) ** 2
        assert concentrated_epsilon(rho, 1e-6) == pytest.approx(epsilon)


@pytest.mark.parametrize(("rho", "epsilon"), [(0.01, 0.5), (0.1, 2.0), (1.0, 6.0)])
def test_concentrated_delta_is_the_least_over_orders(rho: float, epsilon: float) -> None:
    def log_delta(t: float) -> float:
        a = 1 + math.exp(t)
        return (a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1)

    least = minimize_scalar(log_delta, bounds=(-5, 10), method="bounded", options={"xatol": 1e-10})
    assert math.log(concentrated_delta(rho, epsilon)) == pytest.approx(least.fun, abs=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (-1, 1e-5), (math.inf, 1e-5), (1, 0)])
def test_impossible_terms_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match=r"epsilon is|delta is"):
        gaussian_multiplier(epsilon, delta)


def test_rounded_normal_is_normal() -> None:
    x = rounded_normal(2.0**20, 60_000)
    assert x.dtype == np.int64
    assert stats.kstest(x / 2.0**20, "norm").pvalue > 1e-6


def test_discrete_gaussian_has_its_probabilities() -> None:
    x = discrete_gaussian(2, 60_000)
    k = np.arange(-7, 8)
    p = np.exp(-(k**2) / 8.0)
    seen = np.array([(x == value).sum() for value in k])
    p = p / p.sum() * seen.sum()
    assert (np.abs(x) > 7).mean() < 0.01
    assert stats.chisquare(seen, p).pvalue > 1e-6


def test_discrete_laplace_has_its_probabilities() -> None:
    x = discrete_laplace(3, 60_000)
    k = np.arange(-12, 13)
    seen = np.array([(x == value).sum() for value in k])
    p = np.exp(-np.abs(k) / 3.0)
    assert stats.chisquare(seen, p / p.sum() * seen.sum()).pvalue > 1e-6


def test_wide_discrete_gaussian_is_as_wide_as_asked() -> None:
    x = discrete_gaussian(1 << 20, 60_000)
    assert stats.kstest(x / 2.0**20, "norm").pvalue > 1e-6
    assert len(discrete_gaussian(5, 0)) == 0


@pytest.mark.parametrize("spread", [0, -1, 1 << 27])
def test_a_spread_out_of_range_is_refused(spread: int) -> None:
    with pytest.raises(ValueError, match="spread is"):
        discrete_gaussian(spread, 1)


def test_ties_are_broken_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words next to 1 / e, which a double cannot tell apart, fall on their sides of it."""
    with localcontext() as context:
        context.prec = 60
        word = int(Decimal(-1).exp() * 2**64)
    assert float(word) * 2.0**-64 == float(word + 1) * 2.0**-64 == math.exp(-1)
    monkeypatch.setattr(os, "urandom", lambda n: b"\x00" * n)
    for drawn, heads in ((word, True), (word + 1, False)):
        words = np.array([drawn], dtype=np.uint64)
        monkeypatch.setattr(
            getmodule(discrete_gaussian), "random_words", lambda n, words=words: words
        )
        assert _heads(np.ones(1), lambda i: Fraction(1)).tolist() == [heads]
