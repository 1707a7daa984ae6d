"""Predictive variance against explicit Bayesian regression, and the coverage of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

from catchment import Array
from catchment.readout import (
    Readout,
    RidgeStatistics,
    leverage,
    predictive_variance,
    solve_readout,
)

pytestmark = pytest.mark.processor


def rows(n: int = 60, F: int = 5, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(1.0, 1.0, size=(n, F))
    return z, z @ rng.normal(size=(F, 2)) + rng.normal(size=(n, 2)) * [0.5, 2.0] + 3.0


def fit(z: Array, y: Array, ridge: float = 0.5) -> Readout:
    return solve_readout(RidgeStatistics.from_states(z, y), ridge)


def variance(z: Array, y: Array, new: Array, ridge: float | Array = 0.5) -> Array:
    return predictive_variance(RidgeStatistics.from_states(z, y), ridge, new)


@pytest.mark.parametrize("intercept", [True, False])
def test_variance_is_that_of_the_explicit_matrices(intercept: bool) -> None:
    z, y = rows()
    new = rows(7, seed=1)[0]
    statistics = RidgeStatistics.from_states(z, y)
    Z, N = (np.hstack([m, np.ones((len(m), 1))]) if intercept else m for m in (z, new))
    penalty = 0.5 * np.eye(Z.shape[1])
    if intercept:
        penalty[-1, -1] = 0.0
    inverse = np.linalg.inv(Z.T @ Z + penalty)
    hat = Z @ inverse @ Z.T
    noise = ((y - hat @ y) ** 2).sum(axis=0) / (len(z) - np.trace(hat))
    expected = np.einsum("ni,ij,nj->n", N, inverse, N)
    found, _ = leverage(statistics, 0.5, new, intercept=intercept)
    np.testing.assert_allclose(found, np.column_stack([expected] * 2), rtol=1e-9)
    found = predictive_variance(statistics, 0.5, new, intercept=intercept)
    np.testing.assert_allclose(found, np.outer(1 + expected, noise), rtol=1e-9)


def test_variance_is_sklearns_for_the_same_noise_and_prior() -> None:
    z, y = rows(200)
    z = z - z.mean(axis=0)
    theirs = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-12, max_iter=10_000)
    theirs.fit(z, y[:, 0] - y[:, 0].mean())
    new, ridge = rows(9, seed=1)[0], theirs.lambda_ / theirs.alpha_
    statistics = RidgeStatistics.from_states(z, y[:, :1] - y[:, :1].mean())
    _, deviation = theirs.predict(new, return_std=True)
    found, _ = leverage(statistics, ridge, new)
    noise = predictive_variance(statistics, ridge, new) / (1 + found)
    np.testing.assert_allclose(noise * theirs.alpha_, 1.0, rtol=0.02)
    share = found[:, 0] - 1 / 200
    np.testing.assert_allclose(1 + share, deviation**2 * theirs.alpha_, rtol=1e-6)


def test_a_ridge_per_output_gives_each_output_its_own_leverage() -> None:
    z, y = rows()
    new = rows(4, seed=1)[0]
    both = variance(z, y, new, np.array([0.5, 20.0]))
    for k, ridge in enumerate((0.5, 20.0)):
        single = variance(z, y[:, k : k + 1], new, ridge)
        np.testing.assert_allclose(both[:, k], single[:, 0])


def test_a_row_of_weight_two_is_two_rows() -> None:
    z, y = rows()
    weight = 1 + np.arange(60) % 2
    weighted = RidgeStatistics.from_states(z, y, weight=weight.astype(float))
    repeated = variance(np.repeat(z, weight, axis=0), np.repeat(y, weight, axis=0), z)
    np.testing.assert_allclose(predictive_variance(weighted, 0.5, z), repeated)


def test_too_few_rows_for_a_noise_estimate_are_an_error() -> None:
    z, y = rows(5)
    with pytest.raises(ValueError, match=r"5 rows and 5\.0 effective parameters"):
        variance(z, y, z, 1e-9)
