"""Scores against scikit-learn's metrics on all rows, not against means of clients' means."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, mean_squared_error

from catchment.data import ACTIVITIES, Recording, contiguous, narma, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import CatchmentError, UploadError
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan
from catchment.federation.measure import Evaluation, Score, Scores, evaluate
from catchment.readout import ClassCounts, ErrorSums, Model, train
from catchment.wire import Message, join

PER_STEP = EchoState.of(Reservoir(units=12, inputs=1, seed=1), washout=10)
POOLED = EchoState.of(Reservoir(units=10, inputs=6, seed=2), pool="mean_std")
SERIES = contiguous(narma(400, seed=1), 4)
PEOPLE = synthetic_wearables(4, seed=3, windows_per_user=14)


def forecaster() -> Model:
    return train(PER_STEP, SERIES["client-000"], 1e-3)


def classifier() -> Model:
    first, second = sorted(PEOPLE)[:2]
    return train(POOLED, PEOPLE[first] + PEOPLE[second], 1e-2, classes=ACTIVITIES)


def test_the_total_is_the_error_of_all_rows() -> None:
    model = forecaster()
    result = run_locally(Plan(algorithm=Evaluation(model_under_test=model)), SERIES)
    pairs = [
        (s.y[10:], model.predict(s.u)) for part in SERIES.values() for s in part if s.y is not None
    ]
    y, guess = (np.concatenate(column) for column in zip(*pairs, strict=True))
    total = result.state.total
    assert total is not None
    assert total.errors.n == len(y) == 360
    assert total.errors.mse == pytest.approx(mean_squared_error(y, guess))
    assert total.value == pytest.approx(np.sqrt(mean_squared_error(y, guess)) / y.std())
    assert result.result is result.state
    values = {name: score.value for name, score in result.state.by_client.items()}
    assert result.state.worst() == (max(values, key=values.__getitem__), max(values.values()))


def test_classes_are_counted_over_all_clients() -> None:
    model = classifier()
    state = run_locally(Plan(algorithm=Evaluation(model_under_test=model)), PEOPLE).state
    sequences = [s for name in sorted(PEOPLE) for s in PEOPLE[name]]
    truth = [ACTIVITIES[int(s.y.argmax())] for s in sequences if s.y is not None]
    assert state.total is not None
    assert state.total.value == pytest.approx(accuracy_score(truth, model.classify(sequences)))
    worst, value = state.worst()
    assert value == min(score.value for score in state.by_client.values())
    assert state.by_client[worst].value == value


def test_a_server_may_keep_only_the_sum() -> None:
    algorithm = Evaluation(model_under_test=forecaster(), store_per_client=False)
    state = run_locally(Plan(algorithm=algorithm), SERIES).state
    assert state.by_client == {}
    assert state.total is not None


def test_unknown_targets_are_left_out_and_missing_ones_refused() -> None:
    model = forecaster()
    (sequence,) = SERIES["client-001"]
    assert sequence.y is not None
    gappy = sequence.y.copy()
    gappy[20:40] = np.nan
    assert evaluate(model, lambda: [Recording(sequence.u, gappy)]).errors.n == 70
    with pytest.raises(ValueError, match="has no target"):
        evaluate(model, lambda: [Recording(sequence.u)])
    with pytest.raises(ValueError, match="no sequences"):
        evaluate(model, list)
    with pytest.raises(ValueError, match="one row per"):
        evaluate(classifier(), lambda: [Recording(np.zeros((30, 6)), np.zeros((30, 6)))])


def score() -> Score:
    y = np.eye(3)[[0, 1, 2, 0]]
    return Score(ErrorSums.of(y, y), ClassCounts.of_scores(y, y))


def test_scores_of_numbers_and_of_classes_add_to_a_score_of_numbers() -> None:
    both = score() + Score(score().errors)
    assert both.counts is None
    assert both.errors.n == 8


def spoilt(name: str, *arrays: object) -> Message:
    good = {
        "errors": Message("error-sums", {}, (np.array([4.0]), *(np.ones(3) for _ in range(4)))),
        "counts": Message("class-counts", {}, (np.diag([2, 1, 1]),)),
    }
    good[name] = Message(good[name].kind, {}, tuple(np.asarray(a) for a in arrays))
    return join("score", good)


ONES = np.ones(3)


@pytest.mark.parametrize(
    "parts",
    [
        join("score", {}),
        join("score", {"errors": score().parts()}),
        spoilt("errors", [4.0], ONES),
        spoilt("errors", [-4.0], ONES, ONES, ONES, ONES),
        spoilt("errors", [4.0, 4.0], ONES, ONES, ONES, ONES),
        spoilt("errors", [4.0], ONES, ONES, ONES, np.ones(2)),
        spoilt("errors", [4.0], ONES * np.nan, ONES, ONES, ONES),
        spoilt("errors", [4.0], -ONES, ONES, ONES, ONES),
        spoilt("counts", np.diag([2, 1, 7])),
        spoilt("counts", np.diag([5, 1, -2])),
        spoilt("counts", np.diag([2.5, 1.0, 0.5])),
        spoilt("counts", np.ones((2, 2))[:, :1]),
        spoilt("counts", np.diag([np.nan, 2.0, 2.0])),
        spoilt("more", ONES)
        if False
        else join("score", {"errors": score().parts(), "x": Message("x")}),
    ],
)
def test_scores_that_cannot_be_are_refused(parts: Message) -> None:
    with pytest.raises((CatchmentError, ValueError)):
        Score.from_message(parts).checked()


def test_negative_sums_and_wrong_counts_have_a_code() -> None:
    with pytest.raises(UploadError) as caught:
        Score.from_message(spoilt("counts", np.diag([2, 1, 7]))).checked()
    assert caught.value.code == "count"
    with pytest.raises(UploadError) as caught:
        Score.from_message(spoilt("errors", [4.0], ONES * np.inf, ONES, ONES, ONES)).checked()
    assert caught.value.code == "not-finite"


def test_scores_survive_the_journey() -> None:
    kept = Scores(score(), {"a": score(), "b": score()})
    read = Scores.from_message(Message.from_bytes(kept.parts().to_bytes()))
    assert read.parts().to_bytes() == kept.parts().to_bytes()
    assert sorted(read.by_client) == ["a", "b"]
