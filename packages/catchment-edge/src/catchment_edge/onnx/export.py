"""Write a model as one ONNX file, and compare the file with the model before it is left.

A file is inputs, outputs, nodes and what its metadata say. Gaps, scale and windows are nodes, in
the order and with the numbers of `catchment.data.preprocessing`. What depends on clocks stays
outside: samples come at the rate that the file's metadata names.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import onnx
from onnx import helper

import catchment
from catchment.data import Preprocessing, Recording, Scaler
from catchment.errors import ClippingWarning, IntegrityError, MissingExtraError
from catchment.features import Pipeline
from catchment.readout import Model, PersonalModels, Predictor
from catchment.wire import replace_file
from catchment_edge.c.layout import Cutting
from catchment_edge.encoder import Encoder
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
from catchment_edge.onnx.maps import maps_within, network_of, opset_of

if TYPE_CHECKING:
    from catchment.sklearn import SequenceEstimator

SAMPLES, SCORES, PROBABILITIES, LABEL = "samples", "scores", "probabilities", "label"
Named = tuple[str, Value, Sequence[int | str]]
Precision = Literal["float64", "float32"]
# Largest difference of a score, in units of the sizes that are added up in it (1 at least). In
# float32 a feature in fixed point may be rounded to the neighboring value, which is one step of it.
TOLERANCE = {"float64": 1e-12, "float32": 1e-3}
SHORT = 120  # steps of a made-up recording, where any length will do
LONGEST_CUT = 4096  # parts of a recipe's cut up to which a recording is made long enough for it...
MOST_WORK = 5e8  # ...if all its steps take no more products than this
MISSING = 0.03  # share of values that are missing, where gaps are filled


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


def made_up(source: Source) -> list[Array]:
    """Return raw recordings (T, I) of the lengths that matter, with gaps where they are filled."""
    rng, I, found = np.random.default_rng(0), source.channels, []
    scale = source.preprocessing.scale
    for T in _lengths(source):
        # A slow wave and noise in each channel, in the units of the training data.
        slow = np.arange(T)[:, None] * rng.uniform(0.02, 0.6, I)
        u = np.sin(slow + rng.uniform(0, 6, I)) + 0.4 * rng.normal(size=(T, I))
        found.append(scale.undo(u) if isinstance(scale, Scaler) else u)
    if source.preprocessing.gaps != "error":
        for u in found[1:]:
            u[rng.random(u.shape) < MISSING] = np.nan
            u[0, 0] = np.nan
    return found


def _lengths(source: Source) -> list[int]:
    if source.steps is not None:
        return [source.steps] * 3
    window = source.preprocessing.window
    if isinstance(window, int):
        return [window, 3 * window + 1]
    least = source.model.washout + 8
    # Echo states, which may stand anywhere in the map, are cut at such lengths.
    reservoirs = [one.reservoir for one in maps_within(source.model.features)]
    sizes = [(one.cut[0], one.n_units**2) for one in reservoirs if one is not None]
    cuts = [L for L, work in sizes if 0 < L <= LONGEST_CUT and L * work < MOST_WORK]
    longest = [max(least, L + L // 4) for L in cuts]
    return [least, least + SHORT, least + SHORT, *longest[:1]]


def compared(content: bytes, source: Source) -> tuple[float, float]:
    """Return how far scores of a file are from the model's, in onnxruntime, over some recordings.

    The largest difference, and the largest in units of what is added up in a score.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("edge", needed_for="files in ONNX") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong is raised, and said once
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    model = replace(source.model, before=Pipeline(source.preprocessing, source.model.features))
    kind = session.get_inputs()[0].type
    real = np.float64 if kind == "tensor(double)" else np.float32
    W = np.abs(model.readout.weights)
    largest = relative = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippingWarning)
        for u in made_up(source):
            z = np.concatenate(model.pipeline.rows([Recording(u)]))
            given = u.astype(real) if source.alone else u.astype(real)[None]
            (found,) = session.run([SCORES], {SAMPLES: given})
            # NaN where there should be none counts as infinite.
            apart = np.nan_to_num(np.abs(np.asarray(found) - model.readout(z)), nan=np.inf)
            size = np.maximum(1.0, np.abs(z) @ W)
            largest = max(largest, float(apart.max(initial=0.0)))
            relative = max(relative, float((apart / size).max(initial=0.0)))
    return largest, relative


@dataclass(frozen=True)
class OnnxFile:
    """What was written, and how far its scores are from the model's on made-up recordings.

    `largest_difference` is that of a score, `relative_difference` that in units of the sizes that
    are added up in it.
    """

    path: Path
    n_bytes: int
    opset: int
    precision: Precision
    largest_difference: float
    relative_difference: float

    def facts(self) -> dict[str, Any]:
        """Return what it is as plain JSON values."""
        known = asdict(self)
        return {"path": str(known.pop("path")), "bytes": known.pop("n_bytes"), **known}

    def text(self) -> str:
        """Return what it is in two lines."""
        return (
            f"ONNX opset {self.opset}, {self.precision}, {self.n_bytes:,} bytes\n"
            f"scores in onnxruntime are within {self.largest_difference:.1e} of the model's"
        )


def to_onnx(
    model: Predictor | SequenceEstimator,
    path: str | Path,
    *,
    precision: Precision = "float64",
    steps: int | None = None,
    rate: float | None = None,
) -> OnnxFile:
    """Write a model as one ONNX file, from raw samples to scores, and return what was written.

    The file is run in onnxruntime on made-up recordings first; where its scores are not the
    model's, nothing is written.

    Parameters
    ----------
    model
        A model, or a fitted estimator of `catchment.sklearn`.
    precision
        Of the arithmetic. In "float64" features in fixed point are the model's own, and scores are
        within 1e-12 of what is added up in them. In "float32" they are within a thousandth, and
        mostly within a millionth.
    steps
        Length of recordings, for maps that are laid out for one length where the model cuts no
        windows: random convolutions, WindowStatistics.
    rate
        Samples a second, for windows in seconds of a model without a rate.

    >>> import tempfile
    >>> from catchment import EchoState, Recording
    >>> from catchment.readout import train
    >>> waves = [np.sin(np.arange(60.0) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, 2) for k, u in enumerate(waves)]
    >>> model = train(EchoState(30).build(1, per_step=False), data, classes=("fast", "slow"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = to_onnx(model, Path(folder) / "waves.onnx")
    >>> written.opset, written.largest_difference < 1e-12
    (13, True)
    """
    if precision not in TOLERANCE:
        raise ValueError(f"precision is {precision!r}; use 'float64' or 'float32'")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; give the length of recordings, from 1 on")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder; name a file for the model, such as model.onnx")
    source = source_of(model, steps, rate)
    maps = maps_within(source.model.features)
    encoders = [one for one in maps if isinstance(one, Encoder)]
    # The lowest opset that has all operators: that of an encoder's network, if higher.
    opset = max([OPSET, *(opset_of(network_of(one)) for one in encoders)])
    content = batch_graph(source, np.dtype(precision), opset).SerializeToString()
    largest, relative = compared(content, source)
    # A map that is in float32 itself, or a network, has no closer one.
    single = bool(encoders) or any(one.precision == "float32" for one in maps)
    if not relative <= TOLERANCE["float32" if single else precision]:
        raise IntegrityError(
            f"scores of the graph are {largest:.1e} from the model's, so nothing was "
            "written; export with precision='float64', and report it if that fails too"
        )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    replace_file(Path(path), content)
    return OnnxFile(Path(path), len(content), opset, precision, largest, relative)
