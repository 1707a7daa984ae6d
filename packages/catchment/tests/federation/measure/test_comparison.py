"""Comparisons: the same training and test data for all, and what each row says."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from catchment import FederatedRidge, Plan, Recording, Reservoir
from catchment.data import ACTIVITIES, contiguous, narma, synthetic_wearables
from catchment.engine import centralized, compare, local_only, run_locally
from catchment.errors import FederationError
from catchment.features import EchoState
from catchment.federation.learn import FederatedScaling
from catchment.federation.measure import (
    Comparison,
    Dummy,
    Evaluation,
    Outcome,
    Row,
    Scores,
    autoregression,
    constant_baseline,
)


def split() -> tuple[dict[str, list[Recording]], dict[str, list[Recording]]]:
    users = synthetic_wearables(6, windows_per_user=15, steps=40)
    names = sorted(users)
    return {n: users[n] for n in names[:4]}, {n: users[n] for n in names[4:]}


def pooled_features() -> EchoState:
    reservoir = Reservoir(units=25, inputs=6, seed=3)
    return EchoState.of(reservoir, pool="mean_std")


def test_federated_equals_centralized() -> None:
    train, test = split()
    plan = Plan(
        algorithm=FederatedRidge(features=pooled_features(), ridge=1e-2, classes=ACTIVITIES)
    )
    table = compare({"federated": plan, "centralized": centralized(plan)}, train, test)
    one, other = (outcome.model for outcome in table.outcomes)
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(one.readout.weights, other.readout.weights, rtol=1e-9, atol=1e-9)
    assert table["federated"].score == table["centralized"].score
    assert table["federated"].bytes_up > 0
    assert table["centralized"].bytes_up == table["centralized"].rounds == 0


def test_rows_of_classes() -> None:
    train, test = split()
    f = pooled_features()
    plan = Plan(algorithm=FederatedRidge(features=f, classes=ACTIVITIES))
    seen: list[str] = []
    table = compare(
        {
            "uniform": Dummy(how="uniform", classes=ACTIVITIES),
            "most_frequent": constant_baseline(f, classes=ACTIVITIES),
            "local": local_only(f, classes=ACTIVITIES),
            "ridge": plan,
        },
        train,
        test,
        began=seen.append,
    )
    assert [row.name for row in table] == seen == ["uniform", "most_frequent", "local", "ridge"]
    assert {row.metric for row in table} == {"accuracy"}
    assert table.best.name == "ridge"
    ridge = table["ridge"]
    result = run_locally(plan, train)
    scores = run_locally(Plan(algorithm=Evaluation(model_under_test=result.model)), test).state
    assert scores.total is not None
    values = [score.value for score in scores.by_client.values()]
    assert (ridge.worst_client, ridge.worst) == scores.worst()
    assert ridge.score == scores.total.value
    assert ridge.spread == pytest.approx(np.std(values))
    assert (ridge.bytes_up, ridge.rounds) == (result.records[0].bytes_up, 1)
    # Alone, the clients are the models that were trained.
    assert table["local"].worst_client in train
    assert table["local"].note == "4 models, nothing is sent"


def test_rows_of_forecasts() -> None:
    data = contiguous(narma(600, seed=2), 3)
    f = EchoState.of(Reservoir(units=40, inputs=1, seed=1), washout=20)
    table = compare(
        {
            "persistence": Dummy(how="persistence", washout=20),
            "mean": constant_baseline(f),
            "line": autoregression(1, lags=10, washout=20),
            "ridge": Plan(algorithm=FederatedRidge(features=f)),
        },
        data,
        data,
        threads=1,
    )
    assert {row.metric for row in table} == {"NRMSE"}
    assert table.best.name == "ridge"
    assert table["mean"].score == pytest.approx(1.0)
    assert table["ridge"].worst >= table["ridge"].score - table["ridge"].spread


def test_clients_may_be_functions() -> None:
    train, test = split()
    plan = Plan(
        algorithm=FederatedRidge(features=pooled_features(), ridge=1e-2, classes=ACTIVITIES)
    )
    lazy = {name: (lambda held=held: held) for name, held in train.items()}
    lazily = compare({"a": plan, "b": centralized(plan)}, lazy, test)
    eagerly = compare({"a": plan, "b": centralized(plan)}, train, test)
    assert [row.score for row in lazily] == [row.score for row in eagerly]


def test_a_contender_without_a_model_says_so() -> None:
    train, test = split()
    plan = Plan(algorithm=FederatedScaling(channels=6))
    with pytest.raises(FederationError, match="FederatedScaling makes no single model"):
        compare({"alone": plan}, train, test)


def test_own_functions_contend() -> None:
    train, test = split()

    def nothing(train: Mapping[str, object], test: Mapping[str, object]) -> Outcome:
        return Outcome(Scores())

    with pytest.raises(ValueError, match="nothing was not scored"):
        compare({"nothing": nothing}, train, test)


def test_a_comparison_is_looked_up_by_name() -> None:
    table = Comparison((Row("a", "accuracy", 0.5), Row("b", "accuracy", 0.75)))
    assert table.best.name == "b"
    assert math.isnan(table["a"].worst)
    with pytest.raises(KeyError, match="'c' was not compared"):
        table["c"]
