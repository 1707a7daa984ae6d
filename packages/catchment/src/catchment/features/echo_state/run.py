"""Run a reservoir: lanes side by side in blocks of steps, batches, segments, pools, targets.

A lane is one sequence, or one segment of a long one. Lanes run side by side: every block of steps
yields an array (1 + I + N, steps, lanes) whose rows are the constant one, the inputs, and the
states of all layers, so that any choice of features is a slice of it.

A reservoir forgets where it started. So a long sequence may be cut into B segments advanced in
lockstep, each started from zero some steps ahead of its own first step. How many steps are needed
is measured on the sequence itself: two opposite starts are run until they agree. Afterwards every
segment's start is compared with the end of the segment before it; where they differ the caller runs
the sequence again without segments, so the result is never a guess.

In fixed point two trajectories may stay a step apart for ever, so there the cut is a definition: it
belongs to the reservoir, is the same for every sequence, and nothing is checked. Sequences are cut
at steps L, 2L, ... counted from its first; the part that begins at kL starts from rest, all states
zero, at step kL - M. `found_cut` takes M from how long opposite starts take to come within a few
steps of fixed point, under random inputs, loud and quiet.

A pool in fixed point has exact sums, then a few IEEE operations, one by one. With whole states k
(times 2^-b) of the T steps of a part, S1 = sum k and S2 = sum k^2 are exact, so they may be added
in any order and over the parts of a sequence that is cut. Then

    mean      = S1 / T
    deviation = sqrt(q - d d),   m = floor(S1 / T),  d = (S1 - T m) / T,  q = sum (k - m)^2 / T

times 2^-b, where sum (k - m)^2 = S2 - 2 m S1 + T m^2 is computed in integers and every other
operation is one of IEEE 754. Because m is near the mean, nothing cancels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from catchment.arrays import LINE, Array, Integers, aligned
from catchment.features.echo_state.weights import ROUND, Purpose, Words, uniform
from catchment.parallel import single_blas_thread

if TYPE_CHECKING:
    from catchment.features.echo_state.reservoir import Program

BLOCK_COLUMNS = 512  # steps times lanes of a block: it should stay in the cache
LONE_STEPS = 480  # steps of a block with one lane: there a power of two slows the Gram product
WINDOW = 1 << 17  # numbers rearranged ahead of the blocks
WIDTHS = (1, 2, 8, 16, 32, 64)  # lanes of the kernels
FEW_LANES = 2  # laid out step after step, and advanced one by one if the matrix is dense
FEW = 8  # fewer sequences than this do not fill the narrowest lockstep kernel
SUM_COLUMNS = 8 * BLOCK_COLUMNS  # steps times lanes of a block of which only the sum is kept
FEW_UNUSED = 0.125  # share of unused columns up to which they are zeroed in float64

# How long sequences are cut, in float64...
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-6}
MARGIN = 1.25  # on the measured warm-up
PLACES = 4  # of the sequence where the warm-up is measured, each with two opposite starts
PROBE_BLOCK = 512  # columns of a probe's block: 64 steps of eight lanes
# ...and in fixed point.
CLOSE = 8  # steps of fixed point within which two states count as the same
# Loudness of the inputs under which opposite starts must come together. Not zero: without motion
# the roundings stand still, and so do the states, some steps apart.
LOUDNESS = (1.0, 0.25, 1 / 16, 1 / 64)
LONGEST_WARMUP = 4096  # a reservoir that remembers for longer is never cut
LENGTH = 4  # length of a part, in warm-ups...
LEAST_LENGTH = 1536  # ...or this, if it is more

# Nanoseconds per non-zero (or dense entry) and step, measured; only their ratios matter. Up to
# 32 lanes a matrix product spends its time on rearranging the matrix.
_SPARSE_COST = {1: 0.65, 2: 0.6, 8: 0.57, 16: 0.88, 32: 1.85, 64: 3.9}
_DENSE_COST = {1: 0.09, 2: 0.12, 8: 0.66, 16: 0.90, 32: 1.6, 64: 2.8}
_UNIT_COST = 1.2

Rows = NDArray[np.floating[Any]]
Step = Callable[[int, int, Rows, Rows, Rows], None]
Pool = Literal["last", "mean", "mean_std", "max"]
POOLS: tuple[Pool, ...] = ("last", "mean", "mean_std", "max")


def inputs_in_fixed_point(u: Array, bits: int, reach: float) -> int:
    """Cut inputs (T, I), in one piece, off at the range and round them; return how many were.

    >>> u = np.array([[0.3, 9.0]])
    >>> inputs_in_fixed_point(u, 8, 8.0), u
    (1, array([[0.30078125, 8.        ]]))
    """
    from catchment.features.echo_state.kernels import round_inputs

    return int(round_inputs(u.reshape(-1), np.ldexp(ROUND, -bits), reach))


def preferred_lanes(programs: Sequence[Program], n_sequences: int) -> int:
    """Return how many of the sequences to advance side by side.

    Wide batches spend less time between the kernels, but there should be some for every core, and
    the states of a large reservoir should stay in the cache.
    """
    if all(program.by_matrix for program in programs):
        return 64
    small = max(program.n_units for program in programs) <= 400
    return 32 if small and n_sequences >= 8 * 32 else 16


def padded_lanes(n_lanes: int) -> int:
    """Return the narrowest kernel width that holds this many lanes.

    >>> [padded_lanes(n) for n in (1, 2, 3, 9, 33)]
    [1, 2, 8, 16, 64]
    """
    return next(width for width in WIDTHS if width >= n_lanes)


@dataclass(frozen=True, eq=False)
class Block:
    """Steps `start` to `stop` of all lanes: `rows` (1 + I + N + spare, stop - start, lanes)."""

    start: int
    stop: int
    rows: Rows


class SideBySide:
    """Arrays (T_b, n) of several lanes, rearranged to (n, steps, B) for some blocks ahead.

    Going through the lanes is slow, so it is done for many steps at once. Where a lane has ended,
    or there is none, stands `fill`. `complete` says that no NaN is among the steps ahead.
    """

    def __init__(
        self, lanes: Sequence[Array], B: int, steps: int, dtype: DTypeLike, fill: float = 0.0
    ) -> None:
        n, longest = lanes[0].shape[1], max(len(lane) for lane in lanes)
        ahead = min(longest, max(steps, WINDOW // (n * B)))
        self.lanes, self.longest, self.fill, self.complete = lanes, longest, fill, False
        self.first, self.window = -ahead, np.full((n, ahead, B), fill, dtype=dtype)

    def block(self, start: int, stop: int) -> Rows:
        """Return steps start..stop as (n, stop - start, B), valid until the next call."""
        ahead = self.window.shape[1]
        if start < self.first or stop > self.first + ahead:
            self.first = start
            for b, lane in enumerate(self.lanes):
                part = lane[start : start + ahead]
                self.window[:, : len(part), b] = part.T
                self.window[:, len(part) :, b] = self.fill
            self.complete = not np.isnan(self.window[:, : self.longest - start]).any()
        return self.window[:, start - self.first : stop - self.first]


def advance(
    programs: Sequence[Program],
    lanes: Sequence[Array],
    *,
    cuts: Sequence[int] = (),
    x0: Array | None = None,
    block_columns: int = BLOCK_COLUMNS,
    spare_rows: int = 0,
    n_buffers: int = 1,
    sums: bool = False,
    step: Step | None = None,
) -> Iterator[Block]:
    """Yield the blocks of all lanes, in time order.

    Parameters
    ----------
    programs
        One per layer.
    lanes
        (T, I) inputs each. A lane that has ended goes on with zero input; its later columns mean
        nothing.
    cuts
        Steps at which a block must end, besides the regular ones.
    x0
        (N, lanes) states before the first input, all layers; zeros if not given.
    spare_rows
        Rows left free after the states, for the caller to fill.
    n_buffers
        Blocks that stay valid: each overwrites the one this many before it.
    sums
        Yield the sum of each block's steps, in rows (1 + I + N + spare, 1, lanes), which saves
        writing them down; for a single layer.
    step
        What advances a layer by a block, if not its fixed weights: called with the layer's number,
        the block's first step, the extended states, the inputs (I, T, B) and the states (N, T, B)
        to write. There are at least eight lanes then.
    """
    T = max(len(u) for u in lanes)
    dtype = programs[0].values.dtype
    I, N = programs[0].n_inputs, sum(program.n_units for program in programs)
    B = padded_lanes(len(lanes) if step is None else max(8, len(lanes)))
    layers = [_Layer.of(program, B, dtype) for program in programs]
    if x0 is not None:
        ends = np.cumsum([program.n_units for program in programs])[:-1]
        for layer, x in zip(layers, np.split(x0, ends), strict=True):
            layer.X[: len(x), : x.shape[1]] = x
    block_steps = max(1, min(T, min(block_columns, LONE_STEPS) if B == 1 else block_columns // B))
    kept_steps, kept_type = (1, np.dtype(np.float64)) if sums else (block_steps, dtype)
    shape = (1 + I + N + spare_rows, kept_steps, B)
    memory = [_room(shape, kept_type) for _ in range(n_buffers)]
    inputs = SideBySide(lanes, B, block_steps, dtype)
    edges = sorted({*range(0, T, block_steps), *(cut for cut in cuts if 0 < cut < T), T})
    for number, (start, stop) in enumerate(pairwise(edges)):
        rows = memory[number % n_buffers][:, : stop - start]
        u = inputs.block(start, stop)
        if sums:
            rows[0], rows[1 : 1 + I, 0], rows[1 + I :] = stop - start, u.sum(1, np.float64), 0
            layers[0].step(u, rows[1 + I :], sums=True)
        else:
            rows[0], rows[1 : 1 + I], first = 1, u, 1
            for k, layer in enumerate(layers):  # each one's states below those of the one before
                middle = first + layer.program.n_inputs
                last = middle + layer.program.n_units
                if step is None:
                    layer.step(rows[first:], rows[middle:])
                else:
                    step(k, start, layer.X, rows[first:middle], rows[middle:last])
                first = middle
        yield Block(start, stop, rows)


def _room(shape: tuple[int, int, int], dtype: np.dtype[Any]) -> Rows:
    """Return memory for rows, steps and lanes; few lanes are laid out step after step."""
    height, steps, B = shape
    if B <= FEW_LANES:
        return aligned((steps, B, height), dtype).transpose(2, 0, 1)
    # Rows are a cache line longer than needed: with a power of two between them all rows would
    # compete for the same few places in the cache.
    line = LINE // dtype.itemsize
    return aligned((height, steps * B + line), dtype)[:, :-line].reshape(shape)


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer under way: its program, extended states X and room for pre-activations P."""

    program: Program
    X: Rows  # (N + I + 1, B)
    P: Rows  # (N, B)
    apart: bool  # whether lanes advance one by one
    activation: Any  # codes (N,), or a tuple as long as the code of all

    @classmethod
    def of(cls, program: Program, B: int, dtype: DTypeLike) -> _Layer:
        apart = B == 1 or (B <= FEW_LANES and program.dense is not None)
        N, size = program.n_units, program.n_units + program.n_inputs + 1
        X, P = (aligned((B, n) if apart else (n, B), dtype) for n in (size, N))
        X, P = (X.T, P.T) if apart else (X, P)
        X[:-1], X[-1] = 0, 1
        codes = program.activation
        alike = (0,) * int(codes[0]) if (codes == codes[0]).all() else codes
        return cls(program, X, P, apart, alike)

    def step(self, U: Rows, S: Rows, *, sums: bool = False) -> None:
        """Advance over the first I rows of U (.., T, B); write into the first N of S (.., T, B).

        With `sums` all steps are added to the first of S.

        Longer arrays are passed because one of a single row counts as another type to the
        compiler, which would compile each kernel again.
        """
        from catchment.features.echo_state import kernels

        program, X, P = self.program, self.X, self.P
        N, B = P.shape
        units, fixed = (program.leak, self.activation, program.uniform), program.rounding
        rows = (program.starts, program.columns, program.values)
        if self.apart and program.dense is not None:
            few = (U.transpose(1, 2, 0), X.T, P.T, S.transpose(1, 2, 0))
            kernels.serial_dense(program.dense, *units, *few, sums, fixed)
            return
        if self.apart:
            alone = (U[:, :, 0].T, X[:, 0], P[:, 0], S[:, :, 0].T)
            kernels.serial(*rows, *units, *alone, sums, fixed)
            return
        flat, width = (X.reshape(-1), P.reshape(-1)), (0,) * (B.bit_length() - 1)
        if program.by_matrix:
            assert program.dense is not None
            for t in range(U.shape[1]):
                X[N:-1] = U[: program.n_inputs, t]
                np.matmul(program.dense, X, out=P)
                kernels.activate_all(*units, X, flat, P, S, sums, t, fixed)
        else:
            kernels.lockstep(*rows, *units, U, X, flat, P, S, sums, width, fixed)


