"""Activities of people who carry sensors: UCI HAR, MotionSense, WISDM and HHAR.

The official windows of UCI HAR have 128 steps and overlap by half. Where the second half of one
equals the first half of the next, both come from one continuous segment; chaining them keeps every
sample once, and cutting the segments by 128 steps every 64 gives the official windows back.

The original files of HHAR hold one line per reading of one sensor, with two clocks. Readings of a
user's phone are put in the order of the sensor's clock (Creation_Time), and the gyroscope, which
samples at its own moments, is interpolated linearly at the accelerometer's. A recording ends where
the activity changes or either sensor pauses for longer than half a second.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from catchment import Array, Booleans, Integers
from catchment.errors import IntegrityError
from catchment_lab.datasets.sources import Folder, parse_numbers, read_numbers, require
from catchment_lab.datasets.values import Dataset, Segment, float_rows, gathered, runs

_UCI_CLASSES = (
    "WALKING",
    "WALKING_UPSTAIRS",
    "WALKING_DOWNSTAIRS",
    "SITTING",
    "STANDING",
    "LAYING",
)
_UCI_CHANNELS = tuple(
    f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"
)
_STEPS = 128
_HALF = 64
_LICENCE = "cite Anguita et al. 2013; any commercial use is prohibited"


def read_uci_har(folder: Folder) -> Dataset:
    """Return UCI HAR: 30 subjects, 9 channels at 50 Hz, six activities; 9 subjects are for test."""
    return gathered(
        "uci_har",
        (s for part in ("train", "test") for s in _segments(folder, part)),
        channels=_UCI_CHANNELS,
        classes=_UCI_CLASSES,
        rate_hz=50.0,
        usual=(_STEPS, _HALF),
        notes=("continuous segments chained from the official windows", _LICENCE),
    )


def _segments(folder: Folder, part: str) -> Iterator[Segment]:
    u, label, subject = _read_part(folder, part)
    follows: Booleans = (u[:-1, _HALF:] == u[1:, :_HALF]).all(axis=(1, 2))
    follows &= (label[1:] == label[:-1]) & (subject[1:] == subject[:-1])
    for start, stop in pairwise([0, *(np.flatnonzero(~follows) + 1).tolist(), len(u)]):
        # The first window whole, then the second half of each that follows.
        signal = float_rows(np.concatenate([u[start], *u[start + 1 : stop, _HALF:]]))
        client = f"subject-{int(subject[start]):02d}"
        yield Segment(client, int(label[start]), signal, test=part == "test")


def _read_part(folder: Folder, part: str) -> tuple[Array, Integers, Integers]:
    signals = [
        read_numbers(folder, f"{part}/Inertial Signals/{channel}_{part}.txt")
        for channel in _UCI_CHANNELS
    ]
    label = read_numbers(folder, f"{part}/y_{part}.txt")[:, 0].astype(np.int64) - 1
    subject = read_numbers(folder, f"{part}/subject_{part}.txt")[:, 0].astype(np.int64)
    shapes = {signal.shape for signal in signals}
    if shapes != {(len(label), _STEPS)} or len(subject) != len(label):
        raise IntegrityError(
            f"{folder}: {part} has {len(label)} labels, {len(subject)} subjects and signals of "
            f"shapes {sorted(shapes)}; get a fresh copy"
        )
    if label.min() < 0 or label.max() >= len(_UCI_CLASSES):
        raise IntegrityError(f"{folder}: {part}/y_{part}.txt has labels outside 1..6")
    return np.stack(signals, axis=2), label, subject


_MOTIONSENSE_CHANNELS = tuple(
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
_MOTIONSENSE_CLASSES = tuple(_CODES.values())
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


def read_motionsense(folder: Folder) -> Dataset:
    """Return MotionSense: 24 subjects, 9 channels at 50 Hz, six activities, 15 trials each.

    The short trials (number 11 and up) are marked for test, a common choice; the publisher names
    no split.
    """
    return gathered(
        "motionsense",
        (
            Segment(
                f"subject-{subject:02d}",
                _MOTIONSENSE_CLASSES.index(_CODES[code]),
                float_rows(_table(folder, name)),
                test=trial >= FIRST_SHORT_TRIAL,
            )
            for subject, code, trial, name in trials(folder)
        ),
        channels=_MOTIONSENSE_CHANNELS,
        classes=_MOTIONSENSE_CLASSES,
        rate_hz=50.0,
        usual=(128, 128),
        notes=("test: the short trials",),
    )


def _table(folder: Folder, name: str) -> Array:
    with folder.open(name) as stream:
        header = stream.readline().decode("utf-8", "replace").strip().replace('"', "").split(",")
        missing = [channel for channel in _MOTIONSENSE_CHANNELS if channel not in header]
        if missing:
            raise IntegrityError(f"{folder}/{name} has no column {missing[0]}; get a fresh copy")
        columns = tuple(header.index(channel) for channel in _MOTIONSENSE_CHANNELS)
        return parse_numbers(stream, f"{folder}/{name}", delimiter=",", columns=columns)


_WATCHED = (
    "walking jogging climbing_stairs sitting standing typing brushing_teeth eating_soup "
    "eating_chips eating_pasta drinking eating_sandwich kicking_soccer_ball playing_catch "
    "dribbling_basketball writing clapping folding_clothes"
)
ACTIVITIES = dict(zip("ABCDEFGHIJKLMOPQRS", _WATCHED.split(), strict=True))


def read_wisdm_watch(folder: Folder, activities: str = "ABCDEM") -> Dataset:
    """Return WISDM: 51 subjects, watch accelerometer, 3 channels at 20 Hz.

    `activities` are the publisher's letters, A to M and O to S, in the order of the classes; A to E
    and M move the whole body.
    """
    chosen = set(activities)
    if not chosen or len(chosen) != len(activities) or chosen - set(ACTIVITIES):
        raise ValueError(
            f"activities are {activities!r}; choose from {''.join(ACTIVITIES)}, each at most once"
        )
    return gathered(
        "wisdm_watch",
        _wisdm_recordings(folder, activities),
        channels=("acc_x", "acc_y", "acc_z"),
        classes=tuple(ACTIVITIES[code] for code in activities),
        rate_hz=20.0,
        usual=(200, 200),
        options={"activities": activities},
        notes=("samples are taken to be consecutive",),
    )


def _wisdm_recordings(folder: Folder, activities: str) -> Iterator[Segment]:
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
                yield Segment(subject[start].decode("latin1"), activities.index(letter), u)


_HEADER = b"Index,Arrival_Time,Creation_Time,x,y,z,User,Model,Device,gt"
_HHAR_CLASSES = ("bike", "sit", "stairsdown", "stairsup", "stand", "walk")
_RATE_HZ = {"nexus4": 200.0, "s3": 150.0, "s3mini": 100.0, "samsungold": 50.0}
_MAX_GAP_NS = 500_000_000
_SECONDS = 2


def read_hhar(folder: Folder, model: str = "nexus4", gyroscope: bool = True) -> Dataset:
    """Return HHAR: nine users, six activities, phones of one model around the waist.

    `model` is nexus4, s3, s3mini or samsungold; `gyroscope` says whether its 3 channels are added
    to the accelerometer's.
    """
    if model not in _RATE_HZ:
        raise ValueError(f"model is {model!r}; choose from {', '.join(_RATE_HZ)}")
    steps = round(_SECONDS * _RATE_HZ[model])
    sensors = ("acc", "gyro") if gyroscope else ("acc",)
    return gathered(
        "hhar",
        _hhar_recordings(folder, model, gyroscope),
        channels=tuple(f"{sensor}_{axis}" for sensor in sensors for axis in "xyz"),
        classes=_HHAR_CLASSES,
        rate_hz=_RATE_HZ[model],
        usual=(steps, steps),
        options={"model": model, "gyroscope": gyroscope},
        notes=(f"{model}; the rate is nominal",),
    )


@dataclass
class _Readings:
    """What one sensor of one phone on one user measured, growing line by line."""

    time: array[int] = field(default_factory=lambda: array("q"))
    label: array[int] = field(default_factory=lambda: array("b"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def in_order(self) -> tuple[Integers, Integers, Array]:
        """Return times (n,), labels (n,) and values (n, 3) in the order of the sensor's clock."""
        time = np.array(self.time, dtype=np.int64)
        order = np.argsort(time, kind="stable")
        values = np.array(self.values, dtype=np.float64).reshape(-1, 3)
        return time[order], np.array(self.label, dtype=np.int64)[order], values[order]


