"""Devices that train with other maps than echo states."""

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
from catchment_edge.training import Layout, Task, TrainingDevice
from tests.export.trained import Program, messages, needs_gcc, statistics_message, train

pytestmark = needs_gcc
SCALER = Scaler(np.array([0.5, -1.0]), np.array([1.5, 2.5]))
CLASSES = ("a", "b", "c")


def device(described: Any, rows: int, **settings: Any) -> TrainingDevice:
    """Return a device for windows of 16 steps, or for steps, each with a class."""
    per_step, stride = settings.pop("per_step", False), settings.pop("row_stride", 1)
    features = described.build(2, per_step=per_step, classes=True)
    window = None if per_step else 16
    preprocessing = Preprocessing(scale=SCALER, window=window, **settings)
    task = Task(features, preprocessing, 2, 3, CLASSES, row_stride=stride)
    return TrainingDevice(Layout(task, "maps", rows))


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
    "projected from wider rows": (RandomProjection(WindowStatistics(bits=20), 20, bits=8), {}),
    "norm": (AppendNorm(EchoState(10)), {}),
    "diagonal": (DiagonalReservoir(12, bits=12), {"per_step": True}),
    "nvar": (NVAR(2), {"per_step": True}),
    "every fourth row": (EchoState(10, washout=3), {"per_step": True, "row_stride": 4}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_rows_of_a_map_give_the_clients_bytes(name: str, tmp_path: Any) -> None:
    described, settings = WHOLE[name]
    made = device(described, 1000, **settings)
    program = Program.of(made, tmp_path)
    data = recordings()
    (came,) = messages(program.talk(train(), program.sensor(data)))
    assert came == statistics_message(made, made.layout.task.preprocessing, data)
