"""UCI HAR: the official windows, chained into the continuous segments they were cut from.

The official windows have 128 steps and overlap by half. Where the second half of one equals the
first half of the next, both come from one continuous segment; chaining them keeps every sample
once, and cutting the segments by 128 steps every 64 gives the official windows back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from catchment import Array, Booleans, Integers
from catchment.errors import IntegrityError
from catchment_lab.datasets.archive import Folder
from catchment_lab.datasets.files import read_numbers
from catchment_lab.datasets.values import Dataset, Stretch, float_rows, gathered

_CLASSES = (
    "WALKING",
    "WALKING_UPSTAIRS",
    "WALKING_DOWNSTAIRS",
    "SITTING",
    "STANDING",
    "LAYING",
)
_CHANNELS = tuple(
    f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"
)
_STEPS = 128
_HALF = 64
_LICENCE = "cite Anguita et al. 2013; any commercial use is prohibited"


def read(folder: Folder) -> Dataset:
    """Return UCI HAR: 30 subjects, 9 channels at 50 Hz, six activities; 9 subjects are for test."""
    return gathered(
        "uci_har",
        (s for part in ("train", "test") for s in _segments(folder, part)),
        channels=_CHANNELS,
        classes=_CLASSES,
        rate_hz=50.0,
        usual=(_STEPS, _HALF),
        notes=("continuous segments chained from the official windows", _LICENCE),
    )


def _segments(folder: Folder, part: str) -> Iterator[Stretch]:
    u, label, subject = _read_part(folder, part)
    for start, stop in zip(*_chain(u, label, subject), strict=True):
        # The first window whole, then the second half of each that follows.
        signal = float_rows(np.concatenate([u[start], *u[start + 1 : stop, _HALF:]]))
        client = f"subject-{int(subject[start]):02d}"
        yield Stretch(client, int(label[start]), signal, test=part == "test")


def _read_part(folder: Folder, part: str) -> tuple[Array, Integers, Integers]:
    signals = [
        read_numbers(folder, f"{part}/Inertial Signals/{channel}_{part}.txt")
        for channel in _CHANNELS
    ]
    label = read_numbers(folder, f"{part}/y_{part}.txt")[:, 0].astype(np.int64) - 1
    subject = read_numbers(folder, f"{part}/subject_{part}.txt")[:, 0].astype(np.int64)
    shapes = {signal.shape for signal in signals}
    if shapes != {(len(label), _STEPS)} or len(subject) != len(label):
        raise IntegrityError(
            f"{folder}: {part} has {len(label)} labels, {len(subject)} subjects and signals of "
            f"shapes {sorted(shapes)}; get a fresh copy"
        )
    if label.min() < 0 or label.max() >= len(_CLASSES):
        raise IntegrityError(f"{folder}: {part}/y_{part}.txt has labels outside 1..6")
    return np.stack(signals, axis=2), label, subject


def _chain(u: Array, label: Integers, subject: Integers) -> tuple[list[int], list[int]]:
    """Return the first window of each continuous segment, and the one after its last."""
    follows: Booleans = (u[:-1, _HALF:] == u[1:, :_HALF]).all(axis=(1, 2))
    follows &= (label[1:] == label[:-1]) & (subject[1:] == subject[:-1])
    starts = [0, *(np.flatnonzero(~follows) + 1).tolist()]
    return starts, [*starts[1:], len(u)]
