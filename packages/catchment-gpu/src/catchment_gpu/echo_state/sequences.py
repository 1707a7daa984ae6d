"""Sequences on a device, and the segments of them that run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment import Integers
from catchment.features.echo_state import cut_places


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
