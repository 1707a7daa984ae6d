"""Targets beside the rows of recordings, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from catchment import Array, Integers
from catchment.readout import (
    N_PIECES,
    PIECE,
    TARGET_DIGITS,
    Grid,
    check_largest,
    refuse_parts_of_classes,
)
from catchment_gpu.arrays import joined
from catchment_gpu.rows import SingleRows, Span


@dataclass(frozen=True, eq=False)
class Columns:
    """Some rows of some recordings, one a column.

    On a grid z (F, n) are whole numbers of its units; without one they are plain float64. y (P, n)
    are the targets; where `used` (n,) says no, neither counts. Nobody else holds any of them.
    """

    z: Tensor
    y: Tensor
    used: Tensor | None  # None: all
    spans: Sequence[Span] | Integers  # whose columns they are, or (n,) numbers of recordings

    @property
    def recordings(self) -> Integers:
        """Number (n,) of each column's recording."""
        if isinstance(self.spans, np.ndarray):
            return self.spans
        if isinstance(self.spans, SingleRows):
            return self.spans.recordings
        counts = [span.n_rows for span in self.spans]
        return np.repeat(np.array([span.recording for span in self.spans]), counts)


class Targets(Protocol):
    """Targets of recordings; on a grid cut into pieces that are whole numbers."""

    @property
    def width(self) -> int:
        """Numbers that the targets of one row are."""

    @property
    def places(self) -> tuple[int, ...]:
        """What pieces count; see `target_pieces`."""

    def beside(self, z: Tensor, spans: Sequence[Span]) -> Columns:
        """Return rows (F, n) with the targets of their spans."""

    def chosen(self, some: Sequence[int]) -> Self:
        """Return those of some recordings."""


@dataclass(frozen=True, eq=False)
class HostTargets:
    """Targets (T, P) or (P,) of recordings whose first `skip` steps give no row."""

    targets: Sequence[Array]
    skip: int
    device: torch.device
    places: tuple[int, ...] = (0,)

    @property
    def width(self) -> int:
        return int(self.targets[0].shape[-1])

    @property
    def gaps(self) -> bool:
        """Whether a target is missing."""
        return any(bool(np.isnan(y).any()) for y in self.targets)

    def chosen(self, some: Sequence[int]) -> HostTargets:
        return replace(self, targets=[self.targets[k] for k in some])

    def beside(self, z: Tensor, spans: Sequence[Span]) -> Columns:
        told = [self.targets[span.recording] for span in spans]
        if all(y.ndim == 1 for y in told):
            y = np.repeat(np.stack(told), [span.n_rows for span in spans], axis=0)
        else:
            y = np.concatenate([self._of(span) for span in spans])
        known = ~np.isnan(y).any(axis=1)
        return Columns(
            z,
            torch.from_numpy(np.ascontiguousarray(y.T)).to(self.device),
            None if known.all() else torch.from_numpy(known).to(self.device),
            spans,
        )

    def _of(self, span: Span) -> Array:
        y = self.targets[span.recording]
        if y.ndim == 1:
            return np.broadcast_to(y, (span.n_rows, len(y)))
        return y[self.skip + span.first :][: span.n_rows]


@dataclass(frozen=True, eq=False)
class DeviceTargets:
    """Targets y (n, K) of all recordings, one after the other, and how they are cut into pieces.

    `begin` (R,) is where a recording's targets lie, `apart` (R,) is 1 if each step has its own and
    0 if one stands for all of them; the first `skip` steps give no row.
    """

    y: Tensor
    begin: Integers
    apart: Integers
    places: tuple[int, ...]
    whole: bool
    gaps: bool  # whether a target is missing
    skip: int

    @classmethod
    def of(
        cls, targets: Sequence[Array], grid: Grid, skip: int, device: torch.device
    ) -> DeviceTargets:
        """Return targets (n, K) or (K,) on a device; the errors are those of `target_pieces`."""
        if all(y.ndim == 1 for y in targets):  # many of them are one array at once
            rows = [np.concatenate(targets).reshape(len(targets), -1)]
            lengths = np.ones(len(targets), dtype=np.int64)
        else:
            rows = [y.reshape(-1, y.shape[-1]) for y in targets]
            lengths = np.array([len(y) for y in rows])
        y = joined(rows, device)
        gaps = bool(y.isnan().any())
        known = torch.nan_to_num(y, nan=0.0) if gaps else y
        largest = float(known.abs().max()) if y.numel() else 0.0
        check_largest(largest, grid)
        if grid.is_whole and bool(((y.round() != y) & ~y.isnan()).any()):
            refuse_parts_of_classes(largest)
        few = largest * 2.0**TARGET_DIGITS < 2.0 ** (2 * PIECE - 1)
        places = (0,) if grid.is_whole else tuple(range(2 if few else N_PIECES))
        apart = np.array([int(y.ndim == 2) for y in targets])
        begin = np.cumsum(lengths) - lengths
        return cls(y, begin, apart, places, grid.is_whole, gaps, skip)

    @property
    def width(self) -> int:
        return len(self.places) * self.y.shape[1]

    def chosen(self, some: Sequence[int]) -> DeviceTargets:
        return replace(self, begin=self.begin[some], apart=self.apart[some])

    def beside(self, z: Tensor, spans: Sequence[Span]) -> Columns:
        y = self._of(spans)
        used = ~y.isnan().any(1) if self.gaps else None
        return Columns(z, self._pieces(y.T), used, spans)

    def _pieces(self, y: Tensor) -> Tensor:
        """Return the pieces (P K, n) of targets (K, n)."""
        if self.whole:
            return y
        left = (y * 2.0**TARGET_DIGITS).round_()
        found = []
        for p in self.places[:0:-1]:
            found.append((left * 2.0 ** (-PIECE * p)).round_())
            left = left - found[-1] * 2.0 ** (PIECE * p)
        return torch.cat([left, *found[::-1]])

    def _of(self, spans: Sequence[Span]) -> Tensor:
        if isinstance(spans, SingleRows) and not self.apart[spans.recordings].any():
            return self.y[torch.from_numpy(self.begin[spans.recordings]).to(self.y.device)]
        recording, first, count = np.array([(s.recording, s.first, s.n_rows) for s in spans]).T
        apart = self.apart[recording]
        start = self.begin[recording] + apart * (self.skip + first)
        if len(spans) == 1 and apart[0]:
            return self.y[start[0] : start[0] + count[0]]
        ends = np.cumsum(count)
        moved = [start - apart * (ends - count), apart, count]
        start_of, apart_of, n = (torch.from_numpy(one).to(self.y.device) for one in moved)
        column = torch.arange(int(ends[-1]), device=self.y.device)
        return self.y[start_of.repeat_interleave(n) + apart_of.repeat_interleave(n) * column]
