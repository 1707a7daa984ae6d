"""Feature maps as C: the very integers of the library, and its numbers to float32's accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.compiled import compiled

import catchment as ct
from catchment.arrays import Array

STEPS = 48


def windows(n: int = 6, steps: int = STEPS, channels: int = 3) -> list[ct.Recording]:
    """Recordings of one length, each with a class; one has a constant channel, one jumps far."""
    rng = np.random.default_rng(3)
    t = np.arange(steps)[:, None]
    found = []
    for k in range(n):
        u = 5 + 3 * np.sin(t / (3 + k % 3 + np.arange(channels)))
        u = u + rng.normal(0, 0.3, (steps, channels))
        if k == 1:
            u[:, 0] = 2.0
        if k == 2:
            u[steps // 2] = 4000.0
        found.append(ct.Recording.labelled(u, k % 3, ("slow", "middle", "fast")))
    return found


def series(n: int = 3, steps: int = 40, channels: int = 2) -> list[ct.Recording]:
    """Recordings with a number for every step."""
    rng = np.random.default_rng(1)
    us = [rng.normal(0, 2, (steps, channels)) for _ in range(n)]
    return [ct.Recording(u, np.roll(u[:, :1], 1, axis=0) * u[:, :1]) for u in us]


PER_WINDOW: dict[str, Any] = {
    "minirocket": ct.MiniRocket(100),
    "minirocket of another length": ct.MiniRocket(84, length=200, input_range=8.0, grid=20),
    "window statistics": ct.WindowStatistics(),
    "window statistics, odd range": ct.WindowStatistics(input_range=5.3, grid=24),
    "hydra": ct.Hydra(50),
    "default": ct.DefaultMap(260),
    "default, convolutions only": ct.DefaultMap(100),
    "diagonal": ct.DiagonalReservoir(30, washout=5),
    "norm": ct.WithNorm(ct.Hydra(32)),
    "shared window": ct.Concat(ct.Hydra(32, grid=12), ct.WindowStatistics(), ct.MiniRocket(40)),
    "windows and streams": ct.Concat(
        ct.EchoState(12),
        ct.WithNorm(ct.MiniRocket(30)),
        ct.Concat(ct.DiagonalReservoir(14), ct.WindowStatistics()),
    ),
    "projected": ct.Projected(ct.DefaultMap(260), 64),
    "projected from more bits": ct.Projected(ct.MiniRocket(40, grid=22), 20, grid=8),
    "cosines of a map": ct.RandomFourier(ct.EchoState(12), 20),
    "rectifiers of a map": ct.RandomFourier(ct.MiniRocket(40), 20, activation="relu", scale=3.0),
}
PER_STEP: dict[str, Any] = {
    "nvar": ct.NVAR(3),
    "nvar of order 3": ct.NVAR(2, stride=3, order=3, washout=4),
    "diagonal": ct.DiagonalReservoir(30),
    "diagonal, linear": ct.DiagonalReservoir(10, nonlinearity="none"),
    "diagonal, mixed": ct.DiagonalReservoir(20, nonlinearity="mix", gain=5.0),
    "cosines": ct.RandomFourier(features=20),
    "rectifiers": ct.RandomFourier(features=20, activation="relu", scale=3.0),
    "thinned": ct.Thinned(ct.EchoState(12), 3),
    "norm": ct.WithNorm(ct.NVAR(2)),
    "several washouts and grids": ct.Concat(
        ct.NVAR(2, washout=3), ct.DiagonalReservoir(14, grid=16), ct.EchoState(8)
    ),
    "projected": ct.Projected(ct.DiagonalReservoir(30), 16),
}
CASES = [
    *(pytest.param(one, False, id=f"window: {name}") for name, one in PER_WINDOW.items()),
    *(pytest.param(one, True, id=f"step: {name}") for name, one in PER_STEP.items()),
]


def trained(described: Any, per_step: bool) -> tuple[ct.Model, list[ct.Recording]]:
    data = series() if per_step else windows()
    return ct.fit(described, data), data


def steps_of(model: ct.Model) -> dict[str, Any]:
    return {} if model.features.per_step else {"steps": STEPS}


def python_rows(model: ct.Model, u: Array) -> Array:
    return np.concatenate(model.pipeline.rows([ct.Recording(u)]))


@pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning")
@pytest.mark.parametrize(("described", "per_step"), CASES)
def test_whole_features_are_the_librarys(described: Any, per_step: bool, tmp_path: Path) -> None:
    model, data = trained(described, per_step)
    made = compiled(model, tmp_path, number="whole", **steps_of(model))
    for one in data[:3]:
        features, scores = made.rows(one.u)
        np.testing.assert_array_equal(features, python_rows(model, one.u))
        expected = model.outputs(one.u)[0]
        np.testing.assert_allclose(scores, expected, rtol=2e-6, atol=2e-6)
