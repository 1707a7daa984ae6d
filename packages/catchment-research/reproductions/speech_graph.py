"""A frozen speech encoder as one ONNX file: from 8 kHz samples to seven embeddings of 96 numbers.

Two published networks (mel bands of 16 kHz sound; an embedding of 76 frames of them: Lin et al.
2020, "Training keyword spotters with limited and synthesized speech data") are joined to what goes
before and between them: the rate is doubled by the filter of `scipy.signal.resample_poly`, the peak
is scaled, the clip is centered in 20 960 samples, and seven windows of frames are cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, numpy_helper
from scipy.signal import firwin

from catchment.errors import IntegrityError, MissingDataError
from catchment.wire import replace_file
from reproductions.places import data_directories

NAME = "speech_encoder"
FILES = {
    "melspectrogram.onnx": "ba2b0e0f8b7b",
    "embedding_model.onnx": "ba754db3cd76",
}
PEAK, LENGTH = 12000.0, 20960
FRAMES, BANDS, WINDOW, STEP, SIZE = 128, 32, 76, 8, 96
OPSET, IR_VERSION = 13, 7
STARTS = range(0, FRAMES - WINDOW + 1, STEP)


def locate_networks(directory: Path | str | None = None) -> dict[str, Path]:
    """Return where the two networks lie.

    >>> locate_networks("no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: the networks melspectrogram.onnx and embedding_model.onnx ...
    """
    roots = data_directories(directory)
    for root in roots:
        found = {name: root / NAME / name for name in FILES}
        if all(path.is_file() for path in found.values()):
            return found
    raise MissingDataError(
        f"the networks {' and '.join(FILES)} are not in {', '.join(str(r / NAME) for r in roots)}; "
        "copy them there from the Python package openwakeword 0.4.0"
    )


def joined(networks: Mapping[str, Path]) -> onnx.ModelProto:
    """Return the whole encoder: samples (1, T) at 8 kHz to embeddings (7, 96)."""
    mel, embedding = (_read(networks[name], sha256) for name, sha256 in FILES.items())
    # Sizes that the publisher left open, and that windows of one length settle.
    del mel.graph.output[0].type.tensor_type.shape.dim[:]
    front = compose.merge_models(_before(), mel, io_map=[("centered", "input")], prefix2="mel/")
    framed = compose.merge_models(front, _between(), io_map=[("mel/output", "mel_frames")])
    whole = compose.merge_models(framed, embedding, io_map=[("windows", "input_1")], prefix2="net/")
    out = compose.merge_models(whole, _after(), io_map=[("net/conv2d_19", "found")])
    onnx.checker.check_model(out)
    return out


def write_encoder(networks: Mapping[str, Path], path: Path) -> str:
    """Write the whole encoder into one file, and return its SHA-256."""
    content = joined(networks).SerializeToString(deterministic=True)
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    return hashlib.sha256(content).hexdigest()


def doubling_filter() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return the filter (41,) with which `resample_poly(x, 2, 1)` fills in every other sample.

    >>> doubling_filter().sum().round(3)
    np.float32(2.0)
    """
    taps = 2 * firwin(2 * 20 + 1, 0.5, window=("kaiser", 5.0))
    return taps.astype(np.float32)


def _read(path: Path, sha256: str) -> onnx.ModelProto:
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if not found.startswith(sha256):
        raise IntegrityError(f"{path} has SHA-256 {found[:12]}, not {sha256}; copy it again")
    return onnx.load_model_from_string(content)


def _before() -> onnx.ModelProto:
    """Return what makes samples (1, T) at 8 kHz a centered clip (1, 20 960) at 16 kHz."""
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("Unsqueeze", ["audio", "one"], ["channel"], {}),
        # Half a filter is cut off before, and half less one sample after: 2 T samples are left.
        ("ConvTranspose", ["channel", "taps"], ["fast"], {"strides": [2], "pads": [20, 19]}),
        ("Squeeze", ["fast", "one"], ["doubled"], {}),
        ("Abs", ["doubled"], ["sizes"], {}),
        ("ReduceMax", ["sizes"], ["largest"], {"axes": [1], "keepdims": 1}),
        ("Add", ["largest", "tiny"], ["divisor"], {}),
        ("Div", ["doubled", "divisor"], ["unit"], {}),
        ("Mul", ["unit", "peak"], ["loud"], {}),
        ("Slice", ["loud", "zero", "length", "one"], ["clip"], {}),
        ("Shape", ["clip"], ["shape"], {}),
        ("Gather", ["shape", "one"], ["n_samples"], {}),
        ("Sub", ["length", "n_samples"], ["missing"], {}),
        ("Div", ["missing", "two"], ["left"], {}),
        ("Sub", ["missing", "left"], ["right"], {}),
        ("Concat", ["zero", "left", "zero", "right"], ["pads"], {"axis": 0}),
        ("Pad", ["clip", "pads"], ["centered"], {"mode": "constant"}),
    ]
    constants: dict[str, Any] = {
        "taps": doubling_filter()[None, None],
        "tiny": np.float32(1e-9),
        "peak": np.float32(PEAK),
        "length": np.array([LENGTH]),
        **{name: np.array([k]) for k, name in enumerate(("zero", "one", "two"))},
    }
    return _model("before", nodes, constants, ("audio", [1, "T"]), ("centered", [1, LENGTH]))


def _between() -> onnx.ModelProto:
    """Return what cuts mel frames (1, 1, 128, 32) into windows (7, 76, 32, 1)."""
    places = np.array([[first + k for k in range(WINDOW)] for first in STARTS])
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("Reshape", ["mel_frames", "plain"], ["frames"], {}),
        ("Div", ["frames", "ten"], ["smaller"], {}),
        ("Add", ["smaller", "plus"], ["shifted"], {}),
        ("Gather", ["shifted", "places"], ["cut"], {"axis": 0}),
        ("Unsqueeze", ["cut", "last"], ["windows"], {}),
    ]
    constants: dict[str, Any] = {
        "plain": np.array([FRAMES, BANDS]),
        "ten": np.float32(10),
        "plus": np.float32(2),
        "places": places,
        "last": np.array([3]),
    }
    shape = [len(STARTS), WINDOW, BANDS, 1]
    return _model(
        "between", nodes, constants, ("mel_frames", [1, 1, FRAMES, BANDS]), ("windows", shape)
    )


def _after() -> onnx.ModelProto:
    """Return what drops the axes of one element of embeddings (7, 1, 1, 96)."""
    return _model(
        "after",
        [("Reshape", ["found", "rows"], ["embeddings"], {})],
        {"rows": np.array([len(STARTS), SIZE])},
        ("found", [len(STARTS), 1, 1, SIZE]),
        ("embeddings", [len(STARTS), SIZE]),
    )


def _model(
    name: str,
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]],
    constants: Mapping[str, Any],
    takes: tuple[str, list[int | str]],
    gives: tuple[str, list[int | str]] | tuple[str, list[int]],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(kind, a, b, **settings) for kind, a, b, settings in nodes],
        name,
        [helper.make_tensor_value_info(takes[0], TensorProto.FLOAT, takes[1])],
        [helper.make_tensor_value_info(gives[0], TensorProto.FLOAT, gives[1])],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
