"""Uploads of devices in C, of several maps, preparations and targets: the client's bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from catchment import EchoState, Preprocessing, Recording
from catchment.data import Scaler
from catchment_edge.training import Layout, Task, TrainingDevice
from tests.export.trained import (
    Program,
    measure,
    messages,
    moments_message,
    needs_gcc,
    scale,
    statistics_message,
    train,
)

pytestmark = needs_gcc
CLASSES = ("a", "b", "c")
FIXED = Scaler(np.array([0.1, -3.0]), np.array([1.5, 7.0]))


@dataclass(frozen=True)
class Case:
    """A map, a preparation and targets; `classes` or numbers, per step or per recording."""

    units: int | tuple[int, ...] = 12
    map: dict[str, Any] = field(default_factory=dict)
    preprocessing: dict[str, Any] = field(default_factory=dict)
    classes: bool = True
    per_step: bool = False
    rows: int = 1000
    steps: int | None = None
    lengths: tuple[int, int] = (20, 60)
    gaps: float = 0.0
    targets: float = 1.0

    def device(self) -> TrainingDevice:
        windows = self.preprocessing.get("window") is not None
        features = EchoState(self.units, seed=2, **self.map).build(
            2, per_step=self.per_step and not windows, classes=self.classes
        )
        names = CLASSES if self.classes else None
        task = Task(features, Preprocessing(**self.preprocessing), 2, 3 if names else 2, names)
        return TrainingDevice(Layout(task, "tiny", self.rows, self.steps))

    def recordings(self, n: int = 12, seed: int = 0) -> list[Recording]:
        rng = np.random.default_rng([seed, self.per_step])
        return [self._recording(rng) for _ in range(n)]

    def _recording(self, rng: np.random.Generator) -> Recording:
        T = int(rng.integers(*self.lengths))
        u = rng.normal(size=(T, 2)) * [2.0, 30.0] + [0.3, -5.0]
        late = rng.random(u.shape) < self.gaps
        late[0] = False  # what is missing before the first value is known only afterwards
        u[late] = np.nan
        if self.preprocessing.get("horizon"):
            return Recording(u)
        n = T if self.per_step else 1
        if self.classes:
            y = np.eye(3)[rng.integers(0, 3, n)]
            y[rng.random(n) < 0.1] = np.nan
        else:
            y = rng.normal(size=(n, 2)) * [1.0, self.targets]
            y[rng.random(y.shape) < 0.05] = np.nan
        return Recording(u, y if self.per_step else y[0], per_step=self.per_step)


CASES = {
    "mean": Case(map={"pool": "mean"}),
    "deviations of three parts of windows": Case(
        map={"pool": "mean_std", "segments": 3}, preprocessing={"window": 10}, per_step=True
    ),
    "last, two layers": Case((8, 5), map={"pool": "last"}, gaps=0.1),
    "maximum over windows that overlap": Case(
        map={"pool": "max", "washout": 2},
        preprocessing={"window": 12, "step": 5, "label": "majority"},
        per_step=True,
        gaps=0.1,
    ),
    "windows with pauses": Case(
        preprocessing={"window": 7, "step": 9, "label": "majority"}, per_step=True
    ),
    "a class per step": Case(
        map={"washout": 4, "feature_bits": 12}, per_step=True, rows=20_000, gaps=0.05
    ),
    "steps that are cut": Case(
        per_step=True, lengths=(1700, 2000), map={"leak_rate": 0.9}, rows=50_000
    ),
    "numbers per step": Case(
        classes=False, per_step=True, map={"washout": 3}, gaps=0.05, targets=1e6
    ),
    "numbers per recording": Case(classes=False, map={"feature_bits": 10}, targets=1e-7),
    "numbers of windows": Case(
        classes=False, per_step=True, preprocessing={"window": 8, "step": 4}, targets=1e11
    ),
    "inputs ahead in time": Case(
        classes=False, per_step=True, preprocessing={"horizon": 3}, map={"washout": 2}, gaps=0.1
    ),
    "inputs after windows": Case(
        classes=False, preprocessing={"horizon": 1, "window": 6}, map={"pool": "last"}
    ),
    "a scale in the plan": Case(preprocessing={"scale": FIXED, "gaps": "error"}),
    "no scale, and a new start after a gap": Case(
        preprocessing={"scale": "none", "gaps": "restart", "window": 4},
        map={"bits": 15, "feature_bits": 6},
        per_step=True,
        gaps=0.05,
    ),
}


@pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning")
@pytest.mark.filterwarnings("ignore::catchment.errors.CoarseTargetsWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_device_sends_the_clients_bytes(name: str, tmp_path_factory: Any) -> None:
    case = CASES[name]
    program = Program.of(case.device(), tmp_path_factory.mktemp("device"))
    data, more = case.recordings(), case.recordings(5, seed=1)
    preprocessing = program.device.layout.task.preprocessing
    asked, sensor, expected = b"", b"", []
    if preprocessing.scale == "federated":
        asked, sensor = measure(), program.sensor(data)
        expected.append(moments_message(preprocessing, data))
        preprocessing = preprocessing.fitted(preprocessing.moments(data))
        asked += scale(preprocessing)
    asked += train(0) + train(1)
    sensor += program.sensor(data) + program.sensor(more)
    expected.append(statistics_message(program.device, preprocessing, data))
    expected.append(statistics_message(program.device, preprocessing, [*data, *more]))
    assert messages(program.talk(asked, sensor)) == expected
