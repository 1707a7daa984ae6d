"""The file: inputs, outputs, nodes and what its metadata say.

Gaps, scale and windows are nodes, in the order and with the numbers of
`catchment.data.preprocessing`. What depends on clocks stays outside: samples come at the rate that
the file's metadata names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

import catchment
from catchment.data import Preprocessing, Scaler
from catchment.features import Pipeline
from catchment.readout import Model, PersonalModels, Predictor
from catchment_edge.c.layout import Cutting
from catchment_edge.onnx.builder import (
    BOOL,
    INT64,
    OPSET,
    Array,
    Builder,
    Sequences,
    Value,
    described,
)


def without_clock(preprocessing: Preprocessing, rate: float | None = None) -> Preprocessing:
    """Return the preparation of samples that come at its rate: windows are counted in steps.

    ValueError for what a graph cannot do.

    Parameters
    ----------
    rate
        At which samples come, where the preparation does not say it.

    >>> without_clock(Preprocessing(rate=50, window="2s", scale="none")).window
    100
    """
    cutting = Cutting.of(preprocessing, rate)
    if preprocessing.gaps == "restart":
        raise ValueError(
            'gaps is "restart", which cuts a recording into as many pieces as it has gaps, and a '
            'graph has one; train with gaps="hold" or "interpolate"'
        )
    if preprocessing.scale in ("recording", "own"):
        raise ValueError(
            f'scale is "{preprocessing.scale}", by moments of whole recordings, which the graph '
            'does not take; train with scale="federated"'
        )
    if not preprocessing.is_fitted:
        raise ValueError('scale is "federated" and not fitted; export a model that was trained')
    alone = replace(preprocessing, horizon=None, predicted=None, rate=None)
    step = cutting.step if preprocessing.step is not None else None
    return replace(alone, window=cutting.window or None, step=step)


def filled(u: Value, gaps: str) -> Value:
    """Return inputs (B, T, I) with gaps filled; a channel without any value stays missing.

    The k-th known step of each channel is written down at place k. The known steps so far are then
    the place of the last one.
    """
    builder = u.builder
    known = ~u.missing()
    count = known.cast(INT64).running_sum(axis=1)
    T, shape = u.length(1), builder.op("Shape", u, result=INT64)
    steps = builder.op("Expand", builder.arange(0, T).unsqueeze(1), shape)
    spare = builder.zeros(u.length(0), T + 1, u.length(2), dtype=INT64)
    slots = builder.where(known, count - 1, T)
    places = builder.op("ScatterElements", spare, slots, steps, axis=1)
    last = places.take_along((count - 1).at_least(0), axis=1)
    before = u.take_along(last, axis=1)
    if gaps == "hold":
        return builder.where(known, u, before)
    n = count.part(-1, np.iinfo(np.int64).max, axis=1)
    following = places.take_along(count.at_most(n - 1).at_least(0), axis=1)
    after = u.take_along(following, axis=1)
    apart = following - last
    slope = (after - before) / apart.at_least(1).cast(builder.real)
    drawn = slope * (steps - last).cast(builder.real) + before
    return builder.where(known, u, builder.where(apart > 0, drawn, before))


def scaled(u: Value, preprocessing: Preprocessing) -> Value:
    """Return inputs scaled, and zeros for channels without any value."""
    if isinstance(preprocessing.scale, Scaler):
        u = (u - preprocessing.scale.mean) / preprocessing.scale.scale
    return u if preprocessing.gaps == "error" else u.builder.where(u.missing(), 0.0, u)


def usable(u: Value, preprocessing: Preprocessing) -> tuple[Value, Value]:
    """Return inputs (B, T, I) without what the model refuses, and (B,) NaN where there was some.

    What is added to scores is 0 for all other recordings. A graph cannot raise.
    """
    builder = u.builder
    bad = builder.op("IsInf", u, result=BOOL)
    if preprocessing.gaps == "error":
        bad = bad | u.missing()
    number = bad.cast(builder.real).sum(axis=-1).sum(axis=-1)
    return builder.where(bad, 0.0, u), builder.where(number > 0.0, np.nan, number * 0.0)


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
        window, step = preprocessing.window, preprocessing.step or preprocessing.window
        assert isinstance(window, int)
        assert isinstance(step, int)
        one, steps = u.squeeze(0), window
        n = ((one.length(0) - window + step) / step).at_least(0)
        starts = (builder.arange(0, n) * step).unsqueeze(1)
        u = one.take(starts + builder.constant(np.arange(window)), axis=0)
    z = Sequences(u, steps, source.channels).rows(model.features)
    flat = z.reshape(-1, model.readout.n_features)
    scores = flat @ model.readout.weights + model.readout.intercept + poison.unsqueeze(1)
    size: int | str = "steps" if source.steps is None else source.steps
    shape = [size, source.channels] if source.alone else ["recordings", size, source.channels]
    return assembled(source, described(samples, shape), answers(source, scores))


def answers(source: Source, scores: Value) -> list[Named]:
    """Return the outputs of a graph: scores, and of classes probabilities and the label."""
    model = source.model
    found: list[Named] = [(SCORES, scores, ["rows", model.n_outputs])]
    if source.labels is not None:
        builder, K = scores.builder, model.n_outputs
        if model.temperature is not None:
            chances = builder.op("Softmax", scores / model.temperature, axis=-1)
        else:  # the nearest rows that are not negative and sum to 1
            ordered = scores.sorted(K, axis=1, largest=True)
            excess = (ordered.running_sum(axis=1) - 1.0) / np.arange(1.0, K + 1.0)
            kept = (ordered > excess).cast(np.int64).sum(axis=1, keep=True)
            # Scores that are missing keep nothing, and have no place before the first.
            threshold = excess.take_along((kept - 1).at_least(0), axis=1)
            chances = (scores - threshold).at_least(0.0)
        label = builder.constant(source.labels).take(scores.place_of_max(axis=1), axis=0)
        found += [(PROBABILITIES, chances, ["rows", K]), (LABEL, label, ["rows"])]
    return found


def assembled(
    source: Source, samples: onnx.ValueInfoProto, outputs: Sequence[Named]
) -> onnx.ModelProto:
    """Return the whole file, checked by ONNX's own checker."""
    builder = outputs[0][1].builder
    (nodes,) = builder.scopes
    last = [helper.make_node("Identity", [value.name], [name]) for name, value, _ in outputs]
    graph = helper.make_graph(
        [*builder.head, *nodes, *last],
        "catchment",
        [samples],
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
    helper.set_model_props(made, metadata(source, builder.real))
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
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in facts.items()
        if value is not None
    }


