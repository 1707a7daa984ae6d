"""Fold the steps of a sequence into one row: last, mean, mean and standard deviation, maximum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.reservoir.advance import Program, padded_lanes
from catchment.reservoir.batches import Batch, run_batch

Pool = Literal["last", "mean", "mean_std", "max"]
POOLS: tuple[Pool, ...] = ("last", "mean", "mean_std", "max")
BLOCK_COLUMNS = 512  # steps times lanes folded at once: a block should stay in the cache

Rows = NDArray[np.floating[Any]]


def pooled_rows(
    programs: Sequence[Program],
    batch: Batch,
    select: Callable[[Rows], Rows],
    *,
    n_base: int,
    pool: Pool,
    segments: int,
) -> Array:
    """Return a row (lanes, F) per lane; blocks end wherever a segment of any lane does."""
    edges = [
        [lane.skip + lane.n_rows * k // segments for k in range(segments + 1)]
        for lane in batch.lanes
    ]
    first_step = min(lane_edges[0] for lane_edges in edges)
    cuts = sorted({edge for lane_edges in edges for edge in lane_edges})
    fold = _Fold(pool, n_base, len(batch.lanes), segments)
    for block in run_batch(programs, batch, cuts=cuts, block_columns=BLOCK_COLUMNS):
        if block.stop <= first_step:
            continue
        Z = np.ascontiguousarray(select(block.rows), dtype=np.float64)
        fold.begin(Z, [b for b, lane in enumerate(edges) if block.start in lane[:-1]])
        fold.add(Z)
        for b, lane_edges in enumerate(edges):
            if block.stop in lane_edges[1:]:
                part = lane_edges.index(block.stop, 1) - 1
                fold.finish(b, part, lane_edges[part + 1] - lane_edges[part], Z)
    return fold.rows.reshape(len(batch.lanes), -1)


class _Fold:
    """Running sums of one batch; moments are taken about each part's first step, for accuracy."""

    def __init__(self, pool: Pool, n_base: int, n_lanes: int, segments: int) -> None:
        self.pool = pool
        self.rows = np.empty((n_lanes, segments, 2 if pool == "mean_std" else 1, n_base))
        self.reference, self.first, self.second = np.zeros((3, n_base, padded_lanes(n_lanes)))

    def begin(self, Z: Array, lanes: list[int]) -> None:
        self.reference[:, lanes] = Z[:, 0, lanes]
        self.first[:, lanes] = -np.inf if self.pool == "max" else 0.0
        self.second[:, lanes] = 0.0

    def add(self, Z: Array) -> None:
        from catchment.reservoir import kernels

        kinds = {
            "mean": kernels.POOL_MEAN,
            "mean_std": kernels.POOL_MEAN_STD,
            "max": kernels.POOL_MAX,
        }
        if self.pool != "last":
            kernels.pool_into(kinds[self.pool], Z, self.reference, self.first, self.second)

    def finish(self, lane: int, part: int, n_steps: int, Z: Array) -> None:
        row = self.rows[lane, part]
        if self.pool == "last":
            row[0] = Z[:, -1, lane]
        elif self.pool == "max":
            row[0] = self.first[:, lane]
        elif self.pool == "mean":
            row[0] = self.first[:, lane] / n_steps
        else:
            shift = self.first[:, lane] / n_steps
            row[0] = self.reference[:, lane] + shift
            row[1] = np.sqrt(np.maximum(self.second[:, lane] / n_steps - shift * shift, 0.0))
