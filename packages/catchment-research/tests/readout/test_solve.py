"""Solvers against scikit-learn and LAPACK, their refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import sklearn.linear_model

from catchment import Array
from catchment.errors import SingularError
from catchment.readout import (
    SPECTRUM_FROM,
    Readout,
    RidgeStatistics,
    Spectrum,
    path_errors,
    solve_path,
    solve_readout,
)

pytestmark = pytest.mark.processor


def rows(n: int = 80, F: int = 7, K: int = 3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(0.5, 1.0, size=(n, F))
    return z, z @ rng.normal(size=(F, K)) + 0.3 * rng.normal(size=(n, K)) + 2.0


def smooth_states(n: int = 1500, F: int = 150) -> tuple[Array, Array]:
    """Return nearly dependent features, as reservoirs give for smooth inputs."""
    rng = np.random.default_rng(1)
    t = np.arange(n)[:, None]
    phases = np.tanh(np.sin(t * rng.uniform(0.01, 0.05, 12)) @ rng.normal(size=(12, F)))
    return phases, np.cos(t * 0.03) + 0.01 * rng.normal(size=(n, 1))


def reference(z: Array, y: Array, ridge: float) -> Array:
    fitted = sklearn.linear_model.Ridge(alpha=ridge, solver="svd").fit(z, y)
    return np.asarray(fitted.predict(z)).reshape(y.shape)


def test_solve_is_sklearns_ridge_and_reports_its_ridge() -> None:
    z, y = rows()
    readout = solve_readout(RidgeStatistics.from_states(z, y), 0.7)
    np.testing.assert_allclose(readout(z), reference(z, y, 0.7), rtol=1e-11)
    assert readout.ridge == 0.7
    assert (readout.n_features, readout.n_outputs) == (7, 3)


@pytest.mark.parametrize("ridge", [1e-8, 1e-6, 1e-4, 1e-2, 1.0])
def test_nearly_dependent_states_still_predict_as_the_svd_does(ridge: float) -> None:
    z, y = smooth_states()
    statistics = RidgeStatistics.from_states(z, y)
    expected = reference(z, y, ridge)
    np.testing.assert_allclose(solve_readout(statistics, ridge)(z), expected, atol=1e-5)
    many = solve_path(statistics, [ridge] * SPECTRUM_FROM)[0]
    np.testing.assert_allclose(many(z), expected, atol=1e-4)


@pytest.mark.parametrize("n_ridges", [1, 5, SPECTRUM_FROM, 40])
def test_each_point_of_the_path_is_its_own_solution(n_ridges: int) -> None:
    z, y = rows()
    ridges = np.geomspace(1e-3, 1e2, n_ridges)
    path = solve_path(RidgeStatistics.from_states(z, y), ridges)
    assert [readout.ridge for readout in path] == ridges.tolist()
    for ridge, readout in zip(ridges, path, strict=True):
        np.testing.assert_allclose(readout(z), reference(z, y, ridge), rtol=1e-9, atol=1e-10)


def test_an_empty_path_has_no_readouts() -> None:
    assert solve_path(RidgeStatistics.from_states(*rows()), []) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_singular_system_names_rank_and_remedy_and_the_remedy_works(seed: int) -> None:
    z, y = rows(seed=seed)
    z = np.hstack([z, z @ np.ones((7, 1)), z[:, 2:3]])
    statistics = RidgeStatistics.from_states(z, y)
    with pytest.raises(SingularError, match=r"9 features in 80 rows have rank 7") as caught:
        solve_readout(statistics, 0.0)
    remedy = float(str(caught.value).split("use a ridge of ")[1].split()[0])
    readout = solve_readout(statistics, remedy)
    np.testing.assert_allclose(readout(z), reference(z, y, remedy), atol=1e-3)
    with pytest.raises(SingularError, match="9 features have rank 7"):
        solve_path(statistics, [0.0] * SPECTRUM_FROM)


def test_fewer_rows_than_features_need_a_ridge() -> None:
    z, y = rows(n=5)
    statistics = RidgeStatistics.from_states(z, y)
    with pytest.raises(SingularError, match="in 5 rows have rank 4"):
        solve_readout(statistics, 0.0)
    np.testing.assert_allclose(solve_readout(statistics, 0.1)(z), reference(z, y, 0.1), rtol=1e-9)


def test_one_row_is_predicted_by_its_own_target() -> None:
    z, y = rows(n=1)
    readout = solve_readout(RidgeStatistics.from_states(z, y), 1e-6)
    np.testing.assert_allclose(readout(z), y)
    np.testing.assert_array_equal(readout.weights, 0.0)


def test_features_in_wildly_different_units_are_not_called_singular() -> None:
    z, y = rows()
    units = np.geomspace(1e-7, 1e7, 7)
    readout = solve_readout(RidgeStatistics.from_states(z * units, y), 0.0)
    np.testing.assert_allclose(readout(z * units), reference(z, y, 0.0), rtol=1e-9)


@pytest.mark.parametrize("value", [0.1, 1.0, 1e3])
def test_a_constant_feature_gets_no_weight_beside_an_intercept(value: float) -> None:
    z, y = rows(n=20_000)
    constant = np.hstack([z, np.full((len(z), 1), value)])
    readout = solve_readout(RidgeStatistics.from_states(constant, y), 1e-12)
    np.testing.assert_array_equal(readout.weights[7], 0.0)
    np.testing.assert_allclose(readout(constant), reference(z, y, 1e-12), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ridge", [-1.0, np.nan, np.inf, np.ones(2), np.ones((3, 1))])
def test_wrong_ridges_are_refused(ridge: Any) -> None:
    statistics = RidgeStatistics.from_states(*rows())
    with pytest.raises(ValueError, match="ridge"):
        solve_readout(statistics, ridge)


def test_solving_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="hold 0 rows"):
        solve_readout(RidgeStatistics.zero(3, 1), 1.0)
    with pytest.raises(ValueError, match="weight 0"):
        solve_readout(RidgeStatistics.from_states(*rows()).scaled(0.0), 1.0)


def test_statistics_survive_being_solved() -> None:
    z, y = rows()
    statistics = RidgeStatistics.from_states(z, y)
    statistics.solve(0.1)
    statistics.solve(0.2)
    Spectrum.of(statistics)
    assert statistics == RidgeStatistics.from_states(z, y)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
def test_a_spectrum_tells_what_the_explicit_matrices_do(intercept: bool, ridge: float) -> None:
    z, y = rows()
    spectrum = Spectrum.of(RidgeStatistics.from_states(z, y), intercept=intercept)
    centered = z - z.mean(axis=0) if intercept else z
    hat = centered @ np.linalg.solve(centered.T @ centered + ridge * np.eye(7), centered.T)
    theirs = sklearn.linear_model.Ridge(alpha=ridge, solver="svd", fit_intercept=intercept)
    residual = y - theirs.fit(z, y).predict(z)
    found = spectrum.degrees_of_freedom(ridge)
    np.testing.assert_allclose(found, np.trace(hat) + intercept, rtol=1e-10)
    np.testing.assert_allclose(spectrum.squared_errors(ridge), (residual**2).sum(axis=0), rtol=1e-9)


def test_the_spectrum_of_a_singular_system_has_errors_without_raising() -> None:
    z, y = rows()
    z = np.hstack([z, z[:, :1]])
    spectrum = Spectrum.of(RidgeStatistics.from_states(z, y))
    assert spectrum.degrees_of_freedom(0.0) == pytest.approx(8.0)
    centered = z - z.mean(axis=0)
    W = scipy.linalg.lstsq(centered, y - y.mean(axis=0))[0]
    expected = ((y - y.mean(axis=0) - centered @ W) ** 2).sum(axis=0)
    np.testing.assert_allclose(spectrum.squared_errors(0.0), expected, rtol=1e-9)


def test_errors_of_an_exact_fit_are_zero_not_negative() -> None:
    z, _ = rows()
    y = z @ np.ones((7, 1))
    statistics = RidgeStatistics.from_states(z, y)
    errors = path_errors(statistics, [solve_readout(statistics, 0.0)])[0]
    assert 0.0 <= errors[0] < 1e-10
    with pytest.raises(ValueError, match="trained on"):
        path_errors(statistics, [Readout(np.zeros((2, 1)), np.zeros(1))])


def test_a_readout_is_checked_and_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Readout(np.zeros((2, 1)), np.zeros(2))
    readout = Readout(np.zeros((2, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="read-only"):
        readout.weights[0, 0] = 1.0
    with pytest.raises(ValueError, match="3 columns, the readout was solved for 2"):
        readout(np.zeros((1, 3)))
