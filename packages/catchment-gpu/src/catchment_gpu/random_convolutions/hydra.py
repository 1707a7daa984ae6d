"""Hydra by torch, on any device: the sums and counts of the compiled loops, in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catchment import Integers
from catchment.features import Hydra, form
from catchment.features.hydra import (
    KERNELS,
    TAPS,
    WEIGHT_BITS,
    group_channels,
    group_list,
    input_digits,
    weights,
)
from catchment_gpu.exact import root
from catchment_gpu.random_convolutions import cuda_convolutions
from catchment_gpu.random_convolutions.minirocket import whole_inputs


@form("torch", Hydra)
@dataclass(frozen=True, eq=False)
class HydraForm:
    """Hydra on one device, for recordings of one length together.

    Parameters
    ----------
    fused
        Whether one compiled kernel does it; where it can if not given. The numbers are the same.
    """

    settings: Hydra
    device: torch.device
    fused: bool | None = None

    def together(self, u: Tensor) -> Tensor:
        n, T, n_inputs = u.shape
        settings = self.settings
        channels = group_channels(settings.n_groups, settings.seed, n_inputs)
        groups = group_list(settings.n_groups, T, settings.length or T)
        scale = 2.0 ** input_digits(settings.input_range, channels.shape[1])
        x = whole_inputs(u, scale, settings.input_range * scale)
        fused = cuda_convolutions.usable(self.device) if self.fused is None else self.fused
        compete = cuda_convolutions.competitions if fused else competitions
        found = compete(x, groups, channels, weights(settings.n_groups, settings.seed))
        unit = scale * channels.shape[1] * 2.0**WEIGHT_BITS
        steps = np.maximum(1, T - groups[:, 1])
        divisors = steps[:, None, None] * np.array([unit, 1.0])[:, None]
        shares = found.double() / torch.from_numpy(divisors).to(self.device)
        return root(shares.clamp_(0.0, 1.0)).view(n, -1).T


def competitions(x: Tensor, groups: Integers, channels: Integers, W: NDArray[np.int32]) -> Tensor:
    """Return sums of largest responses, and counts of smallest ones (n, n_groups, 2, 8).

    Parameters
    ----------
    x
        (n, I, T) recordings as whole numbers.
    groups, channels, W
        As in the compiled loops: dilation and whether a group sees first differences, the channels
        whose sum it sees, and its weights.
    """
    n, _, T = x.shape
    out = torch.zeros((n, len(groups), 2, KERNELS), dtype=torch.int64, device=x.device)
    for g, (d, differs) in enumerate(groups.tolist()):
        y = x[:, channels[g].tolist()].sum(1, dtype=torch.int32)
        y = y.diff(dim=1) if differs else y
        steps = T - differs
        padded = torch.nn.functional.pad(y, (4 * d, 4 * d))
        taps = [padded[:, k * d : k * d + steps] for k in range(TAPS)]
        responses = [_response(taps, w) for w in W[g].tolist()]
        most, least = responses[0], responses[0]
        winner, loser = torch.zeros_like(most), torch.zeros_like(most)
        for k, response in enumerate(responses[1:], 1):  # of equals the first wins or loses
            winner = torch.where(response > most, k, winner)
            loser = torch.where(response < least, k, loser)
            most, least = torch.maximum(most, response), torch.minimum(least, response)
        for k in range(KERNELS):
            out[:, g, 0, k] = torch.where(winner == k, most, 0).sum(1, dtype=torch.int64)
            out[:, g, 1, k] = (loser == k).sum(1)
    return out


def _response(taps: list[Tensor], w: list[int]) -> Tensor:
    """Return the sum of taps (n, T) times weights; it stays within 30 bits."""
    total = taps[0] * w[0]
    for tap, weight in zip(taps[1:], w[1:], strict=True):
        total += tap * weight
    return total
