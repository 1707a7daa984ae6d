"""MiniRocket by torch, on any device: the counts of the compiled loops, in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from catchment.features import MiniRocket, form
from catchment.features.minirocket import POSITIONS, Schedule, _schedule
from catchment_gpu.random_convolutions import cuda_convolutions


def whole_inputs(u: Tensor, scale: float, limit: float) -> Tensor:
    """Return inputs (n, T, I) as whole numbers (n, I, T) of 32 bits, rounded and cut off."""
    x = (u * scale).clamp_(-limit, limit).round_()
    return x.to(torch.int32).transpose(1, 2).contiguous()


@form("torch", MiniRocket)
@dataclass(frozen=True, eq=False)
class MiniRocketForm:
    """MiniRocket on one device, for recordings of one length together.

    Parameters
    ----------
    fused
        Whether one compiled kernel counts; where it can if not given. The numbers are the same.
    """

    settings: MiniRocket
    device: torch.device
    fused: bool | None = None
    known: dict[int, cuda_convolutions.Counter] = field(default_factory=dict)

    def together(self, u: Tensor) -> Tensor:
        _, T, n_inputs = u.shape
        scale = 2.0**self.settings.digits
        schedule = _schedule(self.settings, T, n_inputs)
        x = whole_inputs(u, scale, self.settings.input_range * scale)
        fused = cuda_convolutions.usable(self.device) if self.fused is None else self.fused
        if fused:
            if T not in self.known:
                self.known[T] = cuda_convolutions.Counter.of(schedule, self.device)
            counts = self.known[T].counts(x)
        else:
            counts = counts_above(x, schedule)
        positions = torch.from_numpy(schedule.positions.astype(np.float64)).to(self.device)
        return (counts.to(torch.float64) / positions).T


def counts_above(x: Tensor, schedule: Schedule) -> Tensor:
    """Return how many outputs on x (n, I, T) are above each feature's bias (n, F)."""
    n, _, T = x.shape
    counts = torch.empty((n, len(schedule.places)), dtype=torch.int64, device=x.device)
    for g in range(len(schedule.groups) - 1):
        d, first, begin = (int(k) for k in schedule.groups[g])
        _, last, end = (int(k) for k in schedule.groups[g + 1])
        y = x[:, schedule.channels[first:last].tolist()].sum(1, dtype=torch.int32)
        y = torch.nn.functional.pad(y, (4 * d, 4 * d))
        taps = [y[:, k * d : k * d + T] for k in range(9)]
        nine = torch.stack(taps).sum(0, dtype=torch.int32)
        for f in range(begin, end):
            kernel, padded = schedule.kinds[f]
            a, b, c = (taps[k] for k in POSITIONS[kernel, :3])
            above = 3 * (a + b + c) - nine > int(schedule.biases[f])
            edge = 0 if padded else 4 * d
            counts[:, int(schedule.places[f])] = above[:, edge : T - edge].sum(1)
    return counts
