"""Autocovariances against the Gram of rows, and the Yule-Walker equations against plain numpy."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_toeplitz

from catchment.errors import UploadError
from catchment.readout import Autocovariances, Equations, autocovariances, choose
from catchment.wire import Message

UNIT = 2**12


def whole(n: int, seed: int = 0) -> Any:
    """Return a series of integers, as inputs whose fixed point they are."""
    return np.random.default_rng(seed).integers(-9_000, 9_000, size=n)


def sums_of(x: Any, lags: int, **more: Any) -> Autocovariances:
    return autocovariances(np.asarray(x, float)[:, None] / UNIT, lags, **more)


def rows_of(x: Any, L: int, H: int) -> tuple[Any, Any]:
    """Return windows (n, L), the newest value first, and what follows them (n, H)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, L + H)
    return windows[:, :L][:, ::-1], windows[:, L:]


def test_a_circular_series_has_the_gram_to_the_integer() -> None:
    L, H, n = 7, 5, 60
    x = whole(n)
    around = np.concatenate([x, x[: L + H - 1]])
    z, y = rows_of(around, L, H)
    assert len(z) == n  # every window of the circle once
    # What the first values of the circle have among themselves is there twice.
    r = (sums_of(around, L + H) - sums_of(x[: L + H - 1], L + H)).products[0]
    ages = np.arange(L)
    assert (z.T @ z == r[np.abs(ages[:, None] - ages)]).all()
    assert (z.T @ y == r[ages[:, None] + np.arange(1, H + 1)]).all()


