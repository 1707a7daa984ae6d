"""Write a model as one ONNX file, and compare the file with the model before it is left."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from catchment import Array
from catchment.data import Recording, Scaler
from catchment.errors import ClippingWarning, IntegrityError, MissingExtraError
from catchment.features import Pipeline
from catchment.readout import Predictor
from catchment.wire import replace_file
from catchment_edge.encoder import Encoder
from catchment_edge.onnx.builder import OPSET
from catchment_edge.onnx.file import SAMPLES, SCORES, Source, batch_graph, source_of
from catchment_edge.onnx.maps import maps_within, network_of, opset_of

if TYPE_CHECKING:
    from catchment.sklearn import SequenceEstimator


SHORT = 120  # steps of a made-up recording, where any length will do
LONGEST_CUT = 4096  # parts of a recipe's cut up to which a recording is made long enough for it...
MOST_WORK = 5e8  # ...if all its steps take no more products than this
MISSING = 0.03  # share of values that are missing, where gaps are filled


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


Precision = Literal["float64", "float32"]
# Largest difference of a score, in units of the sizes that are added up in it (1 at least). In
# float32 a feature in fixed point may be rounded to the neighboring value, which is one step of it.
TOLERANCE = {"float64": 1e-12, "float32": 1e-3}


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
