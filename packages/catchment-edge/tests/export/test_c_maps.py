"""Feature maps as C: the very integers of the library."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment import Array
from catchment.features import FeatureMap
from catchment_edge import c_code
from tests.export.compiled import SANITIZED, build, compiled

STEPS = 48
QUICK = ("-O0",)  # to compile


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
        found.append(ct.Recording.labeled(u, k % 3, ("slow", "middle", "fast")))
    return found


def series(n: int = 3, steps: int = 40, channels: int = 2) -> list[ct.Recording]:
    """Recordings with a number for every step."""
    rng = np.random.default_rng(1)
    us = [rng.normal(0, 2, (steps, channels)) for _ in range(n)]
    return [ct.Recording(u, np.roll(u[:, :1], 1, axis=0) * u[:, :1]) for u in us]


PER_WINDOW: dict[str, Any] = {
    "minirocket": ct.MiniRocket(100),
    "minirocket of another length": ct.MiniRocket(84, length=200, range=8.0, bits=20),
    "window statistics": ct.WindowStatistics(),
    "window statistics, odd range": ct.WindowStatistics(range=5.3, bits=24),
    "hydra": ct.Hydra(50),
    "default": ct.DefaultMap(260),
    "default, convolutions only": ct.DefaultMap(100),
    "diagonal": ct.DiagonalReservoir(30, washout=5),
    "norm": ct.AppendNorm(ct.Hydra(32)),
    "shared window": ct.FeatureUnion(
        ct.Hydra(32, bits=12), ct.WindowStatistics(), ct.MiniRocket(40)
    ),
    "windows and streams": ct.FeatureUnion(
        ct.EchoState(12),
        ct.AppendNorm(ct.MiniRocket(30)),
        ct.FeatureUnion(ct.DiagonalReservoir(14), ct.WindowStatistics()),
    ),
    "projected": ct.RandomProjection(ct.DefaultMap(260), 64),
    "projected from more bits": ct.RandomProjection(ct.MiniRocket(40, bits=22), 20, bits=8),
    "cosines of a map": ct.RandomFourierFeatures(ct.EchoState(12), 20),
    "rectifiers of a map": ct.RandomFourierFeatures(
        ct.MiniRocket(40), 20, activation="relu", scale=3.0
    ),
}
PER_STEP: dict[str, Any] = {
    "nvar": ct.NVAR(3),
    "nvar of order 3": ct.NVAR(2, stride=3, order=3, washout=4),
    "diagonal": ct.DiagonalReservoir(30),
    "diagonal, linear": ct.DiagonalReservoir(10, nonlinearity="none"),
    "diagonal, mixed": ct.DiagonalReservoir(20, nonlinearity="mix", gain=5.0),
    "cosines": ct.RandomFourierFeatures(features=20),
    "rectifiers": ct.RandomFourierFeatures(features=20, activation="relu", scale=3.0),
    "norm": ct.AppendNorm(ct.NVAR(2)),
    "several washouts and grids": ct.FeatureUnion(
        ct.NVAR(2, washout=3), ct.DiagonalReservoir(14, bits=16), ct.EchoState(8)
    ),
    "projected": ct.RandomProjection(ct.DiagonalReservoir(30), 16),
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
    made = compiled(model, tmp_path, flags=QUICK, **steps_of(model))
    for one in data[:3]:
        features, scores = made.rows(one.u)
        np.testing.assert_array_equal(features, python_rows(model, one.u))
        expected = model.outputs(one.u)[0]
        np.testing.assert_allclose(scores, expected, rtol=2e-6, atol=2e-6)


MAIN = """
#include <stdio.h>
#include "model.h"
int main(void)
{
    static struct model_state s;
    static model_value samples[STEPS * MODEL_CHANNELS];
    float scores[MODEL_OUTPUTS];
    unsigned k;
    while (fread(samples, sizeof samples, 1, stdin) == 1) {
        if (model_predict(&s, samples, STEPS, scores) != 1)
            return 2;
        for (k = 0; k < MODEL_OUTPUTS; k++)
            printf("%.9g\\n", (double)scores[k]);
    }
    return 0;
}
"""


CHECKED = [
    *(pytest.param(PER_WINDOW[name], False, id=name) for name in ("windows and streams", "hydra")),
    *(pytest.param(PER_STEP[name], True, id=name) for name in ("several washouts and grids",)),
]
REST = [pytest.param(*one.values, id=one.id, marks=pytest.mark.long) for one in CASES]


@pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning")
@pytest.mark.parametrize(("described", "per_step"), [*CHECKED, *REST])
@pytest.mark.slow
def test_sanitizers_find_nothing(described: Any, per_step: bool, tmp_path: Path) -> None:
    model, data = trained(described, per_step)
    code = c_code(model, **steps_of(model))
    source, _ = code.write(tmp_path)
    (tmp_path / "main.c").write_text(MAIN)
    program, steps = tmp_path / "main", len(data[0].u)
    files = [str(source), str(tmp_path / "main.c"), "-o", str(program)]
    build([*files, f"-DSTEPS={steps}", *SANITIZED, "-O1", "-lm"])
    inputs = b"".join(one.u.astype(np.float64).tobytes() for one in data)
    told = subprocess.run([str(program)], input=inputs, capture_output=True, check=False)
    assert told.returncode == 0, told.stderr.decode()
    found = np.array(told.stdout.split(), dtype=float).reshape(len(data), -1)
    expected = np.array([np.mean(model.outputs(one.u)[0], axis=0) for one in data])
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)


def test_maps_of_windows_share_one_buffer() -> None:
    both, _ = trained(ct.DefaultMap(260), per_step=False)
    layout = c_code(both, steps=STEPS).layout
    kept = {one.name: one.n_bytes for one in layout.fields}
    # Each sample, and the length of each, is there once; beside them a few rows.
    assert kept["kept"] == STEPS * 4 * 4
    rows = sum(n for name, n in kept.items() if name not in ("kept", "row"))
    assert rows < 6 * STEPS * 4 + 400


@dataclass(frozen=True)
class Own(FeatureMap):
    n_inputs: int = 3
    n_features = 1
    bounds = np.full(1, 10.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [u[:1, :1] for u in inputs]


def test_what_cannot_be_written_says_what_can() -> None:
    data = windows()
    with pytest.raises(ValueError, match="Own cannot be written as C; train with"):
        c_code(ct.fit(Own(), data), steps=STEPS)
    with pytest.raises(ValueError, match="MiniRocket needs a whole recording at once"):
        c_code(ct.fit(ct.MiniRocket(20), data))
    with pytest.raises(ValueError, match="is not in fixed point, which its form in C needs"):
        c_code(ct.fit(ct.MiniRocket(20, bits=None), data), steps=STEPS)
    apart = ct.FeatureUnion(ct.MiniRocket(20), ct.MiniRocket(20, range=2.0**16))
    with pytest.raises(ValueError, match="do not fit a word of 32 bits; train with input ranges"):
        c_code(ct.fit(apart, data), steps=STEPS)


@pytest.mark.filterwarnings("ignore:every recording has one step")
@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_shortest_windows(steps: int, tmp_path: Path) -> None:
    data = windows(steps=steps)
    both = ct.FeatureUnion(ct.WindowStatistics(), ct.MiniRocket(90), ct.Hydra(32))
    model = ct.fit(both, data)
    made = compiled(model, tmp_path, flags=QUICK, steps=steps)
    np.testing.assert_array_equal(made.rows(data[0].u)[0], python_rows(model, data[0].u))


def test_recordings_of_another_length_have_no_scores(tmp_path: Path) -> None:
    model, data = trained(ct.MiniRocket(20), per_step=False)
    made = compiled(model, tmp_path, flags=QUICK, steps=STEPS)
    assert made.predict(data[0].u) is not None
    assert made.predict(data[0].u[:-1]) is None