def segment_starts(programs: Sequence[Program], u: Array, washout: int) -> tuple[list[int], int]:
    """Return the first step of each segment and the warm-up ahead of it; one if none pay."""
    T = len(u) - washout
    # The leak alone forgets within a third of this many steps, fewer than which a probe will hardly
    # find; recurrent connections remember longer.
    slowest = max(float(1 - program.leak.min()) for program in programs)
    least = 3 * (16 if slowest < 0.1 else int(np.log(_tolerance(programs)) / np.log(slowest)))
    if best_segments(programs, T, least) == 1:
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

    >>> from catchment.features.echo_state.reservoir import Program
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

    >>> from catchment import Reservoir
    >>> programs = Reservoir(50).programs()
    >>> best_width(programs, 1), best_width(programs, 5), best_width(programs, 9)
    (1, 8, 16)
    """
    widths = [n for n in WIDTHS if n != FEW_LANES or n_lanes <= FEW]
    costs = {n: -(-n_lanes // n) * _step_cost(programs, n) for n in widths}
    return min(costs, key=costs.__getitem__)


def _step_cost(programs: Sequence[Program], n_lanes: int) -> float:
    cost = 0.0
    for program in programs:
        matrix = program.dense is not None and (n_lanes <= FEW_LANES or program.by_matrix)
        entry = (_DENSE_COST if matrix else _SPARSE_COST)[n_lanes]
        size = program.dense.size if matrix and program.dense is not None else len(program.values)
        cost += size * entry + program.n_units * n_lanes * _UNIT_COST
    return cost


def _warmup(programs: Sequence[Program], u: Array, limit: int) -> int | None:
    """Return steps after which opposite starts agree, with a margin; None if they do not.

    Once the gap between two starts is half way down, in digits, the slower of its average and its
    latest rate of decay tells when it will be all the way down.
    """
    N = sum(program.n_units for program in programs)
    places, x0 = [(len(u) - limit) * k // PLACES for k in range(PLACES)], _opposite(N, PLACES)
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


def _opposite(N: int, n: int) -> Array:
    """Return n pairs of opposite states, as columns (N, 2 n)."""
    signs = [np.where(np.arange(N) // (k + 1) % 2 == 0, 1.0, -1.0) for k in range(n)]
    return np.stack([sign * x for x in signs for sign in (1, -1)], axis=1)


def found_cut(programs: Sequence[Program]) -> tuple[int, int]:
    """Return length and warm-up of the parts of a sequence in fixed point; (0, 0) for never cut.

    All is exact, so every machine finds the same.

    >>> from catchment import Reservoir
    >>> Reservoir(20, topology="ring", leak_rate=0.5, bits=20).cut
    (1536, 192)
    """
    bits = programs[0].bits
    assert bits is not None
    N, I = sum(program.n_units for program in programs), programs[0].n_inputs
    rng = Words(seed=0, layer=0, purpose=Purpose.PROBE)
    noise = uniform(rng, LONGEST_WARMUP * I, -1.0, 1.0).reshape(LONGEST_WARMUP, I)
    probes = [loud * noise for loud in LOUDNESS for _ in range(2)]
    for probe in probes:
        inputs_in_fixed_point(probe, bits, 1.0)
    x0, needed = _opposite(N, len(LOUDNESS)), 0
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
    """Return where each part of a sequence in fixed point starts from rest, counts from, and ends.

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


