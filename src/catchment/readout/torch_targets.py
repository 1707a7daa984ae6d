"""Targets of whole recordings on a device, cut there into pieces that are whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment.arrays import Array, Integers
from catchment.features.torch_arrays import joined
from catchment.features.torch_rows import Span
from catchment.readout.exact_gram import N_PIECES, PIECE, check_largest, refuse_parts_of_classes
from catchment.readout.grid import TARGET_DIGITS, Grid


@dataclass(frozen=True, eq=False)
class DeviceTargets:
    """Targets y (n, K) of all recordings, one after the other, and how they are cut into pieces.

    `begin` (R,) is where a recording's targets lie, `apart` (R,) is 1 if each step has its own and
    0 if one stands for all of them, and `places` says what pieces count: see `target_pieces`.
    """

    y: Tensor
    begin: Integers
    apart: Integers
    places: tuple[int, ...]
    whole: bool

    @classmethod
    def of(cls, targets: Sequence[Array], grid: Grid, device: torch.device) -> DeviceTargets:
        """Return targets (n, K) or (K,) on a device; the errors are those of `target_pieces`."""
        rows = [y.reshape(-1, y.shape[-1]) for y in targets]
        lengths = np.array([len(y) for y in rows])
        y = joined(rows, device)
        largest = float(torch.nan_to_num(y, nan=0.0).abs().max()) if y.numel() else 0.0
        check_largest(largest, grid)
        if grid.is_whole and bool(((y.round() != y) & ~y.isnan()).any()):
            refuse_parts_of_classes(largest)
        few = largest * 2.0**TARGET_DIGITS < 2.0 ** (2 * PIECE - 1)
        places = (0,) if grid.is_whole else tuple(range(2 if few else N_PIECES))
        apart = np.array([int(y.ndim == 2) for y in targets])
        return cls(y, np.cumsum(lengths) - lengths, apart, places, grid.is_whole)

    @property
    def gaps(self) -> bool:
        """Whether a target is missing."""
        return bool(self.y.isnan().any())

    @property
    def n_pieces(self) -> int:
        """Numbers that the targets of one row become."""
        return len(self.places) * self.y.shape[1]

    def pieces(self, spans: Sequence[Span], skip: int) -> Tensor:
        """Return the pieces (P K, n) of some rows; `skip` steps at the start give no rows."""
        y = self._of(spans, skip).T
        if self.whole:
            return y
        left = (y * 2.0**TARGET_DIGITS).round_()
        found = []
        for p in self.places[:0:-1]:
            found.append((left * 2.0 ** (-PIECE * p)).round_())
            left = left - found[-1] * 2.0 ** (PIECE * p)
        return torch.cat([left, *found[::-1]])

    def _of(self, spans: Sequence[Span], skip: int) -> Tensor:
        recording, first, count = np.array([(s.recording, s.first, s.n_rows) for s in spans]).T
        apart = self.apart[recording]
        start = self.begin[recording] + apart * (skip + first)
        if len(spans) == 1 and apart[0]:
            return self.y[start[0] : start[0] + count[0]]
        ends = np.cumsum(count)
        moved = [start - apart * (ends - count), apart, count]
        start_of, apart_of, n = (torch.from_numpy(one).to(self.y.device) for one in moved)
        column = torch.arange(int(ends[-1]), device=self.y.device)
        return self.y[start_of.repeat_interleave(n) + apart_of.repeat_interleave(n) * column]
