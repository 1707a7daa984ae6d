"""Random convolutions on a device: the sums and counts of the compiled loops, in integers.

On a GPU one kernel does it, compiled by torch when it is first wanted. A block takes one recording
and one group of features, those on the same channels with the same dilation: it puts the sum of the
channels into shared memory, or into memory of its own where a recording is too long for that, and
then counts, for shares four features at a time. Blocks go on with other recordings and groups until
all are done. All numbers are whole, so no order matters.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catchment import Integers
from catchment.features import Hydra, MiniRocket, form
from catchment.features.hydra import (
    KERNELS,
    TAPS,
    WEIGHT_BITS,
    group_channels,
    group_list,
    input_digits,
    weights,
)
from catchment.features.minirocket import POSITIONS, Schedule, _schedule
from catchment_gpu.cuda import SHARED_BYTES, SMALL_SHARED_BYTES, available, cuda_text, kernel
from catchment_gpu.rows import DeviceForm, root

BLOCKS = 132 * 32  # of a launch, at most: enough for a large card
SCRATCH = 1 << 29  # numbers of the blocks' own memory


def whole_inputs(u: Tensor, scale: float, limit: float) -> Tensor:
    """Return inputs (n, T, I) as integers (n, I, T) of 32 bits, rounded and cut off."""
    x = (u * scale).clamp_(-limit, limit).round_()
    return x.to(torch.int32).transpose(1, 2).contiguous()


@form("torch", MiniRocket)
class MiniRocketForm(DeviceForm):
    """MiniRocket on one device.

    Parameters
    ----------
    fused
        Whether one compiled kernel counts; where it can if not given. The numbers are the same.
    """

    features: MiniRocket

    def __init__(
        self, features: MiniRocket, device: torch.device, fused: bool | None = None
    ) -> None:
        super().__init__(features, device)
        self.fused = available(device) if fused is None else fused
        self.known: dict[int, list[Tensor]] = {}  # schedules on the device, by length

    def together(self, u: Tensor) -> Tensor:
        _, T, n_inputs = u.shape
        scale = 2.0**self.features.digits
        schedule = _schedule(self.features, T, n_inputs)
        x = whole_inputs(u, scale, self.features.range * scale)
        counts = self._counts(x, schedule) if self.fused else counts_above(x, schedule)
        positions = torch.from_numpy(schedule.positions.astype(np.float64)).to(self.device)
        return (counts.to(torch.float64) / positions).T

    def _counts(self, x: Tensor, schedule: Schedule) -> Tensor:
        """Return what `counts_above` does, by one compiled kernel."""
        n, I, T = x.shape
        if T not in self.known:
            self.known[T] = _tables(
                x.device, schedule.groups, schedule.channels, packed_features(schedule)
            )
        out = torch.zeros((n, len(schedule.places)), dtype=torch.int32, device=x.device)
        sizes = (n, I, T, len(schedule.groups) - 1, out.shape[1])
        launch("count_above", (x, *self.known[T], out), sizes)
        return out


def _tables(device: torch.device, *arrays: NDArray[np.integer]) -> list[Tensor]:
    return [torch.from_numpy(a.astype(np.int32)).to(device) for a in arrays]


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


@form("torch", Hydra)
class HydraForm(DeviceForm):
    """Hydra on one device, with `fused` as in `MiniRocketForm`."""

    features: Hydra

    def __init__(self, features: Hydra, device: torch.device, fused: bool | None = None) -> None:
        super().__init__(features, device)
        self.fused = available(device) if fused is None else fused

    def together(self, u: Tensor) -> Tensor:
        n, T, n_inputs = u.shape
        settings = self.features
        channels = group_channels(settings.n_groups, settings.seed, n_inputs)
        groups = group_list(settings.n_groups, T, settings.length or T)
        scale = 2.0 ** input_digits(settings.range, channels.shape[1])
        x = whole_inputs(u, scale, settings.range * scale)
        W = weights(settings.n_groups, settings.seed)
        if self.fused:
            found = torch.zeros((n, len(groups), 2, KERNELS), dtype=torch.int64, device=x.device)
            tables = _tables(x.device, groups, channels, W)
            launch("compete", (x, *tables, found), (n, n_inputs, T, *channels.shape))
        else:
            found = competitions(x, groups, channels, W)
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
        (n, I, T) recordings as integers.
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
        # A sum of taps times weights stays within 30 bits.
        responses = [sum(tap * w for tap, w in zip(taps, ws, strict=True)) for ws in W[g].tolist()]
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


def threads_for(length: int) -> int:
    """Return the threads of a block, some steps for each.

    >>> [threads_for(n) for n in (1, 128, 1000, 10_000, 10**6)]
    [32, 32, 128, 512, 512]
    """
    return min(512, max(32, 1 << (length // 8).bit_length()))


def launch(name: str, arrays: tuple[Tensor, ...], numbers: tuple[int, ...]) -> None:
    """Run a kernel over recordings and groups.

    Parameters
    ----------
    arrays
        Those of the kernel without the second one, the blocks' own memory.
    numbers
        n, I, T, G and any others, without the last one, which says where that memory is.
    """
    n, _, T, G = numbers[:4]
    threads, in_shared = threads_for(T), 4 * T <= SHARED_BYTES
    blocks = min(n * G, BLOCKS)
    if not in_shared:
        blocks = max(1, min(blocks, SCRATCH // T))
    x = arrays[0]
    scratch = x.new_empty(1 if in_shared else blocks * T, dtype=torch.int32)
    shared = 4 * T if in_shared else 0
    with torch.cuda.device(x.device):
        compiled = kernel(cuda_text("convolutions.cu"), name, x.device.index or 0)
        if shared >= SMALL_SHARED_BYTES:
            compiled.set_shared_memory_config(shared)
        arguments = [x, scratch, *arrays[1:], *numbers, int(in_shared)]
        compiled((blocks, 1, 1), (threads, 1, 1), arguments, shared)


def packed_features(schedule: Schedule) -> NDArray[np.int32]:
    """Return bits of the three weights 2, padding, bias and place of every feature (F, 4)."""
    bits = (1 << POSITIONS[:, :3]).sum(axis=1)[schedule.kinds[:, 0]]
    columns = [bits, schedule.kinds[:, 1], schedule.biases, schedule.places]
    return np.column_stack(columns).astype(np.int32)