class SegmentsError(Exception):
    """The segments of a batch did not join; run the sequence in one piece instead."""


@dataclass(frozen=True, eq=False)
class Lane:
    """Inputs to run; the steps from `skip` on count, the first being step `first` of its source."""

    source: int
    u: Array
    skip: int
    first: int

    @property
    def n_rows(self) -> int:
        return len(self.u) - self.skip


@dataclass(frozen=True, eq=False)
class Batch:
    """Lanes that run side by side; if `joined`, they are the segments of one sequence, in order."""

    lanes: tuple[Lane, ...]
    joined: bool = False

    def in_one_piece(self, inputs: Sequence[Array], washout: int) -> Batch:
        source = self.lanes[0].source
        return Batch((Lane(source, inputs[source], washout, washout),))


def plan_batches(
    programs: Sequence[Program],
    inputs: Sequence[Array],
    *,
    washout: int,
    may_segment: bool,
    cut: tuple[int, int] = (0, 0),
) -> list[Batch]:
    """Return batches that together cover every sequence once; depends on the data alone.

    Parameters
    ----------
    washout
        Steps at the start of each sequence that do not count.
    may_segment
        Whether a sequence may be spread over several lanes.
    cut
        How fixed point cuts recordings, if it does: then no others are.
    """
    lanes = sorted(cut_lanes(inputs, cut, washout), key=lambda lane: -len(lane.u))
    if len(inputs) >= FEW or (programs[0].bits is not None and may_segment):
        return lanes_together(programs, lanes)
    batches, short = [], []
    for lane in lanes:
        segments = _segments(programs, lane, washout) if may_segment else (lane,)
        if len(segments) > 1:
            batches.append(Batch(segments, joined=True))
        else:
            short.append(lane)
    # Three lanes of eight already pay for the wider kernel when they are of a length.
    if len(short) >= 3 and sum(len(s.u) for s in short) >= 2 * len(short[0].u):
        return [*batches, Batch(tuple(short))]
    return [*batches, *(Batch((lane,)) for lane in short)]


