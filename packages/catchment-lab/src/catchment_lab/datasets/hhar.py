"""HHAR: the same activities on different phones.

The original files hold one line per reading of one sensor, with two clocks. Readings of a user's
phone are put in the order of the sensor's clock (Creation_Time), and the gyroscope, which samples
at its own moments, is interpolated linearly at the accelerometer's. A recording ends where the
activity changes or either sensor pauses for longer than half a second.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from catchment import Array, Booleans, Integers
from catchment.errors import IntegrityError
from catchment_lab.datasets.archive import Folder
from catchment_lab.datasets.files import require
from catchment_lab.datasets.values import Dataset, Stretch, float_rows, gathered, runs

_HEADER = b"Index,Arrival_Time,Creation_Time,x,y,z,User,Model,Device,gt"
_CLASSES = ("bike", "sit", "stairsdown", "stairsup", "stand", "walk")
_RATE_HZ = {"nexus4": 200.0, "s3": 150.0, "s3mini": 100.0, "samsungold": 50.0}
_MAX_GAP_NS = 500_000_000
_SECONDS = 2


def read(folder: Folder, model: str = "nexus4", gyroscope: bool = True) -> Dataset:
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
        _recordings(folder, model, gyroscope),
        channels=tuple(f"{sensor}_{axis}" for sensor in sensors for axis in "xyz"),
        classes=_CLASSES,
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


def _recordings(folder: Folder, model: str, gyroscope: bool) -> Iterator[Stretch]:
    phones = _phones(folder, "Phones_accelerometer.csv", model)
    turning = _phones(folder, "Phones_gyroscope.csv", model) if gyroscope else {}
    for user, device in sorted(phones):
        time, label, u = phones.pop((user, device)).in_order()
        usable = label >= 0
        if gyroscope:
            other = turning.pop((user, device), _Readings())
            known, rates = _interpolated(other, time)
            usable, u = usable & known, np.hstack([u, rates])
        stretch = np.cumsum(np.diff(time, prepend=time[0]) > _MAX_GAP_NS)
        for start, stop in runs(label, usable, stretch):
            if usable[start]:
                yield Stretch(user, int(label[start]), float_rows(u[start:stop]))


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
    code = {activity.encode(): k for k, activity in enumerate(_CLASSES)} | {b"null": -1, b"": -1}
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
