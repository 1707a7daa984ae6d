"""MotionSense: continuous recordings of a phone in the trouser pocket."""

from __future__ import annotations

import re
from collections.abc import Iterator

from catchment import Array
from catchment.errors import IntegrityError
from catchment_lab.datasets.archive import Folder
from catchment_lab.datasets.files import parse_numbers, require
from catchment_lab.datasets.values import Dataset, Stretch, float_rows, gathered

_CHANNELS = tuple(
    f"{signal}.{axis}"
    for signal in ("userAcceleration", "rotationRate", "gravity")
    for axis in "xyz"
)
_CODES = {
    "dws": "downstairs",
    "ups": "upstairs",
    "wlk": "walking",
    "jog": "jogging",
    "sit": "sitting",
    "std": "standing",
}
_CLASSES = tuple(_CODES.values())
FIRST_SHORT_TRIAL = 11


def trials(folder: Folder) -> list[tuple[int, str, int, str]]:
    """Return (subject, activity code, trial number, file name) of every recording, in order."""
    found = []
    for name in require(folder, "A_DeviceMotion_data/*/sub_*.csv"):
        match = re.search(r"(\w+)_(\d+)/sub_(\d+)\.csv$", name)
        if match is None or match[1] not in _CODES:
            raise IntegrityError(f"{folder}/{name} is not named like dws_1/sub_1.csv; rename it")
        found.append((int(match[3]), match[1], int(match[2]), name))
    return sorted(found)


def read(folder: Folder) -> Dataset:
    """Return MotionSense: 24 subjects, 9 channels at 50 Hz, six activities, 15 trials each.

    The short trials (number 11 and up) are marked for test, a common choice; the publisher names
    no split.
    """
    return gathered(
        "motionsense",
        _recordings(folder),
        channels=_CHANNELS,
        classes=_CLASSES,
        rate_hz=50.0,
        usual=(128, 128),
        notes=("test: the short trials",),
    )


def _recordings(folder: Folder) -> Iterator[Stretch]:
    for subject, code, trial, name in trials(folder):
        u = float_rows(_table(folder, name))
        label = _CLASSES.index(_CODES[code])
        yield Stretch(f"subject-{subject:02d}", label, u, test=trial >= FIRST_SHORT_TRIAL)


def _table(folder: Folder, name: str) -> Array:
    with folder.open(name) as stream:
        header = stream.readline().decode("utf-8", "replace").strip().replace('"', "").split(",")
        missing = [channel for channel in _CHANNELS if channel not in header]
        if missing:
            raise IntegrityError(f"{folder}/{name} has no column {missing[0]}; get a fresh copy")
        columns = tuple(header.index(channel) for channel in _CHANNELS)
        return parse_numbers(stream, f"{folder}/{name}", delimiter=",", columns=columns)
