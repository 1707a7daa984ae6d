"""Pooling on a grid: exact sums, then a few IEEE operations, one by one.

With whole states k (times 2^-b) of the T steps of a part, S1 = sum k and S2 = sum k^2 are exact,
so they may be added in any order and over the parts of a sequence that is cut. Then

    mean      = S1 / T
    deviation = sqrt(q - d d),   m = floor(S1 / T),  d = (S1 - T m) / T,  q = sum (k - m)^2 / T

times 2^-b, where sum (k - m)^2 = S2 - 2 m S1 + T m^2 is computed in whole numbers and every other
operation is one of IEEE 754. Because m is near the mean, nothing cancels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers
from catchment.features.echo_state.advance import BLOCK_COLUMNS, Program, Rows, padded_lanes
from catchment.features.echo_state.batches import Batch, Lane, cut_lanes, lanes_together, run_batch
from catchment.features.echo_state.pooling import SUM_COLUMNS, Pool
from catchment.features.echo_state.whole_weights import ROUND


def whole_rows(
    programs: Sequence[Program],
    batch: Batch,
    select: Callable[[Rows], Rows],
    *,
    bounds: Array,
    cut: tuple[int, int],
    pool: Pool,
    segments: int,
) -> Array:
    """Return a row (lanes, F) per lane; `bounds` (n,) are powers of two, of one step's features.

    Parameters
    ----------
    batch
        Whole sequences, in the lanes that make the rows; they are cut here.
    """
    bits = programs[0].bits
    assert bits is not None
    edges = [
        [lane.skip + lane.n_rows * k // segments for k in range(segments + 1)]
        for lane in batch.lanes
    ]
    totals = Totals(pool, bounds, edges, bits)
    longest = max(last - first for each in edges for first, last in pairwise(each))
    if longest > totals.most_steps:
        raise ValueError(
            f"a recording has {longest} steps to pool, and sums on its grid are exact up to "
            f"{totals.most_steps}; cut it into windows, or use a coarser grid"
        )
    if cut[0] == 0 or max(len(lane.u) for lane in batch.lanes) <= cut[0]:
        _pool_batch(programs, batch, select, totals, list(range(len(batch.lanes))))
        return totals.rows()
    lanes = [
        replace(part, source=slot)
        for slot, lane in enumerate(batch.lanes)
        for part in cut_lanes([lane.u], cut, lane.skip)
    ]
    for each in lanes_together(programs, lanes):
        _pool_batch(programs, each, select, totals, [lane.source for lane in each.lanes])
    return totals.rows()


def _pool_batch(
    programs: Sequence[Program],
    batch: Batch,
    select: Callable[[Rows], Rows],
    totals: Totals,
    slots: list[int],
) -> None:
    """Add the steps of a batch's lanes to the totals of the rows (slots) that they belong to."""
    begins: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)  # lane, part, is its last
    for b, (lane, slot) in enumerate(zip(batch.lanes, slots, strict=True)):
        for part, first, last, whole in _pieces(lane, totals.edges[slot]):
            begins[first].append(b)
            ends[last].append((b, part, whole))
    fold = Sums(totals, padded_lanes(len(batch.lanes)))
    sums = totals.pool == "mean" and len(programs) == 1
    columns = SUM_COLUMNS if sums else BLOCK_COLUMNS
    cuts = [*begins, *ends]
    for block in run_batch(programs, batch, cuts=cuts, block_columns=columns, sums=sums):
        if block.stop <= min(begins):
            continue
        Z = select(block.rows)
        fold.begin(begins.get(block.start, []))
        fold.add(Z)
        for b, part, whole in ends.get(block.stop, []):
            totals.add(slots[b], part, fold.of(b, Z), whole)


def _pieces(lane: Lane, edges: Sequence[int]) -> list[tuple[int, int, int, bool]]:
    """Return what a lane has of each part: its number, steps of the lane, whether it ends it."""
    rest, end = lane.first - lane.skip, lane.first - lane.skip + len(lane.u)
    found = []
    for part, (first, last) in enumerate(pairwise(edges)):
        begin, stop = max(first, lane.first), min(last, end)
        if begin < stop:
            found.append((part, begin - rest, stop - rest, stop == last))
    return found


class Sums:
    """Running sums (4, n, B) of a batch: steps, and the three parts of their squares.

    Only deviations need the squares; else there are sums (1, n, B).
    """

    def __init__(self, totals: Totals, B: int) -> None:
        self.pool, self.R = totals.pool, totals.R
        self.sums = np.zeros((totals.sums.shape[2], len(totals.R), B))

    def begin(self, lanes: list[int]) -> None:
        if lanes:
            self.sums[:, :, lanes] = -np.inf if self.pool == "max" else 0.0

    def add(self, Z: Rows) -> None:
        from catchment.features.echo_state import kernels

        if self.pool == "mean_std":
            kernels.pool_exactly(Z, self.R, *self.sums)
        elif self.pool != "last":
            kind = kernels.POOL_MAX if self.pool == "max" else kernels.POOL_MEAN
            kernels.pool_into(kind, Z, self.sums[0], self.sums[0], self.sums[0])

    def of(self, b: int, Z: Rows) -> Rows:
        """Return the sums (1 or 4, n) of a lane, or its last step."""
        return Z[:, -1, b] if self.pool == "last" else self.sums[:, :, b]


class Totals:
    """Sums (slots, parts, 1 or 4, n) over whole sequences, and the rows made of them."""

    def __init__(self, pool: Pool, bounds: Array, edges: list[list[int]], bits: int) -> None:
        self.pool, self.edges, self.bits = pool, edges, bits
        self.r = np.frexp(bounds)[1] - 1  # bounds are 2^r
        # Digits after the point of the upper half of a number that is squared.
        self.upper = (bits - self.r + 1) // 2
        self.R = np.ldexp(ROUND, -self.upper)
        self.most_steps = 1 << (52 - bits - int(self.r.max()))
        n_sums = 4 if pool == "mean_std" else 1
        shape = (len(edges), len(edges[0]) - 1, n_sums, len(bounds))
        self.sums = np.full(shape, -np.inf if pool == "max" else 0.0)

    def add(self, slot: int, part: int, found: Rows, is_last: bool) -> None:
        here = self.sums[slot, part]
        if self.pool == "max":
            np.maximum(here, found, out=here)
        elif self.pool != "last":
            here += found
        elif is_last:
            here[0] = found

    def rows(self) -> Array:
        """Return the rows (slots, F)."""
        if self.pool in ("last", "max"):
            return self.sums[:, :, 0].reshape(len(self.sums), -1)
        T = np.diff(np.array(self.edges))[:, :, None]
        mean = self.sums[:, :, 0] / T
        if self.pool == "mean":
            return mean.reshape(len(mean), -1)
        found = np.stack([mean, self._deviations(T)], axis=2)
        return found.reshape(len(found), -1)

    def _deviations(self, T: Integers) -> Array:
        b, e = self.bits, self.upper
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
    """Return exact sums times 2^digits as whole numbers of a kind."""
    scaled = np.ldexp(sums, digits)
    if kind is object:
        return np.array([int(value) for value in scaled.flat], dtype=object).reshape(scaled.shape)
    found: NDArray[np.int64] = scaled.astype(np.int64)
    return found