def cut_lanes(inputs: Sequence[Array], cut: tuple[int, int], washout: int) -> list[Lane]:
    """Return a lane for every part of sequences in fixed point."""
    return [
        Lane(k, u[rest:end], first - rest, first)
        for k, u in enumerate(inputs)
        for rest, first, end in cut_places(len(u), cut, washout)
    ]


def lanes_together(programs: Sequence[Program], lanes: Sequence[Lane]) -> list[Batch]:
    """Return batches of lanes, the longest first, none of which depends on another."""
    many = len({lane.source for lane in lanes}) >= FEW
    width = (preferred_lanes if many else best_width)(programs, len(lanes))
    return [Batch(tuple(lanes[k : k + width])) for k in range(0, len(lanes), width)]


def _segments(programs: Sequence[Program], lane: Lane, washout: int) -> tuple[Lane, ...]:
    firsts, warmup = segment_starts(programs, lane.u, washout)
    lanes = []
    for first, end in zip(firsts, [*firsts[1:], len(lane.u)], strict=True):
        skip = min(first, warmup) if first > washout else first
        lanes.append(Lane(lane.source, lane.u[first - skip : end], skip, first))
    return tuple(lanes)


def run_batch(programs: Sequence[Program], batch: Batch, **how: Any) -> Iterator[Block]:
    """Yield the blocks of a batch, as of `advance`.

    SegmentsError comes at the end if its joints do not fit.
    """
    blocks = advance(programs, [lane.u for lane in batch.lanes], **how)
    if not batch.joined:
        yield from blocks
        return
    N, first = sum(program.n_units for program in programs), 1 + programs[0].n_inputs
    starts, ends = np.zeros((2, N, len(batch.lanes)))
    joints = defaultdict(list)
    for b, lane in enumerate(batch.lanes):
        joints[lane.skip - 1].append((starts, b))
        joints[len(lane.u) - 1].append((ends, b))
    for block in blocks:
        for step in [step for step in joints if block.start <= step < block.stop]:
            for keep, b in joints[step]:
                keep[:, b] = block.rows[first : first + N, step - block.start, b]
        yield block
    if not joints_agree(programs, starts, ends):
        raise SegmentsError


