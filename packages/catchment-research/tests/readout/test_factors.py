"""QR factors against numpy's least squares on the rows, and their merging in any grouping."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import reduce
from inspect import getmodule
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Array, EchoState, Recording
from catchment.data import mackey_glass
from catchment.errors import (
    FingerprintError,
    IntegrityError,
    PrecisionWarning,
    SingularError,
    UploadError,
)
from catchment.features import DiagonalReservoir, FeatureMap
from catchment.readout import (
    RidgeStatistics,
    accumulate,
    choose_by_blocks,
    chosen_readout,
    feature_scale,
    path_errors,
    solve_path,
    solve_readout,
)
from catchment.wire import measured
from catchment_research.factors import (
    RidgeFactors,
    accumulate_factors,
    check_factors,
    choose_by_factor_blocks,
    chosen_from_factors,
    factor_errors,
    factor_path,
    factor_scale,
    merged_factors,
    solve_factors,
    without_each,
)

pytestmark = pytest.mark.processor


def rows(n: int = 60, F: int = 5, K: int = 2, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(0.5, 1.0, size=(n, F)) * 10.0 ** rng.uniform(-2, 2, F)
    y = z @ rng.normal(size=(F, K)) + 0.3 * rng.normal(size=(n, K)) + 2.0
    return z, y, rng.uniform(0.1, 3.0, n)


def smooth(n: int = 900, F: int = 40) -> tuple[Array, Array]:
    """Return features of condition 1e8, whose Gram matrix is beyond float64, and a target."""
    rng = np.random.default_rng(3)
    t = np.arange(n)[:, None] / 40.0
    waves = np.tanh(np.sin(t * rng.uniform(0.5, 2.0, 2)) @ rng.normal(size=(2, F)) * 0.5 + 0.5)
    return waves, np.cos(t)


def by_numpy(z: Array, y: Array, ridge: float, weight: Array, *, intercept: bool = True) -> Array:
    """Return outputs of numpy's least squares on [rows; sqrt(ridge) I], no ridge on a constant."""
    root, F = np.sqrt(weight)[:, None], z.shape[1]
    means = np.average(z, axis=0, weights=weight), np.average(y, axis=0, weights=weight)
    if not intercept:
        means = np.zeros(F), np.zeros(y.shape[1])
    A = np.vstack([(z - means[0]) * root, np.sqrt(ridge) * np.eye(F)])
    b = np.vstack([(y - means[1]) * root, np.zeros((F, y.shape[1]))])
    W = np.linalg.lstsq(A, b, rcond=None)[0]
    return np.asarray((z - means[0]) @ W + means[1])


@settings(max_examples=25, deadline=None)
@given(
    owner=st.lists(st.integers(0, 3), min_size=60, max_size=60),
    order=st.permutations(range(4)),
    seed=st.integers(0, 50),
    intercept=st.booleans(),
)
def test_merged_in_any_grouping_they_solve_as_numpy_does_on_all_rows(
    owner: list[int], order: list[int], seed: int, intercept: bool
) -> None:
    z, y, weight = rows(seed=seed)
    held = np.array(owner)
    a, b, c, d = (
        RidgeFactors.from_states(z[held == k], y[held == k], weight=weight[held == k])
        for k in order
    )
    expected = by_numpy(z, y, 0.3, weight, intercept=intercept)
    for total in (((a + b) + c) + d, (a + b) + (c + d), a + (b + (c + d))):
        assert total.n_rows == 60
        assert total.weight == pytest.approx(weight.sum())
        solved = total.solve(0.3, intercept=intercept)
        np.testing.assert_allclose(solved(z), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_on_well_posed_rows_they_are_what_statistics_are(
    intercept: bool, standardize: bool
) -> None:
    z, y, weight = rows()
    z[:, 2] = 4.0  # does not vary
    factors = RidgeFactors.from_states(z, y, weight=weight)
    sums = RidgeStatistics.from_states(z, y, weight=weight)
    scale = feature_scale(sums) if standardize else None
    if standardize:
        np.testing.assert_allclose(factor_scale(factors), feature_scale(sums), rtol=1e-9)
    for ridge in (1e-2, 3.0, np.array([0.1, 2.0])):
        ours = solve_factors(factors, ridge, intercept=intercept, scale=scale)
        theirs = solve_readout(sums, ridge, intercept=intercept, scale=scale)
        np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ours.intercept, theirs.intercept, rtol=1e-9)
        np.testing.assert_array_equal(ours.ridge, theirs.ridge)
    for n in (3, 40):
        ridges = np.geomspace(1e-2, 10.0, n)
        mine = factor_path(factors, ridges, intercept=intercept, scale=scale)
        path = solve_path(sums, ridges, intercept=intercept, scale=scale)
        errors = factor_errors(factors, mine), path_errors(sums, path)
        np.testing.assert_allclose(errors[0], errors[1], rtol=1e-7)
    if intercept and not standardize:
        assert ours.weights[2] == pytest.approx(0.0)


