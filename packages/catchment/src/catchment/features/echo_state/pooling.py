"""Fold the steps of a sequence into one row: last, mean, mean and standard deviation, maximum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from catchment.arrays import Array, Integers
from catchment.features.echo_state.advance import BLOCK_COLUMNS, Program, Rows, padded_lanes
from catchment.features.echo_state.batches import Batch, run_batch

Pool = Literal["last", "mean", "mean_std", "max"]
SUM_COLUMNS = 8 * BLOCK_COLUMNS  # steps times lanes of a block of which only the sum is kept
POOLS: tuple[Pool, ...] = ("last", "mean", "mean_std", "max")


def pooled_rows(
    programs: Sequence[Program],
    batch: Batch,
    select: Callable[[Rows], Rows],
    *,
    n_base: int,
    pool: Pool,
    segments: int,
) -> Array:
    """Return a row (lanes, F) per lane."""
    begins: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # lane, part, steps
    for b, lane in enumerate(batch.lanes):
        edges = [lane.skip + lane.n_rows * k // segments for k in range(segments + 1)]
        for part, (first, last) in enumerate(pairwise(edges)):
            begins[first].append(b)
            ends[last].append((b, part, last - first))
    fold = Fold(pool, n_base, len(batch.lanes), segments)
    # Blocks end wherever a segment of any lane does, so that a block belongs to one segment.
    cuts = [*begins, *ends]
    sums = pool == "mean" and len(programs) == 1
    columns = SUM_COLUMNS if sums else BLOCK_COLUMNS
    for block in run_batch(programs, batch, cuts=cuts, block_columns=columns, sums=sums):
        if block.stop > min(begins):
            Z = select(block.rows)
            fold.begin(Z, begins.get(block.start, []))
            fold.add(Z)
            if block.stop in ends:
                lanes, parts, n_steps = np.array(ends[block.stop]).T
                fold.finish(lanes, parts, n_steps, Z)
    return fold.rows.reshape(len(batch.lanes), -1)


class Fold:
    """Running sums of one batch; moments are taken about each part's first step, for accuracy."""

    def __init__(self, pool: Pool, n_base: int, n_lanes: int, segments: int) -> None:
        self.pool = pool
        self.rows = np.empty((n_lanes, segments, 2 if pool == "mean_std" else 1, n_base))
        self.reference, self.first, self.second = np.zeros((3, n_base, padded_lanes(n_lanes)))

    def begin(self, Z: Rows, lanes: list[int]) -> None:
        if self.pool == "last" or not lanes:
            return
        self.reference[:, lanes] = Z[:, 0, lanes]
        self.first[:, lanes] = -np.inf if self.pool == "max" else 0.0
        self.second[:, lanes] = 0.0

    def add(self, Z: Rows) -> None:
        from catchment.features.echo_state import kernels

        kinds = {
            "mean": kernels.POOL_MEAN,
            "mean_std": kernels.POOL_MEAN_STD,
            "max": kernels.POOL_MAX,
        }
        if self.pool != "last":
            kernels.pool_into(kinds[self.pool], Z, self.reference, self.first, self.second)

    def finish(self, lanes: Integers, parts: Integers, n_steps: Integers, Z: Rows) -> None:
        first = self.first[:, lanes]
        if self.pool == "last":
            self.rows[lanes, parts, 0] = Z[:, -1, lanes].T
        elif self.pool == "max":
            self.rows[lanes, parts, 0] = first.T
        elif self.pool == "mean":
            self.rows[lanes, parts, 0] = (first / n_steps).T
        else:
            shift = first / n_steps
            variance = self.second[:, lanes] / n_steps - shift * shift
            self.rows[lanes, parts, 0] = (self.reference[:, lanes] + shift).T
            self.rows[lanes, parts, 1] = np.sqrt(np.maximum(variance, 0.0)).T
