"""The rows of recordings as columns on a device, whoever makes them, with their targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from catchment import Array
from catchment.features import FeatureMap
from catchment.readout import (
    N_PIECES,
    PIECE,
    TARGET_DIGITS,
    FixedPoint,
    check_targets,
)
from catchment_gpu.rows import form_of, joined


@dataclass(frozen=True, eq=False)
class Columns:
    """Some rows of some recordings, one a column.

    In fixed point z (F, n) are integers of its units; without one they are plain float64. y (P, n)
    are the targets; where `used` (n,) says no, neither counts.
    """

    z: Tensor
    y: Tensor
    used: Tensor | None  # None: all
    recording: Tensor  # (n,) whose each is


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets y (n, K) of all recordings, one after the other; in fixed point cut into pieces.

    `begin` (R,) is where a recording's targets lie, `apart` (R,) is 1 if each step has its own and
    0 if one stands for all of them; the first `skip` steps give no row.
    """

    y: Tensor
    begin: Tensor
    apart: Tensor
    places: tuple[int, ...]  # what pieces count; see `target_pieces`
    whole: bool  # whether there is one piece, as they are
    gaps: bool  # whether a target is missing
    skip: int

    @classmethod
    def of(
        cls,
        features: FeatureMap,
        targets: Sequence[Array],
        grid: FixedPoint | None,
        device: torch.device,
    ) -> Targets:
        """Return targets (n, K) or (K,) on a device; the errors are those of `target_pieces`."""
        if all(y.ndim == 1 for y in targets):  # many of them are one array at once
            rows = [np.concatenate(targets).reshape(len(targets), -1)]
            lengths = np.ones(len(targets), dtype=np.int64)
        else:
            rows = [y.reshape(-1, y.shape[-1]) for y in targets]
            lengths = np.array([len(y) for y in rows])
        y = joined(rows, device)
        gaps = bool(y.isnan().any())
        places = (0,) if grid is None else _places(y, grid)
        apart = np.array([y.ndim - 1 for y in targets])
        told = np.stack([np.cumsum(lengths) - lengths, apart])
        begin, apart_of = torch.from_numpy(told).to(device)
        skip = features.washout if features.per_step else 0
        return cls(y, begin, apart_of, places, grid is None or grid.is_whole, gaps, skip)

    @property
    def width(self) -> int:
        """Numbers that the targets of one row are."""
        return len(self.places) * self.y.shape[1]

    def chosen(self, some: Sequence[int]) -> Targets:
        """Return those of some recordings."""
        return replace(self, begin=self.begin[some], apart=self.apart[some])

    def columns(
        self, features: FeatureMap, inputs: Sequence[Array], threads: int | None
    ) -> Iterator[Columns]:
        """Yield the rows of recordings with their targets.

        Rows are made on the device if the map has a form for it, else on the CPU.
        """
        form = form_of(features, self.y.device, threads)
        for rows in form.blocks(inputs, whole=True):
            place = self.begin[rows.recording] + self.apart[rows.recording] * (self.skip + rows.row)
            y, used = self.y[place.clamp_(max=len(self.y) - 1)], rows.used
            if self.gaps:
                known = ~y.isnan().any(1)
                used = known if used is None else used & known
            yield Columns(rows.z, self._pieces(y.T), used, rows.recording)

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


def _places(y: Tensor, grid: FixedPoint) -> tuple[int, ...]:
    """Return the pieces that targets (n, K) have in fixed point; ValueError if they do not fit."""
    largest = float(torch.nan_to_num(y, nan=0.0).abs().max()) if y.numel() else 0.0
    parts = grid.is_whole and bool(((y.round() != y) & ~y.isnan()).any())
    check_targets(largest, grid, parts)
    if not grid.is_whole:
        few = largest * 2.0**TARGET_DIGITS < 2.0 ** (2 * PIECE - 1)
        return tuple(range(2 if few else N_PIECES))
    return (0,)
