"""Recordings as the bytes that a device's sensor line carries.

    1, then the inputs as float64, then the label as int32 (-1 if it is unknown), or the targets as
       float64 where they are numbers, or nothing where inputs ahead in time are predicted
    2  a recording ends
    3  a segment ends: the device goes back to its link

All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Array
from catchment.data import Recording

SAMPLE, RECORDING_ENDS, SEGMENT_ENDS = 1, 2, 3


def sensor_bytes(
    recordings: Iterable[Recording],
    *,
    classes: int | None = None,
    targets: bool = True,
    open_end: bool = False,
) -> bytes:
    """Return recordings as one segment of a sensor's line.

    Parameters
    ----------
    classes
        How many classes the one-hot targets stand for; None if they are numbers.
    targets
        Whether samples come with targets; not where a plan has a horizon, and predicts its inputs.
    open_end
        Whether the last recording goes on in the next segment.

    >>> one = Recording.labeled([1.0, 2.0], 1, 3)
    >>> line = sensor_bytes([one], classes=3)  # a kind, a float64 and an int32 for each sample
    >>> len(line), line[-2:].hex()
    (28, '0203')
    """
    pieces, known = [], list(recordings)
    for number, recording in enumerate(known):
        pieces.append(_samples(recording, classes, targets, number))
        if not (open_end and number + 1 == len(known)):
            pieces.append(bytes([RECORDING_ENDS]))
    return b"".join([*pieces, bytes([SEGMENT_ENDS])])


def _samples(recording: Recording, classes: int | None, targets: bool, number: int) -> bytes:
    if recording.weight != 1:
        raise ValueError(
            f"recording {number} has weight {recording.weight:g}; a device counts every row once"
        )
    u = recording.u
    kind = np.full((len(u), 1), SAMPLE, dtype=np.uint8)
    inputs = np.ascontiguousarray(u, dtype="<f8").view(np.uint8)
    columns = [kind, inputs]
    if targets:
        columns.append(_targets(recording, classes, number).view(np.uint8))
    return np.concatenate(columns, axis=1).tobytes()


def _targets(recording: Recording, classes: int | None, number: int) -> NDArray[Any]:
    y = recording.y
    if y is None:
        if classes is None:
            raise ValueError(
                f"recording {number} has no targets; pass NaN where they are not known"
            )
        return np.full((recording.n_steps, 1), -1, dtype="<i4")
    every: Array = np.broadcast_to(y, (recording.n_steps, y.shape[-1]))
    if classes is None:
        return np.ascontiguousarray(every, dtype="<f8")
    if every.shape[1] != classes:
        raise ValueError(
            f"recording {number} has {every.shape[1]} columns of targets for {classes} classes"
        )
    unknown = np.isnan(every).any(axis=1)
    labels = np.where(unknown, -1, np.where(np.isnan(every), 0, every).argmax(axis=1))
    if not ((every == np.eye(classes)[labels]).all(axis=1) | unknown).all():
        raise ValueError(f"the targets of recording {number} are not one-hot rows of classes")
    return np.ascontiguousarray(labels[:, None], dtype="<i4")
