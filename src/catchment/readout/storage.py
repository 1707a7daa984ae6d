"""Models and statistics as files: safetensors, no pickle, every byte under a checksum.

The file is an ordinary safetensors file. Its metadata hold one entry, `catchment`: a JSON object
with the format, what is stored, and the SHA-256 of every tensor's bytes and of the header itself.
The header's own digest is taken with sixty-four zeros in its place. The preparation is stored as
its settings, the feature map as its recipe; the fingerprint of both is compared on loading.
Checksums find damage, not malice: whoever can write a file can write its checksums too.

A file is written beside its destination, flushed to the disk and then renamed, so that a crash
leaves the old file or the new one.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safe

import catchment
from catchment.data.prepare import Prepare
from catchment.errors import IntegrityError
from catchment.features.kept import restored
from catchment.features.pipeline import Pipeline
from catchment.files import replace_file
from catchment.readout.model import Model
from catchment.readout.readout import Readout
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import Parts

FORMAT = 2
MAX_HEADER = 1 << 20

_KEY = "catchment"
_DIGEST = re.compile(rb'header_sha256\\":\\"([0-9a-f]{64})\\"')
_SUMS = ("feature_sum", "target_sum", "gram", "cross", "target_gram")

Tensors = dict[str, NDArray[Any]]
Header = dict[str, Any]


def save(model: Model, path: str | Path) -> Path:
    """Write a model to a file, whole or not at all, and return its path.

    The file holds everything the model does: preparation, map, readout, names of channels and
    classes, and its statistics, if it kept them.

    >>> import tempfile
    >>> from catchment import EchoState, Recording
    >>> from catchment.readout.model import train
    >>> u = np.sin(np.arange(100) / 5)
    >>> model = train(EchoState(20, seed=1).build(1, per_step=True), [Recording(u[:-1], u[1:])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load(save(model, Path(folder) / "wave.safetensors"))
    >>> bool((same.predict(u) == model.predict(u)).all())
    True
    """
    replace_file(Path(path), to_bytes(model))
    return Path(path)


def load(path: str | Path, *, use: Iterable[type] = ()) -> Model:
    """Return the model of a file that `save` wrote; its predictions are the same to the last bit.

    IntegrityError if the file is damaged, of another kind, or of a newer format.

    Parameters
    ----------
    use
        Classes of feature maps of one's own that the model may name. A file imports nothing: it
        finds them here or in modules that the program has imported already.
    """
    with Path(path).open("rb") as file:
        return from_stream(file, str(path), use=use)


def to_bytes(model: Model) -> bytes:
    """Return a model as the content of its file."""
    return _packed(*_model_parts(model))


def from_bytes(content: bytes, *, use: Iterable[type] = ()) -> Model:
    """Return the model of a file's content, as `load` does."""
    return from_stream(io.BytesIO(content), "the model", use=use)


def from_stream(file: BinaryIO, name: str, *, use: Iterable[type] = ()) -> Model:
    """Return the model that an open file holds, as `load` does."""
    header, tensors = _read(file, name, "model")
    try:
        return _model(header, tensors, use)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{name} does not describe a model ({type(error).__name__}: {error}); save it again"
        ) from error


def save_statistics(statistics: RidgeStatistics, path: str | Path) -> Path:
    """Write statistics to a file, whole or not at all, and return its path.

    >>> import tempfile
    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load_statistics(save_statistics(s, Path(folder) / "client.safetensors"))
    >>> same == s
    True
    """
    facts, tensors = _statistics_parts(statistics, "")
    replace_file(Path(path), _packed({"kind": "statistics", **facts}, tensors))
    return Path(path)


def load_statistics(path: str | Path) -> RidgeStatistics:
    """Return the statistics of a file that `save_statistics` wrote, equal to those saved.

    IntegrityError if the file is damaged, of another kind, or of a newer format.
    """
    with Path(path).open("rb") as file:
        header, tensors = _read(file, str(path), "statistics")
    try:
        return _statistics(header, tensors, "")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path} does not describe statistics ({type(error).__name__}: {error}); save it again"
        ) from error


def _model_parts(model: Model) -> tuple[Header, Tensors]:
    readout, described = model.readout, model.features.parts()
    tensors: Tensors = {
        "readout.weights": readout.weights,
        "readout.intercept": readout.intercept,
        "readout.ridge": np.asarray(readout.ridge, dtype=np.float64),
    }
    tensors |= {f"map.{k}": array for k, array in enumerate(described.arrays)}
    known = {"target_range": model.target_range, "deviation": model.deviation}
    tensors |= {name: array for name, array in known.items() if array is not None}
    header: Header = {
        "kind": "model",
        "fingerprint": model.pipeline.fingerprint,
        "prepare": model.prepare.settings(),
        "map": {"kind": described.kind, "facts": described.facts},
        "classes": None if model.classes is None else list(model.classes),
        "channels": None if model.channels is None else list(model.channels),
        "temperature": model.temperature,
        "columns": dict(model.columns),
        "statistics": None,
    }
    if model.statistics is not None:
        header["statistics"], sums = _statistics_parts(model.statistics, "statistics.")
        tensors |= sums
    return header, tensors


