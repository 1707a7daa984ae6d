"""The file: inputs, outputs, nodes and what its metadata say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

import catchment
from catchment.data import Preprocessing
from catchment.readout import Model
from catchment_edge.onnx.builder import Builder, described
from catchment_edge.onnx.maps import map_rows
from catchment_edge.onnx.outputs import labels_of, probabilities_of, scores_of
from catchment_edge.onnx.preparation import filled, scaled, usable, windows_of, without_clock
from catchment_edge.onnx.sequences import Sequences
from catchment_edge.onnx.values import OPSET, Array, Value

SAMPLES, SCORES, PROBABILITIES, LABEL = "samples", "scores", "probabilities", "label"
Named = tuple[str, Value, Sequence[int | str]]


@dataclass(frozen=True, eq=False)
class Source:
    """What is exported: a model, labels (K,) of its classes, and how long recordings are.

    `preprocessing` is the model's without clocks, which a graph does not have.
    """

    model: Model
    preprocessing: Preprocessing
    labels: Array | None
    channels: int
    steps: int | None
    rate: float | None

    @classmethod
    def of(
        cls,
        model: Model,
        *,
        labels: Array | None = None,
        steps: int | None = None,
        rate: float | None = None,
    ) -> Source:
        known = model.preprocessing.rate
        if None not in (known, rate) and known != rate:
            raise ValueError(
                f"rate is {rate:g}, and the model takes samples at {known:g} Hz; leave it out"
            )
        preprocessing = without_clock(model.preprocessing, rate)
        channels = len(model.channels) if model.channels else model.n_inputs
        if channels is None:
            raise ValueError(
                "the map takes any number of channels, so the file would have none to name; build "
                "the map for the channels of the data"
            )
        if preprocessing.window is not None and steps is not None:
            raise ValueError(
                f"steps is {steps}, and the model cuts windows of {preprocessing.window} steps "
                "itself; leave it out"
            )
        if labels is None and model.classes is not None:
            labels = np.array(model.classes)
        return cls(model, preprocessing, labels, channels, steps, known or rate)

    @property
    def alone(self) -> bool:
        """Whether the input is one recording (T, I), and not several of one length (n, T, I)."""
        return self.preprocessing.window is not None or self.model.per_step


def batch_graph(source: Source, real: np.dtype[Any], opset: int = OPSET) -> onnx.ModelProto:
    """Return the graph from raw samples to scores of all rows."""
    model, preprocessing = source.model, source.preprocessing
    builder = Builder(real, opset)
    samples = Value(builder, SAMPLES, real)
    u = samples.unsqueeze(0) if source.alone else samples
    u, poison = usable(u, preprocessing)
    if preprocessing.gaps != "error":
        u = filled(u, preprocessing.gaps)
    u, steps = scaled(u, preprocessing), source.steps
    if preprocessing.window is not None:
        assert isinstance(preprocessing.window, int)
        assert not isinstance(preprocessing.step, str)
        u, steps = (
            windows_of(u, preprocessing.window, preprocessing.step or preprocessing.window),
            preprocessing.window,
        )
    z = map_rows(model.features, Sequences(u, steps, source.channels))
    scores = scores_of(model, z) + poison.unsqueeze(1)
    size: int | str = "steps" if source.steps is None else source.steps
    shape = [size, source.channels] if source.alone else ["recordings", size, source.channels]
    return assembled(builder, source, [(SAMPLES, samples, shape)], answers(source, scores), {})


def answers(source: Source, scores: Value) -> list[Named]:
    """Return the outputs of a graph: scores, and of classes probabilities and the label."""
    model = source.model
    found: list[Named] = [(SCORES, scores, ["rows", model.n_outputs])]
    if source.labels is not None:
        chances = probabilities_of(model, scores)
        found.append((PROBABILITIES, chances, ["rows", model.n_outputs]))
        found.append((LABEL, labels_of(scores, source.labels), ["rows"]))
    return found


def assembled(
    builder: Builder,
    source: Source,
    inputs: Sequence[Named],
    outputs: Sequence[Named],
    facts: Mapping[str, Any],
) -> onnx.ModelProto:
    """Return the whole file, checked by ONNX's own checker."""
    (nodes,) = builder.scopes
    last = [helper.make_node("Identity", [value.name], [name]) for name, value, _ in outputs]
    graph = helper.make_graph(
        [*builder.head, *nodes, *last],
        "catchment",
        [described(value, shape, name) for name, value, shape in inputs],
        [described(value, shape, name) for name, value, shape in outputs],
        builder.initializers,
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", builder.opset)],
        ir_version=builder.ir_version,
        producer_name="catchment",
        producer_version=catchment.__version__,
    )
    helper.set_model_props(made, metadata(source, builder.real) | texts(facts))
    onnx.checker.check_model(made)
    return made


def metadata(source: Source, real: np.dtype[Any]) -> dict[str, str]:
    """Return what a file says of itself; lists and numbers are JSON."""
    model, preprocessing = source.model, source.preprocessing
    facts = {
        "catchment": catchment.__version__,
        "fingerprint": model.pipeline.fingerprint,
        "map": model.features.fingerprint,
        "precision": str(real),
        "classes": model.classes,
        "channels": model.channels,
        "rate": source.rate,
        "window": preprocessing.window,
        "step": preprocessing.step or preprocessing.window,
        "gaps": preprocessing.gaps,
        "per_step": model.per_step,
        "washout": model.washout,
    }
    return texts({name: value for name, value in facts.items() if value is not None})


def texts(facts: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in facts.items()
    }
