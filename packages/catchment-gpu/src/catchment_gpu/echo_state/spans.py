"""The rows of an echo state map on a device, in the form that all maps have there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from catchment import Array
from catchment.features import EchoState
from catchment_gpu.echo_state.form import TorchBlock, form_on
from catchment_gpu.echo_state.pooling import pooled_rows
from catchment_gpu.rows import DeviceRows, Span


class EchoStateRows:
    """An echo state map on one device; `blocks` gives its rows as those of any map.

    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> (block,) = EchoStateRows(features, torch.device("cpu")).blocks([np.zeros((4, 1))])
    >>> tuple(block.z.shape), block.spans
    ((11, 4), (Span(recording=0, first=0, n_rows=4),))
    """

    def __init__(self, features: EchoState, device: torch.device) -> None:
        self.features, self.form = features, form_on(features, device)

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        """Yield the rows of inputs (T, I), a part of them at a time."""
        if not inputs:
            return
        checked = self.features.checked_all(inputs)
        if not self.features.per_step:
            spans = tuple(Span(k, 0, 1) for k in range(len(checked)))
            yield DeviceRows(self._rounded(pooled_rows(self.form, checked)), spans)
            return
        for block in self.form.blocks(checked):
            yield self._counted(block)

    def _counted(self, block: TorchBlock) -> DeviceRows:
        """Return the rows of a block that count, those of each piece together."""
        z = self._rounded(self.form.select(block.rows)).transpose(1, 2)  # (F, lanes, steps)
        at, washout = block.pieces.begin + block.start, self.features.washout
        firsts = np.maximum(block.pieces.first, at)
        counts = np.minimum(block.pieces.end, at + z.shape[2]) - firsts
        some = np.flatnonzero(counts > 0)
        places = zip(block.pieces.source[some], firsts[some] - washout, counts[some], strict=True)
        flat = z.reshape(len(z), -1)
        if block.used is not None:
            flat = flat[:, block.used.T.reshape(-1)]
        return DeviceRows(flat, tuple(Span(*map(int, place)) for place in places))

    def _rounded(self, z: Tensor) -> Tensor:
        """Return features (F, ..) on their grid, if they have one."""
        features = self.features
        if features.feature_grid is None:
            return z
        one = np.ldexp(1.0, -features.grid_digits)
        scale = torch.from_numpy(one).to(z.device).view(-1, *[1] * (z.ndim - 1))
        return self.form.whole(z) * scale
