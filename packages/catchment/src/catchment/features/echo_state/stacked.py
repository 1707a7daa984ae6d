"""States with the targets beside them, in the blocks in which lanes advance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from catchment.arrays import Array, Integers
from catchment.features.echo_state.run import (
    BLOCK_COLUMNS,
    Batch,
    Block,
    Lane,
    SegmentsError,
    SideBySide,
    padded_lanes,
)
from catchment.features.stacked import Part

if TYPE_CHECKING:
    from catchment.features.echo_state.echo_state import EchoStateMap

FEW_UNUSED = 0.125  # share of unused columns up to which zeroing them beats leaving them out
LANES = 8  # recordings that advance side by side, and give their rows one by one


def stacked_states(
    features: EchoStateMap,
    inputs: Sequence[Array],
    targets: Sequence[Array],
    roots: Array,
    *,
    rounded: bool,
) -> list[Part]:
    """Return a part for every batch of checked inputs (T, I) with targets (T, K) or (K,)."""

    def part(batch: Batch) -> Part:
        def of(batch: Batch, n_buffers: int) -> Iterator[tuple[int, Array]]:
            columns, spare = _Columns.of(batch, targets, roots), targets[0].shape[-1] + 1
            blocks = features.blocks(batch, spare_rows=spare, n_buffers=n_buffers, rounded=rounded)
            return map(columns.fill, blocks)

        def blocks(n_buffers: int) -> Iterator[tuple[int, Array] | None]:
            try:
                yield from of(batch, n_buffers)
            except SegmentsError:
                yield None
                yield from of(batch.in_one_piece(inputs, features.washout), n_buffers)

        return blocks

    return [part(batch) for batch in features.batches(inputs)]


def stacked_each(
    features: EchoStateMap, inputs: Sequence[Array], targets: Sequence[Array], roots: Array
) -> Iterator[tuple[int, Array]]:
    """Yield the number and all columns of each recording, the same whoever else is among them."""
    F, K, washout = features.n_features, targets[0].shape[-1], features.washout
    order = sorted(range(len(inputs)), key=lambda k: len(inputs[k]))
    for first in range(0, len(order), LANES):
        numbers = order[first : first + LANES]
        lanes = [Lane(b, inputs[k], washout, washout) for b, k in enumerate(numbers)]
        found = np.empty((LANES, F + K + 1, len(lanes[-1].u)))
        # A lone lane would get a kernel of its own and other bits; twice the same one does not.
        for block in features.blocks(
            Batch(tuple(lanes if lanes[1:] else 2 * lanes)), rounded=False
        ):
            found[:, :F, block.start : block.stop] = block.rows.transpose(2, 0, 1)
        for k, one in zip(numbers, found, strict=False):
            y, Z = targets[k], one[:, washout : len(inputs[k])]
            Z[F:-1], Z[-1] = y[:, None] if y.ndim == 1 else y[washout:].T, 1.0
            if roots[k] != 1:
                Z *= roots[k]
            known = np.logical_not(np.isnan(y).any(axis=-1))
            gaps = not known.all()
            yield k, Z[:, np.broadcast_to(known, len(inputs[k]))[washout:]] if gaps else Z


@dataclass(frozen=True, eq=False)
class _Columns:
    """The targets and weights of a batch's lanes, arranged like its blocks."""

    targets: SideBySide  # (K, steps, B), NaN where there are none
    skips: Integers  # (B,)
    roots: Array  # (B,) of the weights
    last_skip: int
    weighted: bool

    @classmethod
    def of(cls, batch: Batch, targets: Sequence[Array], root_of: Array) -> _Columns:
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

    def fill(self, block: Block) -> tuple[int, Array]:
        """Put targets and weights into the spare rows; return the number of rows and [Z; Y'; 1].

        Columns that do not count are zeros, or left out when they are many.
        """
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
        if n < (1 - FEW_UNUSED) * used.size:
            return n, Z[:, used]
        Z[:, ~used] = 0.0
        return n, Z
