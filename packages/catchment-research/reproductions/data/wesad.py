"""WESAD: chest signals under stress and amusement.

The publisher has one pickle per subject, read by `reproductions.data.unpickle`, with the chest
signals at 700 Hz and a label for every sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from catchment import Array, Integers
from catchment.errors import IntegrityError
from catchment_lab.datasets import Dataset, Folder, Segment, float_rows, gathered, require, runs
from reproductions.data.unpickle import unpickle

_SIGNALS = {"acc": 3, "ecg": 1, "emg": 1, "eda": 1, "temp": 1, "resp": 1}
_CHEST = ("acc_x", "acc_y", "acc_z", "ecg", "emg", "eda", "temp", "resp")
_CLASSES = ("baseline", "stress", "amusement", "meditation")
_RATE_HZ = 700


def read(folder: Folder) -> Dataset:
    """Return WESAD: 15 subjects, 8 chest channels, four conditions; a sequence has one of them.

    Parts without a condition are left out.
    """
    return gathered(
        "wesad",
        _recordings(folder),
        channels=tuple(f"chest_{signal}" for signal in _CHEST),
        classes=_CLASSES,
        rate_hz=float(_RATE_HZ),
        usual=(_RATE_HZ, _RATE_HZ),
    )


def _recordings(folder: Folder) -> Iterator[Segment]:
    for subject, name in subjects(folder):
        u, label = chest(folder, name)
        for start, stop in runs(label):
            if 1 <= label[start] <= len(_CLASSES):
                yield Segment(f"S{subject}", int(label[start]) - 1, float_rows(u[start:stop]))


def subjects(folder: Folder) -> list[tuple[int, str]]:
    """Return (number, file name) of every subject, in order."""
    found = []
    for name in require(folder, "S*/S*.pkl"):
        match = re.search(r"S(\d+)\.pkl$", name, re.IGNORECASE)
        if match is not None:
            found.append((int(match[1]), name))
    return sorted(found)


def chest(folder: Folder, name: str) -> tuple[Array, Integers]:
    """Return the chest signals (T, 8) and labels (T,) of one subject."""
    what = f"{folder}/{name}"
    with folder.open(name) as stream:
        content = unpickle(stream, name=what)
    signals_of = _entry(_entry(content, "signal", what), "chest", what)
    label = _entry(content, "label", what)
    if not isinstance(label, np.ndarray) or label.ndim != 1:
        raise IntegrityError(f"{what}: the labels are not one column; get a fresh copy")
    signals = []
    for signal, width in _SIGNALS.items():
        value = _entry(signals_of, signal, what)
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
