"""A data set packed into one file: read the publisher's files once, load in a second afterwards.

A packed file is an npz archive without pickles, `NAME.packed.npz` in the set's folder:

    header              JSON: channels, classes, rate, usual window, options and notes
    signal (sum T, I)   all recordings one after another; float32 if that loses nothing
    length, client      (n,) steps of each recording, and which client of the header it is of
    label, test         (n,) class, or -1 for none, and whether it is for test
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from catchment.data import Recording
from catchment.errors import IntegrityError
from catchment_lab.datasets.sources import Folder, locate, packed_path
from catchment_lab.datasets.values import Dataset, Option, Segment, float_rows, gathered

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