def pooled_rows(
    programs: Sequence[Program],
    batch: Batch,
    select: Callable[[Rows], Rows],
    *,
    pool: Pool,
    segments: int,
    bounds: Array,
    cut: tuple[int, int] = (0, 0),
) -> Array:
    """Return a row (lanes, F) per lane.

    Parameters
    ----------
    batch
        Whole sequences, in the lanes that make the rows; they are cut here if fixed point does it.
    bounds
        (n,) of one step's features; powers of two in fixed point.
    """
    edges = [
        [lane.skip + lane.n_rows * k // segments for k in range(segments + 1)]
        for lane in batch.lanes
    ]
    totals = Totals(pool, bounds, edges, programs[0].bits)
    if cut[0] == 0 or max(len(lane.u) for lane in batch.lanes) <= cut[0]:
        _pool_batch(programs, batch, select, totals, range(len(batch.lanes)))
        return totals.rows()
    lanes = [
        replace(part, source=slot)
        for slot, lane in enumerate(batch.lanes)
        for part in cut_lanes([lane.u], cut, lane.skip)
    ]
    for each in lanes_together(programs, sorted(lanes, key=lambda lane: -len(lane.u))):
        _pool_batch(programs, each, select, totals, [lane.source for lane in each.lanes])
    return totals.rows()


def _pool_batch(
    programs: Sequence[Program],
    batch: Batch,
    select: Callable[[Rows], Rows],
    totals: Totals,
    slots: Sequence[int],
) -> None:
    """Add the steps of a batch's lanes to the totals of the rows (slots) that they belong to."""
    begins: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)  # lane, part, is its last
    for b, (lane, slot) in enumerate(zip(batch.lanes, slots, strict=True)):
        rest, end = lane.first - lane.skip, lane.first - lane.skip + len(lane.u)
        for part, (first, last) in enumerate(pairwise(totals.edges[slot])):
            begin, stop = max(first, lane.first), min(last, end)
            if begin < stop:
                begins[begin - rest].append(b)
                ends[stop - rest].append((b, part, stop == last))
    running = totals.running(padded_lanes(len(batch.lanes)))
    sums = totals.pool == "mean" and len(programs) == 1
    columns = SUM_COLUMNS if sums else BLOCK_COLUMNS
    # Blocks end wherever a part of any lane does, so that a block belongs to one part.
    cuts = [*begins, *ends]
    for block in run_batch(programs, batch, cuts=cuts, block_columns=columns, sums=sums):
        if block.stop > min(begins):
            Z = select(block.rows)
            totals.add(running, Z, begins.get(block.start, []))
            for b, part, is_last in ends.get(block.stop, []):
                totals.keep(slots[b], part, running[:, :, b], Z[:, -1, b], is_last)