def source_of(model: Any, steps: int | None, rate: float | None) -> Source:
    """Return what to export of a model or a fitted estimator."""
    if isinstance(model, Model):
        return Source.of(model, steps=steps, rate=rate)
    if isinstance(model, PersonalModels):
        raise ValueError(
            "these are models by client, and a file holds one; say whose with --client NAME, or in "
            'Python export models.model or models.of("name")'
        )
    from catchment.sklearn import EchoStateFeatures, SequenceClassifier, SequenceEstimator

    if not isinstance(model, SequenceEstimator):
        # What can be trained and has no form here is a value that the command may meet.
        kind = ValueError if isinstance(model, Predictor) else TypeError
        raise kind(
            f"{type(model).__name__} has no form in ONNX; export a model with one map and one "
            "readout, or a fitted estimator of catchment.sklearn"
        )
    if isinstance(model, EchoStateFeatures):
        raise ValueError(
            f"{type(model).__name__} does not predict; export an estimator that does, such as "
            "EchoStateClassifier"
        )
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    estimator: Any = model
    own: Model = estimator.model_
    features: Any = own.features
    if features.reservoir is not None and own.per_step:
        # Estimators answer for the steps of the washout, too.
        features = replace(features, washout=0)
        own = replace(own, before=Pipeline(own.preprocessing, features), statistics=None)
    labels = None
    if isinstance(model, SequenceClassifier):
        known = np.asarray(estimator.classes_)
        labels = known.astype(np.int64) if known.dtype.kind in "iub" else known.astype(np.str_)
    return Source.of(own, labels=labels, steps=steps, rate=rate)
