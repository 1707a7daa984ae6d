"""Pool the steps of sequences on a device, as `Totals` does on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from catchment import Array, Integers
from catchment_gpu.echo_state.sequences import counted
from catchment_gpu.rows import root

if TYPE_CHECKING:
    from catchment_gpu.echo_state.form import EchoStateForm, TorchBlock

LOWEST = -(2**62)  # below every integer of a grid
HALF = 32  # binary digits of the lower part of a sum of squares


@dataclass(frozen=True, eq=False)
class _Part:
    """The lanes of a block with steps of one part of their sequences."""

    lanes: Tensor | None  # None: all
    places: Tensor  # of their sums
    first: Integers  # step of the block, below zero if the part began before it
    end: Integers  # likewise beyond the block if it goes on
    begun: Integers  # whether the part begins with `first`
    ended: Integers  # whether it ends with `end`

    def of(self, z: Tensor) -> Tensor:
        """Return the lanes of the features (F, T, B) of a block."""
        return z if self.lanes is None else z[:, :, self.lanes]


def _parts_of(edges: Integers, block: TorchBlock, T: int, device: torch.device) -> Iterator[_Part]:
    """Yield the parts that a block of T steps has a share in."""
    source, low, high = block.segments.source, block.segments.first, block.segments.end
    begin = block.segments.begin + block.start
    segments = edges.shape[1] - 1
    for part in range(segments):
        left, right = edges[source, part], edges[source, part + 1]
        first, end = np.maximum(low, left) - begin, np.minimum(high, right) - begin
        here = np.flatnonzero((first < T) & (end > 0) & (first < end))
        if not len(here):
            continue
        yield _Part(
            None if len(here) == len(source) else torch.from_numpy(here).to(device),
            torch.from_numpy(source[here] * segments + part).to(device),
            first[here],
            end[here],
            (first == left - begin)[here],
            (end == right - begin)[here],
        )


def _last_steps(z: Tensor, part: _Part) -> tuple[Tensor, Tensor]:
    """Return where the last steps of a part are kept, and the steps (F, n) that this block has."""
    lanes = np.flatnonzero((part.end <= z.shape[1]) & part.ended)
    b = torch.from_numpy(lanes).to(z.device)
    step = torch.from_numpy(part.end[lanes] - 1).to(z.device)
    return part.places[b], z[:, step, b]


def _joined(values: Sequence[Tensor], segments: int) -> Tensor:
    """Return values (F, n segments) as rows (segments values F, n)."""
    found = torch.stack([v.view(len(v), -1, segments) for v in values])
    return found.permute(3, 0, 1, 2).reshape(-1, found.shape[2])


class TorchFold:
    """Sums over the parts of sequences: in fixed point of integers, added in int64; else of
    float64.

    In float64 sums are about the first step of each part, for accuracy.

    Parameters
    ----------
    edges
        (n, segments + 1) first step of each part of each sequence, and the end of the last.
    n_base
        Features of a step.
    digits
        Binary digits after the point of the steps; None in float64.
    """

    def __init__(
        self, edges: Integers, n_base: int, digits: int | None, device: torch.device
    ) -> None:
        n, self.segments = len(edges), edges.shape[1] - 1
        self.edges, self.digits, self.device = edges, digits, device
        size, kind = (n_base, n * self.segments), torch.float64 if digits is None else torch.int64
        self.reference, self.first, self.low, self.high, self.last = torch.zeros(
            (5, *size), dtype=kind, device=device
        )
        self.lowest = -torch.inf if digits is None else LOWEST
        self.most = torch.full(size, self.lowest, dtype=kind, device=device)

    def add(self, pool: str, z: Tensor, block: TorchBlock) -> None:
        """Add the features (F, T, B) of a block's steps."""
        k = z if self.digits is None else (z * 2.0**self.digits).to(torch.int64)
        for part in _parts_of(self.edges, block, z.shape[1], self.device):
            self._add_part(pool, part.of(k), part)

    def _add_part(self, pool: str, k: Tensor, part: _Part) -> None:
        if pool == "last":
            places, steps = _last_steps(k, part)
            self.last[:, places] = steps
            return
        used = counted(part.first, part.end, k.shape[1], self.device)
        if pool == "max":
            k = k if used is None else torch.where(used, k, self.lowest)
            places = part.places.expand(len(k), -1)
            self.most.scatter_reduce_(1, places, k.amax(1), reduce="amax")
            return
        if self.digits is None:
            begun = np.flatnonzero(part.begun & (part.first >= 0))
            b = torch.from_numpy(begun).to(self.device)
            step = torch.from_numpy(part.first[begun]).to(self.device)
            self.reference[:, part.places[b]] = k[:, step, b]
            k = k - self.reference[:, part.places][:, None]
        k = k if used is None else torch.where(used, k, 0)
        self.first.index_add_(1, part.places, k.sum(1))
        if pool == "mean_std":
            square = k * k
            if self.digits is not None:
                self.high.index_add_(1, part.places, (square >> HALF).sum(1))
                square &= (1 << HALF) - 1
            self.low.index_add_(1, part.places, square.sum(1))

    def rows(self, pool: str) -> Tensor:
        """Return the rows (F, n), not yet rounded to the features' bits."""
        unit = 1.0 if self.digits is None else 2.0**-self.digits
        if pool in ("last", "max"):
            sums = self.last if pool == "last" else self.most
            return _joined([sums.double() * unit], self.segments)
        T = torch.from_numpy(np.diff(self.edges).reshape(-1)).to(self.device)
        shift = self.first.double() / T.double()
        mean = (self.reference + shift) * unit
        if pool == "mean":
            return _joined([mean], self.segments)
        if self.digits is None:
            deviations = (self.low / T - shift * shift).clamp_(min=0.0).sqrt_()
        else:
            deviations = self._deviations(T) * unit
        return _joined([mean, deviations], self.segments)

    def _deviations(self, T: Tensor) -> Tensor:
        """Return standard deviations from exact sums, as `Totals` defines them."""
        if bool((self.high >> 28).any()):
            sums = (part.cpu().numpy() for part in (self.first, self.low, self.high, T))
            return torch.from_numpy(_long_deviations(*sums)).to(self.device)
        m = torch.div(self.first, T, rounding_mode="floor")
        total = self.high * (1 << HALF) + self.low
        squares = total - 2 * m * self.first + T * m * m
        d = (self.first - T * m).double() / T.double()
        return root(squares.double() / T.double() - d * d)


