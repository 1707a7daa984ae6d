"""Readouts of one's own: the path against augmented least squares, and no harm done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import lstsq
from sklearn.metrics import accuracy_score

from catchment import Array
from catchment.data import ACTIVITIES, Recording, synthetic_wearables
from catchment.features import EchoState, FeatureMap, Reservoir
from catchment.federation import Rows
from catchment.federation.learn import (
    STRENGTHS,
    own_readout,
    smallest_good_step,
    towards,
)
from catchment.readout import Model, Readout, RidgeStatistics, train

pytestmark = pytest.mark.processor

seeds = st.integers(0, 2**32 - 1)
POOLED = EchoState.of(Reservoir(units=10, inputs=6, seed=2), pool="mean_std")
PER_STEP = EchoState.of(Reservoir(units=10, inputs=1, seed=2), washout=6)
PEOPLE = synthetic_wearables(8, seed=4, windows_per_user=40)


@dataclass(frozen=True)
class Inputs(FeatureMap):
    """A feature map whose rows are the inputs."""

    per_step: bool = True
    washout: int = 0
    n_features = 4
    bounds = np.full(4, np.inf)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return list(inputs)


def problem(seed: int, n: int = 40) -> tuple[Array, Array, Readout]:
    rng = np.random.default_rng(seed)
    z, y = rng.normal(1.0, 2.0, size=(n, 4)), rng.normal(size=(n, 2))
    return z, y, Readout(rng.normal(size=(4, 2)), rng.normal(size=2))


@settings(max_examples=25)
@given(seed=seeds, strength=st.floats(1e-3, 1e3))
def test_ridge_towards_the_shared_readout_is_augmented_least_squares(
    seed: int, strength: float
) -> None:
    z, y, shared = problem(seed)
    (ours,) = towards(RidgeStatistics.from_states(z, y), shared, [strength])
    Z = np.column_stack([z, np.ones(len(z))])
    V = np.vstack([shared.weights, shared.intercept])
    pull = np.sqrt(strength * (Z**2).sum() / Z.shape[1])
    expected = lstsq(np.vstack([Z, pull * np.eye(5)]), np.vstack([y, pull * V]))[0]
    np.testing.assert_allclose(ours.weights, expected[:-1], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.intercept, expected[-1], rtol=1e-8, atol=1e-9)


def test_the_path_leads_from_the_shared_readout_to_ones_own() -> None:
    z, y, shared = problem(1)
    own = RidgeStatistics.from_states(z, y)
    far, near = towards(own, shared, [1e12, 1e-12])
    np.testing.assert_allclose(far.weights, shared.weights, rtol=1e-9)
    np.testing.assert_allclose(far.intercept, shared.intercept, rtol=1e-9)
    np.testing.assert_allclose(near(z), own.solve(0.0)(z), rtol=1e-7, atol=1e-9)
    assert list(STRENGTHS) == sorted(STRENGTHS, reverse=True)


def test_blocks_are_in_time_and_have_every_class() -> None:
    person = PEOPLE[min(PEOPLE)]
    blocks = Rows.of(POOLED, person).blocks(4)
    z = np.concatenate([block.z for block in blocks])
    rows = np.concatenate([POOLED(s.u) for s in person])
    np.testing.assert_allclose(z[z[:, 0].argsort()], rows[rows[:, 0].argsort()], rtol=1e-9)
    frequent = [k for k in range(6) if sum(int(np.asarray(s.y).argmax()) == k for s in person) >= 4]
    for block in blocks:
        assert set(frequent) <= set(block.y.argmax(axis=1).tolist())
    series = Recording(np.sin(np.arange(46)), np.arange(46.0))
    steps = Rows.of(PER_STEP, [series]).blocks(4)
    assert [block.y[0, 0] for block in steps] == [6.0, 16.0, 26.0, 36.0]
    assert Rows.of(PER_STEP, [replace(series, y=np.full((46, 1), np.nan))]).blocks(4) == []
    with pytest.raises(ValueError, match="no recordings"):
        Rows.of(PER_STEP, [])


def test_blocks_need_targets_of_the_right_kind() -> None:
    with pytest.raises(ValueError, match="no target"):
        Rows.of(PER_STEP, [Recording(np.zeros(20))])
    with pytest.raises(ValueError, match="one target per recording"):
        Rows.of(POOLED, [Recording(np.zeros((20, 6)), np.zeros((20, 6)))])


def first_half(person: list[Recording]) -> tuple[list[Recording], list[Recording]]:
    """Return the first half of a person's recordings of each class, and the others."""
    earlier: list[Recording] = []
    for k in range(6):
        mine = [s for s in person if int(np.asarray(s.y).argmax()) == k]
        earlier += mine[: len(mine) // 2]
    return earlier, [s for s in person if not any(s is one for one in earlier)]


def test_the_smallest_good_step_stays_at_home_when_in_doubt() -> None:
    rows = np.full(4, 10.0)
    noise = np.array([[0.0, 0.1], [0.0, -0.1], [0.0, 0.1], [0.0, -0.11]]) + 1.0
    assert smallest_good_step(noise, rows) == 0
    clear = np.array([[1.0, 0.6, 0.59], [1.1, 0.7, 0.72], [0.9, 0.5, 0.48], [1.0, 0.6, 0.59]])
    assert smallest_good_step(clear, rows) == 1
    assert smallest_good_step(np.ones((4, 3)), rows) == 0
    assert smallest_good_step(1.0 / np.array([[1.0, 2.0, 9.0]] * 4), rows) == 2


def personalize(shared: Readout, z: Array, y: Array, n_blocks: int) -> Any:
    """Return the readout of one's own for features (n, F) and targets (n, K) of one recording."""
    return own_readout(Inputs(), shared, [Recording(z, y)], standardize=False, n_blocks=n_blocks)


def test_one_who_is_different_moves_and_one_who_is_alike_stays() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 4))
    shared = Readout(np.ones((4, 1)), np.zeros(1))
    alike = z @ np.ones((4, 1)) + rng.normal(size=(100, 1))
    different = z @ np.array([[1.0], [1.0], [-2.0], [1.0]]) + 0.3 * rng.normal(size=(100, 1))

    stays = personalize(shared, z, alike, 5)
    moves = personalize(shared, z, different, 5)
    assert stays.step == 0
    assert stays.readout is shared
    assert moves.step > 0
    assert moves.errors[moves.step] < 0.2 * moves.errors[0]
    new = rng.normal(size=(500, 4))
    truth = new @ np.array([[1.0], [1.0], [-2.0], [1.0]])
    assert ((moves.readout(new) - truth) ** 2).mean() < 0.05 * ((shared(new) - truth) ** 2).mean()
    with pytest.raises(ValueError, match="at least 2"):
        personalize(shared, z, alike, 1)


