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
from catchment.features.echo_state.advance import Program, advance

TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-6}
MARGIN = 1.25  # on the measured warm-up
PLACES = 4  # of the sequence where the warm-up is measured, each with two opposite starts
PROBE_BLOCK = 512  # columns of a probe's block: 64 steps of eight lanes


def segment_starts(programs: Sequence[Program], u: Array, washout: int) -> tuple[list[int], int]:
    """Return the first step of each segment and the warm-up ahead of it; one if none pay."""
    T = len(u) - washout
    if best_segments(programs, T, _least_warmup(programs)) == 1:
        return [washout], 0
    warmup = _warmup(programs, u, limit=T // 8)
    n = 1 if warmup is None else best_segments(programs, T, warmup)
    if warmup is None or n == 1:
        return [washout], 0
    # The first segment needs no warm-up, so it is longer by as much: all then take equally long.
    longest = -(-(T + (n - 1) * warmup) // n)
    return [washout, *(washout + longest + k * (longest - warmup) for k in range(n - 1))], warmup


def best_segments(programs: Sequence[Program], T: int, warmup: int) -> int:
    """Return how many segments (1, 8, 16, 32 or 64) make T steps cheapest with this warm-up.

    >>> from catchment.features.echo_state.weights import LayerWeights, SparseRows
    >>> W, one = SparseRows.from_dense(np.eye(50)), np.ones(50)
    >>> W_in = SparseRows.from_dense(np.ones((50, 1)))
    >>> programs = [Program.of(LayerWeights(W, W_in, one, one, one, one, np.zeros(50, np.uint8)))]
    >>> best_segments(programs, 500, 400), best_segments(programs, 300_000, 400)
    (1, 16)
    """
    costs = {1: T * _step_cost(programs, 1)}
    probe = warmup / 2 * _step_cost(programs, 8)
    for n in (8, 16, 32, 64):
        if warmup + n * n < T:  # or the last segment might come out empty
            costs[n] = probe + (T + (n - 1) * warmup) / n * _step_cost(programs, n)
    return min(costs, key=costs.__getitem__)


# Nanoseconds per non-zero (or dense entry) and step, measured; only their ratios matter. Up to
# 32 lanes a matrix product spends its time on rearranging the matrix.
_SPARSE_COST = {1: 0.65, 8: 0.57, 16: 0.88, 32: 1.85, 64: 3.9}
_DENSE_COST = {1: 0.09, 8: 0.66, 16: 0.90, 32: 1.6, 64: 2.8}
_UNIT_COST = 1.2


def _step_cost(programs: Sequence[Program], n_lanes: int) -> float:
    cost = 0.0
    for program in programs:
        matrix = program.dense is not None and (n_lanes == 1 or program.by_matrix)
        entry = (_DENSE_COST if matrix else _SPARSE_COST)[n_lanes]
        size = program.dense.size if matrix and program.dense is not None else len(program.values)
        cost += size * entry + program.n_units * n_lanes * _UNIT_COST
    return cost


def _least_warmup(programs: Sequence[Program]) -> int:
    """Return steps of warm-up below which a probe will hardly find any.

    The leak alone forgets within a third of this; recurrent connections remember longer.
    """
    slowest = max(float(1 - program.leak.min()) for program in programs)
    return 3 * (16 if slowest < 0.1 else int(np.log(_tolerance(programs)) / np.log(slowest)))


def _warmup(programs: Sequence[Program], u: Array, limit: int) -> int | None:
    """Return steps after which opposite starts agree, with a margin; None if they do not.

    Once the gap between two starts is half way down, in digits, the slower of its average and its
    latest rate of decay tells when it will be all the way down.
    """
    N = sum(program.n_units for program in programs)
    places = [(len(u) - limit) * k // PLACES for k in range(PLACES)]
    signs = [np.where(np.arange(N) // (k + 1) % 2 == 0, 1.0, -1.0) for k in range(PLACES)]
    x0 = np.stack([sign * x for x in signs for sign in (1, -1)], axis=1)
    probes = [u[place : place + limit] for place in places for _ in range(2)]
    enough, before = 0.1 * _tolerance(programs), 2.0
    for block in advance(programs, probes, x0=x0, block_columns=PROBE_BLOCK):
        last = block.rows[-N:, -1].astype(np.float64)
        gap = float(np.abs(last[:, ::2] - last[:, 1::2]).max())
        if gap <= enough:
            return int(MARGIN * block.stop)
        if gap <= min(enough**0.5, before):
            decay = min(
                np.log(2 / gap) / block.stop, np.log(before / gap) / (block.stop - block.start)
            )
            if decay > 0:
                return int(MARGIN * (block.stop + np.log(gap / enough) / decay))
        before = gap
    return None


def _tolerance(programs: Sequence[Program]) -> float:
    return TOLERANCE[programs[0].values.dtype]


def joints_agree(programs: Sequence[Program], starts: Array, ends: Array) -> bool:
    """Whether states (N, B) after warm-up equal the ends of the segments before them."""
    gap = np.abs(starts[:, 1:] - ends[:, :-1]).max(initial=0.0)
    return bool(gap <= _tolerance(programs))
