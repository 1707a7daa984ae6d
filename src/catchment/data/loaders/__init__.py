"""Public data sets of time series by name, from the files that their publishers distribute.

`load` reads any of them; the functions of each set, such as `hhar`, have its own options. `pack`
turns a set into one file that loads in a second.
"""

from __future__ import annotations

from pathlib import Path

from catchment.data.loaders.fsdd import fsdd
from catchment.data.loaders.hhar import hhar
from catchment.data.loaders.japanese_vowels import japanese_vowels
from catchment.data.loaders.motionsense import motionsense
from catchment.data.loaders.packed import pack, unpack
from catchment.data.loaders.santafe_laser import santafe_laser
from catchment.data.loaders.sunspots import sunspots
from catchment.data.loaders.uci_har import uci_har
from catchment.data.loaders.values import Dataset, Window
from catchment.data.loaders.wesad import wesad
from catchment.data.loaders.wisdm_watch import wisdm_watch
from catchment.data.sources import source

__all__ = [
    "Dataset",
    "Window",
    "fsdd",
    "hhar",
    "japanese_vowels",
    "load",
    "load_whole",
    "motionsense",
    "pack",
    "santafe_laser",
    "sunspots",
    "uci_har",
    "unpack",
    "wesad",
    "wisdm_watch",
]

_CUT = {
    "uci_har": uci_har,
    "motionsense": motionsense,
    "wisdm_watch": wisdm_watch,
    "hhar": hhar,
    "wesad": wesad,
}
_UNCUT = {
    "japanese_vowels": japanese_vowels,
    "fsdd": fsdd,
    "santafe_laser": santafe_laser,
    "sunspots": sunspots,
}


def load(
    name: str,
    *,
    directory: Path | str | None = None,
    window: Window = "usual",
    step: int | None = None,
) -> Dataset:
    """Return a public data set by its name.

    Parameters
    ----------
    name
        uci_har, motionsense, wisdm_watch, hhar, wesad, japanese_vowels, fsdd, santafe_laser or
        sunspots.
    directory
        Data directory; the usual ones if not given.
    window
        Steps per sequence; `usual` is each set's own habit, `whole` keeps recordings uncut.
    step
        Steps from one window to the next; the window's length if not given.

    >>> load("mnist")
    Traceback (most recent call last):
    ValueError: no data set is called 'mnist'; choose from uci_har, ...
    """
    source(name)
    if name in _CUT:
        return _CUT[name](directory=directory, window=window, step=step)
    if window != "usual" or step is not None:
        raise ValueError(f"{name} is not cut into windows; leave window and step out")
    return _UNCUT[name](directory=directory)


def load_whole(name: str, *, directory: Path | str | None = None) -> Dataset:
    """Return a public data set as recorded: uncut, sound as samples, series without targets.

    Parameters
    ----------
    name
        A name of the catalogue.
    directory
        Data directory; the usual ones if not given.

    >>> load_whole("sunspots", directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: sunspots (yearly sunspot numbers, ...
    """
    source(name)
    if name in _CUT:
        return _CUT[name](directory=directory, window="whole")
    if name == "fsdd":
        return fsdd(directory=directory, raw=True)
    if name == "japanese_vowels":
        return japanese_vowels(directory=directory)
    series = {"santafe_laser": santafe_laser, "sunspots": sunspots}
    return series[name](directory=directory, horizon=0)
