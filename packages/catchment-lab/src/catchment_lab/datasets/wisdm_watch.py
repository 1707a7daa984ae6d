"""WISDM: continuous recordings of a wrist watch's accelerometer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from catchment.errors import IntegrityError
from catchment_lab.datasets.archive import Folder
from catchment_lab.datasets.files import parse_numbers, require
from catchment_lab.datasets.values import Dataset, Stretch, gathered, runs

ACTIVITIES = {
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


def read(folder: Folder, activities: str = "ABCDEM") -> Dataset:
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
        _recordings(folder, activities),
        channels=("acc_x", "acc_y", "acc_z"),
        classes=tuple(ACTIVITIES[code] for code in activities),
        rate_hz=20.0,
        usual=(200, 200),
        options={"activities": activities},
        notes=("samples are taken to be consecutive",),
    )


def _recordings(folder: Folder, activities: str) -> Iterator[Stretch]:
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
