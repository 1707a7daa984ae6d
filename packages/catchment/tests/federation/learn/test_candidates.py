"""Several recipes: the winner is the one that a plain comparison of each by itself finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from catchment import Array
from catchment.data import ACTIVITIES, contiguous, narma, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import CatchmentError, FederationError, UploadError
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan, RoundContext, Rows
from catchment.federation.learn import Candidates, FederatedRidge, Race, nrmse_of
from catchment.readout import RidgeStatistics, StatisticsSet
from catchment.wire import join

LEAKS = (0.05, 0.2, 0.6, 1.0)
MAPS = tuple(
    EchoState.of(Reservoir(units=10, inputs=1, leak_rate=a, seed=1), washout=8) for a in LEAKS
)
SERIES = contiguous(narma(500, seed=3), 4)


def test_one_round_finds_what_training_each_by_itself_finds() -> None:
    state = run_locally(Plan(algorithm=Candidates(features=MAPS)), SERIES).state
    scores = []
    for features in MAPS:
        alone = run_locally(Plan(algorithm=FederatedRidge(features=features)), SERIES).state
        assert alone.choice is not None
        assert alone.total is not None
        scores.append(nrmse_of(alone.choice, alone.total))
    np.testing.assert_allclose(state.scores[0], scores, rtol=1e-12)
    assert state.best == int(np.argmin(scores))
    winner = run_locally(
        Plan(algorithm=FederatedRidge(features=MAPS[state.best])), SERIES
    ).state.readout
    assert state.readout is not None
    assert winner is not None
    assert state.readout.weights.tobytes() == winner.weights.tobytes()


@pytest.mark.parametrize("margin", [0.0, 1.0, 1e6])
def test_the_first_candidate_stays_unless_another_is_better_by_the_margin(margin: float) -> None:
    algorithm = Candidates(features=MAPS, margin=margin)
    state = run_locally(Plan(algorithm=algorithm, rounds=1), SERIES).state
    squares = []
    for features in MAPS:  # by each left-out client, without the library's sums
        choice = run_locally(Plan(algorithm=FederatedRidge(features=features)), SERIES).state.choice
        assert choice is not None
        assert choice.block_errors is not None
        squares.append(choice.block_errors[:, np.argmin(choice.errors[:, 0]), 0])
    least = int(np.argmin([one.sum() for one in squares]))
    assert least != 0
    gain = squares[0] - squares[least]
    clear = gain.mean() > margin * gain.std(ddof=1) / 2  # of four clients
    assert state.best == (least if clear else 0)
    assert state.best == (least if margin < 2 else 0)
    old = Plan(algorithm=Candidates(features=MAPS), rounds=1)
    new = Plan(algorithm=algorithm, rounds=1)
    assert (old.fingerprint() == new.fingerprint()) == (margin == 0)


WINDOWS = synthetic_wearables(4, seed=2, windows_per_user=90)
POOLED = tuple(
    EchoState.of(Reservoir(units=n, inputs=6, seed=s), pool="mean_std")
    for n, s in ((3, 1), (8, 2), (5, 3))
)


def counted(margin: float = 0.0, **settings: Any) -> Race:
    algorithm = Candidates(
        features=POOLED, classes=ACTIVITIES, by="accuracy", margin=margin, **settings
    )
    return run_locally(Plan(algorithm=algorithm, rounds=2), WINDOWS).state


def wrong_rows() -> Array:
    """Return the rows (maps, people) that scikit-learn's ridge of the others gets wrong."""
    found = np.zeros((len(POOLED), len(WINDOWS)))
    for k, features in enumerate(POOLED):
        ridge = FederatedRidge(features=features, classes=ACTIVITIES)
        choice = run_locally(Plan(algorithm=ridge), WINDOWS).state.choice
        rows = {name: Rows.of(features, part).pair for name, part in WINDOWS.items()}
        for c, name in enumerate(sorted(rows)):
            others = [rows[other] for other in rows if other != name]
            z, y = (np.concatenate([pair[i] for pair in others]) for i in (0, 1))
            assert choice is not None
            said = Ridge(alpha=choice.best, solver="svd").fit(z, y).predict(rows[name][0])
            found[k, c] = (said.argmax(axis=1) != rows[name][1].argmax(axis=1)).sum()
    return found


@pytest.mark.parametrize("stored", [True, False])
def test_maps_are_compared_by_rows_that_clients_left_out_get_right(stored: bool) -> None:
    wrong, state = wrong_rows(), counted(store_per_client=stored)
    assert len(set(wrong.sum(axis=1))) == 3
    assert state.best is not None
    assert state.best == wrong.sum(axis=1).argmin()
    assert {name: len(one.members) for name, one in state.by_client.items()} == (
        dict.fromkeys(WINDOWS, 3) if stored else {}
    )
    alone = FederatedRidge(features=POOLED[state.best], classes=ACTIVITIES)
    readout = run_locally(Plan(algorithm=alone), WINDOWS).state.readout
    assert readout is not None
    assert state.readout is not None
    assert state.readout.weights.tobytes() == readout.weights.tobytes()


@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0, 1e6])
def test_the_first_map_stays_that_the_best_is_not_clearly_better_than(margin: float) -> None:
    wrong = wrong_rows()
    best = int(wrong.sum(axis=1).argmin())
    gains = wrong - wrong[best]
    error = gains.std(axis=1, ddof=1) / 2  # of four people
    as_good = np.flatnonzero(gains.mean(axis=1) <= margin * error)
    assert counted(margin).best == min({best, *as_good.tolist()})


def test_nrmse_is_the_mean_over_outputs_of_held_out_errors() -> None:
    state = run_locally(Plan(algorithm=FederatedRidge(features=MAPS[0])), SERIES).state
    assert state.choice is not None
    assert state.total is not None
    variance = state.total.target_moments() / state.total.weight
    assert nrmse_of(state.choice, state.total) == pytest.approx(
        float(np.sqrt(state.choice.errors.min() / variance[0]))
    )


def test_more_rounds_than_planned_are_refused_by_the_clients() -> None:
    algorithm = Candidates(features=MAPS)
    with pytest.raises(FederationError, match="has no new data"):
        run_locally(Plan(algorithm=algorithm, rounds=2), SERIES)


def test_one_client_cannot_judge() -> None:
    with pytest.raises(FederationError, match="needs 2 or more, 1"):
        run_locally(Plan(algorithm=Candidates(features=MAPS)), {"a": SERIES["client-000"]})


def test_sets_of_other_candidates_do_not_add_and_are_not_read() -> None:
    s = RidgeStatistics.zero(11, 1, MAPS[0].fingerprint)
    with pytest.raises(UploadError, match="do not add"):
        StatisticsSet({0: s}) + StatisticsSet({1: s})
    algorithm, context = Candidates(features=MAPS), RoundContext(0, (), client="a")
    with pytest.raises(UploadError, match="no candidate 9"):
        algorithm.read_update(StatisticsSet({9: s}).parts(), context)
    with pytest.raises(UploadError) as caught:
        algorithm.read_update(StatisticsSet({1: s}).parts(), context)
    assert caught.value.code == "fingerprint"
    with pytest.raises(CatchmentError, match="'x' is not a number"):
        StatisticsSet.from_message(join("statistics-set", {"members/x": s.parts()}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": ()}, "there are no candidates"),
        ({"features": (MAPS[0], MAPS[0])}, "the same feature map"),
        ({"features": MAPS, "by": "accuracy"}, "needs classes"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Candidates(**settings)
