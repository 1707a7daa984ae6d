"""Streams against batches: forgetting, the sliding window, and inputs that stop varying."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from catchment import Array
from catchment.errors import FingerprintError
from catchment.readout import BLOCK, OnlineRidge, RidgeStatistics


def rows(n: int, F: int = 4, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(0.5, 1.0, size=(n, F))
    return z, z @ rng.normal(size=(F, 2)) + 0.1 * rng.normal(size=(n, 2)) + 1.0


chunks = st.lists(st.integers(1, 2 * BLOCK), min_size=1, max_size=5)


@settings(max_examples=20)
@given(sizes=chunks, forgetting=st.floats(0.9, 1.0), intercept=st.booleans())
def test_any_chunking_is_weighted_ridge_on_all_rows(
    sizes: list[int], forgetting: float, intercept: bool
) -> None:
    z, y = rows(sum(sizes))
    online = OnlineRidge.start(4, 2, forgetting=forgetting, ridge=0.3, intercept=intercept)
    for part in zip(*(np.split(a, np.cumsum(sizes)[:-1]) for a in (z, y)), strict=True):
        online = online.update(*part)
    weight = forgetting ** np.arange(len(z) - 1.0, -1.0, -1.0)
    theirs = Ridge(alpha=0.3, solver="svd", fit_intercept=intercept)
    theirs.fit(z, y, sample_weight=weight)
    assert online.statistics.n_rows == len(z)
    np.testing.assert_allclose(online.readout()(z), theirs.predict(z), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_constant_inputs_leave_the_readout_finite_where_recursive_least_squares_blows_up(
    intercept: bool,
) -> None:
    z, y, forgetting = np.array([[0.3, -0.7, 0.5]]), np.array([[2.0]]), 0.98
    online = OnlineRidge.start(3, 1, forgetting=forgetting, ridge=1e-4, intercept=intercept)
    P, w, largest = np.eye(3) / 1e-4, np.zeros((3, 1)), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(40_000):
            online = online.update(z, y)
            gain = P @ z.T / (forgetting + z @ P @ z.T)
            w += gain @ (y - z @ w)
            P = (P - gain @ z @ P) / forgetting
            # What follows on an overflow depends on the processor's rounding.
            largest = max(largest, float(np.abs(P).max()))
    assert largest > 1e15
    readout = online.readout()
    assert np.isfinite(readout.weights).all()
    G = 50 * z.T @ z
    expected = np.linalg.solve(G + 1e-4 * np.eye(3), 50 * z.T @ y)
    if intercept:
        expected = np.zeros((3, 1))
    np.testing.assert_allclose(readout.weights, expected, atol=1e-9)
    np.testing.assert_allclose(readout(z), y, atol=1e-5)
    varied = online.update(*(a[:, :k] for a, k in zip(rows(2000, 3), (3, 1), strict=True)))
    assert np.isfinite(varied.readout().weights).all()


def test_forgetting_follows_a_change_that_plain_statistics_average_over() -> None:
    z, y = rows(600)
    y[300:] = -y[300:]
    quick = OnlineRidge.start(4, 2, forgetting=0.95).update(z, y).readout()
    slow = OnlineRidge.start(4, 2).update(z, y).readout()
    error = [np.abs(readout(z[500:]) - y[500:]).mean() for readout in (quick, slow)]
    assert error[0] < 0.2
    assert error[1] > 5 * error[0]


def test_a_missing_target_ages_the_others_and_adds_nothing() -> None:
    z, y = rows(6)
    gaps = y.copy()
    gaps[[2, 5], 0] = np.nan
    s = OnlineRidge.start(4, 2, forgetting=0.5).update(z, gaps).statistics
    known = [0, 1, 3, 4]
    expected = RidgeStatistics.from_states(
        z[known], y[known], weight=0.5 ** (5.0 - np.array(known))
    )
    assert s == expected


def test_a_state_is_a_value_and_earlier_ones_stay_as_they_were() -> None:
    z, y = rows(BLOCK + 40)
    first = OnlineRidge.start(4, 2).update(z[:30], y[:30])
    second = first.update(z[30:], y[30:])
    assert first.statistics == RidgeStatistics.from_states(z[:30], y[:30], weight=np.ones(30))
    assert second.statistics.n_rows == BLOCK + 40
    window = OnlineRidge.start(4, 2, length=50).update(z[:30], y[:30])
    window.update(z[30:], y[30:])
    assert window.statistics == RidgeStatistics.from_states(z[:30], y[:30])


def test_a_callers_buffer_may_be_reused() -> None:
    z, y = rows(1)
    online, window = OnlineRidge.start(4, 2), OnlineRidge.start(4, 2, length=3)
    online, window = online.update(z, y), window.update(z, y)
    expected = z[0].copy()
    z[:] = 99.0
    np.testing.assert_array_equal(online.statistics.feature_sum, expected)
    np.testing.assert_array_equal(window.statistics.feature_sum, expected)


@settings(max_examples=20)
@given(sizes=chunks, length=st.integers(1, 300))
def test_the_window_holds_exactly_the_last_rows(sizes: list[int], length: int) -> None:
    z, y = rows(sum(sizes))
    window = OnlineRidge.start(4, 2, length=length, ridge=0.3)
    for part in zip(*(np.split(a, np.cumsum(sizes)[:-1]) for a in (z, y)), strict=True):
        window = window.update(*part)
    last_z, last_y = z[-length:], y[-length:]
    theirs = Ridge(alpha=0.3, solver="svd").fit(last_z, last_y)
    assert window.statistics.n_rows == min(length, len(z))
    np.testing.assert_allclose(window.readout()(z), theirs.predict(z), rtol=1e-7, atol=1e-8)


def test_the_window_does_not_drift_over_many_steps() -> None:
    z, y = rows(20_000, F=6, seed=2)
    z[:10_000] *= 1e3
    window = OnlineRidge.start(6, 2, length=500, ridge=1e-3)
    for t in range(0, 20_000, 7):
        window = window.update(z[t : t + 7], y[t : t + 7])
    batch = RidgeStatistics.from_states(z[-500:], y[-500:])
    for name in ("gram", "cross", "feature_sum", "target_gram"):
        ours, theirs = getattr(window.statistics, name), getattr(batch, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
    np.testing.assert_allclose(window.readout().weights, batch.solve(1e-3).weights, rtol=1e-9)


def test_missing_targets_take_their_place_in_the_window() -> None:
    z, y = rows(300)
    y[::3, 1] = np.nan
    window = OnlineRidge.start(4, 2, length=90)
    for t in range(300):
        window = window.update(z[t : t + 1], y[t : t + 1])
    expected = RidgeStatistics.from_states(z[-90:], y[-90:])
    assert window.statistics.n_rows == expected.n_rows == 60
    np.testing.assert_allclose(window.statistics.gram, expected.gram, rtol=1e-12)


def test_fingerprints_travel_with_the_stream() -> None:
    z, y = rows(10)
    online = OnlineRidge.start(4, 2, fingerprint="f").update(z, y)
    window = OnlineRidge.start(4, 2, length=5, fingerprint="f").update(z, y)
    assert online.statistics.fingerprint == window.statistics.fingerprint == "f"
    with pytest.raises(FingerprintError):
        online.statistics + RidgeStatistics.from_states(z, y)


@pytest.mark.parametrize("forgetting", [0.0, -0.5, 1.01, float("nan")])
def test_wrong_forgetting_is_refused(forgetting: float) -> None:
    with pytest.raises(ValueError, match="forgetting is"):
        OnlineRidge.start(2, 1, forgetting=forgetting)


def test_wrong_streams_are_refused() -> None:
    z, y = rows(3)
    with pytest.raises(ValueError, match="length is 0; give an integer, 1 or more"):
        OnlineRidge.start(4, 2, length=0)
    for state in (OnlineRidge.start(4, 2), OnlineRidge.start(4, 2, length=5)):
        with pytest.raises(ValueError, match=r"pass \(n, 4\) and \(n, 2\)"):
            state.update(z, y[:2])
        with pytest.raises(ValueError, match=r"pass \(n, 4\)"):
            state.update(z[:, :3], y)
        with pytest.raises(ValueError, match="features are not finite at row 1"):
            state.update(np.where(np.arange(3)[:, None] == 1, np.nan, z), y)
        with pytest.raises(ValueError, match="targets are not finite"):
            state.update(z, np.full((3, 2), np.inf))
        with pytest.raises(ValueError, match="0 rows"):
            state.readout()
        assert state.update(z[:0], y[:0]).statistics.n_rows == 0
    with pytest.raises(ValueError, match="ridge"):
        OnlineRidge.start(4, 2, ridge=-1.0)
