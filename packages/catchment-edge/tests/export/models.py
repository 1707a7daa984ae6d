"""Models that nobody trained, and recordings, for tests of exports."""

from __future__ import annotations

from typing import Any

import numpy as np

import catchment as ct
from catchment import Array
from catchment.data import Scaler
from catchment.readout import Readout


def untrained(
    described: Any,
    *,
    channels: int = 2,
    outputs: int = 3,
    classes: bool = True,
    per_step: bool = False,
    scaled: bool = True,
    seed: int = 0,
    **preprocessing: Any,
) -> ct.Model:
    """Return a model with a readout of random weights; a map is built if it is a description.

    `preprocessing` are the settings of its preparation.
    """
    rng = np.random.default_rng(seed)
    scaler = Scaler(rng.normal(size=channels), 0.5 + rng.random(channels))
    before = ct.Pipeline(
        ct.Preprocessing(scale=scaler if scaled else "none", **preprocessing), described
    ).built(channels, per_step=per_step, classes=classes)
    F = before.features.n_features
    readout = Readout(rng.normal(0, 0.1, (F, outputs)), rng.normal(size=outputs))
    names = tuple(f"class {k}" for k in range(outputs)) if classes else None
    return ct.Model(before, readout, names)


def signal(steps: int, channels: int = 2, seed: int = 1, gaps: float = 0.0) -> Array:
    """Return inputs (T, I), waves with noise and a few jumps, NaN where a share is missing."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps)[:, None]
    u = np.sin(t / rng.uniform(2, 9, channels)) + 0.3 * rng.standard_normal((steps, channels))
    u[rng.random((steps, channels)) < 0.02] *= 7  # some beyond the range at which maps cut off
    u[rng.random((steps, channels)) < gaps] = np.nan
    found: Array = u
    return found


def python_rows(model: ct.Model, u: Array) -> Array:
    """Return the library's features (n, F) of a raw recording."""
    return np.concatenate(model.pipeline.rows([ct.Recording(u)]))
