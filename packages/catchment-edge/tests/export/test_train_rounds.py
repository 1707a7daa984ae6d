"""What a device keeps from round to round: its sums, its state, its scale and its readout."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest

from catchment import EchoState, Preprocessing, Recording
from catchment.data import Scaler
from catchment.readout import Readout, RidgeStatistics, accumulate
from catchment.wire import Message
from catchment_edge.training import Layout, Task, TrainingDevice
from tests.export.trained import (
    Program,
    acknowledge,
    frame,
    messages,
    needs_gcc,
    readout,
    rows_of,
    scale,
    train,
)

pytestmark = needs_gcc
FITTED = Preprocessing(scale=Scaler(np.array([0.5, -1.0]), np.array([2.0, 0.9])))


@pytest.fixture(scope="module")
def stepwise(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A device with two numbers to predict at every step."""
    features = EchoState(15, seed=3, washout=5).build(2, per_step=True)
    layout = Layout(Task(features, Preprocessing(), 2, 2), "steps", 500)
    return Program.of(TrainingDevice(layout), tmp_path_factory.mktemp("steps"))


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A device with a class for every window of eight steps."""
    features = EchoState(15, seed=3, pool="mean").build(2, per_step=False, classes=True)
    preprocessing = Preprocessing(window=8, label="majority")
    layout = Layout(Task(features, preprocessing, 2, 3, ("a", "b", "c")), "windows", 20)
    return Program.of(TrainingDevice(layout), tmp_path_factory.mktemp("windows"))


def numbers(n: int, seed: int = 0) -> list[Recording]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(20, 50, n)
    return [Recording(rng.normal(size=(T, 2)), rng.normal(size=(T, 2))) for T in lengths]


def labels(n: int, seed: int = 0) -> list[Recording]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(20, 50, n)
    return [
        Recording(rng.normal(size=(T, 2)), np.eye(3)[rng.integers(0, 3, T)], per_step=True)
        for T in lengths
    ]


def statistics(message: bytes) -> RidgeStatistics:
    return RidgeStatistics.from_message(Message.from_bytes(message))


def in_segments(program: Program, whole: list[Recording], cut: int) -> bytes:
    """Return two segments of the sensor's line, the first of which ends within a recording."""
    first, second, third = whole
    begin, rest = second.part(0, cut), second.part(cut, second.n_steps)
    one = program.sensor([first, begin], open_end=True)
    return one + program.sensor([rest, third])


@pytest.mark.parametrize("name", ["stepwise", "windowed"])
def test_increments_add_up_to_the_uncut_recordings(
    name: str, request: pytest.FixtureRequest
) -> None:
    program: Program = request.getfixturevalue(name)
    whole = numbers(3) if name == "stepwise" else labels(3)
    preprocessing = program.fitted(FITTED)
    asked = scale(preprocessing) + train(0, new=True) + acknowledge(0) + train(1, new=True)
    came = [statistics(m) for m in messages(program.talk(asked, in_segments(program, whole, 11)))]
    features = program.device.layout.task.features
    expected = accumulate(features, preprocessing.apply(whole), classes=name == "windowed")
    assert len(came) == 2
    assert 0 < came[0].n_rows < expected.n_rows
    assert reduce(add, came).digest() == expected.digest()


def test_a_repeated_round_is_the_same_answer_and_reads_nothing(stepwise: Program) -> None:
    sensor = stepwise.sensor(numbers(2)) + stepwise.sensor(numbers(2, seed=1))
    asked = scale(FITTED) + train(0, new=True) * 3 + train(1, new=True)
    one, again, third, both = messages(stepwise.talk(asked, sensor))
    assert one == again == third
    # The first round was never acknowledged, so its rows are still to be counted.
    assert statistics(both).n_rows > statistics(one).n_rows
    features = stepwise.device.layout.task.features
    data = FITTED.apply([*numbers(2), *numbers(2, seed=1)])
    assert statistics(both) == accumulate(features, data, classes=False)


def test_all_so_far_stays_when_it_was_counted(stepwise: Program) -> None:
    sensor = stepwise.sensor(numbers(1)) + stepwise.sensor([])
    asked = scale(FITTED) + train(0) + acknowledge(0) + train(1)
    one, both = messages(stepwise.talk(asked, sensor))
    assert one == both


def test_another_scale_starts_from_zero(stepwise: Program) -> None:
    other = Preprocessing(scale=Scaler(np.zeros(2), np.ones(2)))
    sensor = stepwise.sensor(numbers(1)) + stepwise.sensor(numbers(1, seed=1))
    asked = scale(FITTED) + train(0) + scale(other) + train(0)
    _, last = messages(stepwise.talk(asked, sensor))
    features = stepwise.device.layout.task.features
    expected = accumulate(features, other.apply(numbers(1, seed=1)), classes=False)
    assert statistics(last) == expected