def test_on_smooth_rows_they_keep_what_sums_lose() -> None:
    z, y = smooth()
    expected = by_numpy(z, y, 1e-14, np.ones(len(z)))
    parts = [RidgeFactors.from_states(z[k::3], y[k::3]) for k in range(3)]
    solved = reduce(add, parts).solve(1e-14)
    left = np.abs(expected - y).max()
    assert np.abs(solved(z) - expected).max() < 1e-3 * left
    by_path = factor_path(reduce(add, parts), [1e-14] * 20)[0]
    assert np.abs(by_path(z) - expected).max() < 1e-2 * left
    sums = RidgeStatistics.from_states(z, y)
    # A processor's kernels decide how the last digits of sums are rounded, and so whether they can
    # be solved at all. Either is said, and either loses what factors keep.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            lost = float(np.abs(sums.solve(1e-14)(z) - expected).max())
        except SingularError:
            lost = np.inf
    assert lost == np.inf or [one.category for one in said] == [PrecisionWarning]
    assert lost > 1000 * np.abs(solved(z) - expected).max()


@pytest.mark.parametrize("together", [1, 7, 61, 5000])
def test_the_size_of_the_blocks_does_not_show(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    z, y, weight = rows(n=200)
    monkeypatch.setattr(getmodule(RidgeFactors), "ROWS_TOGETHER", together)
    factors = RidgeFactors.from_states(z, y, weight=weight)
    np.testing.assert_allclose(
        factors.solve(0.1)(z), by_numpy(z, y, 0.1, weight), rtol=1e-9, atol=1e-9
    )
    assert (factors.inner.diagonal() >= 0).all()
    assert not np.tril(factors.inner, -1).any()


MAPS: dict[str, FeatureMap] = {
    "states": EchoState(12, washout=5).build(1, per_step=True),
    "float64 states": EchoState(12, washout=5, bits=None).build(1, per_step=True),
    "pooled": EchoState(6).build(1, per_step=False),
    "streamed": DiagonalReservoir(8).build(1, per_step=True),
}


@pytest.mark.parametrize("name", MAPS)
def test_of_recordings_they_are_what_statistics_are(name: str) -> None:
    rng = np.random.default_rng(1)
    features = MAPS[name]
    per_step = features.per_step
    data = []
    for n, weight in ((90, 1.0), (700, 2.0), (64, 1.0)):
        y = rng.normal(size=(n, 2)) if per_step else rng.normal(size=2)
        if per_step:
            y[10:14] = np.nan
        data.append(Recording(rng.uniform(-1, 1, n), y, weight=weight))
    factors, sums = accumulate_factors(features, data), accumulate(features, data)
    assert (factors.n_rows, factors.fingerprint) == (sums.n_rows, sums.fingerprint)
    assert factors.weight == pytest.approx(sums.weight)
    found, known = factors.statistics, sums.floats
    for field in ("feature_sum", "target_sum", "gram", "cross", "target_gram"):
        # In fixed point the statistics round targets to 2^-36.
        np.testing.assert_allclose(
            getattr(found, field), getattr(known, field), rtol=1e-8, atol=1e-6
        )
    with pytest.raises(ValueError, match="no recordings were given"):
        accumulate_factors(features, [])


def test_the_ridge_is_chosen_as_from_statistics_where_both_can() -> None:
    z, y, _ = rows(n=300, K=1)
    y = y + 3.0 * np.random.default_rng(2).normal(size=y.shape)
    parts = [slice(k, None, 4) for k in range(4)]
    blocks = [RidgeFactors.from_states(z[p], y[p]) for p in parts]
    sums = [RidgeStatistics.from_states(z[p], y[p]) for p in parts]
    tried = np.geomspace(1e-3, 1e3, 20)
    ours, theirs = choose_by_factor_blocks(blocks, tried), choose_by_blocks(sums, tried)
    assert ours.best == theirs.best
    np.testing.assert_allclose(ours.errors, theirs.errors, rtol=1e-9)
    choice, readout = chosen_from_factors(reduce(add, blocks), "gcv")
    known, other = chosen_readout(reduce(add, sums), "gcv")
    assert choice is not None
    assert known is not None
    assert choice.errors.min() == pytest.approx(known.errors.min(), rel=1e-2)
    assert np.linalg.norm(readout(z) - y) == pytest.approx(np.linalg.norm(other(z) - y), rel=1e-2)
    each = choose_by_factor_blocks(blocks, per_output=True, standardize=True)
    assert np.shape(each.best) == (1,)
    with pytest.raises(ValueError, match="needs at least 2"):
        choose_by_factor_blocks(blocks[:1])
    with pytest.raises(ValueError, match='pass a number, one per output, or "gcv"'):
        chosen_from_factors(blocks[0], "clients")  # type: ignore[arg-type]


def test_each_part_is_left_out_by_merging_the_others() -> None:
    z, y, _ = rows(n=50)
    parts = [RidgeFactors.from_states(z[k::5], y[k::5]) for k in range(5)]
    for k, rest in enumerate(without_each(parts)):
        kept = np.arange(50) % 5 != k
        np.testing.assert_allclose(
            rest.solve(0.1)(z), RidgeFactors.from_states(z[kept], y[kept]).solve(0.1)(z), rtol=1e-9
        )
    assert [one.n_rows for one in without_each(parts[:2])] == [10, 10]
    with pytest.raises(ValueError, match="leaving one out needs at least 2"):
        without_each(parts[:1])
    with pytest.raises(ValueError, match="there are no factors"):
        merged_factors({})


def test_they_travel_and_are_compared_to_the_bit() -> None:
    z, y, weight = rows()
    factors = RidgeFactors.from_states(z, y, weight=weight, fingerprint="f")
    same = RidgeFactors.from_message(factors.parts())
    assert same == factors
    assert factors != RidgeFactors.from_states(z, y, fingerprint="f")
    sums = RidgeStatistics.from_states(z, y, weight=weight, fingerprint="f")
    numbers = (sum(array.size for array in one.parts().arrays) for one in (factors, sums))
    assert len(set(numbers)) == 1
    assert factors + RidgeFactors.from_states(z[:0], y[:0], fingerprint="f") == factors
    # By this the rules on rows per feature know them.
    (known,) = measured(factors)
    assert (known.rows, known.sizes) == (60, {"features": 5, "targets": 2})


def test_what_they_refuse_is_said_in_a_sentence() -> None:
    z, y, _ = rows()
    factors = RidgeFactors.from_states(z, y, fingerprint="f")
    with pytest.raises(TypeError, match="merge the factors of those who stay"):
        factors - factors
    with pytest.raises(FingerprintError, match="do not merge"):
        factors + RidgeFactors.from_states(z, y, fingerprint="g")
    with pytest.raises(TypeError, match="cannot merge RidgeFactors with RidgeStatistics"):
        factors + RidgeStatistics.from_states(z, y)  # type: ignore[operator]
    with pytest.raises(ValueError, match="features and targets do not merge"):
        factors + RidgeFactors.from_states(z[:, :3], y, fingerprint="f")
    with pytest.raises(ValueError, match="equally many rows"):
        RidgeFactors.from_states(z, y[:3])
    with pytest.raises(ValueError, match="one finite, non-negative number per row"):
        RidgeFactors.from_states(z, y, weight=np.full(60, -1.0))
    with pytest.raises(ValueError, match="add data before solving"):
        RidgeFactors.from_states(z[:0], y[:0]).solve(0.1)
    with pytest.raises(ValueError, match="use the features it was trained on"):
        factor_errors(factors, [RidgeFactors.from_states(z[:, :2], y).solve(1.0)])
    with pytest.raises(SingularError, match="6 features in 60 rows have rank 5"):
        RidgeFactors.from_states(np.hstack([z, z[:, :1] + z[:, 1:2]]), y).solve(0.0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"triangle": -1.0}, "factors"),
        ({"cross": np.nan}, "not-finite"),
        ({"n_rows": 0}, "count"),
        ({"weight": 0.0}, "count"),
        ({"fingerprint": "g"}, "fingerprint"),
        ({"feature_mean": 9e9}, "bound"),
        ({"target_triangle": 1e200}, "not-finite"),
    ],
)
def test_no_client_can_send_what_no_rows_have(change: dict[str, Any], code: str) -> None:
    z, y, _ = rows()
    factors = RidgeFactors.from_states(z, y, fingerprint="f")
    check_factors(factors, fingerprint="f", n_features=5, n_targets=2, state_bound=1e4)
    ((name, value),) = change.items()
    before = getattr(factors, name)
    if isinstance(before, np.ndarray):
        value = np.concatenate([[value], before.ravel()[1:]]).reshape(before.shape)
    with pytest.raises(UploadError) as caught:
        check_factors(replace(factors, **{name: value}), fingerprint="f", state_bound=1e4)
    assert caught.value.code == code


