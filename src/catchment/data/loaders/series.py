"""Two scalar series for forecasting: the Santa Fe laser, and yearly sunspot numbers."""

from __future__ import annotations

from pathlib import Path

from catchment.arrays import Array
from catchment.data.archive import Folder
from catchment.data.loaders.files import parse_numbers, read_arrays, require
from catchment.data.loaders.values import Dataset, float_rows
from catchment.data.recording import Recording
from catchment.data.sources import locate
from catchment.errors import IntegrityError


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
    place = locate("santafe_laser", directory=directory)
    if place.original is None:
        series = float_rows(read_arrays(place, ("santafe_laser",))["santafe_laser"])
        note = "compact form, with the continuation"
    else:
        names = [require(place.original, "a.dat")[0], *place.original.matching("a.cont")[:1]]
        lines = [word for name in names for word in place.original.read(name).split()]
        series = parse_numbers(lines, f"{place.original}/{names[0]}")[:, 0]
        note = f"original form, from {' and '.join(names)}"
    return _dataset("santafe_laser", "intensity", series, horizon, note)


def sunspots(*, directory: Path | str | None = None, horizon: int = 1) -> Dataset:
    """Return the yearly sunspot numbers as one client with one sequence; the target lies ahead.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    horizon
        Years from input to target; 0 leaves the targets out.

    >>> sunspots(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: sunspots (yearly sunspot numbers, ...
    """
    place = locate("sunspots", directory=directory)
    if place.original is None:
        series = float_rows(read_arrays(place, ("sunspot_activity",))["sunspot_activity"])
        note = "compact form, 1700 to 2008, before the revision of 2015"
    else:
        series, note = _sunspots_original(place.original)
    return _dataset("sunspots", "sunspot_number", series, horizon, note)


def _sunspots_original(folder: Folder) -> tuple[Array, str]:
    """Read either SILSO's semicolons without a header, or YEAR,SUNACTIVITY with one."""
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
    return rows[:, 1], f"original form, {int(years[0])} to {int(years[-1])}, {version}"


def _dataset(name: str, channel: str, series: Array, horizon: int, note: str) -> Dataset:
    if not 0 <= horizon < len(series):
        raise ValueError(f"horizon is {horizon}; pass 0 to {len(series) - 1}")
    stop = len(series) - horizon
    sequence = Recording(series[:stop], y=series[horizon:, None] if horizon else None)
    return Dataset(name=name, clients={name: [sequence]}, channels=(channel,), notes=(note,))
