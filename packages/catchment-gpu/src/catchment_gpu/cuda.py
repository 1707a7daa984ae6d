"""CUDA kernels for the steps of a reservoir, compiled by torch when they are first wanted.

`step_into` turns what drives a step into states. `run_sparse` advances a layer of sparse rows over
many steps in one launch: a block holds the extended states [x; u; 1] of some lanes in shared
memory, twice, and reads one copy while it writes the other.

In fixed point they follow the definition in `kernels` operation by operation: the compiler may
contract products into sums, which are exact, and never reorders. In float64 the activations are
those of CUDA's library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import torch

from catchment.features.echo_state import kernels

PROCESSORS = 128  # of a large card, about
STEP_THREADS = 256
SHARED_BYTES = 200 * 1024  # of a block; data-center cards since 2020 have more
SMALL_SHARED_BYTES = 48 * 1024  # every card has these

_NAMES = (
    *("ROUND", "R24", "R25", "R26", "R27", "R29", "R30", "R36", "LARGEST", "LOG2E", "LN2"),
    *("FARTHEST", "OVER_PI", "PI", "S0", "S1", "S2", "S3", "S4", "C0", "C1", "C2", "C3", "C4"),
    "LINEAR_BOUND",
)


@cache
def cuda_text(*names: str, **numbers: float) -> str:
    """Return files of `sources/` as one, behind definitions of numbers, which are in full."""
    head = [f"#define {name} ({value.hex()})" for name, value in numbers.items()]
    folder = files("catchment_gpu") / "sources"
    return "\n".join([*head, *((folder / name).read_text("utf-8") for name in names)])


@cache
def source(digits: int | None) -> str:
    """Return the kernels for this many digits of fixed point, or none."""
    if digits is None:
        return cuda_text("float64.cu", "echo_state.cu")
    numbers = {name: getattr(kernels, name) for name in _NAMES}
    numbers |= {"G": kernels.rounder(digits), "TOP": 1.0 - 2.0**-digits}
    return cuda_text("fixed_point.cu", "echo_state.cu", **numbers)


def available(device: torch.device) -> bool:
    """Whether this torch can compile kernels for a device (2.9 and newer can for GPUs)."""
    there = device.type == "cuda" and torch.cuda.is_available()
    return there and hasattr(torch.cuda, "_compile_kernel")


@cache
def kernel(source: str, name: str, device: int) -> Any:
    """Return a kernel of some source, compiled for a device."""
    with torch.cuda.device(device):
        return torch.cuda._compile_kernel(source, name)


def step_into(
    X: torch.Tensor,
    S: torch.Tensor,
    units: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    digits: int | None,
) -> None:
    """Turn S (N, B), pre-activations without their bias, into the states after a step.

    Parameters
    ----------
    X
        (N, B) states before; like S it may have its rows far apart.
    units
        Bias, leak and activation (N,) of each unit.
    """
    N, B = S.shape
    wide = 32
    while wide < min(B, STEP_THREADS):
        wide *= 2
    tall = STEP_THREADS // wide
    with torch.cuda.device(X.device):
        step = kernel(source(digits), "step_into", X.device.index or 0)
        arguments = [X, S, *units, N, B, X.stride(0), S.stride(0)]
        step((-(-B // wide), -(-N // tall), 1), (wide, tall, 1), arguments)


def lanes_of_a_block(n_rows: int, n_lanes: int, shared_bytes: int = SHARED_BYTES) -> int:
    """Return how many lanes a block holds, or 0 if not even two fit.

    >>> lanes_of_a_block(204, 10_000), lanes_of_a_block(1004, 10_000), lanes_of_a_block(10**5, 9)
    (32, 8, 0)
    """
    for lanes in (32, 16, 8, 4, 2):
        crowded = 2 * n_rows * lanes * 8 > shared_bytes
        idle = lanes > 2 and n_lanes < PROCESSORS * lanes
        if not (crowded or idle):
            return lanes
    return 0


def threads_of_a_block(n_units: int, n_lanes: int, lanes: int) -> int:
    """Return how many threads a block has: more where it has a processor to itself.

    >>> [threads_of_a_block(*shape) for shape in ((1000, 4096, 8), (200, 16384, 32), (200, 256, 2))]
    [1024, 512, 512]
    """
    alone = 2 * n_units * lanes * 8 > SHARED_BYTES // 2 or n_lanes <= PROCESSORS * lanes
    return 1024 if alone and n_units * lanes >= 1024 else 512


def run_sparse(
    rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    leak: torch.Tensor,
    code: torch.Tensor,
    U: torch.Tensor,
    X: torch.Tensor,
    S: torch.Tensor,
    digits: int | None,
    lanes: int,
) -> None:
    """Advance X (N, B) over U (I, T, B), into S (N, T, B); `rows` are starts, columns, values."""
    N, T, B = S.shape
    I = len(U)
    shared = 2 * (N + I + 1) * lanes * 8
    with torch.cuda.device(X.device):
        run = kernel(source(digits), "run_sparse", X.device.index or 0)
        if shared >= SMALL_SHARED_BYTES:
            run.set_shared_memory_config(shared)
        arguments = [*rows, leak, code, U, X, S, N, I, T, B, lanes]
        threads = threads_of_a_block(N, B, lanes)
        run((-(-B // lanes), 1, 1), (threads, 1, 1), arguments, shared)


class Repeated:
    """Work on fixed memory that a GPU repeats as one graph, instead of being told kernel by kernel.

    The first time it is done as it is, which also compiles and warms up what it needs; the second
    time it is recorded, and from then on repeated as one graph. Work that is done once is never
    recorded.

    Parameters
    ----------
    work
        Writes into tensors that exist already, and waits for nothing.
    device
        Where; graphs are of GPUs, elsewhere the work is done as it is.
    """

    def __init__(self, work: Callable[[], None], device: torch.device) -> None:
        self._work, self._device = work, device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._begun = False

    def __call__(self) -> None:
        if self._device.type != "cuda" or not self._begun:
            self._work()
            self._begun = True
            return
        with torch.cuda.device(self._device):
            if self._graph is None:
                self._graph = self._recorded()
            self._graph.replay()

    def _recorded(self) -> torch.cuda.CUDAGraph:
        graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            # Other threads may allocate meanwhile: only this one must not.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._work()
            finally:
                graph.capture_end()
        here.wait_stream(aside)
        return graph
