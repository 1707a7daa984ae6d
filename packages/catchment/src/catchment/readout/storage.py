"""Predictors and statistics as files: safetensors, no pickle, every byte under a checksum.

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import isclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safe

import catchment
from catchment.data.preprocessing import Preprocessing
from catchment.errors import IntegrityError
from catchment.features.pipeline import Pipeline
from catchment.features.recipes import FeatureMap, restored
from catchment.plugins import Named, extra_of
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.integers import LARGEST_LIMB, count_limbs, from_limbs, largest, to_limbs
from catchment.readout.statistics import SUMS, Readout, RidgeStatistics
from catchment.wire import Message
from catchment.wire.messages import replace_file

if TYPE_CHECKING:
    from catchment.readout.predictor import Predictor

FORMAT = 2
MAX_HEADER = 1 << 20
MODELS = Named("models", {})

_KEY = "catchment"
_DIGEST = re.compile(rb'header_sha256\\":\\"([0-9a-f]{64})\\"')

Tensors = dict[str, NDArray[Any]]
Header = dict[str, Any]
Own = Iterable[Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class Stored:
    """What a file holds of a predictor: its kind, plain facts, and arrays by name."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def save(predictor: Predictor, path: str | Path) -> Path:
    """Write a model, or whatever else predicts, to a file, whole or not at all; return its path.

    The file holds everything that it does: preparation, map, readout, names of channels and
    classes, and a model's statistics, if it kept them.

    >>> import tempfile
    >>> from catchment import EchoState, Recording, fit
    >>> u = np.sin(np.arange(100) / 5)
    >>> model = fit(EchoState(20), [Recording(u[:-1], u[1:])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load(save(model, Path(folder) / "wave.safetensors"))
    >>> bool((same.predict(u) == model.predict(u)).all())
    True
    """
    replace_file(Path(path), to_bytes(predictor))
    return Path(path)


def to_bytes(predictor: Predictor) -> bytes:
    """Return a predictor as the content of its file."""
    held = predictor.stored()
    dense, sums = dict[str, NDArray[Any]](), dict[str, str]()
    for name, tensor in held.tensors.items():
        dense[name] = np.asarray(tensor, order="C")
        sums[name] = _sha256(dense[name])
    about = {"format": FORMAT, "library": catchment.__version__, "tensors": sums}
    stored = {"kind": held.kind, **held.facts, **about, "header_sha256": "0" * 64}
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


def load(path: str | Path | bytes, *, use: Own = ()) -> Predictor:
    """Return what a file that `save` wrote predicts with; it says the same to the last bit.

    IntegrityError if the file is damaged, holds no predictor, or has a newer format.

    Parameters
    ----------
    path
        Of the file, or its content.
    use
        Classes of feature maps and functions that make networks of one's own, which the file may
        name. A file imports nothing: it finds them here, or in modules that the program has
        imported already.
    """
    make: Callable[[Stored, Own], Predictor]
    name = "the model" if isinstance(path, bytes) else str(path)
    with io.BytesIO(path) if isinstance(path, bytes) else Path(path).open("rb") as file:
        header, tensors = read_file(file, name)
    match str(header["kind"]):
        case "model":
            from catchment.readout.model import model_of as make
        case "personal":
            from catchment.readout.model import personal_models_of as make
        case "detector":
            from catchment.readout.detector import detector_of as make
        case "open":
            from catchment.readout.model import open_model_of as make
        case kind if kind in MODELS or extra_of("models", kind):
            make = MODELS[kind]
        case kind:
            raise IntegrityError(f"{name} holds {kind!r}, which is not known; upgrade catchment")
    held = Stored(header["kind"], header, tensors)
    try:
        return make(held, use)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        said = f"a {held.kind} ({type(error).__name__}: {error})"
        raise IntegrityError(f"{name} does not describe {said}; save it again") from error


def around(predictor: Predictor) -> Header:
    """Return what every kind of file says beside what was learned."""
    return {
        "prepare": predictor.preprocessing.settings(),
        "classes": None if predictor.classes is None else list(predictor.classes),
        "channels": None if predictor.channels is None else list(predictor.channels),
        "columns": dict(predictor.columns),
    }


def around_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return preparation, classes, channels and columns that `around` described, by these names."""
    classes, channels = facts["classes"], facts["channels"]
    return {
        "preprocessing": Preprocessing.from_settings(facts["prepare"]),
        "classes": None if classes is None else tuple(map(str, classes)),
        "channels": None if channels is None else tuple(map(str, channels)),
        "columns": dict(facts["columns"]),
    }


def stored_before(predictor: Predictor) -> tuple[Header, Tensors]:
    """Return the facts and arrays of all that is before what was learned."""
    described = stored_map(predictor.features, "map")
    fingerprint = predictor.pipeline.fingerprint
    facts = {"fingerprint": fingerprint, **around(predictor), "map": described.facts}
    return facts, dict(described.tensors)


def before_of(held: Stored, use: Own = ()) -> dict[str, Any]:
    """Return what `stored_before` described by the names of a predictor's fields."""
    known = around_of(held.facts)
    features = map_of(held.facts["map"], held.tensors, "map", use)
    pipeline, said = Pipeline(known.pop("preprocessing"), features), held.facts["fingerprint"]
    # A row stride was a map once, around this one.
    if pipeline.fingerprint != said and held.facts["map"]["facts"].get("class") != "thinned":
        raise ValueError(
            f"the pipeline has fingerprint {pipeline.fingerprint}, the file says {said}"
        )
    return {"before": pipeline, **known}


