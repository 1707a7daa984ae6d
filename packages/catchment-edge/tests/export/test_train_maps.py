"""Devices that train with other maps than echo states, and in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catchment import (
    NVAR,
    AppendNorm,
    DiagonalReservoir,
    EchoState,
    FeatureUnion,
    Hydra,
    MiniRocket,
    Preprocessing,
    RandomProjection,
    Recording,
    WindowStatistics,
)
from catchment.data import Scaler
from catchment.readout import RidgeStatistics
from catchment.wire import Message
from catchment_edge.c import Number
from catchment_edge.training import Layout, Task, TrainingDevice
from tests.export.trained import Program, messages, needs_gcc, statistics_message, train

pytestmark = needs_gcc
SCALER = Scaler(np.array([0.5, -1.0]), np.array([1.5, 2.5]))
CLASSES = ("a", "b", "c")


def device(described: Any, number: Number, rows: int, **settings: Any) -> TrainingDevice:
    """Return a device for windows of 16 steps, or for steps, each with a class."""
    per_step, stride = settings.pop("per_step", False), settings.pop("row_stride", 1)
    features = described.build(2, per_step=per_step, classes=True)
    window = None if per_step else 16
    preprocessing = Preprocessing(scale=SCALER, window=window, **settings)
    task = Task(features, preprocessing, 2, 3, CLASSES, row_stride=stride)
    return TrainingDevice(Layout(task, "maps", number, rows))


def recordings(n: int = 8) -> list[Recording]:
    rng = np.random.default_rng(4)
    return [
        Recording(rng.normal(size=(T, 2)), np.eye(3)[rng.integers(0, 3, T)], per_step=True)
        for T in rng.integers(20, 90, n)
    ]


WHOLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "minirocket": (MiniRocket(84), {}),
    "window statistics": (WindowStatistics(), {"step": 10}),
    "hydra": (Hydra(2), {}),
    "concat": (FeatureUnion(EchoState(10), WindowStatistics()), {}),
    "projected": (RandomProjection(MiniRocket(84), 20), {}),
    "norm": (AppendNorm(EchoState(10)), {}),
    "diagonal": (DiagonalReservoir(12, grid=12), {"per_step": True}),
    "nvar": (NVAR(2), {"per_step": True}),
    "every fourth row": (EchoState(10, washout=3), {"per_step": True, "row_stride": 4}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_rows_of_a_map_give_the_clients_bytes(name: str, tmp_path: Any) -> None:
    described, settings = WHOLE[name]
    made = device(described, "whole", 1000, **settings)
    program = Program.of(made, tmp_path)
    data = recordings()
    (came,) = messages(program.talk(train(), program.sensor(data)))
    assert came == statistics_message(made, made.layout.task.preprocessing, data)


FLOAT: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "mean and deviation": (EchoState(20, grid=None, pool="mean_std"), 1000, {}),
    "steps": (EchoState(20, grid=None), 5000, {"per_step": True}),
    "window statistics": (WindowStatistics(grid=None), 1000, {}),
}


@pytest.mark.parametrize("name", FLOAT)
def test_float32_is_near_float64(name: str, tmp_path: Any) -> None:
    described, rows, settings = FLOAT[name]
    made = device(described, "float32", rows, **settings)
    program = Program.of(made, tmp_path)
    data = recordings(12)
    (came,) = messages(program.talk(train(), program.sensor(data)))
    parts = Message.from_bytes(statistics_message(made, made.layout.task.preprocessing, data))
    found, expected = (
        RidgeStatistics.from_message(Message.from_bytes(came)),
        RidgeStatistics.from_message(parts),
    )
    assert (found.n_rows, found.fingerprint) == (expected.n_rows, expected.fingerprint)
    np.testing.assert_array_equal(found.target_gram, expected.target_gram)
    for one in ("gram", "cross", "feature_sum"):
        size = np.abs(getattr(expected, one)).max()
        assert np.abs(getattr(found, one) - getattr(expected, one)).max() < 1e-6 * size
