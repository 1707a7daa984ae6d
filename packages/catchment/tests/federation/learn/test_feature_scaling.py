"""Scaling and class balance from statistics against scikit-learn on scaled and weighted rows."""

from __future__ import annotations

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
from catchment.data import ACTIVITIES, Recording, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import FingerprintError, TooFewClientsError, UploadError
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan, RoundContext, Rows
from catchment.federation.learn import BalancedRidge
from catchment.readout import (
    RidgeStatistics,
    StatisticsSet,
    feature_scale,
    for_raw_features,
    rescaled,
)

seeds = st.integers(0, 2**32 - 1)
POOLED = EchoState.of(Reservoir(units=8, inputs=6, seed=2), pool="mean_std")
PEOPLE = synthetic_wearables(4, seed=1, windows_per_user=20)


def rows(seed: int, n: int = 70, F: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, F)) * rng.uniform(0.01, 30, F) + rng.normal(size=F)
    return z, z @ rng.normal(size=(F, 2)) + rng.normal(size=(n, 2))


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
        algorithm.read_update(StatisticsSet({0: zero, 1: zero}).parts(), RoundContext(0, ()))
    wrong = {"a": [Recording(np.zeros((30, 6)), np.array([1.0, 0.0]))]}
    with pytest.raises(TooFewClientsError, match="2 columns for 6 classes"):
        run_locally(Plan(algorithm=algorithm), wrong)


@pytest.mark.parametrize("weights", [(1.0,), (-1.0,) * 6])
def test_wrong_class_weights_are_named(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="pass 'balanced', 'rows', or one number"):
        BalancedRidge(features=POOLED, classes=ACTIVITIES, weights=weights)
