"""CUDA kernels for the steps of a reservoir, compiled by torch when they are first wanted.

`step_into` turns what drives a step into states. `run_sparse` advances a layer of sparse rows over
many steps in one launch: a block holds the extended states [x; u; 1] of some lanes in shared
memory, twice, and reads one copy while it writes the other.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from catchment.features.echo_state.cuda_source import source

THREADS = 512
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
    P: torch.Tensor,
    X: torch.Tensor,
    S: torch.Tensor,
    units: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    digits: int | None,
) -> None:
    """Turn S (N, B), what drives a step, into the states after it.

    Parameters
    ----------
    P
        (parts, N, B) contiguous; their sum is the product of the weights with the states before.
    X
        (N, B) states before.
    S
        (N, B); like X it may have its rows far apart.
    units
        Bias, leak and activation (N,) of each unit.
    """
    parts, N, B = P.shape
    wide = 32
    while wide < min(B, STEP_THREADS):
        wide *= 2
    tall = STEP_THREADS // wide
    with torch.cuda.device(X.device):
        kernel = _kernel("step_into", digits, X.device.index or 0)
        arguments = [P, X, S, *units, N, B, parts, X.stride(0), S.stride(0)]
        kernel((-(-B // wide), -(-N // tall), 1), (wide, tall, 1), arguments)


def lanes_of_a_block(n_rows: int, n_lanes: int, shared_bytes: int = SHARED_BYTES) -> int:
    """Return how many lanes a block holds, or 0 if not even two fit.

    >>> lanes_of_a_block(204, 10_000), lanes_of_a_block(1004, 10_000), lanes_of_a_block(10**5, 9)
    (32, 8, 0)
    """
    for lanes in (32, 16, 8, 4, 2):
        crowded = 2 * n_rows * lanes * 8 > shared_bytes
        idle = lanes > 4 and n_lanes < 128 * lanes  # fewer blocks than a large card has processors
        if not (crowded or idle):
            return lanes
    return 0


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
        kernel((-(-B // lanes), 1, 1), (THREADS, 1, 1), arguments, shared)
