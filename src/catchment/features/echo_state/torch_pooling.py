"""Pool the steps of sequences on a device by exact sums, as `pooling` does on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from catchment.arrays import Array, Integers
from catchment.features.echo_state.torch_form import TorchBlock, TorchForm

LOWEST = -(2**62)  # below every whole number of a grid
HALF = 32  # binary digits of the lower part of a sum of squares


class TorchFold:
    """Sums over the parts of sequences: steps on a grid as whole numbers, added in int64.

    Parameters
    ----------
    edges
        (n, segments + 1) first step of each part of each sequence, and the end of the last.
    n_base
        Features of a step.
    digits
        Binary digits after the point of the steps.
    """

    def __init__(self, edges: Integers, n_base: int, digits: int, device: torch.device) -> None:
        n, self.segments = len(edges), edges.shape[1] - 1
        self.edges, self.digits, self.device = edges, digits, device
        size = (n_base, n * self.segments)
        self.first, self.low, self.high, self.last = torch.zeros(
            (4, *size), dtype=torch.int64, device=device
        )
        self.most = torch.full(size, LOWEST, dtype=torch.int64, device=device)

    def add(self, pool: str, z: Tensor, block: TorchBlock) -> None:
        """Add the features (F, T, B) of a block's steps."""
        T = z.shape[1]
        source = np.array([piece.source for piece in block.pieces])
        begin = np.array([piece.begin for piece in block.pieces]) + block.start
        low = np.array([piece.first for piece in block.pieces])
        high = np.array([piece.end for piece in block.pieces])
        k = (z * 2.0**self.digits).to(torch.int64)
        for part in range(self.segments):
            first = np.maximum(low, self.edges[source, part]) - begin
            end = np.minimum(high, self.edges[source, part + 1]) - begin
            here = np.flatnonzero((first < T) & (end > 0) & (first < end))
            if not len(here):
                continue
            whole = len(here) == len(source)
            mine = k if whole else k[:, :, torch.from_numpy(here).to(self.device)]
            at = torch.from_numpy(source[here] * self.segments + part).to(self.device)
            ended = end[here] == self.edges[source[here], part + 1] - begin[here]
            self._add_part(pool, mine, at, first[here], end[here], ended)

    def _add_part(
        self,
        pool: str,
        k: Tensor,
        at: Tensor,
        first: Integers,
        end: Integers,
        ended: Sequence[bool],
    ) -> None:
        T = k.shape[1]
        if pool == "last":
            lanes = np.flatnonzero((end <= T) & ended)
            b = torch.from_numpy(lanes).to(self.device)
            step = torch.from_numpy(end[lanes] - 1).to(self.device)
            self.last[:, at[b]] = k[:, step, b]
            return
        used = None
        if first.max() > 0 or end.min() < T:
            t = torch.arange(T, device=self.device)[:, None]
            used = t >= torch.from_numpy(first).to(self.device)
            used &= t < torch.from_numpy(end).to(self.device)
        if pool == "max":
            k = k if used is None else torch.where(used, k, LOWEST)
            places = at.expand(len(k), -1)
            self.most.scatter_reduce_(1, places, k.amax(1), reduce="amax")
            return
        k = k if used is None else k * used
        self.first.index_add_(1, at, k.sum(1))
        if pool == "mean_std":
            square = k * k
            self.low.index_add_(1, at, (square & ((1 << HALF) - 1)).sum(1))
            self.high.index_add_(1, at, (square >> HALF).sum(1))

    def rows(self, pool: str) -> Array:
        """Return the rows (n, F), not yet on the grid of the features."""
        sums = {"last": self.last, "max": self.most}.get(pool, self.first)
        S1, T = self._folded(sums), np.diff(self.edges)[:, :, None]
        if pool in ("last", "max"):
            return np.ldexp(S1.astype(np.float64), -self.digits).reshape(len(S1), -1)
        mean = np.ldexp(S1 / T, -self.digits)
        if pool == "mean":
            return mean.reshape(len(mean), -1)
        deviation = _deviations(S1, self._folded(self.low), self._folded(self.high), T)
        found = np.stack([mean, np.ldexp(deviation, -self.digits)], axis=2)
        return found.reshape(len(found), -1)

    def _folded(self, sums: Tensor) -> Integers:
        """Return sums (F, n parts) as (n, segments, F)."""
        found: Integers = sums.cpu().numpy().T.reshape(-1, self.segments, len(sums))
        return found


def _deviations(S1: Integers, low: Integers, high: Integers, T: Integers) -> Array:
    """Return standard deviations from exact sums, as `whole_pooling` defines them."""
    m = S1 // T
    # Sums beyond 63 bits, of wide inputs or long recordings, are done in Python's integers.
    long = (high.max(axis=(0, 1), initial=0) >> 28) > 0
    squares = np.empty(S1.shape)
    for columns, kind in ((~long, np.int64), (long, object)):
        upper, lower, first, near, steps = (
            part[:, :, columns if part is not T else slice(None)].astype(kind)
            for part in (high, low, S1, m, T)
        )
        total = upper * (1 << HALF) + lower
        squares[:, :, columns] = total - 2 * near * first + steps * near * near
    d = (S1 - T * m) / T
    q = squares / T
    found: Array = np.sqrt(q - d * d)
    return found


def pooled_rows(form: TorchForm, inputs: Sequence[Array]) -> Array:
    """Return one feature row (n, F) per sequence of checked inputs, not yet on their grid."""
    features = form.features
    assert features.pool is not None
    n_rows = np.array([len(u) - features.washout for u in inputs])[:, None]
    edges = features.washout + n_rows * np.arange(features.segments + 1) // features.segments
    fold = TorchFold(edges, features.n_base, form.digits, form.device)
    for block in form.blocks(inputs):
        fold.add(features.pool, form.select(block.rows), block)
    return fold.rows(features.pool)
