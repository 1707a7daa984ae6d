"""Cut one long sequence into segments that run side by side.

A reservoir forgets where it started. So a long sequence may be cut into B segments advanced in
lockstep, each started from zero some steps ahead of its own first step. How many steps are needed
is measured on the sequence itself: two opposite starts are run until they agree. Afterwards every
segment's start is compared with the end of the segment before it; where they differ the caller runs
the sequence again without segments, so the result is never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catchment.arrays import Array
from catchment.reservoir.advance import Program, advance

TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-6}
PROBE_BLOCK = 512  # columns of a probe's block: 64 steps of eight lanes


def segment_starts(programs: Sequence[Program], u: Array, washout: int) -> tuple[list[int], int]:
    """Return the first step of each segment and the warm-up ahead of it; one if none pay."""
    T = len(u) - washout
    shortest = _shortest_warmup(programs)
    if best_segments(programs, T, shortest) == 1:
        return [washout], 0
    warmup = _warmup(programs, u, limit=T // 8)
    if warmup is None:
        return [washout], 0
    n_segments = best_segments(programs, T, warmup)
    if n_segments == 1:
        return [washout], 0
    return [washout + T * k // n_segments for k in range(n_segments)], warmup


def best_segments(programs: Sequence[Program], T: int, warmup: int) -> int:
    """Return how many segments (1, 8, 16 or 32) make T steps cheapest with this warm-up.

    >>> from catchment.reservoir.weights import LayerWeights, SparseRows
    >>> W, one = SparseRows.from_dense(np.eye(50)), np.ones(50)
    >>> W_in = SparseRows.from_dense(np.ones((50, 1)))
    >>> programs = [Program.of(LayerWeights(W, W_in, one, one, one, one, np.zeros(50, np.uint8)))]
    >>> best_segments(programs, 500, 400), best_segments(programs, 300_000, 400)
    (1, 16)
    """
    costs = {1: T * _step_cost(programs, 1)}
    for n in (8, 16, 32):
        costs[n] = (T / n + warmup) * _step_cost(programs, n)
    return min(costs, key=costs.__getitem__)


# Nanoseconds per non-zero (or dense entry) and step, measured; only their ratios matter.
_SPARSE_COST = {1: 0.65, 8: 0.85, 16: 1.4, 32: 2.9}
_DENSE_COST = {1: 0.10, 8: 0.11, 16: 0.16, 32: 0.30}
_UNIT_COST = 1.1


def _step_cost(programs: Sequence[Program], n_lanes: int) -> float:
    cost = 0.0
    for program in programs:
        matrix = program.dense is not None and (n_lanes == 1 or program.by_matrix)
        entry = (_DENSE_COST if matrix else _SPARSE_COST)[n_lanes]
        size = program.dense.size if matrix and program.dense is not None else len(program.values)
        cost += size * entry + program.n_units * n_lanes * _UNIT_COST
    return cost


def _shortest_warmup(programs: Sequence[Program]) -> int:
    """Return steps below which no leaky layer can have forgotten its start."""
    slowest = max(float(1 - program.leak.min()) for program in programs)
    return 16 if slowest < 0.1 else int(np.log(_tolerance(programs)) / np.log(slowest))


def _warmup(programs: Sequence[Program], u: Array, limit: int) -> int | None:
    """Return steps after which two opposite starts agree, with a margin; None if they do not."""
    N = sum(program.n_units for program in programs)
    signs = np.where(np.arange(N) % 2 == 0, 1.0, -1.0)
    x0 = np.stack([np.ones(N), -np.ones(N), signs, -signs], axis=1)
    probe = u[:limit]
    for block in advance(programs, [probe] * 4, x0=x0, block_columns=PROBE_BLOCK):
        last = block.rows[-N:, -1, :4]
        if np.ptp(last, axis=1).max() <= 0.1 * _tolerance(programs):
            return int(1.25 * block.stop)
    return None


def _tolerance(programs: Sequence[Program]) -> float:
    return TOLERANCE[programs[0].values.dtype]


def joints_agree(programs: Sequence[Program], starts: Array, ends: Array) -> bool:
    """Whether states (N, B) after warm-up equal the ends of the segments before them."""
    gap = np.abs(starts[:, 1:] - ends[:, :-1]).max(initial=0.0)
    return bool(gap <= _tolerance(programs))
