"""The Santa Fe laser: one scalar series for forecasting."""

from __future__ import annotations

from catchment_lab.datasets.archive import Folder
from catchment_lab.datasets.files import parse_numbers, require
from catchment_lab.datasets.values import Dataset, Stretch, gathered


def read(folder: Folder) -> Dataset:
    """Return the Santa Fe laser as one client with one sequence."""
    names = [require(folder, "a.dat")[0], *folder.matching("a.cont")[:1]]
    lines = [word for name in names for word in folder.read(name).split()]
    series = parse_numbers(lines, f"{folder}/{names[0]}")[:, :1]
    return gathered(
        "santafe_laser",
        [Stretch("santafe_laser", None, series)],
        channels=("intensity",),
        notes=(f"from {' and '.join(names)}",),
    )
