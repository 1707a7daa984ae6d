"""Public data sets of time series by name, from the files that their publishers distribute.

`load` reads any of them. `pack`
turns a set into one file that loads in a second.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path

from catchment_lab.datasets import (
    fsdd,
    hhar,
    japanese_vowels,
    motionsense,
    santafe_laser,
    sunspots,
    uci_har,
    wesad,
    wisdm_watch,
)

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
from catchment_lab.datasets.fsdd import mel_bands as mel_bands
from catchment_lab.datasets.fsdd import utterances as utterances
from catchment_lab.datasets.mel import log_mel as log_mel
from catchment_lab.datasets.mel import mel_filters as mel_filters
from catchment_lab.datasets.motionsense import FIRST_SHORT_TRIAL as FIRST_SHORT_TRIAL
from catchment_lab.datasets.motionsense import trials as trials
from catchment_lab.datasets.packed import pack, unpack, whole_set
from catchment_lab.datasets.sources import check_name as check_name
from catchment_lab.datasets.sources import find as find
from catchment_lab.datasets.sources import locate as locate
from catchment_lab.datasets.sources import missing as missing
from catchment_lab.datasets.sources import packed_path as packed_path
from catchment_lab.datasets.sources import size_of as size_of
from catchment_lab.datasets.sources import source as source
from catchment_lab.datasets.sunspots import yearly as yearly
from catchment_lab.datasets.values import Dataset, Option, Window
from catchment_lab.datasets.values import Stretch as Stretch
from catchment_lab.datasets.values import ahead as ahead
from catchment_lab.datasets.values import cut as cut
from catchment_lab.datasets.values import float_rows as float_rows
from catchment_lab.datasets.values import gathered as gathered
from catchment_lab.datasets.values import names_of as names_of
from catchment_lab.datasets.values import runs as runs
from catchment_lab.datasets.values import window_steps as window_steps
from catchment_lab.datasets.wisdm_watch import ACTIVITIES as ACTIVITIES

__all__ = [
    "Dataset",
    "Window",
    "load",
    "load_whole",
    "pack",
    "unpack",
]

_CUT: dict[str, Callable[..., Dataset]] = {
    "uci_har": uci_har.read,
    "motionsense": motionsense.read,
    "wisdm_watch": wisdm_watch.read,
    "hhar": hhar.read,
    "wesad": wesad.read,
}
_SERIES = {"santafe_laser": santafe_laser.read, "sunspots": sunspots.read}
_READ = _CUT | _SERIES | {"japanese_vowels": japanese_vowels.read, "fsdd": fsdd.read}


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
        uci_har, motionsense, wisdm_watch, hhar, wesad, japanese_vowels, fsdd, santafe_laser or
        sunspots.
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
        Of hhar: `model` (nexus4, s3, s3mini, samsungold) and `gyroscope`; of wesad: `average`, so
        many samples become their mean; of wisdm_watch: `activities`, the publisher's letters in the
        order of the classes. What is not given is as usual, or what a packed file has.

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