def test_nothing_is_computed_from_factors_of_another_size() -> None:
    z, y, _ = rows()
    factors = RidgeFactors.from_states(z, y, fingerprint="f")
    with pytest.raises(UploadError, match="5 features came, 6 are planned"):
        check_factors(factors, fingerprint="f", n_features=6)
    assert "inner" not in vars(factors)


def test_a_message_of_another_shape_is_refused() -> None:
    parts = RidgeFactors.from_states(*rows()[:2]).parts()
    with pytest.raises((UploadError, IntegrityError, ValueError)):
        RidgeFactors.from_message(type(parts)(parts.kind, parts.facts, parts.arrays[:-1]))
    with pytest.raises((UploadError, IntegrityError, ValueError)):
        RidgeFactors.from_message(
            type(parts)(parts.kind, parts.facts, (*parts.arrays[:3], parts.arrays[3][:-1]))
        )


def test_a_noise_free_series_is_predicted_as_from_its_rows() -> None:
    x = mackey_glass(2306)
    features = EchoState(100, washout=100, bits=None).build(1, per_step=True)
    data = Recording(x[:2000], x[6:2006])
    z, later = features.rows([x[:2000]])[0], features.rows([x[2000:2300]])[0]
    y, truth = x[106:2006], x[2106:2306]
    factors = accumulate_factors(features, [data])
    choice, readout = chosen_from_factors(factors, "gcv")
    assert choice is not None
    A = np.vstack([z - z.mean(axis=0), np.sqrt(choice.best) * np.eye(101)])
    b = np.vstack([y - y.mean(axis=0), np.zeros((101, 1))])
    W = np.linalg.lstsq(A, b, rcond=None)[0]
    error = np.linalg.norm((later - z.mean(axis=0)) @ W + y.mean(axis=0) - truth)
    ours = np.linalg.norm(readout(later) - truth)
    assert ours == pytest.approx(error, rel=1e-4)
    from_sums = chosen_readout(accumulate(features, [data]), "gcv")[1]
    assert ours < 0.9 * np.linalg.norm(from_sums(later) - truth)


def test_a_small_ridge_needs_a_washout_that_forgets_the_start() -> None:
    x = mackey_glass(3400)

    def error(washout: int, ridge: float) -> float:
        """Return the root mean square over the first 20 rows of recordings that begin elsewhere."""
        features = EchoState(100, washout=washout, bits=None).build(1, per_step=True)
        data = [Recording(x[k : k + 900], x[k + 6 : k + 906]) for k in (0, 900)]
        readout = accumulate_factors(features, data).solve(ridge)
        ends = range(2200, 3200, 100)
        rows = features.rows([x[end - washout - 20 : end] for end in ends])
        off = [readout(z) - x[end - 14 : end + 6] for z, end in zip(rows, ends, strict=True)]
        return float(np.sqrt(np.square(off).mean()))

    assert error(50, 1e-6) < 3 * error(200, 1e-6)
    assert error(50, 1e-14) > 5 * error(200, 1e-14)
