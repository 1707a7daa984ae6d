"""Noise: how much is needed, and that what is drawn is what was meant."""

from __future__ import annotations

import math
import os
from decimal import Decimal, localcontext
from fractions import Fraction
from inspect import getmodule

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special, stats
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
    log_normal_cdf,
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


PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def mills(x: Decimal) -> Decimal:
    """Return Phi(-x) / phi(x) for any x, in the precision of the context.

    By Laplace's continued fraction 1/(x + 1/(x + 2/(x + 3/(x + ..., and near 0 by the series of
    Phi, sqrt(pi / 2) e^(x^2 / 2) - (x + x^3 / 3 + x^5 / 15 + ...).
    """
    if x > 3:
        below = x
        for k in range(6000 // int(x) + 400, 0, -1):
            below = x + k / below
        return 1 / below
    term, total, k = x, x, 1
    while abs(term) > abs(total) * Decimal(10) ** -90:
        term *= x * x / (k := k + 2)
        total += term
    return (PI / 2).sqrt() * (x * x / 2).exp() - total


def log_of_tail(x: int) -> float:
    """Return log Phi(-x) to the last digit."""
    with localcontext() as context:
        context.prec = 60
        return float(-(Decimal(x) ** 2) / 2 - (2 * PI).ln() / 2 + mills(Decimal(x)).ln())


def share_of_delta(multiplier: float, epsilon: float, delta: float) -> Decimal:
    """Return the true delta of Gaussian noise as a share of another, to 60 digits.

    Delta is Phi(a) - e^epsilon Phi(b), and e^epsilon phi(b) is phi(a).
    """
    with localcontext() as context:
        context.prec = 80
        half, shift = 1 / (2 * Decimal(multiplier)), Decimal(epsilon) * Decimal(multiplier)
        density = (-((half - shift) ** 2) / 2).exp() / (2 * PI).sqrt()
        return density * (mills(shift - half) - mills(shift + half)) / Decimal(delta)


@pytest.mark.parametrize("x", [3, 5, 10, 19, 20, 21, 25, 30, 37, 38, 39, 40, 100, 10**4, 10**8])
def test_log_normal_cdf_far_out_to_the_last_digits(x: int) -> None:
    assert log_normal_cdf(-float(x)) == pytest.approx(log_of_tail(x), rel=4e-16, abs=0)
    # log(1 - p) is -p far out on the other side.
    other = -math.exp(log_of_tail(x))
    assert log_normal_cdf(float(x)) == pytest.approx(other, rel=1e-12 + abs(other), abs=5e-324)


@given(st.floats(-1e6, 40.0))
@example(-1.0)
@example(math.nextafter(-1.0, 0.0))
@example(-20.0)
@example(math.nextafter(-20.0, 0.0))
def test_log_normal_cdf_is_scipys(x: float) -> None:
    assert log_normal_cdf(x) == pytest.approx(float(special.log_ndtr(x)), rel=2e-13, abs=1e-300)


def test_log_normal_cdf_rises_where_its_forms_meet_and_knows_its_ends() -> None:
    for edge in (-20.0, -1.0):
        near = edge + 1e-9 * np.arange(-50, 51)
        assert (np.diff([log_normal_cdf(float(x)) for x in near]) > 0).all()
    assert log_normal_cdf(-math.inf) == -math.inf
    assert log_normal_cdf(math.inf) == 0.0
    assert math.isnan(log_normal_cdf(math.nan))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 8.0, 50.0, 400.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9, 1e-12])
def test_the_noise_is_no_less_than_with_scipys_distribution(epsilon: float, delta: float) -> None:
    def scipys(s: float) -> float:
        kept, lost = special.log_ndtr([0.5 / s - epsilon * s, -0.5 / s - epsilon * s])
        return float(math.exp(kept) * -math.expm1(min(epsilon + lost - kept, 0.0)))

    s = gaussian_multiplier(epsilon, delta)
    assert scipys(s * (1 + 1e-10)) <= delta < scipys(s * (1 - 1e-10))


LOG_MULTIPLIERS, LOG_DELTAS = st.floats(-3, 7), st.floats(-15, -1)


