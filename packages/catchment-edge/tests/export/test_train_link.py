"""A device in C answers with the bytes of the library's client."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from catchment import EchoState, Preprocessing, Recording
from catchment_edge.training import Layout, Task, TrainingDevice
from tests.export.trained import (
    Program,
    frame,
    measure,
    messages,
    moments_message,
    needs_gcc,
    scale,
    statistics_message,
    train,
)

pytestmark = needs_gcc
CLASSES = ("a", "b", "c", "d")


def labeled(n: int, seed: int = 0) -> list[Recording]:
    rng = np.random.default_rng(seed)
    return [
        Recording.labeled(
            rng.normal(size=(int(rng.integers(10, 40)), 3)) * [1, 5, 100] + [0, 3, -7],
            int(rng.integers(4)),
            CLASSES,
        )
        for _ in range(n)
    ]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    features = EchoState(20, seed=1, pool="mean").build(3, per_step=False, classes=True)
    task = Task(features, Preprocessing(), 3, 4, CLASSES, "ab" * 32)
    device = TrainingDevice(Layout(task, "tiny", 100))
    return Program.of(device, tmp_path_factory.mktemp("device"))


def test_hello_says_which_map_and_which_workflow(program: Program) -> None:
    ((kind, said),) = program.talk(frame("H"))
    features = program.device.layout.task.features
    expected = struct.pack("<BBHHIB", 1, 1, 3, 4, features.n_features, 1 | 4)
    assert kind == "h"
    assert said == expected + bytes.fromhex(features.fingerprint) + b"\xab" * 32


def test_scaling_and_training_are_the_clients_bytes(program: Program) -> None:
    data = labeled(25)
    preprocessing = program.device.layout.task.preprocessing
    fitted = preprocessing.fitted(preprocessing.moments(data))
    asked = measure() + scale(fitted) + train()
    answered = program.talk(asked, program.sensor(data) * 2)
    expected = [
        moments_message(preprocessing, data),
        statistics_message(program.device, fitted, data),
    ]
    assert messages(answered) == expected