def test_what_differs_from_the_gram_are_products_at_the_ends() -> None:
    L, H, T = 6, 4, 80
    x = whole(T, 1)
    z, y = rows_of(x, L, H)
    r = sums_of(x, L + H).products[0]
    for d in range(L):
        for e in range(L):
            k, late = abs(d - e), min(d, e)
            # The newer of both is at t - late, and t runs from L - 1 to T - H - 1.
            first = [x[s] * x[s - k] for s in range(k, L - 1 - late)]
            last = [x[s] * x[s - k] for s in range(max(k, T - H - late), T)]
            assert (z.T @ z)[d, e] == r[k] - sum(first) - sum(last)
        for h in range(1, H + 1):
            k = d + h
            first = [x[s] * x[s - k] for s in range(k, L - 1 + h)]
            last = [x[s] * x[s - k] for s in range(max(k, T - H + h), T)]
            assert (z.T @ y)[d, h - 1] == r[k] - sum(first) - sum(last)


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    lags=st.integers(1, 12),
    gaps=st.lists(st.integers(0, 149), max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_segments_in_order_are_the_series_in_one_piece(
    lengths: list[int], lags: int, gaps: list[int], order: Any
) -> None:
    T = sum(lengths)
    x = whole(150, 2)[:T, None] / UNIT
    x[[g for g in gaps if g < T]] = np.nan
    z, steps = np.sin(np.arange(2 * T)).reshape(T, 2), range(1, lags)

    def sums(start: int, stop: int, first: int) -> Autocovariances:
        here = slice(start, stop)
        about: Any = {"known": z[here, :1], "present": z[here, 1:], "steps": steps, "first": first}
        return autocovariances(x[here], lags, **about)

    pieces, begin = [], 0
    for n in lengths:
        early = min(begin, lags - 1)
        pieces.append(sums(begin - early, begin + n, early))
        begin += n
    order.shuffle(pieces)
    assert reduce(add, pieces).digest() == sums(0, T, 0).digest()


@settings(deadline=None)
@given(cut=st.integers(1, 79), lags=st.integers(1, 20), seed=st.integers(0, 99))
def test_sums_are_those_of_an_oracle_and_add(cut: int, lags: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(80, 2))
    x[np.random.default_rng(seed + 1).random(x.shape) < 0.2] = np.nan
    found = autocovariances(x, lags)
    q = [[None if np.isnan(v) else round(v * UNIT) for v in row] for row in x]
    for k in range(lags):
        pairs = [
            (q[t - k][c], q[t][c])
            for c in range(2)
            for t in range(k, 80)
            if q[t][c] is not None and q[t - k][c] is not None
        ]
        assert found.products[0, k] == sum(a * b for a, b in pairs)  # type: ignore[operator]
        assert found.pairs[0, k] == len(pairs)
    # Channels, and recordings, are added in any order.
    apart = [autocovariances(x[:, [c]], lags) for c in (1, 0)]
    assert (apart[0] + apart[1]).digest() == found.digest()
    one, other = autocovariances(x[:cut], lags), autocovariances(x[cut:], lags)
    assert (one + other - one).digest() == other.digest()
    assert (other + one).digest() == (one + other).digest()
    assert Autocovariances.from_message(Message.from_bytes(found.parts().to_bytes())) == found


def test_one_step_ahead_are_the_equations_of_yule_and_walker() -> None:
    x = np.cumsum(np.random.default_rng(3).normal(size=500)) / 9
    sums = autocovariances(x[:, None], 12)
    r = sums.products[0] / sums.pairs[0, 0]
    W, _ = Equations(sums, 8, 0, (1, 4), (1, 4)).solve(0.0)
    np.testing.assert_allclose(W[:, 0], solve_toeplitz(r[:8], r[1:9]), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(W[:, 1], solve_toeplitz(r[:8], r[4:12]), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mean", [0, 1, 3, 6])
def test_a_circle_solves_as_ridge_regression_on_its_rows_does(mean: int) -> None:
    L, H, n, ridge = 6, 3, 200, 0.05
    x = whole(n, 4) / UNIT
    around = np.concatenate([x, x[: L + H - 1]])[:, None]
    sums = autocovariances(around, L + H) - autocovariances(around[: L + H - 1], L + H)
    z, y = rows_of(around[:, 0], L, H)
    level = z[:, :mean].mean(axis=1, keepdims=True) if mean else np.zeros((n, 1))
    a, b = z - level, y - level
    wanted = np.linalg.solve(a.T @ a / n + ridge * (x @ x) / n * np.eye(L), a.T @ b / n)
    made = Equations(sums, L, mean, (1, 2, 3), (1, 2, 3))
    W, V = made.solve(ridge)
    np.testing.assert_allclose(W, wanted, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(z @ made.weights(W), a @ wanted + level, rtol=1e-6, atol=1e-6)
    errors = ((a @ wanted - b) ** 2).mean(axis=0)
    np.testing.assert_allclose(made.errors(W, V), errors, rtol=1e-6)


@pytest.mark.parametrize("mean", [0, 4])
def test_covariates_stand_in_the_equations_as_columns_beside_the_lags(mean: int) -> None:
    L, H, n = 4, 3, 240
    t = np.arange(n + L + H - 1)
    z = np.stack([np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 20)], axis=1)  # divide 240
    x = whole(n, 5)[t % n, None] / UNIT + 2 * z[:, :1] - z[:, 1:]
    parts = []
    for s in (slice(None), slice(0, L + H - 1)):
        about: Any = {"known": z[s, :1], "present": z[s, 1:], "steps": (1, 2, 3)}
        parts.append(autocovariances(x[s], L + H, **about))
    made = Equations(parts[0] - parts[1], L, mean, (1, 3), (1, 2, 3), (True, False))
    W, V = made.solve(0.0)
    rows, ahead = rows_of(x[:, 0], L, H)
    level = rows[:, :mean].mean(axis=1, keepdims=True) if mean else np.zeros((n, 1))
    now = np.arange(L - 1, L - 1 + n)
    for place, h in enumerate((1, 3)):
        design = np.hstack([rows - level, z[now + h, :1], z[now, 1:]])
        target = ahead[:, h - 1] - level[:, 0]
        wanted = np.linalg.lstsq(design, target, rcond=None)[0]
        found = design @ np.concatenate([W[:, place], V[place]])
        np.testing.assert_allclose(found, design @ wanted, atol=5e-3)
        error = ((found - target) ** 2).mean()
        np.testing.assert_allclose(made.errors(W, V)[place], error, rtol=2e-2)


def test_an_error_is_that_on_the_series_with_zeros_around_it() -> None:
    L, steps, T = 6, (1, 3), 300
    x = np.convolve(np.random.default_rng(5).normal(size=T), [1.0, 0.8, 0.5], "same")
    one = sums_of(np.rint(UNIT * x), L + max(steps))
    equations = Equations(one, L, 2, steps, steps)
    W, V = equations.solve(1e-3)
    inputs = equations.weights(W)
    around = np.pad(np.rint(UNIT * x) / UNIT, L + max(steps))
    for h, step in enumerate(steps):
        places = range(L - 1, len(around) - step)
        left = [around[t + step] - around[t - np.arange(L)] @ inputs[:, h] for t in places]
        assert equations.errors(W, V)[h] == pytest.approx(np.sum(np.square(left)) / T)
        inside = left[L + max(steps) : -L - max(steps)]
        assert np.mean(np.square(inside)) < equations.errors(W, V)[h]


def test_settings_are_chosen_by_series_that_are_left_out() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(2_000, 4))
    for step in range(3, 2_000):
        x[step] += 0.7 * x[step - 3]
    parts = [autocovariances(x[:, [c]], 40) for c in range(4)]
    about: Any = {"steps": (1,)}
    tried = [(L, 0) for L in (32, 3, 2)]
    made = choose(reduce(add, parts), parts, tried, (1e-6, 1.0), **about)
    # Two values back say nothing of the third; 32 say no more than three, and are to be learned.
    assert (made.best.lookback, made.best.ridge, made.by) == (3, 1e-6, "clients")
    np.testing.assert_allclose(made.deviations, 1.0, atol=0.05)
    alone = choose(reduce(add, parts), (), tried, (1e-6, 1.0), **about)
    assert (alone.best.lookback, alone.by) == (3, "gcv")


def test_a_level_is_forgotten_or_not() -> None:
    rng = np.random.default_rng(7)
    steps = rng.normal(size=(1_000, 3))
    assert autocovariances(steps / 2, 50).forgets
    assert not autocovariances(np.cumsum(steps, axis=0) / 20, 50).forgets
    assert not autocovariances(np.ones((100, 1)), 10).forgets


def test_sums_that_no_series_has_are_refused() -> None:
    good = autocovariances(np.random.default_rng(8).normal(size=(50, 1)), 5, fingerprint="f")
    plan = autocovariances(np.empty((0, 1)), 5, fingerprint="f")
    good.check(plan)
    more = good.products.copy()
    more[0, 2] = more[0, 0] + 1
    for wrong, code in (
        (replace(good, products=more), "bound"),
        (replace(good, n_rows=49), "count"),
        (replace(good, products=good.products * 10**9), "bound"),
        (replace(good, products=good.products / 1.0), "type"),
        (replace(good, squares=np.zeros((2, 2), dtype=np.int64)), "shape"),
        (autocovariances(np.ones((9, 1)), 6, fingerprint="f"), "shape"),
        (autocovariances(np.ones((9, 1)), 5, fingerprint="g"), "fingerprint"),
    ):
        with pytest.raises(UploadError) as caught:
            wrong.check(plan)
        assert caught.value.code == code