class Totals:
    """Sums (slots, parts, k, n) over the steps of each part of sequences, and rows made of them.

    Deviations have four in fixed point: steps, and the three parts of their squares; else three:
    the part's first step, for accuracy, and the sums of distances from it and of their squares.
    """

    def __init__(self, pool: Pool, bounds: Array, edges: list[list[int]], bits: int | None) -> None:
        self.pool, self.edges, self.bits = pool, edges, bits
        n_sums = 1 if pool != "mean_std" else 3 if bits is None else 4
        shape = (len(edges), len(edges[0]) - 1, n_sums, len(bounds))
        self.sums = np.full(shape, -np.inf if pool == "max" else 0.0)
        self.R = np.empty(0)
        if bits is not None:
            self.r = np.frexp(bounds)[1] - 1  # bounds are 2^r
            # Digits after the point of the upper half of a number that is squared.
            self.upper = (bits - self.r + 1) // 2
            self.R = np.ldexp(ROUND, -self.upper)
            longest = max(last - first for each in edges for first, last in pairwise(each))
            if longest > self.most_steps:
                raise ValueError(
                    f"a recording has {longest} steps to pool, and sums in fixed point are exact "
                    f"up to {self.most_steps}; cut it into windows, or take fewer bits"
                )

    @property
    def most_steps(self) -> int:
        """Steps up to which sums in fixed point are exact."""
        assert self.bits is not None
        return 1 << (52 - self.bits - int(self.r.max()))

    def running(self, B: int) -> Array:
        """Return sums (k, n, B) of B lanes, for `add`."""
        return np.zeros((*self.sums.shape[2:], B))

    def add(self, running: Array, Z: Rows, begin: Sequence[int]) -> None:
        """Add the steps of Z (n, T, B) to running sums; parts begin in some lanes."""
        from catchment.features.echo_state.kernels import pool_into

        if self.pool == "last":
            return
        if begin:
            running[:, :, begin] = -np.inf if self.pool == "max" else 0.0
            if len(running) == 3:
                running[0][:, begin] = Z[:, 0, begin]
        pool_into(self.pool == "max", Z, self.R, running)

    def keep(self, slot: int, part: int, sums: Rows, last: Rows, is_last: bool) -> None:
        """Add the sums (k, n) of steps of a part, the last (n,) of which may be the part's last."""
        here = self.sums[slot, part]
        if self.pool == "max":
            np.maximum(here, sums, out=here)
        elif self.pool != "last":
            here += sums
        elif is_last:
            here[0] = last

    def rows(self) -> Array:
        """Return the rows (slots, F)."""
        sums = self.sums
        if self.pool in ("last", "max"):
            return sums[:, :, 0].reshape(len(sums), -1)
        T = np.diff(np.array(self.edges))[:, :, None]
        if self.pool == "mean":
            return (sums[:, :, 0] / T).reshape(len(sums), -1)
        if self.bits is None:
            shift = sums[:, :, 1] / T
            variance = np.maximum(sums[:, :, 2] / T - shift * shift, 0.0)
            found = np.stack([sums[:, :, 0] + shift, np.sqrt(variance)], axis=2)
        else:
            found = np.stack([sums[:, :, 0] / T, self._deviations(T, self.bits)], axis=2)
        return found.reshape(len(found), -1)

    def _deviations(self, T: Integers, b: int) -> Array:
        e = self.upper
        S1 = np.ldexp(self.sums[:, :, 0], b).astype(np.int64)
        m = S1 // T
        squares = np.empty(S1.shape)
        # Sums beyond 63 bits, of wide inputs or long recordings, are done in Python's integers.
        short = 2 * (b + self.r) + int(T.max()).bit_length() < 63
        for columns, kind in ((short, np.int64), (~short, object)):
            high, cross, low = (
                _whole(self.sums[:, :, k, columns], digits[columns], kind)
                for k, digits in ((1, 2 * e), (2, e + b), (3, np.full_like(e, 2 * b)))
            )
            up = (b - e[columns]).astype(kind)
            S2 = high * 4**up + cross * 2 ** (up + 1) + low
            near, first = m[:, :, columns].astype(kind), S1[:, :, columns].astype(kind)
            squares[:, :, columns] = S2 - 2 * near * first + T.astype(kind) * near * near
        d = (S1 - T * m) / T
        q = squares / T
        found: Array = np.ldexp(np.sqrt(q - d * d), -b)
        return found


