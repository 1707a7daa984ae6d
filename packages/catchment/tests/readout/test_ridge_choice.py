"""The choice of the ridge against explicit residuals, hat matrices and scikit-learn's folds."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneGroupOut

from catchment import Array
from catchment.readout import (
    SPECTRUM_FROM,
    RidgeChoice,
    RidgeStatistics,
    choose_by_blocks,
    choose_by_gcv,
    chosen_readout,
    path_errors,
    ridge_grid,
    solve_path,
)
from catchment.wire import deserialize, serialize

pytestmark = pytest.mark.processor


def rows(n: int = 90, F: int = 12, seed: int = 0, noise: float = 1.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(0.3, 1.0, size=(n, F))
    y = z[:, :2] @ rng.normal(size=(2, 2)) + noise * rng.normal(size=(n, 2)) + 5.0
    return z, y


def blocks_of(z: Array, y: Array, cuts: list[int]) -> list[RidgeStatistics]:
    pairs = zip(np.split(z, cuts), np.split(y, cuts), strict=True)
    return [RidgeStatistics.from_states(*pair) for pair in pairs]


def explicit_errors(z: Array, y: Array, cuts: list[int], ridge: float, intercept: bool) -> Array:
    groups = np.searchsorted(cuts, np.arange(len(z)), side="right")
    errors = np.zeros((len(cuts) + 1, y.shape[1]))
    for train, test in LeaveOneGroupOut().split(z, y, groups):
        model = Ridge(alpha=ridge, solver="svd", fit_intercept=intercept).fit(z[train], y[train])
        errors[groups[test[0]]] = ((y[test] - model.predict(z[test])) ** 2).sum(axis=0)
    return errors


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_ridges", [3, SPECTRUM_FROM])
def test_block_errors_are_those_of_explicit_folds(intercept: bool, n_ridges: int) -> None:
    z, y = rows()
    cuts = [10, 40, 41]
    ridges = np.geomspace(1e-2, 1e2, n_ridges)
    choice = choose_by_blocks(blocks_of(z, y, cuts), ridges, intercept=intercept)
    assert choice.block_errors is not None
    for i, ridge in enumerate(ridges):
        expected = explicit_errors(z, y, cuts, ridge, intercept)
        np.testing.assert_allclose(choice.block_errors[:, i], expected, rtol=1e-9)
        np.testing.assert_allclose(choice.errors[i], expected.sum(axis=0) / len(z), rtol=1e-9)
    assert choice.best == ridges[choice.errors.sum(axis=1).argmin()]


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    ridge=st.floats(1e-3, 1e3),
    cuts=st.sets(st.integers(1, 89), min_size=1, max_size=5),
)
def test_any_blocks_give_the_errors_of_explicit_residuals(
    seed: int, ridge: float, cuts: set[int]
) -> None:
    z, y = rows(seed=seed)
    choice = choose_by_blocks(blocks_of(z, y, sorted(cuts)), [ridge])
    assert choice.block_errors is not None
    expected = explicit_errors(z, y, sorted(cuts), ridge, True)
    np.testing.assert_allclose(choice.block_errors[:, 0], expected, rtol=1e-9, atol=1e-9)


def test_clients_errors_add_up_to_the_leave_one_client_out_error() -> None:
    z, y = rows()
    clients = blocks_of(z, y, [20, 50])
    ridges = [0.1, 1.0, 10.0]
    total = reduce(add, clients)
    shares = [path_errors(client, solve_path(total - client, ridges)) for client in clients]
    choice = choose_by_blocks(clients, ridges)
    np.testing.assert_allclose(sum(shares) / total.weight, choice.errors, rtol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_gcv_is_the_textbook_score_of_the_hat_matrix(intercept: bool) -> None:
    z, y = rows(seed=3)
    ridges = np.geomspace(1e-3, 1e3, 13)
    choice = choose_by_gcv(RidgeStatistics.from_states(z, y), ridges, intercept=intercept)
    n, ones = len(z), np.ones((len(z), 1)) / np.sqrt(len(z))
    for i, ridge in enumerate(ridges):
        centered = z - z.mean(axis=0) if intercept else z
        hat = centered @ np.linalg.solve(centered.T @ centered + ridge * np.eye(12), centered.T)
        hat = hat + ones @ ones.T if intercept else hat
        residual = y - hat @ y
        score = n * (residual**2).sum(axis=0) / (n - np.trace(hat)) ** 2
        np.testing.assert_allclose(choice.errors[i], score, rtol=1e-9)
    assert choice.best == ridges[choice.errors.sum(axis=1).argmin()]
    assert choice.block_errors is None


def test_the_choice_predicts_new_rows_better_than_either_end_of_the_grid() -> None:
    z, y = rows(n=60, F=40, seed=7, noise=2.0)
    new_z, new_y = rows(n=2000, F=40, seed=7, noise=2.0)
    rng = np.random.default_rng(8)
    beta = rng.normal(size=(40, 1)) * 0.3
    y, new_y = z @ beta + 2 * rng.normal(size=(60, 1)), new_z @ beta
    statistics = RidgeStatistics.from_states(z, y)
    ridges = ridge_grid(statistics)

    def error(ridge: float) -> float:
        return float(((statistics.solve(ridge)(new_z) - new_y) ** 2).mean())

    ends = min(error(ridges[0]), error(ridges[-1]))
    for choice in (choose_by_gcv(statistics), choose_by_blocks(blocks_of(z, y, [20, 40]))):
        assert not choice.at_edge
        assert error(float(np.asarray(choice.best))) < ends


def test_gcv_never_chooses_an_interpolating_ridge() -> None:
    z, y = rows(n=15, F=30)
    statistics = RidgeStatistics.from_states(z, y)
    choice = choose_by_gcv(statistics, [1e-12, 1e-9, 1.0, 10.0])
    assert np.isinf(choice.errors[:2]).all()
    assert float(np.asarray(choice.best)) >= 1.0
    with pytest.raises(ValueError, match="leaves a degree of freedom"):
        choose_by_gcv(statistics, [1e-12])


def test_the_grid_follows_the_scale_of_the_features() -> None:
    z, y = rows()
    grid = ridge_grid(RidgeStatistics.from_states(z, y))
    larger = ridge_grid(RidgeStatistics.from_states(10 * z, y))
    np.testing.assert_allclose(larger, 100 * grid)
    assert (np.diff(grid) > 0).all()
    with pytest.raises(ValueError, match="n_ridges is 1; give an integer, 2 or more"):
        ridge_grid(RidgeStatistics.from_states(z, y), 1)
    with pytest.raises(ValueError, match="no feature varies"):
        ridge_grid(RidgeStatistics.from_states(np.ones((5, 2)), y[:5]))


def test_empty_blocks_are_passed_over_and_one_is_too_few() -> None:
    z, y = rows()
    with_empty = choose_by_blocks(blocks_of(z, y, [30, 30, 60]), [1.0])
    without = choose_by_blocks(blocks_of(z, y, [30, 60]), [1.0])
    np.testing.assert_array_equal(with_empty.errors, without.errors)
    with pytest.raises(ValueError, match="1 of 2 blocks have rows"):
        choose_by_blocks(blocks_of(z, y, [90]), [1.0])


@pytest.mark.parametrize("ridges", [[], [-1.0], [np.nan], [[1.0, 2.0]]])
def test_wrong_ridges_are_refused(ridges: list[float]) -> None:
    statistics = RidgeStatistics.from_states(*rows())
    with pytest.raises(ValueError, match="ridge"):
        choose_by_gcv(statistics, ridges)


def test_gcv_looks_up_to_the_largest_eigenvalue_where_rows_are_few() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(8, 1)) + 0.1 * rng.normal(size=(8, 200))
    statistics = RidgeStatistics.from_states(z, rng.normal(size=(8, 1)))
    choice = choose_by_gcv(statistics)
    G, _ = statistics.moments()
    assert choice.ridges[-1] > np.linalg.eigvalsh(G)[-1]
    np.testing.assert_allclose(choice.ridges[0], ridge_grid(statistics)[0])


def test_classes_are_not_fitted_beyond_a_hundredth() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(2, size=400)
    z = np.column_stack([labels, rng.normal(size=(400, 30)) * 1e-3])
    y = np.eye(2)[labels]
    statistics = RidgeStatistics.from_states(z, y)
    _, exact = chosen_readout(statistics, "gcv")
    choice, readout = chosen_readout(statistics, "gcv", classes=True)
    assert choice is not None
    left = ((readout(z) - y) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum()
    assert left >= 1e-4
    assert np.asarray(readout.ridge) > np.asarray(exact.ridge)
    assert (readout(z).argmax(axis=1) == labels).all()


def test_a_given_ridge_is_used_as_it_is() -> None:
    z, y = rows()
    statistics = RidgeStatistics.from_states(z, y)
    choice, readout = chosen_readout(statistics, 3.0)
    assert choice is None
    theirs = Ridge(alpha=3.0, solver="svd").fit(z, y)
    np.testing.assert_allclose(readout(z), theirs.predict(z), rtol=1e-9)
    with pytest.raises(ValueError, match="ridge is 'cv'"):
        chosen_readout(statistics, "cv")


def test_nothing_that_varies_gives_the_mean_of_the_targets() -> None:
    statistics = RidgeStatistics.from_states(np.ones((4, 3)), np.arange(4.0)[:, None])
    choice, readout = chosen_readout(statistics, "gcv")
    assert choice is not None
    assert choice.best == 1.0
    np.testing.assert_allclose(readout(np.ones((2, 3))), 1.5)
    assert choice.deviation is not None
    np.testing.assert_allclose(choice.deviation, np.arange(4.0).std(), rtol=2.0**-20)


def test_the_deviation_is_what_new_rows_show() -> None:
    z, y = rows(n=2000, noise=0.5)
    statistics = RidgeStatistics.from_states(z[:1000], y[:1000])
    blocks = blocks_of(z[:1000], y[:1000], [250, 500, 750])
    for choice in (choose_by_gcv(statistics), choose_by_blocks(blocks)):
        assert choice.deviation is not None
        found = statistics.solve(choice.best)(z[1000:]) - y[1000:]
        np.testing.assert_allclose(choice.deviation, np.sqrt((found**2).mean(axis=0)), rtol=0.1)


def test_few_rows_of_very_many_features_have_the_same_path() -> None:
    rng = np.random.default_rng(1)
    narrow, y = rng.normal(size=(40, 300)), rng.normal(size=(40, 2))
    turned, _ = np.linalg.qr(rng.normal(size=(2048, 300)))
    z = narrow @ turned.T  # the same products of rows, in columns enough to be solved in their span
    wide, plain = (RidgeStatistics.from_states(each, y) for each in (z, narrow))
    ridges = np.geomspace(1e-2, 1e3, 16)
    for ridge, one in zip(ridges, solve_path(wide, ridges), strict=True):
        expected = Ridge(alpha=ridge, solver="svd").fit(z, y)
        np.testing.assert_allclose(one.weights.T, expected.coef_, rtol=1e-6, atol=1e-9)
    scores, same = (choose_by_gcv(each, ridges).errors for each in (wide, plain))
    np.testing.assert_allclose(scores, same, rtol=1e-6)


def test_a_choice_is_kept_as_it_was_when_outputs_could_have_ridges_of_their_own() -> None:
    choice = RidgeChoice(np.array([0.1, 1.0]), np.array([[2.0], [1.0]]), 1.0)
    kept = serialize(choice)
    assert [array.shape for array in kept.arrays] == [(2,), (2, 1), ()]
    assert deserialize(RidgeChoice, kept).best == 1.0