@given(LOG_MULTIPLIERS, LOG_DELTAS)
@example(6.0, -12.0)
@example(7.0, -15.0)
@example(7.0, -1.0)
@example(-3.0, -15.0)
@example(2.5, -12.0)
def test_the_promised_delta_is_never_exceeded(log_s: float, log_delta: float) -> None:
    s, delta = 10.0**log_s, 10.0**log_delta
    epsilon = gaussian_epsilon(s, delta)
    assert share_of_delta(s, epsilon, delta) <= 1
    if epsilon > 1e-5:  # below it some noise more is taken
        assert share_of_delta(s, 0.999999 * epsilon, delta) > 1
        least = gaussian_multiplier(epsilon, delta)
        assert share_of_delta(least, epsilon, delta) <= 1
        assert share_of_delta(0.999999 * least, epsilon, delta) > 1


@given(LOG_MULTIPLIERS, LOG_DELTAS)
@example(6.0, -12.0)
@example(-3.0, -15.0)
def test_the_concentrated_delta_is_never_below_the_formula(log_s: float, log_delta: float) -> None:
    s, delta = 10.0**log_s, 10.0**log_delta
    rho = 0.5 / s**2
    epsilon = concentrated_epsilon(rho, delta)

    def exponent(log_t: float) -> Decimal:
        with localcontext() as context:
            context.prec = 60
            t = Decimal(log_t).exp()
            return (
                t * ((1 + t) * Decimal(rho) - Decimal(epsilon))
                - (1 + t) * (1 + 1 / t).ln()
                - t.ln()
                - Decimal(delta).ln()
            )

    found = minimize_scalar(
        lambda x: float(exponent(x)), bounds=(-20, 60), method="bounded", options={"xatol": 1e-12}
    )
    assert exponent(found.x) <= 0
    assert exponent(found.x) > -1e-9 or epsilon < 1e-5


@pytest.mark.parametrize(("epsilon", "delta"), [(1e200, 1e-5), (1e-300, 1e-12), (1e-12, 1e-300)])
def test_terms_at_the_ends_of_what_floats_hold_have_a_multiplier(
    epsilon: float, delta: float
) -> None:
    for multiplier in (gaussian_multiplier, concentrated_multiplier):
        assert 0 < multiplier(epsilon, delta) < math.inf


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


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_rounded_normal_has_the_size_asked_for(size: int) -> None:
    assert rounded_normal(1e9, size).shape == (size,)


def test_pairs_of_rounded_normals_are_independent_and_their_tails_are_there() -> None:
    x = rounded_normal(2.0**30, 400_001) / 2.0**30
    half = len(x) // 2 + 1
    one, two = x[: half - 1], x[half:]
    for a, b in ((one, two), (one**2, two**2), (np.abs(one) > 2, np.abs(two) > 2)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 6 / math.sqrt(half)
    for bound in (2.0, 3.0, 4.0):
        for tail in (x > bound, x < -bound):
            assert stats.binomtest(int(tail.sum()), len(x), stats.norm.sf(bound)).pvalue > 1e-6


def test_both_ends_of_the_words_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of zeros and ones give the farthest point, and one next to the middle."""
    for bits, distance in (((0, 0), 2**-32), ((2**64 - 1, 0), 2.0**0.5 * math.log(2) ** 0.5)):
        words = np.array(bits, dtype=np.uint64)
        monkeypatch.setattr(getmodule(rounded_normal), "random_words", lambda n, words=words: words)
        found = rounded_normal(2.0**50, 2)
        assert found.tolist() == pytest.approx([distance * 2.0**50, 0.0], rel=1e-9, abs=1.0)
    words = np.array([1, 2**62], dtype=np.uint64)  # the farthest, a quarter turn on
    monkeypatch.setattr(getmodule(rounded_normal), "random_words", lambda n: words)
    far = math.sqrt(2 * 65 * math.log(2))
    assert rounded_normal(2.0**40, 2).tolist() == pytest.approx([0.0, far * 2.0**40], abs=2.0)


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
