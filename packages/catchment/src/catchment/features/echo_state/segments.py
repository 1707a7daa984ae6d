"""Cut one long sequence into segments that run side by side.

A reservoir forgets where it started. So a long sequence may be cut into B segments advanced in
lockstep, each started from zero some steps ahead of its own first step. How many steps are needed
is measured on the sequence itself: two opposite starts are run until they agree. Afterwards every
segment's start is compared with the end of the segment before it; where they differ the caller runs
the sequence again without segments, so the result is never a guess.

On a grid two trajectories may stay a step apart for ever, so there the cut is a definition: it
belongs to the recipe, is the same for every sequence, and nothing is checked. A sequence is cut at
steps L, 2L, ... counted from its first; the part that begins at kL starts from rest, all states
zero, at step kL - M. `found_cut` takes M from how long opposite starts take to come within a few
steps of the grid, under random inputs, loud and quiet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catchment.arrays import Array
from catchment.features.echo_state.advance import Program, advance
from catchment.features.echo_state.random_words import Purpose, Words, uniform
from catchment.features.echo_state.whole_weights import inputs_on_grid
from catchment.parallel import single_blas_thread

TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-6}
MARGIN = 1.25  # on the measured warm-up
PLACES = 4  # of the sequence where the warm-up is measured, each with two opposite starts
PROBE_BLOCK = 512  # columns of a probe's block: 64 steps of eight lanes

CLOSE = 8  # steps of the grid within which two states count as the same
# Loudness of the inputs under which opposite starts must come together. Not zero: without motion
# the roundings stand still, and so do the states, some steps apart.
LOUDNESS = (1.0, 0.25, 1 / 16, 1 / 64)
LONGEST_WARMUP = 4096  # a reservoir that remembers for longer is never cut
LENGTH = 4  # length of a part, in warm-ups...
LEAST_LENGTH = 1536  # ...or this, if it is more


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


def best_width(programs: Sequence[Program], n_lanes: int) -> int:
    """Return how many of equally long lanes to advance side by side at the least cost.

    >>> from catchment import Recipe, Reservoir
    >>> programs = Reservoir.from_recipe(Recipe(units=50)).programs()
    >>> best_width(programs, 1), best_width(programs, 5), best_width(programs, 9)
    (1, 8, 16)
    """
    costs = {n: -(-n_lanes // n) * _step_cost(programs, n) for n in (1, 8, 16, 32, 64)}
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


def found_cut(programs: Sequence[Program]) -> tuple[int, int]:
    """Return length and warm-up of the parts of a sequence on a grid; (0, 0) for never cut.

    All is exact, so every machine finds the same.

    >>> from catchment import Recipe
    >>> Recipe(units=20, topology="ring", leak_rate=0.5, grid=20).prepared().cut
    (1536, 192)
    """
    bits = programs[0].bits
    assert bits is not None
    N, I = sum(program.n_units for program in programs), programs[0].n_inputs
    rng = Words(seed=0, layer=0, purpose=Purpose.PROBE)
    noise = uniform(rng, LONGEST_WARMUP * I, -1.0, 1.0).reshape(LONGEST_WARMUP, I)
    probes = [inputs_on_grid(loud * noise, bits, 1.0)[0] for loud in LOUDNESS for _ in range(2)]
    signs = [np.where(np.arange(N) // (k + 1) % 2 == 0, 1.0, -1.0) for k in range(len(LOUDNESS))]
    x0 = np.stack([sign * x for x in signs for sign in (1, -1)], axis=1)
    needed = 0
    with single_blas_thread():
        for block in advance(programs, probes, x0=x0, block_columns=PROBE_BLOCK):
            x = block.rows[-N:, :, : len(probes)]
            apart = np.abs(x[..., ::2] - x[..., 1::2]).max(axis=(0, 2)) > np.ldexp(CLOSE, -bits)
            if not apart.any():
                M = _round_length(-(-5 * needed // 4))
                return max(LENGTH * M, LEAST_LENGTH), M
            needed = block.start + int(np.flatnonzero(apart)[-1]) + 1
    return 0, 0


def _round_length(steps: int) -> int:
    """Return 2^k or 3 2^(k-1), whichever is the first from this many steps on, 64 at least.

    Few lengths are used, so that reservoirs of like settings have the same.

    >>> [_round_length(n) for n in (0, 65, 100, 700)]
    [64, 96, 128, 768]
    """
    k = 64
    while k < steps:
        if 3 * k // 2 >= steps:
            return 3 * k // 2
        k *= 2
    return k


def cut_places(n_steps: int, cut: tuple[int, int], washout: int) -> list[tuple[int, int, int]]:
    """Return where each part of a sequence on a grid starts from rest, counts from, and ends.

    >>> cut_places(2500, (1024, 256), 100)
    [(0, 100, 1024), (768, 1024, 2048), (1792, 2048, 2500)]
    """
    L, M = cut
    if L == 0 or n_steps <= L:
        return [(0, washout, n_steps)]
    return [
        (max(0, begin - M), max(begin, washout), min(begin + L, n_steps))
        for begin in range(washout // L * L, n_steps, L)
    ]


def _tolerance(programs: Sequence[Program]) -> float:
    return TOLERANCE[programs[0].values.dtype]


def joints_agree(programs: Sequence[Program], starts: Array, ends: Array) -> bool:
    """Whether states (N, B) after warm-up equal the ends of the segments before them."""
    gap = np.abs(starts[:, 1:] - ends[:, :-1]).max(initial=0.0)
    return bool(gap <= _tolerance(programs))
