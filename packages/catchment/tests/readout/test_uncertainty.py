"""Predictive variance against explicit Bayesian regression, and the coverage of intervals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from sklearn.linear_model import BayesianRidge

from catchment import Array
from catchment.readout import (
    BayesianReadout,
    Readout,
    RidgeStatistics,
    bayesian_readout,
    conformal_quantile,
    solve_readout,
)

pytestmark = pytest.mark.processor


def rows(n: int = 60, F: int = 5, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(1.0, 1.0, size=(n, F))
    return z, z @ rng.normal(size=(F, 2)) + rng.normal(size=(n, 2)) * [0.5, 2.0] + 3.0


def fit(z: Array, y: Array, ridge: float | Array = 0.5, intercept: bool = True) -> BayesianReadout:
    return bayesian_readout(RidgeStatistics.from_states(z, y), ridge, intercept=intercept)


@pytest.mark.parametrize("intercept", [True, False])
def test_variance_is_that_of_the_explicit_matrices(intercept: bool) -> None:
    z, y = rows()
    new = rows(7, seed=1)[0]
    model = fit(z, y, intercept=intercept)
    Z, N = (np.hstack([m, np.ones((len(m), 1))]) if intercept else m for m in (z, new))
    penalty = 0.5 * np.eye(Z.shape[1])
    if intercept:
        penalty[-1, -1] = 0.0
    inverse = np.linalg.inv(Z.T @ Z + penalty)
    hat = Z @ inverse @ Z.T
    noise = ((y - hat @ y) ** 2).sum(axis=0) / (len(z) - np.trace(hat))
    leverage = np.einsum("ni,ij,nj->n", N, inverse, N)
    np.testing.assert_allclose(model.noise_variance, noise, rtol=1e-9)
    np.testing.assert_allclose(model.leverage(new), np.column_stack([leverage] * 2), rtol=1e-9)
    np.testing.assert_allclose(model.variance(new), np.outer(1 + leverage, noise), rtol=1e-9)
    np.testing.assert_allclose(model(new), solve_readout_of(z, y, intercept)(new))


def solve_readout_of(z: Array, y: Array, intercept: bool) -> Readout:
    return solve_readout(RidgeStatistics.from_states(z, y), 0.5, intercept=intercept)


def test_variance_is_sklearns_for_the_same_noise_and_prior() -> None:
    z, y = rows(200)
    z = z - z.mean(axis=0)
    theirs = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-12, max_iter=10_000)
    theirs.fit(z, y[:, 0] - y[:, 0].mean())
    model = fit(z, y[:, :1] - y[:, :1].mean(), theirs.lambda_ / theirs.alpha_)
    new = rows(9, seed=1)[0]
    _, deviation = theirs.predict(new, return_std=True)
    np.testing.assert_allclose(model.noise_variance[0] * theirs.alpha_, 1.0, rtol=0.02)
    share = model.leverage(new)[:, 0] - 1 / 200
    np.testing.assert_allclose(1 + share, deviation**2 * theirs.alpha_, rtol=1e-6)


def test_a_ridge_per_output_gives_each_output_its_own_leverage() -> None:
    z, y = rows()
    new = rows(4, seed=1)[0]
    both = fit(z, y, np.array([0.5, 20.0]))
    for k, ridge in enumerate((0.5, 20.0)):
        single = fit(z, y[:, k : k + 1], ridge)
        np.testing.assert_allclose(both.leverage(new)[:, k], single.leverage(new)[:, 0])
        np.testing.assert_allclose(both.variance(new)[:, k], single.variance(new)[:, 0])


def test_a_row_of_weight_two_is_two_rows() -> None:
    z, y = rows()
    weight = 1 + np.arange(60) % 2
    weighted = bayesian_readout(RidgeStatistics.from_states(z, y, weight=weight.astype(float)), 0.5)
    repeated = fit(np.repeat(z, weight, axis=0), np.repeat(y, weight, axis=0))
    np.testing.assert_allclose(weighted.variance(z), repeated.variance(z))


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_student_intervals_cover_normal_errors(coverage: float) -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(4, 1))
    inside = []
    for _ in range(300):
        z = rng.normal(size=(12, 4))
        model = bayesian_readout(
            RidgeStatistics.from_states(z, z @ truth + rng.normal(size=(12, 1))), 1e-9
        )
        new = rng.normal(size=(20, 4))
        lower, upper = model.interval(new, coverage)
        target = new @ truth + rng.normal(size=(20, 1))
        inside.append(np.mean((lower <= target) & (target <= upper)))
    assert np.mean(inside) == pytest.approx(coverage, abs=0.025)


def test_normal_intervals_are_narrower_than_students_and_both_are_scipys() -> None:
    z, y = rows(12)
    model = fit(z, y)
    normal, student = model.interval(z, 0.9, normal=True), model.interval(z, 0.9)
    deviation = np.sqrt(model.variance(z))
    gaussian = np.array(scipy.stats.norm.interval(0.9, model(z), deviation))
    np.testing.assert_allclose(np.array(normal), gaussian)
    t = np.array(scipy.stats.t.interval(0.9, model.residual_freedom, model(z), deviation))
    np.testing.assert_allclose(np.array(student), t)
    assert (student[1] > normal[1]).all()


def test_novelty_is_one_on_average_in_training_and_large_far_away() -> None:
    z, y = rows(500)
    model = fit(z, y)
    assert model.novelty(z).mean() == pytest.approx(1.0, rel=1e-3)
    assert model.novelty(z + 20.0).min() > 10 * model.novelty(z).max()


def test_too_few_rows_for_a_noise_estimate_are_an_error() -> None:
    z, y = rows(5)
    with pytest.raises(ValueError, match=r"5 rows and 5\.0 effective parameters"):
        fit(z, y, 1e-9)


def test_conformal_widths_cover_errors_that_are_not_normal() -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(3, 1))

    def draw(n: int) -> tuple[Array, Array]:
        z = rng.normal(size=(n, 3))
        return z, z @ truth + rng.standard_t(2, size=(n, 1)) * (1 + np.abs(z[:, :1]))

    inside = []
    for _ in range(250):
        readout = fit(*draw(30)).readout
        (z, y), (new, later) = draw(19), draw(20)
        half = conformal_quantile(np.abs(y - readout(z)), 0.8)
        inside.append(np.mean(np.abs(later - readout(new)) <= half))
    assert np.mean(inside) == pytest.approx(0.8, abs=0.025)


@pytest.mark.parametrize(("n", "coverage", "rank"), [(9, 0.9, 9), (19, 0.9, 18), (99, 0.95, 95)])
def test_the_quantile_is_the_finite_sample_one(n: int, coverage: float, rank: int) -> None:
    scores = np.random.default_rng(0).permutation(np.arange(1.0, n + 1))[:, None]
    assert conformal_quantile(scores, coverage)[0] == rank


def test_wrong_calibration_is_refused() -> None:
    z, y = rows()
    with pytest.raises(ValueError, match="needs at least 9 calibration rows, got 8"):
        conformal_quantile(y[:8], 0.9)
    for coverage in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="coverage is"):
            conformal_quantile(y, coverage)
        with pytest.raises(ValueError, match="coverage is"):
            fit(z, y).interval(z, coverage)
