"""Recorded float64 statistics of every shipped map: they stay what they were, to 1e-12.

`python -m tests.readout.test_float64_sums` writes the record anew: do so only where a map is meant
to change, and say in CHANGELOG.md which.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import Array, Recording
from catchment.features import (
    NVAR,
    AppendNorm,
    DiagonalReservoir,
    EchoState,
    FeatureMap,
    FeatureUnion,
    Hydra,
    MiniRocket,
    RandomFourierFeatures,
    RandomProjection,
    WindowStatistics,
)
from catchment.readout import RidgeStatistics, accumulate, accumulate_each, unpack

RECORD = Path(__file__).parent / "data" / "float64_sums.json"
SMALL = EchoState(12, seed=3, washout=4, bits=None)
# Each map, whether it has a row per step, and the lengths of its recordings.
MAPS: dict[str, tuple[Any, bool, Any]] = {
    "echo state, sparse": (EchoState(60, seed=1, washout=5, bits=None), True, (300, 40, 90)),
    "echo state, dense": (EchoState(14, seed=2, density=1.0, bits=None), True, (120,)),
    "echo state, deep": (EchoState((20, 15), seed=2, washout=3, bits=None), True, (80, 70)),
    "echo state, many": (EchoState(30, seed=4, bits=None), True, tuple(range(20, 60))),
    "echo state, long": (EchoState(30, seed=5, washout=50, bits=None), True, (12_000,)),
    "echo state, short": (EchoState(30, seed=6, bits=None), True, (70,)),
    "echo state, pooled": (EchoState(20, seed=7, bits=None), False, (60, 50, 70)),
    "diagonal": (DiagonalReservoir(24, 1), True, (200, 90)),
    "nvar": (NVAR(delays=3, order=2), True, (90, 40)),
    "window statistics": (WindowStatistics(), False, (60, 50, 64)),
    "with norm": (AppendNorm(SMALL), True, (60, 50)),
    "minirocket": (MiniRocket(84, 5), False, (60, 50, 64)),
    "hydra": (Hydra(128, 5), False, (60, 50, 64)),
    "random fourier": (RandomFourierFeatures(SMALL, 30), True, (60, 50)),
    "projected": (RandomProjection(SMALL, 6, seed=2), True, (60, 50)),
    "concat": (FeatureUnion(SMALL, DiagonalReservoir(8, 1)), True, (60, 50)),
}


def recordings(name: str) -> list[Recording]:
    """Return recordings of two channels, with gaps among the targets of steps, and weights."""
    _, per_step, lengths = MAPS[name]
    found, more = [], 0.5 if built(name).bits is None else 1.0
    for k, n in enumerate(lengths):
        t = np.arange(n)[:, None] + 10.0 * k
        u = np.sin(t * [0.31, 0.173]) + 0.3 * np.cos(t * [1.7, 2.9])
        y = np.column_stack([np.sin(0.31 * t[:, 0] + 1), u[:, 1] ** 2])
        if per_step and k % 3 == 1:
            y[::7] = np.nan
        found.append(Recording(u, y if per_step else y[n // 2], weight=1.0 + more * (k % 2)))
    return found


def built(name: str) -> FeatureMap:
    described, per_step, _ = MAPS[name]
    made: FeatureMap = described.build(2, per_step=per_step)
    return made


def told(total: RidgeStatistics) -> list[float]:
    """Return the sums seen from some directions, and some entries as they are."""
    total = total.floats
    M = [unpack(total.gram), total.cross, unpack(total.target_gram)]
    M += [total.feature_sum[:, None], total.target_sum[:, None]]
    entries = [float(A.ravel()[k % A.size]) for A in M for k in (0, 17, 101, 733)]
    return [float(total.n_rows), total.weight, *(v for A in M for v in _seen(A)), *entries]


def _seen(A: Array) -> list[float]:
    rows, columns = (np.cos(np.outer([0.7, 1.3], np.arange(n))) for n in A.shape)
    return [float(v) for v in np.sum(rows @ A * columns, axis=1)]


def assert_told(found: list[float], expected: list[float]) -> None:
    largest = max(map(abs, expected))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * largest)


@pytest.mark.parametrize("name", MAPS)
def test_sums_of_every_map_are_those_on_record(name: str) -> None:
    data = recordings(name)
    expected = json.loads(RECORD.read_text("utf-8"))[name]
    assert_told(told(accumulate(built(name), data)), expected)
    alone = accumulate_each(built(name), [[one] for one in data])
    summed = alone[0]
    for one in alone[1:]:
        summed = summed + one
    assert_told(told(summed), expected)


if __name__ == "__main__":
    record = {name: told(accumulate(built(name), recordings(name))) for name in MAPS}
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in record.items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
