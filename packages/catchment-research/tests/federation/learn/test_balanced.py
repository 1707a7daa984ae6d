"""Class balance from statistics by class against scikit-learn on weighted rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.class_weight import compute_sample_weight

from catchment.data import ACTIVITIES, Recording, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import TooFewClientsError, UploadError
from catchment.features import NVAR, EchoState, Reservoir
from catchment.federation import Plan, RoundContext, Rows
from catchment.federation.learn import FederatedRidge
from catchment.readout import RidgeStatistics, StatisticsSet
from catchment_research.learn import BalancedRidge, among_by_class

POOLED = EchoState.of(Reservoir(units=8, inputs=6, seed=2), pool="mean_std")
PEOPLE = synthetic_wearables(4, seed=1, windows_per_user=20)


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


def test_weighed_by_rows_it_is_the_plain_ridge_and_grows_by_a_class() -> None:
    whole_map = EchoState(8).build(6, per_step=False, classes=True)  # in fixed point
    plain = FederatedRidge(features=whole_map, classes=ACTIVITIES, ridge=0.1)
    by_class = BalancedRidge(features=whole_map, classes=ACTIVITIES, ridge=0.1, weights="rows")
    state = run_locally(Plan(algorithm=by_class), PEOPLE).state
    whole = run_locally(Plan(algorithm=plain), PEOPLE).state
    assert state.weighted.total == whole.total
    after = BalancedRidge(
        features=whole_map, classes=(*ACTIVITIES, "new"), ridge=0.1, weights="rows"
    )
    grown = after.solved(among_by_class(state, ACTIVITIES, (*ACTIVITIES, "new")))
    assert grown.weighted.total is not None
    assert grown.weighted.total.n_targets == len(ACTIVITIES) + 1
    assert grown.weighted.readout is not None
    assert whole.readout is not None
    assert (grown.weighted.readout.weights[:, :-1] == whole.readout.weights).all()


def test_its_plans_keep_their_fingerprint() -> None:
    algorithm = BalancedRidge(features=NVAR(2, order=1).build(1, per_step=True), classes=("a", "b"))
    recorded = "e02d54a703927dcf219c49896e70c5fd6b857fb98cea169ae30c4aacd411c978"
    assert Plan(algorithm=algorithm).fingerprint() == recorded
