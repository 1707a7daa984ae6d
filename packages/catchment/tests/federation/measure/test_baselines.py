"""Baselines against arithmetic done by hand and by scikit-learn."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge

from catchment import Array, Recording, Reservoir
from catchment.data import ACTIVITIES, mackey_glass, synthetic_wearables
from catchment.engine import local_only, run_locally
from catchment.features import EchoState, FeatureMap
from catchment.federation import Plan
from catchment.federation.measure import (
    Dummy,
    Evaluation,
    Scores,
    autoregression,
    constant_baseline,
    evaluate,
)
from catchment.readout import nrmse, train
from catchment.wire import Message


def series(n: int = 300) -> Array:
    return np.asarray(mackey_glass(n + 1)[:, 0])


def lagged(inputs: int, lags: int) -> FeatureMap:
    algorithm: Any = autoregression(inputs, lags=lags).algorithm
    features: FeatureMap = algorithm.features
    return features


def forecasts() -> dict[str, list[Recording]]:
    u = series()
    return {"a": [Recording(u[:120], u[1:121])], "b": [Recording(u[120:-1], u[121:])]}


def wearers() -> dict[str, list[Recording]]:
    return synthetic_wearables(4, windows_per_user=12, steps=40)


def features(pool: bool = True) -> EchoState:
    reservoir = Reservoir(units=20, inputs=6, seed=1)
    return EchoState.of(reservoir, pool="mean" if pool else None)


def test_an_autoregression_sees_the_last_inputs() -> None:
    u = np.random.default_rng(0).normal(size=(9, 2))
    (x,) = lagged(2, 3).rows([u])
    np.testing.assert_array_equal(x[5], u[[5, 4, 3]].ravel())
    np.testing.assert_array_equal(x[0], [*u[0], 0, 0, 0, 0])
    with pytest.raises(ValueError, match="lags is 0"):
        lagged(1, 0)


def test_autoregression_is_ridge_on_lagged_rows() -> None:
    data, lags, ridge = forecasts(), 4, 1e-3
    model = run_locally(autoregression(1, lags=lags, washout=lags - 1, ridge=ridge), data).model
    assert model is not None
    rows, targets = [], []
    for (sequence,) in data.values():
        u, y = sequence.u[:, 0], sequence.y
        assert y is not None
        rows.append(np.stack([u[lags - 1 - k : len(u) - k] for k in range(lags)], axis=1))
        targets.append(y[lags - 1 :, 0])
    theirs = Ridge(alpha=ridge).fit(np.concatenate(rows), np.concatenate(targets))
    np.testing.assert_allclose(model.readout.weights[:, 0], theirs.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.readout.intercept[0], theirs.intercept_, rtol=1e-7)


def test_majority_is_the_most_frequent_class_of_all_clients() -> None:
    data = wearers()
    model = run_locally(constant_baseline(features(), classes=ACTIVITIES), data).model
    assert model is not None
    every = [one for name in sorted(data) for one in data[name]]
    labels = [int(np.argmax(s.y)) for s in every if s.y is not None]
    theirs = DummyClassifier(strategy="most_frequent").fit(np.zeros((len(labels), 1)), labels)
    expected = theirs.score(np.zeros((len(labels), 1)), labels)
    assert evaluate(model, lambda: every).value == pytest.approx(expected)


def test_the_mean_of_a_series_scores_one() -> None:
    data = forecasts()
    plan = constant_baseline(lagged(1, 1))
    model = run_locally(plan, data).model
    assert model is not None
    scores = run_locally(Plan(algorithm=Evaluation(model_under_test=model)), data).state
    assert scores.total is not None
    assert scores.total.value == pytest.approx(1.0)


@pytest.mark.parametrize(("horizon", "washout"), [(1, 0), (1, 30), (3, 0), (3, 2)])
def test_persistence_is_the_last_known_target(horizon: int, washout: int) -> None:
    u = series()
    data = {"a": [Recording(u[:-horizon], u[horizon:])]}
    plan = Plan(algorithm=Dummy(how="persistence", horizon=horizon, washout=washout))
    scores = run_locally(plan, data).state
    first = max(horizon, washout)
    # What is known at step t of a forecast is the input at step t.
    expected = nrmse(u[horizon:][first:], u[:-horizon][first:])
    assert scores.total is not None
    assert scores.total.value == pytest.approx(expected, rel=1e-12)


def test_persistence_leaves_out_what_it_does_not_know() -> None:
    y = np.array([1.0, np.nan, 3.0, 4.0, 6.0])
    plan = Plan(algorithm=Dummy(how="persistence"))
    total = run_locally(plan, {"a": [Recording(np.zeros(5), y)]}).state.total
    assert total is not None
    assert total.errors.n == 2
    np.testing.assert_array_equal(total.errors.absolute_error, [1 + 2])


def test_persistence_needs_targets_per_step() -> None:
    from catchment.errors import TooFewClientsError

    plan = Plan(algorithm=Dummy(how="persistence"))
    with pytest.raises(TooFewClientsError, match="target per step"):
        run_locally(plan, wearers())
    with pytest.raises(TooFewClientsError, match="no target"):
        run_locally(plan, {"a": [Recording(np.zeros(1))]})
    with pytest.raises(TooFewClientsError, match="no recordings"):
        run_locally(plan, {"a": []})


def test_random_guesses_are_right_once_in_as_many_classes() -> None:
    data = {"a": [Recording.labeled(np.zeros(3000), k, 4, per_step=True) for k in range(4)]}
    plan = Plan(algorithm=Dummy(how="uniform", classes=tuple("abcd")), seed=5)
    total = run_locally(plan, data).state.total
    assert total is not None
    assert total.counts is not None
    n = 12000
    assert total.counts.n == n
    # Five standard deviations of a binomial share.
    assert abs(total.value - 0.25) < 5 * np.sqrt(0.25 * 0.75 / n)


def test_random_guesses_are_the_same_in_every_run() -> None:
    plan = Plan(algorithm=Dummy(how="uniform", classes=ACTIVITIES), seed=5)
    first, second = (run_locally(plan, wearers(), threads=n).state.total for n in (1, 2))
    assert first is not None
    assert second is not None
    assert first.counts == second.counts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"how": "luck"}, "how is 'luck'"),
        ({"how": "uniform"}, "pass their names"),
        ({"how": "persistence", "horizon": 0}, "horizon is 0"),
        ({"how": "persistence", "washout": -1}, "washout is -1"),
    ],
)
def test_guesses_check_their_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dummy(**settings)  # type: ignore[arg-type]


def test_going_it_alone_is_each_clients_own_model_on_its_own_test_data() -> None:
    data, f = wearers(), features()
    alone = local_only(f, ridge=0.1, classes=ACTIVITIES)
    expected = {
        name: evaluate(train(f, own, 0.1, classes=ACTIVITIES), partial(list, own))
        for name, own in data.items()
    }
    found = alone(data, data)
    assert {k: s.counts for k, s in found.scores.by_client.items()} == {
        k: s.counts for k, s in expected.items()
    }
    strangers = {f"new-{k}": s for k, s in enumerate(data.values())}
    scores = alone(data, strangers).scores
    everything = [one for own in strangers.values() for one in own]
    for name, own in data.items():
        model = train(f, own, 0.1, classes=ACTIVITIES)
        assert scores.by_client[name].counts == evaluate(model, lambda: everything).counts
    assert scores.total is not None
    assert scores.total.errors.n == len(data) * found.scores.total.errors.n  # type: ignore[union-attr]


def test_going_it_alone_leaves_out_whose_data_cannot_be_used() -> None:
    def broken() -> NoReturn:
        raise ValueError("there is no column 'ax'")

    data, alone = wearers(), local_only(features(), ridge=0.1, classes=ACTIVITIES)
    expected = alone(data, data)
    found = alone({**data, "odd": broken}, {**data, "odd": broken})
    assert found.note == expected.note
    assert found.scores.by_client.keys() == data.keys()


def test_states_survive_the_disk() -> None:
    data = wearers()
    random = Dummy(how="uniform", classes=ACTIVITIES)
    guessed: Scores = run_locally(Plan(algorithm=random), data).state
    same = random.load_state(Message.from_bytes(random.save_state(guessed).to_bytes()))
    assert same.worst() == guessed.worst()
