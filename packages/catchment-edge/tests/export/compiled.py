"""A model exported as C, compiled for this machine and called from Python."""

from __future__ import annotations

import ctypes
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array
from catchment_edge import CCode, c_code

STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wconversion")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


@dataclass(frozen=True, eq=False)
class Compiled:
    """The functions of a generated file."""

    code: CCode
    library: ctypes.CDLL
    state: Any

    @property
    def name(self) -> str:
        return self.code.layout.name

    def call(self, function: str, *arguments: Any) -> int:
        """Return what a function of the file returns, with the state as its first argument."""
        found: int = self.library[f"{self.name}_{function}"](self.state, *arguments)
        return found

    def samples(self, u: Any) -> Any:
        """Return raw inputs (T, I) as the C takes them."""
        return np.ascontiguousarray(np.asarray(u, dtype=np.float64).reshape(len(u), -1))

    def predict(self, u: Any) -> Array | None:
        """Return the mean scores (K,) of a raw recording (T, I); None if there are none."""
        samples, scores = self.samples(u), np.zeros(self.code.layout.n_outputs, np.float32)
        done = self.call("predict", _pointer(samples), len(samples), _pointer(scores))
        return scores.astype(np.float64) if done == 1 else None

    def rows(self, u: Any) -> tuple[Array, Array]:
        """Return the features (n, F) and the scores (n, K) of a raw recording, step by step."""
        samples, scores = self.samples(u), np.zeros(self.code.layout.n_outputs, np.float32)
        self.call("reset")
        if self.code.layout.told_steps:
            self.call("begin", len(samples))
        features, found = [], []
        for t in range(len(samples) + 1):
            sample = samples[t : t + 1]
            if t < len(samples):
                done = self.call("step", _pointer(sample), _pointer(scores))
            else:
                done = self.call("finish", _pointer(scores))
            if done < 0:
                raise ValueError(f"step {t} was refused")
            if done:
                features.append(self.row())
                found.append(scores.astype(np.float64))
        n = len(found)
        return np.array(features).reshape(n, -1), np.array(found).reshape(n, -1)

    def features(self, u: Any) -> Array:
        """Return the features (n, F) of a raw recording."""
        return self.rows(u)[0]

    def row(self) -> Array:
        """Return the latest feature row, divided by its unit."""
        row = np.ctypeslib.as_array(self.state.contents.row).astype(np.float64)
        digits = self.code.layout.map.digits
        assert digits is not None
        return np.ldexp(row, -digits)

    def own_class(self, scores: Array) -> str:
        """Return the name of the class with the largest score."""
        values = scores.astype(np.float32)
        k = self.library[f"{self.name}_class"](_pointer(values))
        names = (ctypes.c_char_p * self.code.layout.n_outputs).in_dll(
            self.library, f"{self.name}_classes"
        )
        return bytes(names[k] or b"").decode()


def compiled(
    model: Any,
    tmp_path: Path,
    *,
    name: str = "model",
    flags: tuple[str, ...] = ("-O1",),
    **options: Any,
) -> Compiled:
    """Return a model exported and compiled in a folder, without a warning."""
    code = c_code(model, name=name, **options)
    source, _ = code.write(tmp_path)
    # A library that is loaded keeps its place, so each has a name of its own.
    library = tmp_path / f"{name}-{secrets.token_hex(8)}.so"
    build([str(source), "-shared", "-fPIC", *flags, "-o", str(library), "-lm"])
    kind = _state_type(code)
    loaded = ctypes.CDLL(str(library))
    return Compiled(code, loaded, ctypes.pointer(kind()))


def build(arguments: list[str], compiler: str = "gcc") -> None:
    """Run a C compiler with all warnings as errors."""
    command = [compiler, *STRICT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


_TYPES: dict[str, Any] = {
    "int8_t": ctypes.c_int8,
    "uint8_t": ctypes.c_uint8,
    "int16_t": ctypes.c_int16,
    "uint16_t": ctypes.c_uint16,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


def _state_type(code: CCode) -> type[ctypes.Structure]:
    fields = [(one.name, _TYPES[one.type] * one.length) for one in code.layout.fields]
    return type("State", (ctypes.Structure,), {"_fields_": fields})


def _pointer(array: Any) -> Any:
    return array.ctypes.data_as(ctypes.c_void_p)
