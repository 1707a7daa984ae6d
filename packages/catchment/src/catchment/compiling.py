"""Kernels are compiled for the processor when they are first called, and kept for the next time.

numba keeps them in `__pycache__` beside the source, in the user's cache folder if that cannot be
written, or where NUMBA_CACHE_DIR says. The first compilation of a process says so, once, through
logging: without any set-up that is a line on stderr before the wait begins. Nothing is said where
everything is loaded from the cache. Where no folder can be written kernels are compiled in every
process, and the line says that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import event

ONCE = (
    "compiling for this processor, once: this takes seconds to a minute and is kept for the next "
    "time (`python -m catchment.precompile` does it beforehand)"
)
ALWAYS = (
    "compiling for this processor, in every process: no folder can be written to keep the result; "
    "set NUMBA_CACHE_DIR to one that can"
)


class Compilations(event.Listener):
    """Counts what of this library is compiled in this process, and tells of the first."""

    def __init__(self) -> None:
        self.count = 0
        self.kept = True
        self._lock = threading.Lock()

    def on_start(self, found: Any) -> None:
        """Take note of a kernel that is about to be compiled."""
        module = found.data["dispatcher"].py_func.__module__
        if module.partition(".")[0] != "catchment":
            return
        with self._lock:
            self.count += 1
            first = self.count == 1
        if first:
            logging.getLogger("catchment").warning(ONCE if self.kept else ALWAYS)

    def on_end(self, found: Any) -> None:
        """Nothing is to be done."""


compilations = Compilations()
event.register("numba:compile", compilations)  # type: ignore[no-untyped-call]  # numba's own
_njit: Any = numba.njit  # its types know no options that go through as they are


def njit(*given: Any, cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Return numba's decorator; what is to be cached and cannot be is compiled all the same.

    >>> @njit(error_model="numpy")
    ... def twice(x):
    ...     return 2 * x
    >>> twice(4)
    8
    """

    def compiled(function: Any) -> Any:
        try:
            return _njit(*given, cache=cache, **options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            compilations.kept = False
            return _njit(*given, **options)(function)

    return compiled


def pointers(context: Any, builder: Any, signature: Any, values: Any) -> list[Any]:
    """Return the arguments of an intrinsic, arrays being pointers to their numbers."""
    return [
        context.make_array(kind)(context, builder, value=value).data
        if isinstance(kind, types.Array)
        else value
        for kind, value in zip(signature.args, values, strict=True)
    ]


def in_every_lane(builder: Any, value: Any, vector: Any) -> Any:
    """Return, in LLVM code that is being written, a vector whose lanes all are a value."""
    undefined, lane = ir.Constant(vector, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(undefined, value, ir.Constant(lane, 0))
    chosen = ir.Constant(ir.VectorType(lane, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, chosen)
