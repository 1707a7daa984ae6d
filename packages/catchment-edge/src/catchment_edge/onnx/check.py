"""A file against the model it was made of, in onnxruntime, on recordings that are made up."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment import Array
from catchment.data import Recording, Scaler
from catchment.errors import ClippingWarning, MissingExtraError
from catchment.features import Pipeline
from catchment_edge.onnx.file import SAMPLES, SCORES, Source
from catchment_edge.onnx.maps import maps_within
from catchment_edge.onnx.memory import NEXT
from catchment_edge.onnx.streaming import CLOCK, READY, SAMPLE

SHORT = 120  # steps of a made-up recording, where any length will do
LONGEST_CUT = 4096  # parts of a grid's cut up to which a recording is made long enough for it...
MOST_WORK = 5e8  # ...if all its steps take no more products than this
MISSING = 0.03  # share of values that are missing, where gaps are filled

Run = Callable[[list[str], dict[str, Any]], list[Any]]
Graph = Callable[[Array], Array]


@dataclass(frozen=True)
class Difference:
    """The largest difference of scores, and of scores in units of what is added up in them."""

    largest: float
    relative: float


def made_up(source: Source, seed: int = 0, *, streaming: bool = False) -> list[Array]:
    """Return raw recordings (T, I) of the lengths that matter, with gaps where they are filled."""
    rng = np.random.default_rng(seed)
    found = [_waves(rng, T, source) for T in _lengths(source)]
    if source.preprocessing.gaps != "error":
        for u in found[1:]:
            begin = u[0].copy()
            u[rng.random(u.shape) < MISSING] = np.nan
            # A stream cannot take a first value before it came.
            u[0] = begin if streaming else np.where(np.arange(u.shape[1]) == 0, np.nan, u[0])
    return found


def _lengths(source: Source) -> list[int]:
    if source.steps is not None:
        return [source.steps] * 3
    window = source.preprocessing.window
    if isinstance(window, int):
        return [window, 3 * window + 1]
    least = source.model.washout + 8
    cuts = [L for L, work in _cuts(source) if 0 < L <= LONGEST_CUT and work < MOST_WORK]
    longest = [max(least, L + L // 4) for L in cuts]
    return [least, least + SHORT, least + SHORT, *longest[:1]]


def _cuts(source: Source) -> list[tuple[int, int]]:
    """Return the lengths at which echo states are cut, and the products of so many steps.

    They may stand anywhere in the map.
    """
    several = maps_within(source.model.features)
    reservoirs = [one.reservoir for one in several if one.reservoir is not None]
    return [(one.cut[0], one.cut[0] * one.n_units**2) for one in reservoirs]


def _waves(rng: np.random.Generator, T: int, source: Source) -> Array:
    """Return a slow wave and noise in each channel, in the units of the training data."""
    t, I = np.arange(T)[:, None], source.channels
    u = np.sin(t * rng.uniform(0.02, 0.6, I) + rng.uniform(0, 6, I)) + 0.4 * rng.normal(size=(T, I))
    scale = source.preprocessing.scale
    return scale.undo(u) if isinstance(scale, Scaler) else u


def compared(content: bytes, source: Source, *, streaming: bool) -> Difference:
    """Return how far the scores of a file are from the model's, in onnxruntime."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("edge", needed_for="files in ONNX") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong is raised, and said once
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    kind = session.get_inputs()[0].type
    real = np.dtype(np.float64 if kind == "tensor(double)" else np.float32)
    shapes = {one.name: one.shape for one in session.get_inputs()}

    def run(names: list[str], given: dict[str, Any]) -> list[Any]:
        found: list[Any] = session.run(names, given)
        return found

    graph = streamed(run, shapes, real) if streaming else at_once(run, source, real)
    return difference(source, made_up(source, streaming=streaming), graph, streaming=streaming)


def at_once(run: Run, source: Source, real: np.dtype[Any]) -> Graph:
    """Return the function from a recording to its scores that a file of whole recordings is."""

    def graph(u: Array) -> Array:
        given = u.astype(real)
        return np.asarray(run([SCORES], {SAMPLES: given if source.alone else given[None]})[0])

    return graph


def streamed(run: Run, shapes: dict[str, list[int]], real: np.dtype[Any]) -> Graph:
    """Return the function from a recording to the scores of the steps that are ready."""
    states = [name for name in shapes if name != SAMPLE]
    outputs = [SCORES, READY, *(name + NEXT for name in states)]

    def graph(u: Array) -> Array:
        kinds = {name: np.int64 if name == CLOCK else real for name in states}
        held: dict[str, Any] = {name: np.zeros(shapes[name], kinds[name]) for name in states}
        rows = [np.zeros((0, 1))]
        for sample in u.astype(real):
            scores, ready, *new = run(outputs, {SAMPLE: sample, **held})
            held = dict(zip(states, new, strict=True))
            if ready:
                rows.append(scores)
        return np.concatenate(rows[1:] or rows)

    return graph


def difference(
    source: Source, recordings: Sequence[Array], graph: Graph, *, streaming: bool = False
) -> Difference:
    """Return how far scores that a graph gives are from the model's, over some recordings."""
    model = replace(source.model, before=Pipeline(source.preprocessing, source.model.features))
    # A stream has a row for a recording so far at every step, and the last is the recording's.
    last = streaming and not model.per_step and source.preprocessing.window is None
    W = np.abs(model.readout.weights)
    largest = relative = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippingWarning)
        for u in recordings:
            z = np.concatenate(model.pipeline.rows([Recording(u)]))
            found = graph(u)[-1:] if last else graph(u)
            # NaN where there should be none counts as infinite.
            apart = np.nan_to_num(np.abs(found - model.readout(z)), nan=np.inf)
            size = np.maximum(1.0, np.abs(z) @ W)
            largest = max(largest, float(apart.max(initial=0.0)))
            relative = max(relative, float((apart / size).max(initial=0.0)))
    return Difference(largest, relative)
