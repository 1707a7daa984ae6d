"""The laws of ridge statistics, against scikit-learn and LAPACK on the pooled rows."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import scipy.linalg
import sklearn.linear_model
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Array
from catchment.readout import Readout, RidgeStatistics, path_errors

seeds = st.integers(0, 2**32 - 1)
ridges = st.floats(1e-4, 1e3)


def problem(seed: int, n: int = 120, F: int = 6, K: int = 2) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, F)) * rng.uniform(0.1, 3.0, F) + rng.normal(size=F)
    return z, z @ rng.normal(size=(F, K)) + rng.normal(size=(n, K)) + rng.normal(size=K)


@settings(max_examples=40)
@given(seed=seeds, ridge=ridges, cuts=st.lists(st.integers(0, 120), max_size=6))
def test_any_split_equals_pooled_ridge(seed: int, ridge: float, cuts: list[int]) -> None:
    z, y = problem(seed)
    parts = zip(np.split(z, sorted(cuts)), np.split(y, sorted(cuts)), strict=True)
    total = reduce(add, (RidgeStatistics.from_states(*part) for part in parts))
    pooled = sklearn.linear_model.Ridge(alpha=ridge, solver="svd").fit(z, y)
    ours = total.solve(ridge)
    np.testing.assert_allclose(ours.weights, pooled.coef_.T, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours(z), pooled.predict(z), rtol=1e-7, atol=1e-8)


@settings(max_examples=30)
@given(seed=seeds, ridge=ridges, cut=st.integers(1, 119))
def test_taking_rows_out_is_never_having_had_them(seed: int, ridge: float, cut: int) -> None:
    z, y = problem(seed)
    left = RidgeStatistics.from_states(z, y) - RidgeStatistics.from_states(z[:cut], y[:cut])
    never = sklearn.linear_model.Ridge(alpha=ridge, solver="svd").fit(z[cut:], y[cut:])
    assert left.n_rows == 120 - cut
    np.testing.assert_allclose(left.solve(ridge)(z), never.predict(z), rtol=1e-6, atol=1e-7)


@settings(max_examples=30)
@given(seed=seeds, ridge=ridges)
def test_weights_are_those_of_weighted_ridge(seed: int, ridge: float) -> None:
    z, y = problem(seed)
    weight = np.random.default_rng(seed).uniform(0, 2, len(z))
    theirs = sklearn.linear_model.Ridge(alpha=ridge, solver="svd").fit(z, y, sample_weight=weight)
    ours = RidgeStatistics.from_states(z, y, weight=weight).solve(ridge)
    np.testing.assert_allclose(ours.weights, theirs.coef_.T, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.intercept, theirs.intercept_, rtol=1e-7, atol=1e-9)


@settings(max_examples=30)
@given(seed=seeds, ridge=ridges)
def test_without_an_intercept_it_is_least_squares_on_the_augmented_rows(
    seed: int, ridge: float
) -> None:
    z, y = problem(seed)
    Z = np.vstack([z, np.sqrt(ridge) * np.eye(6)])
    expected = scipy.linalg.lstsq(Z, np.vstack([y, np.zeros((6, 2))]))[0]
    ours = RidgeStatistics.from_states(z, y).solve(ridge, intercept=False)
    np.testing.assert_allclose(ours.weights, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(ours.intercept, 0.0)


@settings(max_examples=30)
@given(seed=seeds, shift=st.floats(-50, 50))
def test_shifting_the_targets_shifts_only_the_intercept(seed: int, shift: float) -> None:
    z, y = problem(seed)
    plain = RidgeStatistics.from_states(z, y).solve(3.0)
    moved = RidgeStatistics.from_states(z, y + shift).solve(3.0)
    np.testing.assert_allclose(moved.weights, plain.weights, atol=1e-9)
    np.testing.assert_allclose(moved.intercept, plain.intercept + shift, atol=1e-8)


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(1, 50))
def test_errors_from_statistics_are_those_of_the_rows(seed: int, n: int) -> None:
    z, y = problem(seed, n=n)
    rng = np.random.default_rng(seed + 1)
    readout = Readout(rng.normal(size=(6, 2)), rng.normal(size=2))
    ours = path_errors(RidgeStatistics.from_states(z, y), [readout])[0]
    expected = ((y - readout(z)) ** 2).sum(axis=0)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
