"""A CUDA kernel for the steps of a diagonal reservoir, compiled by torch when it is first wanted.

A block of threads advances one lane over many steps. Some warps hold the modes and write them,
rounded, into one half of a ring in shared memory; the others read it and follow products and
mixtures, while the modes go on with the next step in the other half. It follows the definition in
`kernels` operation by operation; the compiler may contract products into sums, which are exact, and
never reorders. Moments are not exact, and are written without contraction. Rows are gathered for a
few steps before a warp writes them, so that neighbors in memory are written together.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from catchment import Integers
from catchment.features import diagonal as kernels
from catchment_gpu.cuda import cuda_text, kernel
from catchment_gpu.diagonal.steps import Lanes, Units

WARP = 32
MOST_THREADS = 512
MOST_REPEATS = 8  # units of one kind that a thread holds
STAGED = 256  # numbers of inputs that wait in shared memory, about
TILE = 8  # steps whose rows are written together, if a thread holds one unit
SHARED_BYTES = 48 * 1024  # every card has these
NOTHING, ROWS, MOMENTS, WALK = range(4)

_NAMES = ("LIMIT", "R_STATE", "R_FACTOR", "R_BENT", "R_BEND", "R_SQUARE", "TOP")


@cache
def source(keep: int, repeats: int, tile: int) -> str:
    """Return the kernel that keeps nothing, rows or moments."""
    sizes = {"KEEP": keep, "REPEAT": repeats, "TILE": tile, "THREADS": MOST_THREADS}
    head = [f"#define {name} ({value})" for name, value in sizes.items()]
    numbers = {name: getattr(kernels, name) for name in _NAMES}
    return "\n".join([*head, cuda_text("diagonal.cu", **numbers)])


def shape_of_block(units: Units) -> tuple[int, int, int] | None:
    """Return threads that hold modes, threads of a block, and units of a thread; None if too many.

    A warp has threads of one kind only.
    """
    others = len(units.leak) + units.n_inputs
    for repeats in (1, 2, 4, MOST_REPEATS):
        modes, rest = (WARP * -(-n // (WARP * repeats)) for n in (units.n_modes, others))
        if modes + rest <= MOST_THREADS:
            return modes, modes + rest, repeats
    return None


def staged_steps(units: Units) -> int:
    """Return how many steps' inputs wait in shared memory, 0 if it does not hold the weights."""
    I, k = units.n_inputs, units.n_modes
    free = SHARED_BYTES // 8 - 4 * k - I * k
    return max(0, min(STAGED, free) // I)


def fits(units: Units) -> bool:
    """Whether a reservoir is small enough for the kernel."""
    return shape_of_block(units) is not None and staged_steps(units) > 0


def run(units: Units, u: Tensor, lanes: Lanes, state: Tensor, out: Tensor | None = None) -> None:
    """Do what `torch_steps.run` does."""
    column = np.cumsum(lanes.length) - lanes.length
    _launch(units, u, lanes, state, out, column, NOTHING if out is None else ROWS)


def run_moments(units: Units, u: Tensor, lanes: Lanes, state: Tensor) -> Tensor:
    """Do what `torch_steps.run_moments` does."""
    found = u.new_zeros((3, units.n_base, state.shape[1]))
    _launch(units, u, lanes, state, found, np.zeros_like(lanes.length), MOMENTS)
    return found


def walk(
    units: Units,
    u: Tensor,
    lanes: Lanes,
    between: tuple[Integers, Integers],
    state: Tensor,
    after: Tensor,
) -> None:
    """Do what `torch_steps.walk` does, in one launch."""
    _launch(units, u, lanes, state, after, np.concatenate(between), WALK, len(between[0]))


def _launch(
    units: Units,
    u: Tensor,
    lanes: Lanes,
    state: Tensor,
    out: Tensor | None,
    column: Integers,
    keep: int,
    n_blocks: int | None = None,
) -> None:
    shape = shape_of_block(units)
    assert shape is not None
    modes, threads, repeats = shape
    I, k, stage = units.n_inputs, units.n_modes, staged_steps(units)
    P, B = units.factors.shape[1], state.shape[1]
    device = u.device
    three = (lanes.begin, lanes.length, column)
    places = [torch.from_numpy(np.ascontiguousarray(one)).to(device) for one in three]
    rows = state if out is None else out
    width = 1 if out is None else out.stride(0)
    drawn = (units.W, units.eigenvalues, units.factors, units.mixed, units.M, units.leak)
    sizes = (I, k, P, units.M.shape[1], B, width, stage, modes)
    shared = 8 * (4 * k + stage * I + I * k)
    tiles = 8 * (threads + modes) * (TILE + 1)
    tile = TILE if keep == ROWS and repeats == 1 and shared + tiles <= SHARED_BYTES else 0
    with torch.cuda.device(device):
        run = kernel(source(keep, repeats, tile), "run_lanes", device.index or 0)
        arguments = [u, *places, *drawn, state, rows, *sizes]
        grid = (B if n_blocks is None else n_blocks, 1, 1)
        run(grid, (threads, 1, 1), arguments, shared + tiles if tile else shared)
