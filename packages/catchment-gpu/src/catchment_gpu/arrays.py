"""Arrays of recordings brought to a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from catchment import Array

NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 28}  # of a block of rows, at most
SHARE = 96  # bytes of a GPU's memory for each of them: rounding and products take several copies
STAGED_BYTES = 1 << 24  # that a GPU fetches by itself while the next ones are written


def joined(arrays: Sequence[Array], device: torch.device) -> Tensor:
    """Return arrays (n, m) one below the other (N, m), as float64 on a device; always a copy.

    >>> joined([np.zeros((2, 1)), np.ones((1, 1))], torch.device("cpu")).flatten().tolist()
    [0.0, 0.0, 1.0]
    """
    short = len(arrays) > 1 or arrays[0].nbytes <= STAGED_BYTES
    if device.type != "cuda" or short:
        return torch.from_numpy(np.concatenate(arrays, dtype=np.float64)).to(device)
    return _staged(arrays[0], device)


def _staged(array: Array, device: torch.device) -> Tensor:
    """Return a large array on a GPU, a part at a time by way of memory that stays in its place."""
    n, m = array.shape
    rows = max(1, STAGED_BYTES // (8 * m))
    found = torch.empty((n, m), dtype=torch.float64, device=device)
    stages = [torch.empty((rows, m), dtype=torch.float64, pin_memory=True) for _ in range(2)]
    free: list[torch.cuda.Event | None] = [None, None]
    stream = torch.cuda.current_stream(device)
    for k, first in enumerate(range(0, n, rows)):
        size, event = min(rows, n - first), free[k % 2]
        if event is not None:
            event.synchronize()
        stage = stages[k % 2][:size]
        stage.numpy()[:] = array[first : first + size]
        found[first : first + size].copy_(stage, non_blocking=True)
        free[k % 2] = stream.record_event()
    return found


def block_numbers(device: torch.device) -> int:
    """Return how many numbers a block of rows has, at most: fewer on a GPU with little memory.

    >>> block_numbers(torch.device("cpu"))
    1048576
    """
    most = NUMBERS[device.type]
    if device.type == "cpu":
        return most
    return min(most, torch.cuda.get_device_properties(device).total_memory // SHARE)