def _long_deviations(S1: Integers, low: Integers, high: Integers, T: Integers) -> Array:
    """Return standard deviations (F, n) from exact sums of which some pass 63 bits.

    They are of wide inputs or long recordings; these rows are done in Python's integers.
    """
    m, squares = S1 // T, np.empty(S1.shape)
    long = (high.max(axis=1, initial=0) >> 28) > 0
    for rows, kind in ((~long, np.int64), (long, object)):
        upper, lower, first, near = (part[rows].astype(kind) for part in (high, low, S1, m))
        total = upper * (1 << HALF) + lower
        squares[rows] = total - 2 * near * first + T.astype(kind) * near * near
    d = (S1 - T * m) / T
    found: Array = np.sqrt(squares / T - d * d)
    return found


def pooled_rows(form: EchoStateForm, inputs: Sequence[Array]) -> Tensor:
    """Return one feature row per sequence of checked inputs, (F, n), not yet on their grid."""
    features = form.features
    assert features.pool is not None
    n_rows = np.array([len(u) - features.washout for u in inputs])[:, None]
    edges = features.washout + n_rows * np.arange(features.segments + 1) // features.segments
    fold = TorchFold(edges, features.n_base, form.digits, form.device)
    for block in form.state_blocks(inputs):
        fold.add(features.pool, form.select(block.rows), block)
    return fold.rows(features.pool)