def shared_model(names: list[str]) -> Model:
    data = [s for name in names for s in PEOPLE[name]]
    return train(POOLED, data, 1e-1, classes=ACTIVITIES)


NEW = sorted(PEOPLE)[4:]


def test_it_helps_new_people_on_average() -> None:
    model = shared_model(sorted(PEOPLE)[:4])
    gains, moved = [], 0
    for name in NEW:
        earlier, later = first_half(PEOPLE[name])
        own = own_readout(POOLED, model.readout, earlier, classes=True)
        truth = [ACTIVITIES[int(np.asarray(s.y).argmax())] for s in later]
        mine = replace(model, readout=own.readout, statistics=None)
        shared, personal = (accuracy_score(truth, one.classify(later)) for one in (model, mine))
        gains.append(personal - shared)
        moved += own.step > 0
    assert moved > 0
    assert np.mean(gains) > 0


def test_each_error_is_that_of_a_readout_fitted_without_the_block() -> None:
    """The choice is made on rows that the readout has not seen: compared with explicit folds."""
    rng = np.random.default_rng(7)
    z = rng.normal(size=(60, 4))
    y = z @ rng.normal(size=(4, 2)) + 0.7 * rng.normal(size=(60, 2))
    shared = Readout(rng.normal(size=(4, 2)), rng.normal(size=2))
    found = personalize(shared, z, y, 4)
    fold = Rows.of(Inputs(), [Recording(z, y)]).folds(4)
    squares = np.zeros(1 + len(STRENGTHS))
    V = np.vstack([shared.weights, shared.intercept])
    for k in range(4):
        out, rest = fold == k, fold != k
        squares[0] += ((shared(z[out]) - y[out]) ** 2).sum()
        Z, new = (np.column_stack([one, np.ones(len(one))]) for one in (z[rest], z[out]))
        for step, strength in enumerate(STRENGTHS, start=1):
            pull = np.sqrt(strength * (Z**2).sum() / Z.shape[1])
            weights = lstsq(np.vstack([Z, pull * np.eye(5)]), np.vstack([y[rest], pull * V]))[0]
            squares[step] += ((new @ weights - y[out]) ** 2).sum()
    np.testing.assert_allclose(found.errors, squares / 60, rtol=1e-6)
