"""MotionSense and WISDM: continuous recordings of phones and watches, cut into windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from catchment.arrays import Array
from catchment.data.archive import Folder
from catchment.data.loaders.files import parse_numbers, read_arrays, require
from catchment.data.loaders.values import (
    Dataset,
    Stretch,
    Window,
    cut,
    float_rows,
    runs,
    window_steps,
)
from catchment.data.sources import Place, locate
from catchment.errors import IntegrityError

_MOTION_CHANNELS = tuple(
    f"{signal}.{axis}"
    for signal in ("userAcceleration", "rotationRate", "gravity")
    for axis in "xyz"
)
_MOTION_CODES = {
    "dws": "downstairs",
    "ups": "upstairs",
    "wlk": "walking",
    "jog": "jogging",
    "sit": "sitting",
    "std": "standing",
}
_MOTION_CLASSES = tuple(_MOTION_CODES.values())
_FIRST_SHORT_TRIAL = 11

_WISDM_CODES = {
    "A": "walking",
    "B": "jogging",
    "C": "climbing_stairs",
    "D": "sitting",
    "E": "standing",
    "F": "typing",
    "G": "brushing_teeth",
    "H": "eating_soup",
    "I": "eating_chips",
    "J": "eating_pasta",
    "K": "drinking",
    "L": "eating_sandwich",
    "M": "kicking_soccer_ball",
    "O": "playing_catch",
    "P": "dribbling_basketball",
    "Q": "writing",
    "R": "clapping",
    "S": "folding_clothes",
}
_WISDM_COMPACT = "ABCDEM"


def motionsense(
    *, directory: Path | str | None = None, window: Window = "usual", step: int | None = None
) -> Dataset:
    """Return MotionSense: 24 subjects, 9 channels at 50 Hz, six activities, 15 trials each.

    The short trials (number 11 and up) are marked for test, a common choice; the publisher names
    no split.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    window
        Steps per sequence; `usual` is 128, `whole` keeps recordings uncut.
    step
        Steps from one window to the next; the window's length if not given.

    >>> motionsense(directory="no/such/place", window=200)
    Traceback (most recent call last):
    catchment.errors.MissingDataError: motionsense (phone in the trouser pocket, ...
    """
    place = locate("motionsense", directory=directory)
    steps = window_steps(window, step, usual=128)
    recordings = (
        _motion_compact(place) if place.original is None else _motion_original(place.original)
    )
    clients, test = cut(recordings, n_classes=len(_MOTION_CLASSES), window=steps, step=step)
    return Dataset(
        name="motionsense",
        clients=dict(sorted(clients.items())),
        channels=_MOTION_CHANNELS,
        classes=_MOTION_CLASSES,
        rate_hz=50.0,
        test_positions=test,
        notes=(f"{place.form} form; test: the short trials",),
    )


def _motion_compact(place: Place) -> Iterator[Stretch]:
    arrays = read_arrays(place, ("counts", "scale", "start", "length", "subject", "label", "trial"))
    signal = float_rows(arrays["counts"], arrays["scale"].astype(np.float64))
    keys = ("start", "length", "subject", "label", "trial")
    for start, length, subject, label, trial in zip(
        *(arrays[key].tolist() for key in keys), strict=True
    ):
        u = signal[start : start + length]
        yield Stretch(f"subject-{subject:02d}", label, u, test=trial >= _FIRST_SHORT_TRIAL)


def _motion_original(folder: Folder) -> Iterator[Stretch]:
    found = []
    for name in require(folder, "A_DeviceMotion_data/*/sub_*.csv"):
        match = re.search(r"(\w+)_(\d+)/sub_(\d+)\.csv$", name)
        if match is None or match[1] not in _MOTION_CODES:
            raise IntegrityError(f"{folder}/{name} is not named like dws_1/sub_1.csv; rename it")
        found.append((int(match[3]), match[1], int(match[2]), name))
    for subject, code, trial, name in sorted(found):
        u = float_rows(_motion_table(folder, name))
        label = _MOTION_CLASSES.index(_MOTION_CODES[code])
        yield Stretch(f"subject-{subject:02d}", label, u, test=trial >= _FIRST_SHORT_TRIAL)


def _motion_table(folder: Folder, name: str) -> Array:
    with folder.open(name) as stream:
        header = stream.readline().decode("utf-8", "replace").strip().replace('"', "").split(",")
        missing = [channel for channel in _MOTION_CHANNELS if channel not in header]
        if missing:
            raise IntegrityError(f"{folder}/{name} has no column {missing[0]}; get a fresh copy")
        columns = tuple(header.index(channel) for channel in _MOTION_CHANNELS)
        return parse_numbers(stream, f"{folder}/{name}", delimiter=",", columns=columns)


def wisdm_watch(
    *,
    directory: Path | str | None = None,
    window: Window = "usual",
    step: int | None = None,
    activities: str = _WISDM_COMPACT,
) -> Dataset:
    """Return WISDM: 51 subjects, watch accelerometer, 3 channels at 20 Hz.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    window
        Steps per sequence; `usual` is 200 (10 s), `whole` keeps recordings uncut.
    step
        Steps from one window to the next; the window's length if not given.
    activities
        The publisher's letters, in the order of the classes. The compact form has A to E and M;
        the original also F to L and O to S.

    >>> wisdm_watch(directory="no/such/place", activities="AB")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: wisdm_watch (wrist watch, raw accelerometer, ...
    """
    place = locate("wisdm_watch", directory=directory)
    steps = window_steps(window, step, usual=200)
    known = _WISDM_COMPACT if place.original is None else "".join(_WISDM_CODES)
    if not activities or len(set(activities)) != len(activities) or set(activities) - set(known):
        raise ValueError(
            f"activities are {activities!r}; the {place.form} form has {known}, each once"
        )
    recordings = (
        _wisdm_compact(place, activities)
        if place.original is None
        else _wisdm_original(place.original, activities)
    )
    clients, _ = cut(recordings, n_classes=len(activities), window=steps, step=step)
    return Dataset(
        name="wisdm_watch",
        clients=dict(sorted(clients.items())),
        channels=("acc_x", "acc_y", "acc_z"),
        classes=tuple(_WISDM_CODES[code] for code in activities),
        rate_hz=20.0,
        notes=(f"{place.form} form; samples are taken to be consecutive",),
    )


def _wisdm_compact(place: Place, activities: str) -> Iterator[Stretch]:
    arrays = read_arrays(place, ("acc", "subject", "label", "label_codes"))
    codes = [str(code) for code in arrays["label_codes"]]
    acc = float_rows(arrays["acc"])
    for u, subject, label in zip(
        acc, arrays["subject"].tolist(), arrays["label"].tolist(), strict=True
    ):
        if codes[label] in activities:
            yield Stretch(str(subject), activities.index(codes[label]), u)


def _wisdm_original(folder: Folder, activities: str) -> Iterator[Stretch]:
    for name in require(folder, "watch/accel/data_*_accel_watch.txt"):
        rows = [line for line in folder.read(name).replace(b";", b"").splitlines() if line.strip()]
        fields = [line.split(b",", 2) for line in rows]
        if any(len(field) < 3 for field in fields):
            raise IntegrityError(
                f"{folder}/{name} has lines that are not subject,code,timestamp,x,y,z;"
            )
        subject = np.array([field[0] for field in fields])
        code = np.array([field[1].strip() for field in fields])
        for start, stop in runs(subject, code):
            letter = code[start].decode("latin1")
            if letter in activities:
                what = f"{folder}/{name}, lines {start + 1} to {stop},"
                u = parse_numbers(rows[start:stop], what, delimiter=",", columns=(3, 4, 5))
                yield Stretch(subject[start].decode("latin1"), activities.index(letter), u)
