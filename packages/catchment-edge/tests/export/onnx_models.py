"""Models to export, and runtimes to run the files in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx.reference import ReferenceEvaluator

from catchment import Array, Preprocessing, Recording
from catchment.data import Scaler
from catchment.features import FeatureMap, Pipeline
from catchment.readout import Model, Readout

STEPS, CHANNELS = 40, 2


def waves(n: int, steps: int = STEPS, channels: int = CHANNELS, seed: int = 0) -> list[Array]:
    """Return recordings (T, I) in units of their own."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps)[:, None]
    return [
        4.0 + 3.0 * np.sin(t * rng.uniform(0.05, 0.9, channels)) + rng.normal(size=(steps, 1))
        for _ in range(n)
    ]


def scaler(channels: int = CHANNELS) -> Scaler:
    return Scaler(np.full(channels, 4.0), np.linspace(2.0, 3.0, channels))


def readout_of(features: FeatureMap, n_outputs: int, seed: int = 1) -> Readout:
    rng = np.random.default_rng(seed)
    return Readout(rng.normal(size=(features.n_features, n_outputs)), rng.normal(size=n_outputs))


def model_of(
    described: FeatureMap,
    *,
    per_step: bool = False,
    classes: tuple[str, ...] | None = ("run", "sit", "walk"),
    channels: int = CHANNELS,
    preprocessing: Preprocessing | None = None,
    features_out: bool = False,
) -> Model:
    """Return a model with made-up weights; with `features_out` its scores are its features."""
    known = replace(preprocessing or Preprocessing(), scale=scaler(channels))
    built = described.build(channels, per_step=per_step, classes=classes is not None)
    if features_out:
        F = built.n_features
        return Model(Pipeline(known, built), Readout(np.eye(F), np.zeros(F)))
    readout = readout_of(built, len(classes) if classes else 2)
    return Model(Pipeline(known, built), readout, classes)


def scores_in(path: Path, model: Model, u: Array) -> Array:
    """Return the scores of one recording in onnxruntime."""
    session = onnxruntime.InferenceSession(path)
    return np.asarray(session.run(["scores"], {"samples": as_input(session, u)})[0])


def as_input(session: onnxruntime.InferenceSession, u: Array) -> Any:
    (given,) = session.get_inputs()
    kind = np.float64 if given.type == "tensor(double)" else np.float32
    return u.astype(kind) if len(given.shape) == u.ndim else u[None].astype(kind)


def reference_scores(path: Path, u: Array, *, alone: bool) -> Array:
    """Return the scores of one recording in ONNX's own evaluator, in plain numpy."""
    found: Any = ReferenceEvaluator(str(path)).run(["scores"], {"samples": u if alone else u[None]})
    return np.asarray(found[0])


def own_scores(model: Model, u: Array) -> Array:
    (found,) = model.outputs([Recording(u)])
    return found
