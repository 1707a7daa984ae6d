"""Which device statistics and predictions are computed on; it changes the time that they take.

It belongs to the machine and not to the plan, so a node may say it in its environment:
`CATCHMENT_DEVICE=cuda`.
"""

from __future__ import annotations

import os

from catchment.features.feature_map import FeatureMap
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


def device_for_rows(device: str | None, features: FeatureMap) -> str | None:
    """Return the device for the rows of a map, None for the CPU's own kernels.

    Rows of a map with a grid are the same everywhere. Those of one without differ in their last
    digits, so only a device that was asked for is used.

    >>> from catchment import EchoState
    >>> device_for_rows("cpu", EchoState(5, grid=None).build(1, per_step=True))
    'cpu'
    """
    return device if features.grid is None else chosen_device(device)


def refuse_device(device: str | None, what: str) -> None:
    """Raise ValueError if a device was asked for, and what predicts has no form on one.

    >>> refuse_device(None, "a network")
    """
    if device is not None:
        raise ValueError(f"device is {device!r}, and {what} predicts on the CPU; leave it out")