_Phones = dict[tuple[str, str], _Readings]


def _hhar_recordings(folder: Folder, model: str, gyroscope: bool) -> Iterator[Segment]:
    phones = _phones(folder, "Phones_accelerometer.csv", model)
    turning = _phones(folder, "Phones_gyroscope.csv", model) if gyroscope else {}
    for user, device in sorted(phones):
        time, label, u = phones.pop((user, device)).in_order()
        usable = label >= 0
        if gyroscope:
            other = turning.pop((user, device), _Readings())
            known, rates = _interpolated(other, time)
            usable, u = usable & known, np.hstack([u, rates])
        segment = np.cumsum(np.diff(time, prepend=time[0]) > _MAX_GAP_NS)
        for start, stop in runs(label, usable, segment):
            if usable[start]:
                yield Segment(user, int(label[start]), float_rows(u[start:stop]))


def _interpolated(readings: _Readings, moments: Integers) -> tuple[Booleans, Array]:
    """Return which moments (n,) the sensor covers without a pause, and its values (n, 3) there."""
    time, _, values = readings.in_order()
    if len(time) == 0:
        return np.zeros(len(moments), dtype=bool), np.zeros((len(moments), 3))
    after = np.searchsorted(time, moments)
    before = np.maximum(np.searchsorted(time, moments, side="right") - 1, 0)
    inside = (moments >= time[0]) & (moments <= time[-1])
    gap = time[np.minimum(after, len(time) - 1)] - time[before]
    # Nanoseconds since 1970 have more digits than a float; differences do not.
    since = (time - time[0]).astype(np.float64)
    when = (moments - time[0]).astype(np.float64)
    columns = [np.interp(when, since, values[:, axis]) for axis in range(3)]
    return inside & (gap <= _MAX_GAP_NS), np.stack(columns, axis=1)


def _phones(folder: Folder, file: str, model: str) -> _Phones:
    (name, *_) = require(folder, file)
    code = {activity.encode(): k for k, activity in enumerate(_HHAR_CLASSES)} | {
        b"null": -1,
        b"": -1,
    }
    wanted = f",{model},".encode()
    phones: _Phones = {}
    with folder.open(name) as stream:
        if stream.readline().strip() != _HEADER:
            raise IntegrityError(f"{folder}/{name} does not begin with {_HEADER.decode()}")
        for number, line in enumerate(stream, start=2):
            if wanted not in line:
                continue
            try:
                _, _, created, x, y, z, user, _, device, activity = line.strip().split(b",")
                readings = phones.setdefault((user.decode(), device.decode()), _Readings())
                readings.label.append(code[activity])
                readings.time.append(int(created))
                readings.values.extend((float(x), float(y), float(z)))
            except (ValueError, KeyError, OverflowError) as error:
                raise IntegrityError(
                    f"{folder}/{name}, line {number}, is not a reading ({error})"
                ) from error
    if not phones:
        raise IntegrityError(
            f"{folder}/{name} has no readings of {model}; choose another model, or gyroscope=False"
        )
    return phones
