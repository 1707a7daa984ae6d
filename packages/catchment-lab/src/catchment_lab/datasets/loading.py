"""Any public data set by its name, from its publisher's files or packed into one file.

Packed, the publisher's files are read once, and the set loads in a second afterwards. A packed file
is an npz archive without pickles, `NAME.packed.npz` in the set's folder:

    header              JSON: channels, classes, rate, usual window, options and notes
    signal (sum T, I)   all recordings one after another; float32 if that loses nothing
    length, client      (n,) steps of each recording, and which client of the header it is of
    label, test         (n,) class, or -1 for none, and whether it is for test

Scalar series for forecasting are read here, too: the Santa Fe laser and the yearly sunspot numbers.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.errors import IntegrityError
from catchment_lab.datasets.motion import (
    read_hhar,
    read_motionsense,
    read_uci_har,
    read_wisdm_watch,
)
from catchment_lab.datasets.sources import (
    Folder,
    locate,
    packed_path,
    parse_numbers,
    require,
    source,
)
from catchment_lab.datasets.speech import mel_bands, read_fsdd, read_japanese_vowels
from catchment_lab.datasets.values import (
    Dataset,
    Option,
    Segment,
    Window,
    ahead,
    cut,
    float_rows,
    gathered,
)

_TOLD = ("channels", "classes", "rate_hz", "usual", "notes")  # of a set, in the header
_LACKING = (KeyError, IndexError, TypeError, ValueError, OSError, EOFError)
_DAMAGE = (*_LACKING, zipfile.BadZipFile, zlib.error)


def whole_set(
    name: str,
    read: Callable[[Folder], Dataset],
    directory: Path | str | None,
    **options: Option | None,
) -> Dataset:
    """Return whole recordings from a packed file, or from the publisher's if there is none.

    Parameters
    ----------
    name
        A name of the catalogue.
    read
        Reads the publisher's files.
    directory
        Data directory; the usual ones if not given.
    options
        What the caller asks of the files; None for whatever is there.
    """
    place = locate(name, directory=directory)
    if place.packed is not None:
        data = unpack(place.packed)
        asked = {key: value for key, value in options.items() if value is not None}
        if all(data.options.get(key) == value for key, value in asked.items()):
            return data
        if place.original is None:
            known = ", ".join(f"{key}={value!r}" for key, value in data.options.items())
            raise ValueError(
                f"{place.packed} was packed with {known or 'no options'}, not with "
                f"{', '.join(f'{key}={value!r}' for key, value in asked.items())}; "
                f"put the publisher's files beside it"
            )
    assert place.original is not None
    return read(place.original)


def pack(data: Dataset, directory: Path | str) -> Path:
    """Write whole recordings to DIRECTORY/NAME/NAME.packed.npz, and return that path.

    Parameters
    ----------
    data
        Whole recordings, with one class each or without targets.
    directory
        A data directory; made if it is not there.

    >>> from catchment_lab.datasets.values import Segment, gathered
    >>> parts = [Segment("ann", 1, np.ones((3, 2)))]
    >>> data = gathered("toy", parts, channels=("x", "y"), classes=("no", "yes"), rate_hz=50.0)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = unpack(pack(data, place))
    >>> again.clients["ann"][0].y, again.rate_hz
    (array([0., 1.]), 50.0)
    """
    path = packed_path(Path(directory).expanduser(), data.name)
    names = list(data.clients)
    recordings = [(client, r) for client, held in data.clients.items() for r in held]
    signal = np.concatenate([r.u for _, r in recordings])
    told = {name: getattr(data, name) for name in _TOLD}
    header = {"name": data.name, "clients": names, **told, "options": dict(data.options)}
    test = [
        client in data.test_clients or number in data.test_positions.get(client, ())
        for client, held in data.clients.items()
        for number in range(len(held))
    ]
    short = signal.astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed: nobody ever sees half a file.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as stream:
        np.savez(
            stream,
            header=np.array(json.dumps(header)),
            signal=short if np.array_equal(short, signal) else signal,
            length=np.array([r.n_steps for _, r in recordings], dtype=np.int64),
            client=np.array([names.index(client) for client, _ in recordings], dtype=np.int64),
            label=np.array([_label(data, r) for _, r in recordings], dtype=np.int64),
            test=np.array(test, dtype=bool),
        )
    os.replace(stream.name, path)  # noqa: PTH105
    return path


def _label(data: Dataset, recording: Recording) -> int:
    if recording.y is None:
        return -1
    if recording.per_step or len(recording.y) != len(data.classes):
        raise ValueError(
            f"a recording of {data.name} has targets of shape {recording.y.shape}; only whole "
            f"recordings with one class each, or without targets, can be packed"
        )
    return int(recording.y.argmax())


def unpack(path: Path | str) -> Dataset:
    """Return the whole recordings of a packed file."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            header = json.loads(str(arrays["header"]))
            signal = float_rows(arrays["signal"])
            keys = ("client", "label", "length", "test")
            client, label, length, test = (arrays[key].tolist() for key in keys)
        names = [header["clients"][number] for number in client]
        told = {name: header[name] for name in (*_TOLD, "options")}
        told["usual"] = told["usual"] and tuple(told["usual"])
        told["notes"] = tuple(told["notes"])
        if min(length, default=1) < 1 or sum(length) != len(signal):
            raise ValueError(f"recordings have {sum(length)} steps, the signal {len(signal)}")
        signals = np.split(signal, np.cumsum(length)[:-1])
        parts = zip(names, [None if one < 0 else one for one in label], signals, test, strict=True)
        return gathered(header["name"], (Segment(*part) for part in parts), **told)
    except _DAMAGE as error:
        raise IntegrityError(f"{path} is damaged ({error}); pack the set again") from error


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
