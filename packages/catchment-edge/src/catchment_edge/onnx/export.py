"""Write a model as one ONNX file, and compare the file with the model before it is left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from catchment import replace_file
from catchment.errors import IntegrityError
from catchment.features import Encoder
from catchment.readout import Predictor
from catchment_edge.onnx.check import compared
from catchment_edge.onnx.encoder import network_of, opset_of
from catchment_edge.onnx.file import Source, batch_graph
from catchment_edge.onnx.maps import maps_within
from catchment_edge.onnx.sources import source_of
from catchment_edge.onnx.streaming import streaming_graph
from catchment_edge.onnx.values import OPSET

if TYPE_CHECKING:
    from catchment.sklearn import PreparedEstimator

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
    streaming: bool
    largest_difference: float
    relative_difference: float

    def facts(self) -> dict[str, Any]:
        """Return what it is as plain JSON values."""
        return {
            "path": str(self.path),
            "bytes": self.n_bytes,
            "opset": self.opset,
            "precision": self.precision,
            "streaming": self.streaming,
            "largest_difference": self.largest_difference,
            "relative_difference": self.relative_difference,
        }

    def text(self) -> str:
        """Return what it is in two lines."""
        form = "one step at a time" if self.streaming else "whole recordings"
        return (
            f"ONNX opset {self.opset}, {self.precision}, {form}, {self.n_bytes:,} bytes\n"
            f"scores in onnxruntime are within {self.largest_difference:.1e} of the model's"
        )


def to_onnx(
    model: Predictor | PreparedEstimator,
    path: str | Path,
    *,
    precision: Precision = "float64",
    streaming: bool = False,
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
    streaming
        One sample and states in, scores and states out, instead of whole recordings.
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
    made = streaming_graph if streaming else batch_graph
    graph = made(source, np.dtype(precision), _opset(source))
    content = graph.SerializeToString()
    found = compared(content, source, streaming=streaming)
    if not found.relative <= _tolerance(source, precision):
        raise IntegrityError(
            f"scores of the graph are {found.largest:.1e} from the model's, so nothing was "
            "written; export with precision='float64', and report it if that fails too"
        )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    replace_file(Path(path), content)
    opset = graph.opset_import[0].version
    return OnnxFile(
        Path(path), len(content), opset, precision, streaming, found.largest, found.relative
    )


def _encoders(source: Source) -> list[Encoder]:
    return [one for one in maps_within(source.model.features) if isinstance(one, Encoder)]


def _opset(source: Source) -> int:
    """Return the lowest opset that has all operators: that of an encoder's network, if higher."""
    return max([OPSET, *(opset_of(network_of(one)) for one in _encoders(source))])


def _tolerance(source: Source, precision: Precision) -> float:
    """Return the tolerance; a map that is in float32 itself, or a network, has no closer one."""
    single = any(one.precision == "float32" for one in maps_within(source.model.features))
    return TOLERANCE["float32" if single or _encoders(source) else precision]
