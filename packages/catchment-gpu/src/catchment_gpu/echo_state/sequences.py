"""Sequences on a device, and the pieces of them that run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment import Array, Integers
from catchment.features.echo_state import cut_places


@dataclass(frozen=True, eq=False)
class Pieces:
    """Stretches (B,) of sequences, each of which runs by itself.

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

    def part(self, first: int, last: int) -> Pieces:
        """Return the pieces from `first` to before `last`."""
        some = slice(first, last)
        return Pieces(self.source[some], self.begin[some], self.first[some], self.end[some])


def cut_into_pieces(lengths: Sequence[int], cut: tuple[int, int], washout: int) -> Pieces:
    """Return the pieces of sequences, longest first.

    >>> pieces = cut_into_pieces([10], (4, 1), 2)
    >>> np.stack([pieces.begin, pieces.first, pieces.end]).T
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
    return Pieces(source[order], begin[order], first[order], end[order])


class Uploaded:
    """Sequences (T, n), or constants (n,), one after another on a device.

    >>> told = Uploaded([np.array([[1.0], [2.0], [3.0]]), np.array([7.0])], torch.device("cpu"))
    >>> pieces = cut_into_pieces([3, 2], (0, 0), 0)
    >>> told.lanes(pieces).block(1, 2, fill=0.0)
    tensor([[[2., 7.],
             [3., 0.]]], dtype=torch.float64)
    """

    def __init__(self, sequences: Sequence[Array], device: torch.device) -> None:
        rows = [s if s.ndim == 2 else s[None] for s in sequences]
        ends = np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)))
        shape = (int(ends[-1]), rows[0].shape[1])
        # From pinned memory a GPU fetches while it computes.
        pinned = device.type == "cuda"
        together = torch.empty(shape, dtype=torch.float64, pin_memory=pinned)
        np.concatenate(rows, out=together.numpy())
        self.values = together.to(device, non_blocking=True)
        self.first = np.concatenate([[0], ends[:-1]])
        self.stride = np.array([s.ndim - 1 for s in sequences])

    def lanes(self, pieces: Pieces) -> Lanes:
        """Return the pieces as lanes that blocks are taken of."""
        stride = self.stride[pieces.source]
        at = self.first[pieces.source] + stride * pieces.begin
        told = np.stack([at, stride, pieces.end - pieces.begin])
        return Lanes(self.values, *torch.from_numpy(told).to(self.values.device))


@dataclass(frozen=True, eq=False)
class Lanes:
    """Pieces on a device: where (B,) each begins, how far its steps are apart, and their number."""

    values: Tensor
    at: Tensor
    stride: Tensor
    n_steps: Tensor

    def block(self, start: int, T: int, fill: float) -> Tensor:
        """Return T steps from `start` on as (n, T, B); where a piece has ended stands `fill`."""
        t = torch.arange(start, start + T, device=self.at.device)[:, None]
        there = t < self.n_steps
        index = torch.where(there, self.at + t * self.stride, 0)
        return torch.where(there[:, :, None], self.values[index], fill).permute(2, 0, 1)
