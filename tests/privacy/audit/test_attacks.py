"""The attacks' own arithmetic, and what they recover."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

from benchmarks.attacks import counts_from_moments
from catchment import Array, MixedActivation, Recording, Reservoir
from catchment.features import EchoState
from catchment.readout import RidgeStatistics, accumulate
from catchment_lab.audit import (
    Drive,
    Walk,
    added_row,
    area_under_curve,
    class_counts,
    class_means,
    first_input,
    input_between,
    leverage,
    membership_score,
    minimize,
    place_of,
    solvable,
    window_of,
)
from catchment_research.plasticity import IntrinsicPlasticity, plasticity_of

pytestmark = pytest.mark.slow


def reservoir(units: int = 60, inputs: int = 2, **settings: Any) -> Reservoir:
    return Reservoir(units=units, inputs=inputs, seed=3, **settings)


def wander(T: int, I: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(0.3 * np.cumsum(rng.normal(size=(T, I)), axis=0))


MIXED = MixedActivation(tanh=0.4, sigmoid=0.2, sin=0.2, relu=0.1, identity=0.1)


@pytest.mark.parametrize("settings", [{"leak_rate": 0.4}, {"activation": MIXED}])
@pytest.mark.parametrize("bias", [False, True])
def test_an_attackers_steps_are_the_librarys(settings: dict[str, Any], bias: bool) -> None:
    F = EchoState.of(reservoir(**settings), bias=bias)
    u, drive, x = wander(6, 2, 0), Drive(F), np.zeros(60)
    for t, row in enumerate(F(u)):
        ours, _, x, _ = drive.step(x, u[t])
        np.testing.assert_allclose(ours[1:], row, atol=1e-12)
        assert ours[0] == 1


def test_derivatives_of_a_deep_stack_are_right() -> None:
    deep = Reservoir.of_layers((*reservoir(20).layers, *reservoir(15, 20, leak_rate=0.5).layers))
    drive, rng = Drive(EchoState.of(deep)), np.random.default_rng(1)
    x, u = 0.1 * rng.normal(size=35), rng.normal(size=2)
    _, by_input, _, _ = drive.step(x, u)
    for k in range(2):
        h = 1e-6 * np.eye(2)[k]
        numeric = (drive.step(x, u + h)[0] - drive.step(x, u - h)[0]) / 2e-6
        np.testing.assert_allclose(by_input[:, k], numeric, atol=1e-8)


@pytest.mark.parametrize("pool", ["last", "mean", "mean_std", "max"])
@pytest.mark.parametrize("segments", [1, 3])
def test_windows_and_their_derivatives(pool: str, segments: int) -> None:
    F = EchoState.of(reservoir(15), pool=pool, segments=segments, washout=1)  # type: ignore[arg-type]
    u, drive = wander(8, 2, 2), Drive(F)
    row, by_input = drive.window(u)
    np.testing.assert_allclose(row[1:], F(u)[0], atol=1e-12)
    for place in (3, 8, 15):
        h = np.zeros(16)
        h[place] = 1e-6
        up, down = (drive.window(u + sign * h.reshape(8, 2))[0] for sign in (1, -1))
        np.testing.assert_allclose(by_input[:, place], (up - down) / 2e-6, atol=1e-6)


def test_least_squares_finds_a_known_minimum() -> None:
    def residual(v: Array) -> tuple[Array, Array]:  # Rosenbrock
        r = np.array([1 - v[0], 10 * (v[1] - v[0] ** 2)])
        return r, np.array([[-1.0, 0.0], [-20 * v[0], 10.0]])

    at, cost = minimize(residual, np.array([-1.2, 1.0]), steps=200)
    np.testing.assert_allclose(at, [1, 1], atol=1e-8)
    assert cost < 1e-16


@pytest.mark.parametrize("n_clients", [2, 4])
def test_a_thin_sum_gives_every_clients_sequence(n_clients: int) -> None:
    F = EchoState.of(reservoir(100, 1, leak_rate=1.0), input=False)
    us = [wander(12, 1, seed) for seed in range(n_clients)]
    total = reduce(add, [accumulate(F, [Recording(u, np.ones(12))]) for u in us])
    walk = Walk(Drive(F), total, guesses=40)
    found = [*walk.sequences(longest=12), *walk.fragments(longest=12)]
    for u in us:
        assert max(len(f) for f in found if place_of(f, u)[1] < 1e-6) >= 8


def test_a_thin_sum_gives_fragments_after_a_washout() -> None:
    F = EchoState.of(reservoir(100, 1, leak_rate=0.5), washout=15)
    us = [wander(30, 1, seed) for seed in range(3)]
    total = reduce(add, [accumulate(F, [Recording(u, np.ones(30))]) for u in us])
    found = Walk(Drive(F), total, guesses=20).fragments(longest=15)
    hit = {k for f in found for k, u in enumerate(us) if place_of(f, u)[1] < 1e-6}
    assert len(found) >= 2
    assert len(hit) >= 2


def test_a_walk_needs_more_directions_than_inputs() -> None:
    F = EchoState.of(reservoir(30, 2))
    few = accumulate(F, [Recording(wander(31, 2, 0), np.ones((31, 1)))])
    assert not Walk(Drive(F), few).exact
    assert Walk(Drive(F), few).fragments(5) == []


def test_class_counts_and_means() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0, 0, 1, 2, 2, 2])
    z, y = rng.normal(size=(6, 8)), np.eye(3)[labels]
    s = RidgeStatistics.from_states(z, y)
    np.testing.assert_array_equal(class_counts(s), [2, 1, 3])
    np.testing.assert_allclose(counts_from_moments(s), [2, 1, 3], atol=1e-8)
    np.testing.assert_allclose(class_means(s)[1], z[2], atol=1e-12)
    np.testing.assert_allclose(class_means(s)[2], z[3:].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("settings", [{"leak_rate": 0.3}, {"activation": "sigmoid"}])
def test_differences_give_the_input(settings: dict[str, Any]) -> None:
    F = EchoState.of(reservoir(**settings), input=False)
    u = wander(50, 2, 1)
    z, y = F(u), np.ones((50, 1))
    s = [RidgeStatistics.from_states(z[:n], y[:n]) for n in (47, 48, 49)]
    first, second = added_row(s[0], s[1])[0], added_row(s[1], s[2])[0]
    found = input_between(first, second, Drive(F))
    assert found is not None
    np.testing.assert_allclose(found, u[48], atol=1e-9)


def test_an_input_may_not_follow_in_closed_form() -> None:
    relu = EchoState.of(reservoir(activation="relu"), input=False)
    pooled = EchoState.of(reservoir(), pool="mean")
    for F in (relu, pooled):
        row = np.zeros(F.n_features)
        assert input_between(row, row, Drive(F)) is None


@pytest.mark.parametrize("pool", ["mean", "last", "mean_std"])
def test_a_short_window_follows_from_its_pooled_features(pool: str) -> None:
    F = EchoState.of(reservoir(80, 2, leak_rate=1.0), input=False, pool=pool)  # type: ignore[arg-type]
    u = 0.5 * wander(8, 2, 5)
    assert solvable(Drive(F), 8)
    found, misfit = window_of(F(u)[0], Drive(F), 8)
    assert misfit < 1e-6
    assert np.corrcoef(found.ravel(), u.ravel())[0, 1] > 0.999
    assert not solvable(Drive(F), 100)


def test_members_of_a_small_sum_are_told_from_others() -> None:
    F = EchoState.of(reservoir(30, 1))

    def client(seed: int) -> RidgeStatistics:
        u = wander(40, 1, seed)
        return accumulate(F, [Recording(u, np.ones(40))])

    members, others = [client(k) for k in range(5)], [client(100 + k) for k in range(5)]
    total = reduce(add, members)
    inside = np.array([membership_score(total, m) for m in members])
    outside = np.array([membership_score(total, o) for o in others])
    assert (inside <= 1 + 1e-6).all()
    assert area_under_curve(inside, outside) == 1.0


def test_leverage_of_members_is_at_most_one() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40, 6))
    s = RidgeStatistics.from_states(z, np.ones((40, 1)))
    Z = np.column_stack([np.ones(40), z])
    expected = np.diag(Z @ np.linalg.inv(Z.T @ Z) @ Z.T)
    np.testing.assert_allclose(leverage(s, z), expected, rtol=1e-8)
    thin = RidgeStatistics.from_states(z[:3], np.ones((3, 1)))
    assert (leverage(thin, z[:3]) < 1 + 1e-3).all()
    assert (leverage(thin, z[3:]) > 10).all()


def test_one_step_of_plasticity_gives_the_input() -> None:
    r = reservoir(50, 3)
    u = wander(1, 3, 7)
    gain, shift = plasticity_of(r)
    after = plasticity_of(IntrinsicPlasticity(learning_rate=1e-3).adapt(r, [u]))
    changes = after[0] - gain, after[1] - shift
    found = first_input(*changes, Drive(EchoState.of(r)), learning_rate=1e-3)
    np.testing.assert_allclose(found, u[0], atol=1e-8)
