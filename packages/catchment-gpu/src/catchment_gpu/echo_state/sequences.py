"""Sequences on a device: segments of them that run side by side, and pools of their steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from catchment import Array, Integers
from catchment.features.echo_state import cut_places
from catchment_gpu.rows import root

if TYPE_CHECKING:
    from catchment_gpu.echo_state.form import EchoStateForm, TorchBlock


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments (B,) of sequences, each of which runs by itself.

    Parameters
    ----------
    source
        Number of the sequence.
    begin
        Step from which it runs, at rest.
    first
        Step from which it counts.
    end
        Step before which it ends.
    """

    source: Integers
    begin: Integers
    first: Integers
    end: Integers

    def __len__(self) -> int:
        return len(self.source)

    def part(self, first: int, last: int) -> Segments:
        """Return the segments from `first` to before `last`."""
        some = slice(first, last)
        return Segments(self.source[some], self.begin[some], self.first[some], self.end[some])


def cut_into_segments(lengths: Sequence[int], cut: tuple[int, int], washout: int) -> Segments:
    """Return the segments of sequences, longest first.

    >>> segments = cut_into_segments([10], (4, 1), 2)
    >>> np.stack([segments.begin, segments.first, segments.end]).T
    array([[ 3,  4,  8],
           [ 0,  2,  4],
           [ 7,  8, 10]])
    """
    n_steps = np.asarray(lengths, dtype=np.int64)
    whole = np.flatnonzero((n_steps <= cut[0]) | (cut[0] == 0))
    rest = np.zeros(len(whole), dtype=np.int64)
    found = [np.stack([whole, rest, rest + washout, n_steps[whole]])]
    for k in np.setdiff1d(np.arange(len(n_steps)), whole).tolist():
        places = np.array(cut_places(lengths[k], cut, washout), dtype=np.int64).T
        found.append(np.concatenate([np.full((1, places.shape[1]), k), places]))
    source, begin, first, end = np.concatenate(found, axis=1)
    order = np.lexsort((begin, source, begin - end))
    return Segments(source[order], begin[order], first[order], end[order])


class Lanes:
    """Segments of sequences that lie one after another on a device, to take blocks of.

    Parameters
    ----------
    values
        (N, n) all sequences.
    lengths
        Of each.

    >>> told = torch.tensor([[1.0], [2.0], [3.0], [7.0]])
    >>> Lanes(told, [3, 1], cut_into_segments([3, 1], (0, 0), 0)).block(1, 2, fill=0.0)
    tensor([[[2., 0.],
             [3., 0.]]])
    """

    def __init__(self, values: Tensor, lengths: Sequence[int], segments: Segments) -> None:
        first = np.cumsum([0, *lengths])[segments.source]
        told = np.stack([first + segments.begin, segments.end - segments.begin])
        self.values, (self.at, self.n_steps) = values, torch.from_numpy(told).to(values.device)

    def block(self, start: int, T: int, fill: float) -> Tensor:
        """Return T steps from `start` on as (n, T, B); where a segment has ended stands `fill`."""
        t = torch.arange(start, start + T, device=self.at.device)[:, None]
        there = t < self.n_steps
        index = torch.where(there, self.at + t, 0)
        return torch.where(there[:, :, None], self.values[index], fill).permute(2, 0, 1)


def counted(first: Integers, end: Integers, T: int, device: torch.device) -> Tensor | None:
    """Return which of T steps (T, B) lie from `first` (B,) to before `end` (B,), None if all do.

    >>> counted(np.array([0, 1]), np.array([3, 2]), 2, torch.device("cpu")).tolist()
    [[True, False], [True, True]]
    """
    if first.max() <= 0 and end.min() >= T:
        return None
    t = torch.arange(T, device=device)[:, None]
    above: Tensor = t >= torch.from_numpy(first).to(device)
    return above & (t < torch.from_numpy(end).to(device))


LOWEST = -(2**62)  # below every integer in fixed point
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


def _joined(values: Sequence[Tensor], segments: int) -> Tensor:
    """Return values (F, n segments) as rows (segments values F, n)."""
    found = torch.stack([v.view(len(v), -1, segments) for v in values])
    return found.permute(3, 0, 1, 2).reshape(-1, found.shape[2])


class TorchFold:
    """Sums over the parts of sequences: of integers in int64 in fixed point, else of float64.

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
            lanes = np.flatnonzero((part.end <= k.shape[1]) & part.ended)
            b = torch.from_numpy(lanes).to(k.device)
            step = torch.from_numpy(part.end[lanes] - 1).to(k.device)
            self.last[:, part.places[b]] = k[:, step, b]
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
        """Return the rows (F, n), not yet in fixed point."""
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
    return np.sqrt(squares / T - d * d)


def pooled_rows(form: EchoStateForm, inputs: Sequence[Array]) -> Tensor:
    """Return one feature row per sequence of checked inputs, (F, n), not yet in fixed point."""
    features = form.features
    assert features.pool is not None
    n_rows = np.array([len(u) - features.washout for u in inputs])[:, None]
    edges = features.washout + n_rows * np.arange(features.segments + 1) // features.segments
    fold = TorchFold(edges, features.n_base, form.digits, form.device)
    for block in form.state_blocks(inputs):
        fold.add(features.pool, form.select(block.rows), block)
    return fold.rows(features.pool)
