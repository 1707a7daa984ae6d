"""WESAD: stress and affect from chest and wrist sensors.

The original is one pickle per subject, read by `catchment.data.unpickle`, with the chest signals
at 700 Hz. The compact form holds statistics of windows of 5 s every 2.5 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from catchment.arrays import Array, Integers
from catchment.data.archive import Folder
from catchment.data.loaders.files import read_arrays, require
from catchment.data.loaders.values import (
    Dataset,
    Stretch,
    Window,
    cut,
    float_rows,
    names_of,
    runs,
    window_steps,
)
from catchment.data.sources import Place, locate
from catchment.data.unpickle import unpickle
from catchment.errors import IntegrityError

_SIGNALS = {"acc": 3, "ecg": 1, "emg": 1, "eda": 1, "temp": 1, "resp": 1}
_CHEST = ("acc_x", "acc_y", "acc_z", "ecg", "emg", "eda", "temp", "resp")
_CLASSES = ("baseline", "stress", "amusement", "meditation")
_RATE_HZ = 700.0


def wesad(
    *,
    directory: Path | str | None = None,
    window: Window = "usual",
    step: int | None = None,
    statistics: tuple[str, ...] = ("mean",),
    wrist: bool = False,
    average: int = 1,
) -> Dataset:
    """Return WESAD: 8 chest channels; one sequence has one condition.

    The original form has 15 subjects and four classes (with meditation), the compact one 14 and
    three. Parts without a condition are left out.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    window
        Steps per sequence; `usual` is 700 (1 s) of the original signals and 24 (1 minute) of the
        compact form; `whole` keeps each stretch of one condition uncut.
    step
        Steps from one window to the next; the window's length if not given.
    statistics
        Which statistics of the compact form become channels; the original has only the signals.
    wrist
        Whether to add the 6 wrist channels; compact form only.
    average
        Replace so many consecutive samples by their mean; original form only.

    >>> wesad(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: wesad (chest and wrist sensors; ...
    """
    place = locate("wesad", directory=directory)
    if average < 1:
        raise ValueError(f"average is {average}; pass 1 or more")
    if place.original is None:
        if average != 1:
            raise ValueError(f"average is {average}; the compact form is averaged already, pass 1")
        return _compact(place, window, step, statistics, wrist)
    if wrist or statistics != ("mean",):
        raise ValueError("the original signals have no statistics; leave statistics and wrist out")
    clients, _ = cut(
        _original(place.original, average),
        n_classes=len(_CLASSES),
        window=window_steps(window, step, usual=700),
        step=step,
    )
    return Dataset(
        name="wesad",
        clients=clients,
        channels=tuple(f"chest_{signal}" for signal in _CHEST),
        classes=_CLASSES,
        rate_hz=_RATE_HZ / average,
        notes=("original form",),
    )


def _compact(
    place: Place, window: Window, step: int | None, statistics: tuple[str, ...], wrist: bool
) -> Dataset:
    arrays = read_arrays(place, ("features", "label", "subject", "channels", "stats", "hop_s"))
    known, channels = names_of(arrays["stats"]), names_of(arrays["channels"])
    if not statistics or set(statistics) - set(known):
        raise ValueError(f"statistics are {statistics}; choose from {', '.join(known)}")
    rows = [k for k, name in enumerate(channels) if wrist or name.startswith("chest_")]
    columns = [known.index(statistic) for statistic in statistics]
    chosen = arrays["features"][:, rows][:, :, columns]
    u = float_rows(chosen.reshape(len(chosen), -1))
    label = arrays["label"].astype(np.int64)
    recordings = [
        Stretch(f"S{arrays['subject'][start]}", int(label[start]) - 1, u[start:stop])
        for start, stop in runs(arrays["subject"], label)
    ]
    clients, _ = cut(
        recordings, n_classes=3, window=window_steps(window, step, usual=24), step=step
    )
    names = [channels[row] for row in rows]
    return Dataset(
        name="wesad",
        clients=clients,
        channels=tuple(
            name if statistics == ("mean",) else f"{name}_{statistic}"
            for name in names
            for statistic in statistics
        ),
        classes=_CLASSES[:3],
        rate_hz=1 / float(arrays["hop_s"]),
        notes=("compact form: statistics of 5 s windows, not raw signals; without S15",),
    )


def _original(folder: Folder, average: int) -> Iterator[Stretch]:
    found = []
    for name in require(folder, "S*/S*.pkl"):
        match = re.search(r"S(\d+)\.pkl$", name, re.IGNORECASE)
        if match is not None:
            found.append((int(match[1]), name))
    for subject, name in sorted(found):
        u, label = _read_subject(folder, name)
        for start, stop in runs(label):
            if 1 <= label[start] <= len(_CLASSES):
                part = _averaged(u[start:stop], average)
                if len(part):
                    yield Stretch(f"S{subject}", int(label[start]) - 1, float_rows(part))


def _averaged(u: Array, average: int) -> Array:
    n_steps = len(u) // average
    mean: Array = u[: n_steps * average].reshape(n_steps, average, u.shape[1]).mean(axis=1)
    return mean


def _read_subject(folder: Folder, name: str) -> tuple[Array, Integers]:
    """Return the chest signals (T, 8) and labels (T,) of one subject."""
    what = f"{folder}/{name}"
    with folder.open(name) as stream:
        content = unpickle(stream, name=what)
    chest = _entry(_entry(content, "signal", what), "chest", what)
    label = _entry(content, "label", what)
    if not isinstance(label, np.ndarray) or label.ndim != 1:
        raise IntegrityError(f"{what}: the labels are not one column; get a fresh copy")
    signals = []
    for signal, width in _SIGNALS.items():
        value = _entry(chest, signal, what)
        if not isinstance(value, np.ndarray) or value.shape != (len(label), width):
            raise IntegrityError(
                f"{what}: chest {signal} is not an array of shape {(len(label), width)}, one row "
                f"for each label; get a fresh copy"
            )
        signals.append(value.astype(np.float64))
    return np.hstack(signals), label.astype(np.int64)


def _entry(value: object, key: str, what: str) -> object:
    """Return the entry of a dictionary whose key is this in any case (Temp, TEMP)."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if isinstance(name, str) and name.lower() == key:
                return entry
    raise IntegrityError(f"{what} has no {key!r} where WESAD has one; get a fresh copy")
