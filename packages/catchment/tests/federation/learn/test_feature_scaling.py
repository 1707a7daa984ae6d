"""Scaling and class balance from statistics against scikit-learn on scaled and weighted rows."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from catchment import Array
from catchment.data import ACTIVITIES, Recording, Scaler, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import FingerprintError, TooFewClientsError, UploadError
from catchment.features import EchoState, Recipe, Reservoir
from catchment.federation import Plan, Rows, Turn
from catchment.federation.learn import BalancedRidge, StatisticsSet, class_weights, input_scaler
from catchment.federation.learn.scaling import balanced
from catchment.readout import (
    RidgeStatistics,
    accumulate,
    feature_scale,
    for_raw_features,
    rescaled,
)

seeds = st.integers(0, 2**32 - 1)
POOLED = EchoState.of(Reservoir.from_recipe(Recipe(units=8, inputs=6, seed=2)), pool="mean_std")
PEOPLE = synthetic_wearables(4, seed=1, windows_per_user=20)


def rows(seed: int, n: int = 70, F: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, F)) * rng.uniform(0.01, 30, F) + rng.normal(size=F)
    return z, z @ rng.normal(size=(F, 2)) + rng.normal(size=(n, 2))


def labelled(seed: int, sizes: tuple[int, ...] = (60, 25, 8)) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(size=(len(sizes), 4)) * 2
    return centres[labels] + rng.normal(size=(len(labels), 4)), np.eye(len(sizes))[labels]


@settings(max_examples=25)
@given(seed=seeds, ridge=st.floats(1e-2, 100.0), cut=st.integers(1, 69))
def test_the_congruence_is_scikit_learns_scaling_of_the_rows(
    seed: int, ridge: float, cut: int
) -> None:
    z, y = rows(seed)
    parts = [
        RidgeStatistics.from_states(z[:cut], y[:cut]),
        RidgeStatistics.from_states(z[cut:], y[cut:]),
    ]
    scale = feature_scale(parts[0] + parts[1])
    np.testing.assert_allclose(scale, StandardScaler().fit(z).scale_, rtol=1e-9)
    total = reduce(add, (rescaled(part, scale) for part in parts))
    readout = for_raw_features(total.solve(ridge), scale)
    scaled = StandardScaler().fit_transform(z)
    theirs = Ridge(alpha=ridge, solver="svd").fit(scaled, y)
    np.testing.assert_allclose(readout(z), theirs.predict(scaled), rtol=1e-7, atol=1e-7)


def test_constant_features_keep_their_scale() -> None:
    z = np.column_stack([np.full(9, 3.0), np.arange(9.0)])
    scale = feature_scale(RidgeStatistics.from_states(z, z[:, :1]))
    np.testing.assert_allclose(scale, [1.0, z[:, 1].std()])


def test_statistics_of_different_scales_do_not_add() -> None:
    s = RidgeStatistics.from_states(*rows(0), fingerprint="f")
    with pytest.raises(FingerprintError):
        rescaled(s, np.full(5, 2.0)) + s
    with pytest.raises(FingerprintError):
        rescaled(s, np.full(5, 2.0)) + rescaled(s, np.full(5, 3.0))
    twice = rescaled(s, np.full(5, 2.0)) + rescaled(s, np.full(5, 2.0))
    assert twice.n_rows == 140


@pytest.mark.parametrize("scale", [np.ones(4), np.zeros(5), -np.ones(5), np.full(5, np.nan)])
def test_wrong_scales_are_named(scale: Array) -> None:
    with pytest.raises(ValueError, match="one positive number for each of 5"):
        rescaled(RidgeStatistics.from_states(*rows(0)), scale)


def test_no_rows_have_no_scale() -> None:
    with pytest.raises(ValueError, match="add data first"):
        feature_scale(RidgeStatistics.zero(2, 1))


@pytest.mark.parametrize("bias", [True, False])
def test_the_scaler_of_the_inputs_is_read_off_the_statistics(bias: bool) -> None:
    features = EchoState.of(Reservoir.from_recipe(Recipe(units=5, inputs=2)), bias=bias, washout=3)
    rng = np.random.default_rng(0)
    data = [Recording(rng.normal(2.0, 3.0, size=(40, 2)), rng.normal(size=40)) for _ in range(3)]
    ours = input_scaler(features, accumulate(features, data))
    theirs = Scaler.fit([replace(s, u=s.u[3:], y=None) for s in data])
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-9)
    np.testing.assert_allclose(ours.scale, theirs.scale, rtol=1e-9)


def test_features_without_inputs_tell_no_scale() -> None:
    reservoir = Reservoir.from_recipe(Recipe(units=5, inputs=1))
    data = [Recording(np.arange(20.0), np.arange(20.0))]
    per_step = EchoState.of(reservoir)
    statistics = accumulate(per_step, data)
    for features in (EchoState.of(reservoir, input=False), EchoState.of(reservoir, pool="mean")):
        with pytest.raises(ValueError, match="do not hold the inputs"):
            input_scaler(features, statistics)
    with pytest.raises(ValueError, match="other features"):
        input_scaler(EchoState.of(reservoir, washout=1), statistics)
    weighted = accumulate(per_step, [replace(s, weight=2.0) for s in data])
    with pytest.raises(ValueError, match="weighted"):
        input_scaler(per_step, weighted)


@settings(max_examples=20)
@given(seed=seeds)
def test_class_weights_are_scikit_learns(seed: int) -> None:
    z, y = labelled(seed)
    theirs = compute_sample_weight("balanced", y.argmax(axis=1))
    ours = class_weights(RidgeStatistics.from_states(z, y))
    np.testing.assert_allclose(ours[y.argmax(axis=1)], theirs, rtol=1e-12)


def test_balanced_statistics_are_those_of_weighted_rows_if_classes_scatter_alike() -> None:
    rng = np.random.default_rng(0)
    shape = rng.normal(size=(20, 4))
    shape -= shape.mean(axis=0)
    centres = rng.normal(size=(3, 4)) * 2
    sizes = (3, 2, 1)
    z = np.concatenate([np.tile(shape, (n, 1)) + c for n, c in zip(sizes, centres, strict=True)])
    y = np.eye(3)[np.repeat(np.arange(3), [20 * n for n in sizes])]
    weight = compute_sample_weight("balanced", y.argmax(axis=1))
    exact = RidgeStatistics.from_states(z, y, weight=weight)
    ours = balanced(RidgeStatistics.from_states(z, y))
    for name in ("feature_sum", "target_sum", "gram", "cross", "target_gram"):
        np.testing.assert_allclose(getattr(ours, name), getattr(exact, name), rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(seed=seeds)
def test_balanced_means_are_exact_and_the_moments_can_be(seed: int) -> None:
    z, y = labelled(seed)
    weight = compute_sample_weight("balanced", y.argmax(axis=1))
    exact = RidgeStatistics.from_states(z, y, weight=weight)
    ours = balanced(RidgeStatistics.from_states(z, y))
    for name in ("feature_sum", "target_sum", "cross", "target_gram"):
        np.testing.assert_allclose(getattr(ours, name), getattr(exact, name), rtol=1e-9, atol=1e-9)
    assert np.linalg.eigvalsh(ours.moments()[0])[0] > -1e-9


def test_a_class_that_does_not_occur_has_no_weight() -> None:
    z, y = labelled(0, (5, 7, 0))
    statistics = RidgeStatistics.from_states(z, y)
    np.testing.assert_allclose(class_weights(statistics), [12 / 2 / 5, 12 / 2 / 7, 0.0])
    assert balanced(statistics).target_sum[2] == 0.0


def test_numbers_cannot_be_balanced() -> None:
    for y in (rows(0)[1], np.ones((70, 2)), -np.eye(2)[np.zeros(70, int)]):
        with pytest.raises(ValueError, match="not one-hot"):
            balanced(RidgeStatistics.from_states(rows(0)[0], y))


def skewed() -> dict[str, list[Recording]]:
    """Return people of whom most windows of most classes are gone, differently for each."""
    return {
        name: [
            s for k, s in enumerate(part) if s.y is not None and (s.y.argmax() < 2 or k % 5 == n)
        ]
        for n, (name, part) in enumerate(sorted(PEOPLE.items()))
    }


@pytest.mark.parametrize("weights", ["balanced", (1.0, 2.0, 0.5, 1.0, 3.0, 0.0)])
def test_statistics_by_class_give_scikit_learns_weighted_ridge(weights: Any) -> None:
    clients = skewed()
    algorithm = BalancedRidge(features=POOLED, classes=ACTIVITIES, ridge=0.3, weights=weights)
    state = run_locally(Plan(algorithm=algorithm), clients).state
    parts = [Rows.of(POOLED, clients[name]).pair for name in sorted(clients)]
    z, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    labels = y.argmax(axis=1)
    factors = (
        compute_sample_weight("balanced", labels)
        if weights == "balanced"
        else np.array(weights)[labels]
    )
    theirs = Ridge(alpha=0.3, solver="svd").fit(z, y, sample_weight=factors)
    readout = state.weighted.readout
    assert readout is not None
    np.testing.assert_allclose(readout(z), theirs.predict(z), rtol=1e-6, atol=1e-8)


def test_the_weighted_ridge_is_chosen_on_left_out_clients_too() -> None:
    algorithm = BalancedRidge(features=POOLED, classes=ACTIVITIES)
    state = run_locally(Plan(algorithm=algorithm, rounds=2), skewed()).state
    assert state.weighted.choice is not None
    assert state.weighted.choice.block_errors is not None
    assert len(state.weighted.choice.block_errors) == 4
    assert state.total is not None
    assert sum(s.n_rows for s in state.total.members.values()) == 2 * sum(
        map(len, skewed().values())
    )


def test_uploads_with_other_classes_are_refused() -> None:
    algorithm = BalancedRidge(features=POOLED, classes=ACTIVITIES)
    zero = RidgeStatistics.zero(POOLED.n_features, 6, POOLED.fingerprint)
    with pytest.raises(UploadError, match="2 classes came"):
        algorithm.read_update(StatisticsSet({0: zero, 1: zero}).parts(), Turn(0, ()))
    wrong = {"a": [Recording(np.zeros((30, 6)), np.array([1.0, 0.0]))]}
    with pytest.raises(TooFewClientsError, match="2 columns for 6 classes"):
        run_locally(Plan(algorithm=algorithm), wrong)


@pytest.mark.parametrize("weights", [(1.0,), (-1.0,) * 6])
def test_wrong_class_weights_are_named(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="pass 'balanced', 'rows', or one number"):
        BalancedRidge(features=POOLED, classes=ACTIVITIES, weights=weights)
