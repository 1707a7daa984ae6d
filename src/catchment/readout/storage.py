"""Models and statistics as files: safetensors, no pickle, every byte under a checksum.

The file is an ordinary safetensors file. Its metadata hold one entry, `catchment`: a JSON object
with the format, what is stored, and the SHA-256 of every tensor's bytes and of the header itself.
The header's own digest is taken with sixty-four zeros in its place. A reservoir is stored as its
recipe when it has one and is rebuilt bit for bit, else as its weights; either way its fingerprint
is compared on loading. Checksums find damage, not malice: whoever can write a file can write its
checksums too.

A file is written beside its destination, flushed to the disk and then renamed, so that a crash
leaves the old file or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safe

import catchment
from catchment.errors import IntegrityError
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.echo_state.weights import ACTIVATIONS, LayerWeights, SparseRows
from catchment.readout.model import Model
from catchment.readout.readout import Readout
from catchment.readout.statistics import RidgeStatistics

FORMAT = 1
MAX_HEADER = 1 << 20

_KEY = "catchment"
_DIGEST = re.compile(rb'header_sha256\\":\\"([0-9a-f]{64})\\"')
_SUMS = ("feature_sum", "target_sum", "gram", "cross", "target_gram")
_SPARSE = ("starts", "columns", "values")
_UNIT = ("bias", "leak", "gain", "shift", "activation")

Tensors = dict[str, NDArray[Any]]
Header = dict[str, Any]


def save(model: Model, path: str | Path) -> Path:
    """Write a model to a file, whole or not at all, and return its path.

    The file holds everything the model does: also its statistics, if it kept them.

    >>> import tempfile
    >>> from catchment.data.recording import Recording
    >>> from catchment.readout.model import train
    >>> features = EchoStateMap(Reservoir.from_recipe(Recipe(units=20, inputs=1, seed=1)))
    >>> u = np.sin(np.arange(100) / 5)
    >>> model = train(features, [Recording(u[:-1], u[1:])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load(save(model, Path(folder) / "wave.safetensors"))
    >>> bool((same.predict(u) == model.predict(u)).all())
    True
    """
    header, tensors = _model_parts(model)
    return _write(Path(path), header, tensors)


def load(path: str | Path) -> Model:
    """Return the model of a file that `save` wrote; its predictions are the same to the last bit.

    IntegrityError if the file is damaged, of another kind, or of a newer format.
    """
    header, tensors = _read(Path(path), "model")
    try:
        return _model(header, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path} does not describe a model ({type(error).__name__}: {error}); save it again"
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
    return _write(Path(path), {"kind": "statistics", **facts}, tensors)


def load_statistics(path: str | Path) -> RidgeStatistics:
    """Return the statistics of a file that `save_statistics` wrote, equal to those saved.

    IntegrityError if the file is damaged, of another kind, or of a newer format.
    """
    header, tensors = _read(Path(path), "statistics")
    try:
        return _statistics(header, tensors, "")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path} does not describe statistics ({type(error).__name__}: {error}); save it again"
        ) from error


def _model_parts(model: Model) -> tuple[Header, Tensors]:
    readout, reservoir = model.readout, model.features.reservoir
    recipe = reservoir.recipe
    tensors: Tensors = {
        "readout.weights": readout.weights,
        "readout.intercept": readout.intercept,
        "readout.ridge": np.asarray(readout.ridge, dtype=np.float64),
    }
    header: Header = {
        "kind": "model",
        "fingerprint": model.features.fingerprint,
        "features": model.features.settings(),
        "classes": None if model.classes is None else list(model.classes),
        "temperature": model.temperature,
        "recipe": None,
        "layers": None,
        "statistics": None,
    }
    if recipe is not None and recipe.fingerprint == reservoir.fingerprint:
        header["recipe"] = recipe.to_json()
    else:
        header["layers"] = len(reservoir.layers)
        for k, layer in enumerate(reservoir.layers):
            tensors |= _layer_tensors(layer, f"layer{k}.")
    if model.statistics is not None:
        header["statistics"], sums = _statistics_parts(model.statistics, "statistics.")
        tensors |= sums
    return header, tensors


def _model(header: Header, tensors: Tensors) -> Model:
    if header["recipe"] is not None:
        reservoir = Reservoir.from_recipe(Recipe.from_json(header["recipe"]))
    else:
        layers = (_layer(tensors, f"layer{k}.") for k in range(header["layers"]))
        reservoir = Reservoir(tuple(layers))
    features = EchoStateMap(reservoir, **header["features"])
    if features.fingerprint != header["fingerprint"]:
        raise ValueError(
            f"features have fingerprint {features.fingerprint}, the file says "
            f"{header['fingerprint']}"
        )
    ridge = _typed(tensors, "readout.ridge", np.float64)
    facts, classes = header["statistics"], header["classes"]
    return Model(
        features,
        Readout(
            _typed(tensors, "readout.weights", np.float64),
            _typed(tensors, "readout.intercept", np.float64),
            ridge if ridge.ndim else float(ridge),
        ),
        None if classes is None else tuple(classes),
        None if facts is None else _statistics(facts, tensors, "statistics."),
        header["temperature"],
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


def _layer_tensors(layer: LayerWeights, prefix: str) -> Tensors:
    tensors: Tensors = {prefix + name: getattr(layer, name) for name in _UNIT}
    for name, matrix in (("W", layer.W), ("W_in", layer.W_in)):
        tensors |= {f"{prefix}{name}.{part}": getattr(matrix, part) for part in _SPARSE}
        tensors[f"{prefix}{name}.n_columns"] = np.array(matrix.n_columns, dtype=np.int64)
    return tensors


def _layer(tensors: Tensors, prefix: str) -> LayerWeights:
    activation = _typed(tensors, prefix + "activation", np.uint8)
    if (activation >= len(ACTIVATIONS)).any():
        raise ValueError(f"activation {activation.max()} is unknown")
    return LayerWeights(
        W=_sparse(tensors, prefix + "W."),
        W_in=_sparse(tensors, prefix + "W_in."),
        activation=activation,
        **{name: _typed(tensors, prefix + name, np.float64) for name in _UNIT[:-1]},
    )


def _sparse(tensors: Tensors, prefix: str) -> SparseRows:
    """Return the matrix, after checking what the kernels trust: that every index is inside."""
    starts = _typed(tensors, prefix + "starts", np.int64)
    columns = _typed(tensors, prefix + "columns", np.uint32)
    values = _typed(tensors, prefix + "values", np.float64)
    n_columns = int(_typed(tensors, prefix + "n_columns", np.int64))
    inside = starts.ndim == columns.ndim == values.ndim == 1 and len(columns) == len(values)
    inside = inside and len(starts) > 0 and starts[0] == 0 and starts[-1] == len(values)
    if not (inside and (np.diff(starts) >= 0).all() and (columns < max(n_columns, 0)).all()):
        raise ValueError(f"the sparse matrix {prefix[:-1]} points outside itself")
    return SparseRows(starts, columns, values, n_columns)


def _typed(tensors: Tensors, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    tensor = tensors[name]
    if tensor.dtype != dtype:
        raise TypeError(f"tensor {name} has type {tensor.dtype}, not {np.dtype(dtype)}")
    return tensor


def _write(path: Path, header: Header, tensors: Mapping[str, NDArray[Any]]) -> Path:
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
    place = _digest_place(bytes(content[:size]), path)
    content[place] = hashlib.sha256(content[:size]).hexdigest().encode()
    replace_file(path, bytes(content))
    return path


def _read(path: Path, kind: str) -> tuple[Header, Tensors]:
    with path.open("rb") as file:
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


def _checked_header(raw: bytes, path: Path) -> Header:
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


def _digest_place(raw: bytes, path: Path) -> slice:
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


def replace_file(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file whole or not at all: beside its place, to the disk, and then renamed.

    Parameters
    ----------
    mode
        Who may read and write it, less what the process's mask takes away; 0o600 for secrets.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace_file(Path(folder) / "note", b"kept")
    ...     (Path(folder) / "note").read_bytes()
    b'kept'
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    if os.name == "posix":
        # The rename itself is only on the disk once the folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
