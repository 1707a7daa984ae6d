"""The rows of an echo state map on a device, in the form that all maps have there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from catchment.arrays import Array
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.echo_state.torch_form import TorchBlock, TorchForm
from catchment.features.grid import digits_after_point
from catchment.features.torch_rows import DeviceRows, Span


class EchoStateRows:
    """An echo state map on one device; `blocks` gives its rows as those of any map.

    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> (block,) = EchoStateRows(features, torch.device("cpu")).blocks([np.zeros((4, 1))])
    >>> tuple(block.z.shape), block.spans
    ((11, 4), (Span(recording=0, first=0, n_rows=4),))
    """

    def __init__(self, features: EchoStateMap, device: torch.device) -> None:
        self.features, self.form = features, TorchForm(features, device)

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        """Yield the rows of inputs (T, I), a part of them at a time."""
        checked = self.features.checked_all(inputs)
        if not checked:
            return
        if not self.features.per_step:
            z = np.concatenate(self.form.rows(checked))
            spans = tuple(Span(k, 0, 1) for k in range(len(z)))
            yield DeviceRows(torch.from_numpy(z).to(self.form.device).T, spans)
            return
        for block in self.form.blocks(checked):
            yield self._counted(block)

    def _counted(self, block: TorchBlock) -> DeviceRows:
        """Return the rows of a block that count, those of each piece together."""
        z = self._rounded(self.form.select(block.rows)).transpose(1, 2)  # (F, lanes, steps)
        n_steps, washout = z.shape[2], self.features.washout
        spans = []
        for piece in block.pieces:
            begin = piece.begin + block.start
            first, last = max(piece.first, begin), min(piece.end, begin + n_steps)
            if first < last:
                spans.append(Span(piece.source, first - washout, last - first))
        flat = z.reshape(len(z), -1)
        if block.used is not None:
            flat = flat[:, block.used.T.reshape(-1)]
        return DeviceRows(flat, tuple(spans))

    def _rounded(self, z: Tensor) -> Tensor:
        """Return features (F, steps, lanes) on their grid, if they have one."""
        features = self.features
        if features.grid is None:
            return z
        one = np.ldexp(1.0, -digits_after_point(features.bounds, features.grid))
        return self.form.whole(z) * torch.from_numpy(one).to(z.device)[:, None, None]
