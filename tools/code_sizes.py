"""Measure how many bytes of instructions each trait of an exported model takes on a Cortex-M4.

`python -m tools.code_sizes` compiles some hundred random models with arm-none-eabi-gcc, fits the
bytes of every trait (`catchment_edge.c.code_size.traits`) by least squares, writes them to
`code_sizes.json` beside that file, and says how far the sums are from the compiler on models that
were left out. Run it when the C sources or the texts around them have changed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
import catchment_edge.c
from catchment.data import Scaler
from catchment.readout import Readout
from catchment_edge import CCode, c_code
from catchment_edge.c import traits

COMPILER = "arm-none-eabi-gcc"
FLAGS = ("-std=c99", "-Os", "-mcpu=cortex-m4", "-mthumb", "-c")
TABLE = Path(catchment_edge.c.__file__).parent / "code_sizes.json"
OTHERS = 0.4  # share of models with other maps than a reservoir of echo states
PENALTY = 0.02  # of the fit: traits that always come together share their bytes


@dataclass(frozen=True)
class Measured:
    """A model's traits, and bytes as the compiler says."""

    traits: list[str]
    flash: int
    constants: int

    @property
    def code(self) -> int:
        return self.flash - self.constants


def flash_of(code: CCode, folder: Path) -> int:
    """Return the bytes of instructions and constants of a compiled model, as `size` says."""
    source, _ = code.write(folder)
    compiled = folder / "model.o"
    subprocess.run([COMPILER, *FLAGS, str(source), "-o", str(compiled)], check=True)
    told = subprocess.run(
        ["arm-none-eabi-size", str(compiled)], check=True, capture_output=True, text=True
    )
    text, data, *_ = told.stdout.splitlines()[1].split()
    return int(text) + int(data)


def measured(model: ct.Model, folder: Path, **options: Any) -> Measured:
    """Return the traits and sizes of a model."""
    code = c_code(model, name="model_", **options)
    return Measured(traits(code.layout), flash_of(code, folder), code.plan.tables)


def random_model(draw: random.Random) -> ct.Model:
    """Return a model that nobody trained."""
    per_step = draw.random() < 0.2
    described = _echo_state(draw, per_step=per_step)
    if draw.random() < OTHERS:
        described = _other(draw, per_step=per_step)
    window: int | None = draw.choice([40, 60, 128, 300])
    if per_step or isinstance(described, ct.EchoState):
        window = draw.choice([None, window])
    step = draw.choice([None, None, window // 2, window + 5]) if window and not per_step else None
    classes = draw.random() < 0.7
    channels, outputs = draw.choice([1, 2, 3, 6, 9]), draw.choice([1, 2, 3, 6])
    features = described.build(channels, per_step=per_step, classes=classes)
    rng = np.random.default_rng(draw.randrange(1 << 30))
    scaler = Scaler(rng.normal(size=channels), 0.5 + rng.random(channels))
    preprocessing = ct.Preprocessing(
        window=window,
        step=step,
        gaps=draw.choice(["hold", "hold", "error"]),
        scale=draw.choice([scaler, scaler, "none"]),
    )
    readout = Readout(rng.normal(size=(features.n_features, outputs)), rng.normal(size=outputs))
    names = tuple(f"class {k}" for k in range(outputs)) if classes else None
    return ct.Model(ct.Pipeline(preprocessing, features), readout, names)


def _echo_state(draw: random.Random, *, per_step: bool) -> Any:
    units: Any = draw.choice([20, 50, 100, (30, 20), (10, 10, 10)])
    kinds: list[Any] = ["tanh", "tanh", "sigmoid", "sin", "relu", "identity"]
    pool: Any = None if per_step else draw.choice(["last", "mean", "mean_std", "mean_std", "max"])
    return ct.EchoState(
        units,
        pool=pool,
        washout=draw.choice([0, 0, 10]),
        segments=draw.choice([1, 1, 3]) if pool else 1,
        activation=draw.choice(kinds),
        input=draw.random() < 0.8,
        bias=draw.random() < 0.2,
        bits=draw.choice(["auto", 15]),
    )


def _other(draw: random.Random, *, per_step: bool) -> Any:
    """Return the description of a map that is no reservoir of echo states, or not alone."""
    if per_step:
        return draw.choice(
            [ct.NVAR(3), ct.DiagonalReservoir(30), ct.RandomFourierFeatures(features=40)]
        )
    windows: list[Any] = [
        ct.MiniRocket(84),
        ct.WindowStatistics(),
        ct.Hydra(64),
        ct.DefaultMap(260),
    ]
    both = [ct.FeatureUnion(draw.choice(windows[:3]), ct.EchoState(20)), ct.DiagonalReservoir(30)]
    return draw.choice([*windows, *both, ct.RandomProjection(ct.MiniRocket(84), 20)])


def corpus(n: int, seed: int) -> Iterator[Measured]:
    """Yield n measured models."""
    draw, n_made = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        while n_made < n:
            model = random_model(draw)
            try:
                yield measured(model, Path(folder))
            except ValueError:  # some combinations have no form in C
                continue
            n_made += 1


def fitted(models: list[Measured]) -> dict[str, float]:
    """Return the bytes of each trait that fit the models best."""
    names = sorted({trait for one in models for trait in one.traits})
    X = np.array([[name in one.traits for name in names] for one in models], dtype=float)
    y = np.array([one.code for one in models], dtype=float)
    bytes_ = np.linalg.solve(X.T @ X + PENALTY * np.eye(len(names)), X.T @ y)
    return dict(zip(names, bytes_.round(1).tolist(), strict=True))


def _errors(sizes: dict[str, float], models: list[Measured]) -> list[float]:
    """Return the errors of the flash of models, as shares."""
    return [
        (sum(sizes.get(trait, 0.0) for trait in one.traits) - one.code) / one.flash
        for one in models
    ]


def main() -> None:
    """Measure, fit, write, and say how good it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    models = list(corpus(told.models, told.seed))
    errors = [
        error
        for k in range(5)
        for error in _errors(fitted([m for j, m in enumerate(models) if j % 5 != k]), models[k::5])
    ]
    worst, middle = np.abs(errors).max(), np.median(np.abs(errors))
    sys.stdout.write(
        f"{len(models)} models; of flash, left out: {middle:.2%} off in the middle, "
        f"{worst:.2%} at worst\n"
    )
    TABLE.write_text(json.dumps(fitted(models), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