def stored_map(features: FeatureMap, prefix: str) -> Stored:
    """Return what a file holds of a feature map, its arrays numbered behind a prefix."""
    described = features.parts()
    names = map(f"{prefix}.{{}}".format, range(len(described.arrays)))
    arrays = dict(zip(names, described.arrays, strict=True))
    return Stored("map", {"kind": described.kind, "facts": described.facts}, arrays)


def map_of(
    facts: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], prefix: str, use: Own = ()
) -> FeatureMap:
    """Return the feature map that `stored_map` described."""
    arrays: list[NDArray[Any]] = []
    while (name := f"{prefix}.{len(arrays)}") in tensors:
        arrays.append(tensors[name])
    return restored(Message(facts["kind"], facts["facts"], tuple(arrays)), filter(isclass, use))


def stored_readout(readout: Readout) -> Tensors:
    """Return a readout's arrays by the names that a file has for them."""
    return {
        "readout.weights": readout.weights,
        "readout.intercept": readout.intercept,
        "readout.ridge": np.asarray(readout.ridge, dtype=np.float64),
    }


def readout_of(tensors: Mapping[str, NDArray[Any]]) -> Readout:
    """Return the readout that `stored_readout` described."""
    given: list[Any] = []
    for name in ("weights", "intercept", "ridge"):
        given.append(typed(tensors, f"readout.{name}", np.float64))
    return Readout(*given)


def stored_statistics(statistics: RidgeStatistics, prefix: str) -> tuple[Header, Tensors]:
    facts: Header = {
        "n_rows": statistics.n_rows,
        "weight": statistics.weight,
        "fingerprint": statistics.fingerprint,
    }
    sums = {name: getattr(statistics, name) for name in SUMS}
    if statistics.fixed is not None:
        facts["grid"] = statistics.fixed.to_json()
        sums = {name: to_limbs(values, count_limbs(values)) for name, values in sums.items()}
    return facts, {prefix + name: values for name, values in sums.items()}


def statistics_of(
    facts: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], prefix: str
) -> RidgeStatistics:
    fixed = None if facts.get("grid") is None else FixedPoint.from_json(str(facts["grid"]))
    dtype = np.float64 if fixed is None else np.int64
    sums = {name: typed(tensors, prefix + name, dtype) for name in SUMS}
    if fixed is not None:
        if any(not len(limbs) or largest(limbs) > LARGEST_LIMB for limbs in sums.values()):
            raise ValueError("a sum is larger than it can be")
        sums = {name: from_limbs(limbs) for name, limbs in sums.items()}
    n_rows, weight = facts["n_rows"], facts["weight"]
    if type(n_rows) is not int or not isinstance(weight, float | int):
        raise TypeError(f"statistics of {n_rows!r} rows of weight {weight!r}")
    name = str(facts["fingerprint"])
    return RidgeStatistics(n_rows, float(weight), **sums, fingerprint=name, fixed=fixed)


def typed(tensors: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return an array of a file; TypeError if it has another type than it was saved with."""
    tensor = tensors[name]
    if tensor.dtype != dtype:
        raise TypeError(f"tensor {name} has type {tensor.dtype}, not {np.dtype(dtype)}")
    return tensor


def read_file(file: BinaryIO, path: str) -> tuple[Header, Tensors]:
    """Return the description and the arrays of a file, after their digests have been compared."""
    raw = file.read(8)
    size = int.from_bytes(raw, "little")
    # Nothing more is read before the length is known to be sensible: it may be any file.
    raw += file.read(min(size, MAX_HEADER))
    if raw[8:9] not in (b"{", b""):
        raise IntegrityError(
            f"{path} is not a model file, because it does not begin as safetensors files do; pass "
            "a file that `save` wrote, or the model.safetensors of a run"
        )
    if len(raw) < 8 + size:
        raise IntegrityError(
            f"{path} is no safetensors file, or it was cut short in its header of {size} "
            f"bytes (at most {MAX_HEADER} are read); get it again from where it was saved"
        )
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
    if header.get("kind") in ("statistics", "factors"):
        raise IntegrityError(f"{path} holds {header['kind']!r}, this reads 'what predicts'")
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
        # What is read from a buffer is read-only, and the kernels compile for writable.
        tensors[name] = tensor.copy()
    return header, tensors


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
