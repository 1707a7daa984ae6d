"""Which device statistics are computed on; it changes the time they take and nothing else.

It belongs to the machine and not to the plan, so a node may say it in its environment:
`CATCHMENT_DEVICE=cuda`.
"""

from __future__ import annotations

import os

from catchment.readout.grid import Grid

VARIABLE = "CATCHMENT_DEVICE"
DEVICE_SEQUENCES = 16384  # looked at together where there is a device: a GPU wants many


def chosen_device(device: str | None) -> str | None:
    """Return the device asked for, else the one that the environment names, else None.

    >>> chosen_device("cuda:1")
    'cuda:1'
    """
    return device or os.environ.get(VARIABLE) or None


def device_for(device: str | None, grid: Grid | None) -> str | None:
    """Return the device for statistics on a grid, None for the CPU's own kernels.

    Without a grid sums depend on the order in which they are made: then a device that was asked for
    is refused, and one that the environment names is left aside.

    >>> device_for("cpu", Grid(8, ((3, 8),)))
    'cpu'
    """
    if grid is not None:
        return chosen_device(device)
    if device is not None:
        raise ValueError(
            f"device is {device!r} and the features have no grid, so another device would give "
            "other numbers; build the map with a grid, or leave the device out"
        )
    return None
