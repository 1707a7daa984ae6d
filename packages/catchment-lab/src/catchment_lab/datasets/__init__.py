"""Public data sets of time series by name, from the files that their publishers distribute.

`load` reads any of them; the functions of each set, such as `hhar`, have its own options. `pack`
turns a set into one file that loads in a second.
"""

from __future__ import annotations

from pathlib import Path

# For the other packages and the tests; may change without notice.
from catchment_lab.datasets.archive import Folder as Folder
from catchment_lab.datasets.archive import find_folder as find_folder
from catchment_lab.datasets.archive import folders as folders
from catchment_lab.datasets.catalogue import CATALOGUE as CATALOGUE
from catchment_lab.datasets.catalogue import Source as Source
from catchment_lab.datasets.files import parse_numbers as parse_numbers
from catchment_lab.datasets.files import read_numbers as read_numbers
from catchment_lab.datasets.files import read_text as read_text
from catchment_lab.datasets.files import require as require
from catchment_lab.datasets.fsdd import fsdd
from catchment_lab.datasets.fsdd import mel_bands as mel_bands
from catchment_lab.datasets.fsdd import utterances as utterances
from catchment_lab.datasets.hhar import hhar
from catchment_lab.datasets.japanese_vowels import japanese_vowels
from catchment_lab.datasets.mel import log_mel as log_mel
from catchment_lab.datasets.mel import mel_filters as mel_filters
from catchment_lab.datasets.motionsense import FIRST_SHORT_TRIAL as FIRST_SHORT_TRIAL
from catchment_lab.datasets.motionsense import motionsense
from catchment_lab.datasets.motionsense import trials as trials
from catchment_lab.datasets.packed import pack, unpack
from catchment_lab.datasets.santafe_laser import santafe_laser
from catchment_lab.datasets.sources import check_name as check_name
from catchment_lab.datasets.sources import find as find
from catchment_lab.datasets.sources import locate as locate
from catchment_lab.datasets.sources import missing as missing
from catchment_lab.datasets.sources import packed_path as packed_path
from catchment_lab.datasets.sources import size_of as size_of
from catchment_lab.datasets.sources import source as source
from catchment_lab.datasets.sunspots import sunspots
from catchment_lab.datasets.sunspots import yearly as yearly
from catchment_lab.datasets.uci_har import uci_har
from catchment_lab.datasets.values import Dataset, Window
from catchment_lab.datasets.values import Stretch as Stretch
from catchment_lab.datasets.values import ahead as ahead
from catchment_lab.datasets.values import cut as cut
from catchment_lab.datasets.values import float_rows as float_rows
from catchment_lab.datasets.values import gathered as gathered
from catchment_lab.datasets.values import names_of as names_of
from catchment_lab.datasets.values import runs as runs
from catchment_lab.datasets.values import window_steps as window_steps
from catchment_lab.datasets.wesad import wesad
from catchment_lab.datasets.wisdm_watch import ACTIVITIES as ACTIVITIES
from catchment_lab.datasets.wisdm_watch import wisdm_watch

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
