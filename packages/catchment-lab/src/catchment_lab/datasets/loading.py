"""Any public data set by its name.

Scalar series for forecasting: the Santa Fe laser and the yearly sunspot numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path

from catchment import Array
from catchment.errors import IntegrityError
from catchment_lab.datasets.motion import (
    read_hhar,
    read_motionsense,
    read_uci_har,
    read_wisdm_watch,
)
from catchment_lab.datasets.packed import whole_set
from catchment_lab.datasets.sources import Folder, parse_numbers, require, source
from catchment_lab.datasets.speech import mel_bands, read_fsdd, read_japanese_vowels
from catchment_lab.datasets.values import Dataset, Option, Segment, Window, ahead, cut, gathered


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


_CUT: dict[str, Callable[..., Dataset]] = {
    "uci_har": read_uci_har,
    "motionsense": read_motionsense,
    "wisdm_watch": read_wisdm_watch,
    "hhar": read_hhar,
}
_SERIES = {"santafe_laser": read_santafe_laser, "sunspots": read_sunspots}
_READ = _CUT | _SERIES | {"japanese_vowels": read_japanese_vowels, "fsdd": read_fsdd}


def load(
    name: str,
    *,
    directory: Path | str | None = None,
    window: Window = "usual",
    step: int | None = None,
    raw: bool = False,
    horizon: int = 1,
    **options: Option,
) -> Dataset:
    """Return a public data set by its name.

    Parameters
    ----------
    name
        uci_har, motionsense, wisdm_watch, hhar, japanese_vowels, fsdd, santafe_laser or sunspots.
    directory
        Data directory; the usual ones if not given.
    window
        Steps per sequence; `usual` is each set's own habit, `whole` keeps recordings uncut.
    step
        Steps from one window to the next; the window's length if not given.
    raw
        Of fsdd: the samples themselves; otherwise 24 log mel energies at 100 Hz.
    horizon
        Of santafe_laser and sunspots: steps from input to target; 0 leaves the targets out.
    options
        Of hhar: `model` (nexus4, s3, s3mini, samsungold) and `gyroscope`; of wisdm_watch:
        `activities`, the publisher's letters in the order of the classes. What is not given is as
        usual, or what a packed file has.

    >>> load("mnist")
    Traceback (most recent call last):
    ValueError: no data set is called 'mnist'; choose from uci_har, ...
    >>> load("sunspots", directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: sunspots (yearly sunspot numbers, ...
    """
    source(name)
    read = _READ[name]
    own = list(inspect.signature(read).parameters)[1:]
    unknown = [option for option in options if option not in own]
    if unknown:
        raise ValueError(f"{name} has no option {unknown[0]}; it has {', '.join(own) or 'none'}")
    if name not in _CUT and (window != "usual" or step is not None):
        raise ValueError(f"{name} is not cut into windows; leave window and step out")
    found = whole_set(name, partial(read, **options), directory, **options)
    if name in _SERIES:
        return ahead(found, horizon)
    if name == "fsdd":
        return found if raw else mel_bands(found)
    return cut(found, window, step)


def load_whole(name: str, *, directory: Path | str | None = None) -> Dataset:
    """Return a public data set as recorded: uncut, sound as samples, series without targets.

    Parameters
    ----------
    name
        A name of the catalogue.
    directory
        Data directory; the usual ones if not given.
    """
    source(name)
    window: Window = "whole" if name in _CUT else "usual"
    return load(name, directory=directory, window=window, raw=True, horizon=0)