def _model(header: Header, tensors: Tensors, use: Iterable[type]) -> Model:
    n_arrays = sum(name.startswith("map.") for name in tensors)
    arrays = tuple(tensors[f"map.{k}"] for k in range(n_arrays))
    described = Parts(header["map"]["kind"], header["map"]["facts"], arrays)
    pipeline = Pipeline(Prepare.from_settings(header["prepare"]), restored(described, use))
    if pipeline.fingerprint != header["fingerprint"]:
        raise ValueError(
            f"the pipeline has fingerprint {pipeline.fingerprint}, the file says "
            f"{header['fingerprint']}"
        )
    ridge = _typed(tensors, "readout.ridge", np.float64)
    facts, classes, channels = header["statistics"], header["classes"], header["channels"]
    return Model(
        pipeline,
        Readout(
            _typed(tensors, "readout.weights", np.float64),
            _typed(tensors, "readout.intercept", np.float64),
            ridge if ridge.ndim else float(ridge),
        ),
        None if classes is None else tuple(classes),
        None if facts is None else _statistics(facts, tensors, "statistics."),
        header["temperature"],
        None if channels is None else tuple(channels),
        tensors.get("target_range"),
        tensors.get("deviation"),
        dict(header["columns"]),
    )


def _statistics_parts(statistics: RidgeStatistics, prefix: str) -> tuple[Header, Tensors]:
    facts = {
        "n_rows": statistics.n_rows,
        "weight": statistics.weight,
        "fingerprint": statistics.fingerprint,
    }
    return facts, {prefix + name: getattr(statistics, name) for name in _SUMS}


def _statistics(facts: Header, tensors: Tensors, prefix: str) -> RidgeStatistics:
    sums = {name: _typed(tensors, prefix + name, np.float64) for name in _SUMS}
    n_rows, weight = facts["n_rows"], facts["weight"]
    if type(n_rows) is not int or not isinstance(weight, float | int):
        raise TypeError(f"statistics of {n_rows!r} rows of weight {weight!r}")
    return RidgeStatistics(n_rows, float(weight), **sums, fingerprint=str(facts["fingerprint"]))


def _typed(tensors: Tensors, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    tensor = tensors[name]
    if tensor.dtype != dtype:
        raise TypeError(f"tensor {name} has type {tensor.dtype}, not {np.dtype(dtype)}")
    return tensor


def _packed(header: Header, tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file."""
    dense = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    stored = header | {
        "format": FORMAT,
        "library": catchment.__version__,
        "tensors": {name: _sha256(dense[name]) for name in sorted(dense)},
        "header_sha256": "0" * 64,
    }
    text = json.dumps(stored, sort_keys=True, separators=(",", ":"), allow_nan=False)
    content = bytearray(safe.save(dense, {_KEY: text}))
    size = 8 + int.from_bytes(content[:8], "little")
    if size > MAX_HEADER:
        raise ValueError(
            f"the header would have {size} bytes, the limit is {MAX_HEADER}; "
            "name the classes more briefly"
        )
    place = _digest_place(bytes(content[:size]), "the file")
    content[place] = hashlib.sha256(content[:size]).hexdigest().encode()
    return bytes(content)


def _read(file: BinaryIO, path: str, kind: str) -> tuple[Header, Tensors]:
    raw = file.read(8)
    size = int.from_bytes(raw, "little")
    # Nothing more is read before the length is known to be sensible: it may be any file.
    raw += file.read(min(size, MAX_HEADER))
    if len(raw) < 8 + size:
        raise IntegrityError(
            f"{path} is no safetensors file, or it was cut short in its header of {size} "
            f"bytes (at most {MAX_HEADER} are read); get it again from where it was saved"
        )
    header = _checked_header(raw, path)
    if header.get("kind") != kind:
        raise IntegrityError(f"{path} holds {header.get('kind')!r}, this reads {kind!r}")
    content = raw + file.read()
    try:
        tensors = safe.load(content)
    except SafetensorError as error:
        raise IntegrityError(f"{path} is damaged ({error}); get it again") from error
    if header["tensors"].keys() != tensors.keys():
        raise IntegrityError(f"{path} is damaged: tensors are missing or unknown; get it again")
    for name, tensor in tensors.items():
        if _sha256(tensor) != header["tensors"][name]:
            raise IntegrityError(f"{path} is damaged in tensor {name!r}; get it again")
    # Copies, because what is read from a buffer is read-only and the kernels compile for writable.
    return header, {name: tensor.copy() for name, tensor in tensors.items()}


def _checked_header(raw: bytes, path: str) -> Header:
    """Return the description inside a safetensors header, after its digest has been compared."""
    place = _digest_place(raw, path)
    blank = raw[: place.start] + b"0" * 64 + raw[place.stop :]
    damaged = hashlib.sha256(blank).hexdigest().encode() != raw[place]
    try:
        header = json.loads(json.loads(raw[8:])["__metadata__"][_KEY])
        version = header["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(f"{path} has a damaged header; get it again") from error
    if damaged:
        raise IntegrityError(f"{path} has a damaged header: its checksum differs; get it again")
    if version != FORMAT:
        raise IntegrityError(
            f"{path} has format {version}, this version reads {FORMAT}; upgrade catchment "
            f"(the file was written by {header.get('library')})"
        )
    if not isinstance(header.get("tensors"), dict):
        raise IntegrityError(f"{path} has no checksums of its tensors; save it again")
    return dict(header)


def _digest_place(raw: bytes, path: str) -> slice:
    found = list(_DIGEST.finditer(raw))
    if len(found) != 1:
        raise IntegrityError(
            f"{path} was not written by catchment, or its header is damaged; "
            "pass a file that `save` wrote"
        )
    return slice(*found[0].span(1))


def _sha256(tensor: NDArray[Any]) -> str:
    little = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(np.asarray(little, order="C").data).hexdigest()