def _whole(sums: Array, digits: NDArray[np.integer], kind: type) -> NDArray[Any]:
    """Return exact sums times 2^digits as integers of a kind."""
    scaled = np.ldexp(sums, digits)
    if kind is object:
        return np.array([int(value) for value in scaled.flat], dtype=object).reshape(scaled.shape)
    return np.asarray(scaled.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Columns:
    """The targets and weights of a batch's lanes, arranged like its blocks."""

    targets: SideBySide  # (K, steps, B), NaN where there are none
    skips: Integers  # (B,)
    roots: Array  # (B,) of the weights
    last_skip: int
    weighted: bool

    @classmethod
    def of(cls, batch: Batch, targets: Sequence[Array], root_of: Array) -> Columns:
        lanes, B = batch.lanes, padded_lanes(len(batch.lanes))
        ys, skips, roots = [], np.zeros(B, dtype=np.int64), np.ones(B)
        for b, lane in enumerate(lanes):
            y, begin = targets[lane.source], lane.first - lane.skip
            n_steps = len(lane.u)
            constant = y.ndim == 1
            ys.append(np.broadcast_to(y, (n_steps, len(y))) if constant else y[begin:][:n_steps])
            skips[b] = lane.skip
            roots[b] = root_of[lane.source]
        side = SideBySide(ys, B, BLOCK_COLUMNS // B, np.float64, fill=np.nan)
        return cls(side, skips, roots, int(skips.max()), bool((roots != 1).any()))

    def fill(self, block: Block, *, few: float) -> tuple[int, Array]:
        """Put targets and weights into the spare rows; return the number of rows and [Z; Y'; 1].

        Columns that do not count are left out; they are zeros if their share is `few` or less.
        """
        from catchment.features.echo_state.kernels import keep_columns

        y = self.targets.block(block.start, block.stop)
        block.rows[-1 - len(y) :] = 1.0
        rows = block.rows.astype(np.float64, copy=False)
        rows[-1 - len(y) : -1] = y
        if self.weighted:
            rows *= self.roots
        Z = rows.reshape(len(rows), -1)
        if self.targets.complete and block.start >= self.last_skip:
            return Z.shape[1], Z
        known = ~np.isnan(y).any(axis=0)
        known &= np.arange(block.start, block.stop)[:, None] >= self.skips
        used = known.reshape(-1)
        n = int(np.count_nonzero(used))
        if n < (1 - few) * used.size:
            keep_columns(Z, np.flatnonzero(used))
            return n, Z[:, :n]
        if n < used.size:
            Z[:, ~used] = 0.0
        return n, Z
