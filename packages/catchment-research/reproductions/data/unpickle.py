"""Reading pickles of strangers without running them.

A pickle is a program: it may name any function of any module and call it. WESAD is published only
as pickles, so they have to be read. This module holds the one subclass of `pickle.Unpickler` in
the library; it admits dictionaries, lists, tuples, numbers, text, and numpy arrays of booleans,
numbers or text. Any other global is refused by name.

Even numpy's own reconstruction is not called: a forged dtype or array state can make numpy read
outside its memory. The pickle's calls go to the stand-ins below, which collect shape, type and
bytes, check them against each other, and build the array with `numpy.frombuffer`.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError

_DTYPE = re.compile(r"([<>=|]?)([biufcSU])([0-9]{1,6})")
_MAX_DEPTH = 64


def unpickle(stream: IO[bytes], *, encoding: str = "latin1", name: str = "the pickle") -> object:
    """Return the plain value in a pickle, with numpy arrays read-only; refuse everything else.

    Parameters
    ----------
    stream
        Binary file, read up to the end of the first pickle.
    encoding
        How byte strings written by Python 2 become text.
    name
        What to call the pickle in errors.

    >>> import io
    >>> unpickle(io.BytesIO(pickle.dumps({"a": [1, 2.5]})))
    {'a': [1, 2.5]}
    >>> unpickle(io.BytesIO(pickle.dumps(print)))
    Traceback (most recent call last):
    catchment.errors.IntegrityError: the pickle asks for builtins.print, which is no numpy array...
    """
    try:
        return _finished(_Restricted(stream, encoding=encoding).load(), 0)
    except _RefusedError as error:
        raise IntegrityError(f"{name} {error}; do not trust this file") from error
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        ImportError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise IntegrityError(f"{name} is damaged or forged ({error}); get a fresh copy") from error


class _RefusedError(Exception):
    """What the pickle asked for, as the tail of a sentence."""


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        try:
            return _ADMITTED[module.replace("numpy._core", "numpy.core"), name]
        except KeyError:
            raise _RefusedError(f"asks for {module}.{name}, which is no numpy array") from None


@dataclass(frozen=True)
class _Call:
    """A function the pickle may call but not change.

    Pickles can set attributes on whatever they can name; a plain function would let them.
    """

    function: Callable[..., object]

    def __call__(self, *args: object) -> object:
        return self.function(*args)

    def __setstate__(self, state: object) -> None:
        raise _RefusedError("tries to change the function that reads it")


class _Dtype:
    """Collects what the pickle says about a dtype."""

    def __init__(self, code: object) -> None:
        match = _DTYPE.fullmatch(code) if isinstance(code, str) else None
        if match is None:
            raise _RefusedError(f"holds an array of type {code!r}, which is not plain numbers")
        order, kind, size = match.groups()
        self.dtype = np.dtype(f"{order or '='}{kind}{size}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, order, *structure = state
        if version not in (3, 4) or order not in ("<", ">", "=", "|"):
            raise _RefusedError(f"holds a dtype of unknown version {version!r}")
        if any(part is not None for part in structure[:3]):
            raise _RefusedError("holds a structured array, which is not plain numbers")
        # "|" says that the order of bytes does not matter; numpy spells out only the others.
        self.dtype = self.dtype if order == "|" else self.dtype.newbyteorder(order)


class _Array:
    """Collects what the pickle says about an array."""

    def __init__(self, kind: object, *_: object) -> None:
        self.value: NDArray[Any] | None = None
        if kind is not _NDARRAY:
            raise _RefusedError("holds an array of an unknown class")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        if isinstance(raw, str):
            raw = raw.encode("latin1")
        if not (isinstance(raw, bytes | bytearray) and isinstance(dtype, _Dtype)):
            raise _RefusedError("holds an array of objects, which is not plain numbers")
        if not (isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape)):
            raise _RefusedError(f"holds an array of shape {shape!r}")
        n_bytes = math.prod(shape) * dtype.dtype.itemsize
        if n_bytes != len(raw):
            raise _RefusedError(f"holds {len(raw)} bytes for an array that needs {n_bytes}")
        flat = np.frombuffer(bytes(raw), dtype=dtype.dtype)
        self.value = flat.reshape(shape, order="F" if fortran else "C")


def _encode(text: str, encoding: str) -> bytes:
    """Python 3 writes bytes this way for readers of protocol 2."""
    if encoding not in ("latin1", "latin-1"):
        raise _RefusedError(f"encodes text as {encoding!r}")
    return text.encode("latin1")


def _no_call(*_args: object) -> object:
    raise _RefusedError("calls numpy.ndarray itself")


_NDARRAY = _Call(_no_call)
_ADMITTED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _Call(_Array),
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Call(lambda code, *_align_and_copy: _Dtype(code)),
    ("_codecs", "encode"): _Call(_encode),
}


def _finished(value: object, depth: int) -> object:
    """Return the value with every stand-in replaced by its array."""
    if depth > _MAX_DEPTH:
        raise _RefusedError(f"nests containers deeper than {_MAX_DEPTH}, or inside themselves")
    if isinstance(value, _Array):
        if value.value is None:
            raise _RefusedError("holds an array without contents")
        return value.value
    if isinstance(value, dict):
        return {_finished(k, depth + 1): _finished(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_finished(item, depth + 1) for item in value)
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    raise _RefusedError(f"holds a {type(value).__name__}, which is not plain data")
