"""Maps side by side on a device: each by its form there, those without one on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catchment import Array, Integers
from catchment.features import Concat, FeatureMap, form
from catchment_gpu.echo_state.form import TorchForm
from catchment_gpu.rows import (
    NUMBERS,
    DeviceForm,
    DeviceRows,
    Span,
    WindowBlocks,
    WindowForm,
    form_of,
)


@form("torch", Concat)
def concat_form(inner: Concat, device: torch.device) -> DeviceForm | WindowForm | None:
    """Return the form of maps side by side, None if none of them has one."""
    found = [form_of(one, device) for one in inner.maps]
    windows = [one.form for one in found if isinstance(one, WindowBlocks)]
    if len(windows) == len(found):
        return WindowConcat(tuple(windows))
    if not any(found) and all(one.reservoir is None for one in inner.maps):
        return None
    members = [
        HostForm(one, device) if form is None else form
        for one, form in zip(inner.maps, found, strict=True)
    ]
    return ConcatForm(inner, tuple(members), device)


@dataclass(frozen=True, eq=False)
class WindowConcat:
    """Maps that all take recordings of one length together, side by side."""

    members: tuple[WindowForm, ...]

    def together(self, u: Tensor) -> Tensor:
        return torch.cat([one.together(u) for one in self.members])


@dataclass(frozen=True, eq=False)
class HostForm:
    """A map whose rows are made on the CPU, or come by way of it, and are brought over."""

    features: FeatureMap
    device: torch.device

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        rows = self._rows(inputs)
        z = torch.from_numpy(np.concatenate(rows)).to(self.device).T
        yield DeviceRows(z, tuple(Span(k, 0, len(one)) for k, one in enumerate(rows)))

    def _rows(self, inputs: Sequence[Array]) -> list[Array]:
        features: Any = self.features
        if features.reservoir is not None and features.reservoir.grid is not None:
            return TorchForm(features, self.device).rows(features.checked_all(inputs))
        return self.features.rows(inputs)


@dataclass(frozen=True, eq=False)
class ConcatForm:
    """Maps side by side whose rows come in blocks of any order: put together by recordings."""

    concat: Concat
    members: tuple[DeviceForm, ...]
    device: torch.device

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        concat, at = self.concat, 0
        lengths = np.array([len(u) for u in inputs])
        n_rows = lengths - concat.washout if concat.per_step else np.ones_like(lengths)
        most = max(1, NUMBERS[self.device.type] // concat.n_features)
        ends = np.cumsum(n_rows)
        while at < len(inputs):
            before = int(ends[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(ends, before + most, side="right")))
            z = self._side_by_side(inputs[at:stop], n_rows[at:stop])
            spans = (Span(k, 0, int(n_rows[k])) for k in range(at, stop))
            yield DeviceRows(z, tuple(spans))
            at = stop

    def _side_by_side(self, inputs: Sequence[Array], n_rows: Integers) -> Tensor:
        """Return the rows (F, n) of some recordings, in order."""
        starts, first = np.cumsum(n_rows) - n_rows, 0
        z = torch.empty(
            (self.concat.n_features, int(n_rows.sum())), dtype=torch.float64, device=self.device
        )
        for one, member in zip(self.concat.maps, self.members, strict=True):
            late = self.concat.washout - one.washout if self.concat.per_step else 0
            part = z[first : first + one.n_features]
            for block in member.blocks(inputs):
                places = [_places(span, starts, late) for span in block.spans]
                to = torch.from_numpy(np.concatenate(places)).to(self.device)
                kept = to >= 0
                part[:, to[kept]] = block.z[:, kept]
            first += one.n_features
        return z


def _places(span: Span, starts: Integers, late: int) -> Integers:
    """Return the columns of some rows; of those before the longest washout's end, -1."""
    row = np.arange(span.first, span.first + span.n_rows) - late
    return np.where(row < 0, -1, starts[span.recording] + row)
