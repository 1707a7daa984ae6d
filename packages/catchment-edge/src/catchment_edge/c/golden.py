"""Recordings with known scores, and the self-test that compares.

A sample is an integer times a power of two. Features are compared, too: by the FNV-1a hash of all
rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from catchment import Array, Integers
from catchment.data import Recording
from catchment.features import Pipeline
from catchment.readout import Model
from catchment_edge.c.layout import Cutting, Layout
from catchment_edge.c.map_code import Table, table_text
from catchment_edge.c.pieces import template

MOST_NUMBERS = 6000  # of all recordings together, if one window is not longer
DIGITS = 10  # binary digits of a sample after the point, in units of its channel's spread
MISSING = -(2**31)
SEED = 20


@dataclass(frozen=True, eq=False)
class Golden:
    """Recordings (T, I) as integers of `unit` (I,), and what the model says of them."""

    model: Model
    samples: list[Integers]
    unit: Array

    def recordings(self) -> list[Recording]:
        """Return the recordings in raw units, NaN where a sample is missing."""
        return [
            Recording(np.where(one == MISSING, np.nan, one * self.unit)) for one in self.samples
        ]

    @cached_property
    def outputs(self) -> list[Array]:
        """Outputs (rows, K) of each recording."""
        return self.model.outputs(self.recordings())

    @property
    def scores(self) -> Array:
        """Means (n, K) of the outputs."""
        return np.array([y.mean(axis=0) for y in self.outputs])

    def hashes(self, digits: Integers) -> list[int]:
        """Return the FNV-1a hash of the whole features of each recording, a word at a time."""
        found = []
        for recording in self.recordings():
            h = 2166136261
            for rows in self.model.pipeline.rows([recording]):
                for k in np.rint(np.ldexp(rows, digits)).astype(np.int64).ravel().tolist():
                    h = ((h ^ (k & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
            found.append(h)
        return found


def golden(layout: Layout) -> Golden:
    """Return recordings that the model has scores for: slow waves, noise and, if held, gaps."""
    I = layout.map.n_inputs
    mean, spread = np.zeros(I), np.ones(I)
    if layout.scaler is not None:
        mean, spread = layout.scaler.mean, layout.scaler.scale
    reach = np.abs(mean) + 8 * spread
    unit = np.ldexp(1.0, np.maximum(np.frexp(spread)[1] - DIGITS, np.frexp(reach)[1] - 23))
    rng = np.random.default_rng(SEED)
    samples = []
    for k, T in enumerate(_lengths(layout)):
        t = np.arange(T)[:, None]
        waves = np.sin(t / (2.0 + 3 * rng.random(I)) + 6 * rng.random(I))
        loud = rng.choice([0.5, 1.0, 1.5])
        u = mean + spread * loud * (waves + 0.4 * rng.standard_normal((T, I)))
        whole = np.rint(u / unit).astype(np.int64)
        if layout.holds and k == 1:
            whole[T // 3 : T // 3 + 3, 0] = MISSING
        samples.append(whole)
    return Golden(in_steps(layout.model, layout.cutting), samples, unit)


def in_steps(model: Model, cutting: Cutting) -> Model:
    """Return a model with windows in steps and no rate: a device's samples have no times."""
    counted = replace(
        model.preprocessing, rate=None, window=cutting.window or None, step=cutting.step or None
    )
    return replace(model, before=Pipeline(counted, model.features))


def _lengths(layout: Layout) -> list[int]:
    """Return the steps of each recording; the first is taken whatever its length."""
    W, S = layout.cutting.window, layout.cutting.step
    least = layout.map.least_steps
    if W:
        rest = 0 if layout.map.per_step else 1  # steps that are left of a last window
        wanted = [W, W + S, W + 2 * S + rest]
    else:
        wanted = [least + 20, least + 33, least + 50]
        wanted = [min(T, layout.steps or T) for T in wanted]
    kept, left = wanted[:1], MOST_NUMBERS // layout.map.n_inputs - wanted[0]
    for T in wanted[1:]:
        if left >= T:
            kept.append(T)
            left -= T
    return kept


def tolerance(layout: Layout) -> Array:
    """Return how far (K,) scores may be from the library's: single precision has seven digits."""
    readout = layout.model.readout
    scale = 1.0 + np.abs(readout.intercept) + np.abs(readout.weights).max(axis=0)
    return np.asarray(1e-6 * scale)


def golden_text(layout: Layout) -> str:
    """Return the self-test, compiled only where it is asked for."""
    data, digits = golden(layout), layout.map.digits
    assert digits is not None
    tables = [
        Table("int32_t", "golden_samples", np.concatenate([one.ravel() for one in data.samples])),
        Table("double", "golden_unit", data.unit),
        Table("uint32_t", "golden_steps", np.array([len(one) for one in data.samples])),
        Table("float", "golden_scores", data.scores),
        Table("float", "golden_tolerance", tolerance(layout)),
        Table("uint32_t", "golden_hashes", np.array(data.hashes(digits))),
    ]
    texts = "\n\n".join(table_text(one) for one in tables)
    return template("selftest.c", layout.marks | {"TABLES": texts, "SAMPLES": len(data.samples)})