def test_sums_that_are_full_refuse_a_row_and_keep_the_others(windowed: Program) -> None:
    small = TrainingDevice(
        Layout(windowed.device.layout.task, "windows", windowed.device.layout.rows)
    )
    most = small.layout.sums.most_rows
    source = small.files()["windows.c"].replace(
        f"#define DEVICE_MOST_ROWS {most}u", "#define DEVICE_MOST_ROWS 3u"
    )
    program = Program.of(small, windowed.path.parent / "small", sources={"windows.c": source})
    data = labels(2)
    sensor = program.sensor([data[0].part(0, 16)]) + program.sensor(data) + program.sensor([])
    preprocessing = program.fitted(FITTED)
    asked = scale(preprocessing) + train(0) + train(1) + train(1) + train(2)
    answers = program.talk(asked, sensor)
    refused = [payload.decode() for kind, payload in answers if kind == "n"]
    assert len(refused) == 2
    assert "as many rows as they have room for" in refused[0]
    first, last = (statistics(message) for message in messages(answers))
    assert (first.n_rows, last.n_rows) == (2, 3)


@pytest.mark.parametrize("name", ["stepwise", "windowed"])
def test_it_predicts_with_the_readout_that_comes_back(
    name: str, request: pytest.FixtureRequest
) -> None:
    program: Program = request.getfixturevalue(name)
    whole = numbers(3) if name == "stepwise" else labels(3)
    preprocessing, task = program.fitted(FITTED), program.device.layout.task
    rng = np.random.default_rng(5)
    weights = (
        rng.normal(size=(task.features.n_features, task.outputs)) * [1.0, 1e3, 1e-3][: task.outputs]
    )
    found = Readout(weights, rng.normal(size=task.outputs), 0.0)
    asked = scale(preprocessing) + frame("P") + readout(found) + frame("H") + frame("P")
    answers = program.talk(asked, program.sensor(whole))
    assert answers[1] == ("n", b"there is no readout yet")
    assert answers[3][1][10] & 8
    rows = [preprocessing.apply([one]) for one in whole]
    expected = [
        np.concatenate([found(z) for z in task.features.rows([one.u for one in parts])])
        for parts in rows
    ]
    came = rows_of(answers, task.outputs)
    assert sorted(came) == list(range(len(whole)))
    for number, scores in enumerate(expected):
        size = np.abs(scores).max(axis=0)
        np.testing.assert_allclose(came[number] / size, scores / size, atol=2e-6)


def test_inputs_ahead_are_known_across_segments(tmp_path: Path) -> None:
    """What the last steps of a segment are to predict comes with the next one."""
    features = EchoState(9, seed=3, washout=2).build(2, per_step=True)
    task = Task(features, Preprocessing(horizon=4), 2, 2)
    program = Program.of(TrainingDevice(Layout(task, "ahead", 500)), tmp_path)
    whole = [Recording(one.u) for one in numbers(3)]
    preprocessing = program.fitted(FITTED)
    readout_ = Readout(np.ones((features.n_features, 2)), np.zeros(2), 0.0)
    asked = scale(preprocessing) + train(0, new=True) + acknowledge(0) + train(1, new=True)
    asked += readout(readout_) + frame("P")
    sensor = in_segments(program, whole, 11) + program.sensor(whole[:1])
    answers = program.talk(asked, sensor)
    came = [statistics(message) for message in messages(answers)[:2]]
    expected = accumulate(features, preprocessing.apply(whole), classes=False)
    assert reduce(add, came).digest() == expected.digest()
    # A prediction has a row for every step after the washout, and waits for nothing.
    assert len(rows_of(answers, 2)[0]) == whole[0].n_steps - 2


def test_a_prediction_does_not_count_rows(stepwise: Program) -> None:
    found = Readout(np.ones((17, 2)), np.zeros(2), 0.0)
    sensor = stepwise.sensor(numbers(1)) + stepwise.sensor(numbers(2, seed=1))
    asked = scale(FITTED) + train(0) + readout(found) + frame("P") + train(0)
    first, _, again = messages(stepwise.talk(asked, sensor))
    assert first == again


def test_nothing_is_trained_before_the_scale_is_told(stepwise: Program) -> None:
    ((kind, said),) = stepwise.talk(train(0), stepwise.sensor(numbers(1)))
    assert kind == "n"
    assert b"scale" in said
