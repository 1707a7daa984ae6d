"""The Santa Fe laser: one scalar series for forecasting."""

from __future__ import annotations

from pathlib import Path

from catchment_lab.datasets.archive import Folder
from catchment_lab.datasets.files import parse_numbers, require
from catchment_lab.datasets.packed import whole_set
from catchment_lab.datasets.values import Dataset, Stretch, ahead, gathered


def santafe_laser(*, directory: Path | str | None = None, horizon: int = 1) -> Dataset:
    """Return the Santa Fe laser as one client with one sequence; the target lies ahead.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    horizon
        Steps from input to target; 0 leaves the targets out.

    >>> santafe_laser(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: santafe_laser (intensity of a far-infrared laser ...
    """
    return ahead(whole_set("santafe_laser", _read, directory), horizon)


def _read(folder: Folder) -> Dataset:
    names = [require(folder, "a.dat")[0], *folder.matching("a.cont")[:1]]
    lines = [word for name in names for word in folder.read(name).split()]
    series = parse_numbers(lines, f"{folder}/{names[0]}")[:, :1]
    return gathered(
        "santafe_laser",
        [Stretch("santafe_laser", None, series)],
        channels=("intensity",),
        notes=(f"from {' and '.join(names)}",),
    )
