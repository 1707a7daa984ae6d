"""Scalar series for forecasting: the Santa Fe laser and the yearly sunspot numbers."""

from __future__ import annotations

from catchment import Array
from catchment.errors import IntegrityError
from catchment_lab.datasets.archive import Folder, parse_numbers, require
from catchment_lab.datasets.values import Dataset, Segment, gathered


def read_santafe_laser(folder: Folder) -> Dataset:
    """Return the Santa Fe laser as one client with one sequence."""
    names = [require(folder, "a.dat")[0], *folder.matching("a.cont")[:1]]
    lines = [word for name in names for word in folder.read(name).split()]
    series = parse_numbers(lines, f"{folder}/{names[0]}")[:, :1]
    return gathered(
        "santafe_laser",
        [Segment("santafe_laser", None, series)],
        channels=("intensity",),
        notes=(f"from {' and '.join(names)}",),
    )


def read_sunspots(folder: Folder) -> Dataset:
    """Return the yearly sunspot numbers as one client with one sequence."""
    years, numbers, version = yearly(folder)
    return gathered(
        "sunspots",
        [Segment("sunspots", None, numbers[:, None])],
        channels=("sunspot_number",),
        notes=(f"{int(years[0])} to {int(years[-1])}, {version}",),
    )


def yearly(folder: Folder) -> tuple[Array, Array, str]:
    """Return years (n,), sunspot numbers (n,) and which version of them the files have.

    They are SILSO's semicolons without a header, or YEAR,SUNACTIVITY with one.
    """
    silso = folder.matching("SN_y_tot_V2.0.csv")
    name = silso[0] if silso else require(folder, "sunspots.csv")[0]
    with folder.open(name) as stream:
        rows = parse_numbers(
            stream,
            f"{folder}/{name}",
            delimiter=";" if silso else ",",
            columns=(0, 1),
            skip=0 if silso else 1,
        )
    years = rows[:, 0] // 1
    if (years[1:] - years[:-1] != 1).any():
        raise IntegrityError(f"{folder}/{name} skips or repeats a year; get a fresh copy")
    version = "version 2.0, revised in 2015" if silso else "before the revision of 2015"
    return years, rows[:, 1], version
