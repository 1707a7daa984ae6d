"""Arrange sequences into batches of lanes, and run a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
from catchment.features.echo_state.advance import (
    BLOCK_COLUMNS,
    Block,
    Program,
    advance,
    preferred_lanes,
)
from catchment.features.echo_state.segments import (
    best_width,
    cut_places,
    joints_agree,
    segment_starts,
)

FEW = 8  # fewer sequences than this do not fill the narrowest lockstep kernel


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
        How a grid cuts sequences, if it does: then no others are.
    """
    if programs[0].bits is not None and may_segment:
        return lanes_together(programs, cut_lanes(inputs, cut, washout))
    order = sorted(range(len(inputs)), key=lambda k: (-len(inputs[k]), k))
    lanes = [Lane(k, inputs[k], washout, washout) for k in order]
    if len(lanes) >= FEW:
        width = preferred_lanes(programs, len(lanes))
        return [Batch(tuple(lanes[k : k + width])) for k in range(0, len(lanes), width)]
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
    """Return a lane for every part of sequences on a grid."""
    return [
        Lane(k, u[rest:end], first - rest, first)
        for k, u in enumerate(inputs)
        for rest, first, end in cut_places(len(u), cut, washout)
    ]


def lanes_together(programs: Sequence[Program], lanes: Sequence[Lane]) -> list[Batch]:
    """Return batches of lanes of like length, none of which depends on another."""
    order = sorted(lanes, key=lambda lane: -len(lane.u))
    n_sources = len({lane.source for lane in lanes})
    if n_sources >= FEW:
        width = preferred_lanes(programs, len(lanes))
    else:
        width = best_width(programs, len(lanes))
    return [Batch(tuple(order[k : k + width])) for k in range(0, len(order), width)]


def _segments(programs: Sequence[Program], lane: Lane, washout: int) -> tuple[Lane, ...]:
    firsts, warmup = segment_starts(programs, lane.u, washout)
    lanes = []
    for first, end in zip(firsts, [*firsts[1:], len(lane.u)], strict=True):
        skip = min(first, warmup) if first > washout else first
        lanes.append(Lane(lane.source, lane.u[first - skip : end], skip, first))
    return tuple(lanes)


def run_batch(
    programs: Sequence[Program],
    batch: Batch,
    *,
    cuts: Sequence[int] = (),
    block_columns: int = BLOCK_COLUMNS,
    spare_rows: int = 0,
    n_buffers: int = 1,
    sums: bool = False,
) -> Iterator[Block]:
    """Yield the blocks of a batch; raise SegmentsError at the end if its joints do not fit."""
    blocks = advance(
        programs,
        [lane.u for lane in batch.lanes],
        cuts=cuts,
        block_columns=block_columns,
        spare_rows=spare_rows,
        n_buffers=n_buffers,
        sums=sums,
    )
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
