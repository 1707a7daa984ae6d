"""CUDA kernels for the steps of a reservoir, compiled by torch when they are first wanted.

`step_into` turns what drives a step into states. `run_sparse` advances a layer of sparse rows over
many steps in one launch: a block holds the extended states [x; u; 1] of some lanes in shared
memory, twice, and reads one copy while it writes the other.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from catchment_gpu.echo_state.cuda_source import source

PROCESSORS = 128  # of a large card, about
STEP_THREADS = 256
SHARED_BYTES = 200 * 1024  # of a block; data-centre cards since 2020 have more
SMALL_SHARED_BYTES = 48 * 1024  # every card has these


def available() -> bool:
    """Whether this torch can compile kernels for the GPU (2.9 and newer can)."""
    return torch.cuda.is_available() and hasattr(torch.cuda, "_compile_kernel")


@cache
def _kernel(name: str, digits: int | None, device: int) -> Any:
    with torch.cuda.device(device):
        return torch.cuda._compile_kernel(source(digits), name)


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
        kernel = _kernel("step_into", digits, X.device.index or 0)
        arguments = [X, S, *units, N, B, X.stride(0), S.stride(0)]
        kernel((-(-B // wide), -(-N // tall), 1), (wide, tall, 1), arguments)


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
        kernel = _kernel("run_sparse", digits, X.device.index or 0)
        if shared >= SMALL_SHARED_BYTES:
            kernel.set_shared_memory_config(shared)
        arguments = [*rows, leak, code, U, X, S, N, I, T, B, lanes]
        threads = threads_of_a_block(N, B, lanes)
        kernel((-(-B // lanes), 1, 1), (threads, 1, 1), arguments, shared)
