"""Networks in ONNX files: found by their SHA-256, and run the same way every time.

A network runs on one thread, its operations one after the other, in the
CPU provider, without the rearrangements that depend on the processor's make. On a GPU it runs in
the CUDA provider, where `onnxruntime` has one, in plain float32.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from catchment.data import MODELS_ENVIRONMENT, model_directories
from catchment.errors import IntegrityError, MissingDataError

Floats32 = NDArray[np.float32]
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
# A file that keeps weights elsewhere would not be covered by its hash: they are looked for nowhere.
OUTSIDE = "session.model_external_initializers_file_folder_path"


@final
class Network:
    """A network that was read from a file; what it is called with is one array.

    Parameters
    ----------
    gpu
        Which GPU it runs on; None for the CPU.
    """

    def __init__(self, content: bytes, name: str, gpu: int | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # what is wrong is raised, and said once
        options.add_session_config_entry(OUTSIDE, os.devnull)
        # The short format of tensor cores, which is usual on GPUs, keeps 10 of 23 digits.
        there = [] if gpu is None else [(CUDA, {"device_id": gpu, "use_tf32": 0})]
        providers: list[Any] = [*there, CPU]
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=providers)
        except Exception as error:  # its errors have no other base
            raise ValueError(
                f"{name} is no network that can be run ({_first_line(error)}); export it to ONNX "
                "again, in one file"
            ) from error
        self.name = name
        self.inputs = [(one.name, one.type, list(one.shape)) for one in self._session.get_inputs()]
        self.outputs = {one.name: list(one.shape) for one in self._session.get_outputs()}
        if len(self.inputs) != 1 or self.inputs[0][1] != "tensor(float)":
            told = ", ".join(f"{name} {kind}{shape}" for name, kind, shape in self.inputs)
            raise ValueError(
                f"{name} takes {told}; an encoder takes one input of float32, so wrap it in a "
                "graph that has one"
            )

    def output(self, name: str) -> str:
        """Return the name of an output; that of the first if none is given."""
        if name and name not in self.outputs:
            raise ValueError(
                f"{self.name} has no output {name!r}; choose one of {', '.join(self.outputs)}"
            )
        return name or next(iter(self.outputs))

    def __call__(self, u: Floats32, output: str) -> NDArray[Any]:
        """Return one output for one input."""
        name, _, shape = self.inputs[0]
        try:
            return np.asarray(self._session.run([self.output(output)], {name: u})[0])
        except Exception as error:  # its errors have no other base
            raise ValueError(
                f"{self.name} cannot be given an array of shape {u.shape}, it takes {shape} "
                f"({_first_line(error)}); choose another layout, or change the recordings' length"
            ) from error


def runs_on_gpus() -> bool:
    """Whether this `onnxruntime` has a provider for NVIDIA's GPUs."""
    return CUDA in onnxruntime.get_available_providers()


def network(path: str | Path, sha256: str, gpu: int | None = None) -> Network:
    """Return the network with this SHA-256, from a path or from the directories of models.

    Parameters
    ----------
    path
        Where it lies; empty to look for it among the `.onnx` files of the directories.
    gpu
        Which GPU it runs on; None for the CPU.
    """
    return _network(str(locate(path, sha256)), sha256, gpu)


@lru_cache(maxsize=8)
def _network(path: str, sha256: str, gpu: int | None) -> Network:
    content = Path(path).read_bytes()
    _compare(hashlib.sha256(content).hexdigest(), sha256, path)
    return Network(content, Path(path).name, gpu)


def locate(path: str | Path, sha256: str) -> Path:
    """Return where the file lies; an error says where it was looked for, or that it differs.

    >>> locate("", "0" * 64)
    Traceback (most recent call last):
    catchment.errors.MissingDataError: no .onnx file in ... has SHA-256 00000000...
    """

    def sha256_of(place: Path) -> str:
        about = place.stat()
        return _hashed(place, about.st_size, about.st_mtime_ns)

    roots, given = model_directories(), Path(path).expanduser()
    if str(path):
        for place in (given, *(root / given for root in roots)):
            if place.is_file():
                _compare(sha256_of(place), sha256, str(place))
                return place
    files = (one for root in roots if root.is_dir() for one in sorted(root.rglob("*.onnx")))
    for place in files:
        if sha256_of(place) == sha256:
            return place
    looked = f"there is no file {given}, and " if str(path) else ""
    raise MissingDataError(
        f"{looked}no .onnx file in {', '.join(map(str, roots))} has SHA-256 {sha256[:12]}...; put "
        f"it there, or name its directory in ${MODELS_ENVIRONMENT}"
    )


@lru_cache(maxsize=256)
def _hashed(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _compare(found: str, sha256: str, path: str) -> None:
    if found != sha256:
        raise IntegrityError(
            f"{path} has SHA-256 {found}, the encoder is the one with {sha256[:12]}...; get the "
            "file that was meant, or say that you mean this one"
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200]
