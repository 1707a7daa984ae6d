"""UCI HAR: smartphone activity windows, and the continuous segments they were cut from.

The official windows have 128 steps and overlap by half. Where the second half of one equals the
first half of the next, both come from one continuous segment; chaining them keeps every sample
once, and windows are views into the segments.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from catchment.arrays import Array, Booleans, Integers
from catchment.data.archive import Folder
from catchment.data.loaders.files import read_arrays, read_numbers
from catchment.data.loaders.values import (
    Dataset,
    Stretch,
    Window,
    cut,
    float_rows,
    window_steps,
)
from catchment.data.sources import Place, locate
from catchment.errors import IntegrityError

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


def uci_har(
    *, directory: Path | str | None = None, window: Window = "usual", step: int | None = None
) -> Dataset:
    """Return UCI HAR: 30 subjects, 9 channels at 50 Hz, six activities; 9 subjects are for test.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    window
        `usual`: the official windows of 128 steps; `whole`: the continuous segments; a number:
        windows of so many steps, cut from the segments.
    step
        Steps from one window to the next, with a number of steps; the window's length if not given.

    >>> uci_har(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: uci_har (smartphone on the waist, ...
    """
    place = locate("uci_har", directory=directory)
    steps = window_steps(window, step, usual=None)
    windows, segments, test_clients, note = (
        _compact(place) if place.original is None else _original(place.original)
    )
    clients, _ = cut(
        windows if window == "usual" else segments,
        n_classes=len(_CLASSES),
        window=steps,
        step=step,
    )
    return Dataset(
        name="uci_har",
        clients=dict(sorted(clients.items())),
        channels=_CHANNELS,
        classes=_CLASSES,
        rate_hz=50.0,
        test_clients=tuple(name for name in test_clients if name in clients),
        notes=(note, _LICENCE),
    )


_Parts = tuple[list[Stretch], list[Stretch], tuple[str, ...], str]


def _name(subject: int) -> str:
    return f"subject-{subject:02d}"


def _compact(place: Place) -> _Parts:
    arrays = read_arrays(
        place,
        (
            "signal",
            *(f"segment_{key}" for key in ("start", "length", "subject", "label")),
            *(f"window_{key}" for key in ("start", "subject", "label")),
            "subject_id",
            "subject_in_uci_train",
        ),
    )
    signal = float_rows(arrays["signal"])
    windows = [
        Stretch(_name(subject), label, signal[start : start + _STEPS])
        for start, subject, label in zip(
            *(arrays[f"window_{key}"].tolist() for key in ("start", "subject", "label")),
            strict=True,
        )
    ]
    segments = [
        Stretch(_name(subject), label, signal[start : start + length])
        for start, length, subject, label in zip(
            *(arrays[f"segment_{key}"].tolist() for key in ("start", "length", "subject", "label")),
            strict=True,
        )
    ]
    held_out = arrays["subject_id"][~arrays["subject_in_uci_train"]]
    note = "compact form: segments are not in their order of recording"
    return windows, segments, tuple(_name(subject) for subject in held_out.tolist()), note


def _original(folder: Folder) -> _Parts:
    windows: list[Stretch] = []
    segments: list[Stretch] = []
    subjects: dict[str, list[str]] = {}
    for part in ("train", "test"):
        u, label, subject = _read_part(folder, part)
        chained = _chain(u, label, subject)
        for start, stop in zip(*chained, strict=True):
            # The first window whole, then the second half of each that follows.
            signal = float_rows(np.concatenate([u[start], *u[start + 1 : stop, _HALF:]]))
            client, activity = _name(int(subject[start])), int(label[start])
            segments.append(Stretch(client, activity, signal))
            windows += [
                Stretch(client, activity, signal[_HALF * k : _HALF * k + _STEPS])
                for k in range(stop - start)
            ]
        subjects[part] = sorted({_name(int(n)) for n in subject})
    return windows, segments, tuple(subjects["test"]), "original form, official windows"


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
