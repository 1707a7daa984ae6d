"""Recordings cut into windows, whose length is in steps or in seconds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Literal

import numpy as np

from catchment.arrays import Array, frozen
from catchment.data.recording import Recording, cut
from catchment.data.resampling import are_classes

WindowLabel = Literal["last", "majority", "mean"]

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+) ?(ms|s|min|h)")


def cut_windows(
    recording: Recording, window: int, step: int, label: WindowLabel, *, number: int = 0
) -> Iterator[tuple[int, Recording]]:
    """Yield (first step, window) for every whole window of a recording; nothing is copied.

    A target per recording goes to all windows. Of targets per step each takes that of its "last"
    step, of classes that of the "majority" (the first of several), of numbers the "mean"; in the
    last two missing ones do not count. `number` is what an error calls the recording.

    >>> made = cut_windows(Recording([1.0, 2.0, 3.0], y=[4.0, 5.0, 6.0]), 2, 1, "mean")
    >>> [(start, window.u.ravel().tolist(), window.y.tolist()) for start, window in made]
    [(0, [1.0, 2.0], [4.5]), (1, [2.0, 3.0], [5.5])]
    """
    starts = range(0, recording.n_steps - window + 1, step)
    targets: Iterable[Array | None] = repeat(recording.y, len(starts))
    if recording.y is not None and recording.per_step:
        _refuse_label(recording, number, label)
        targets = _targets(recording.y, starts, window, label)
    for start, y in zip(starts, targets, strict=True):
        yield start, cut(recording, start, start + window, y)


def _targets(y: Array, starts: range, window: int, label: WindowLabel) -> Iterator[Array]:
    """Yield one target (K,) for each window, from those (T, K) of the steps."""
    if label == "last":
        yield from (y[start + window - 1] for start in starts)
        return
    known = ~np.logical_or.reduce(np.isnan(y), axis=1)
    values = np.where(known[:, None], y, 0.0)
    for start in starts:
        n_known = np.count_nonzero(known[start : start + window])
        total: Array = values[start : start + window].sum(axis=0)
        if n_known == 0:
            total[:] = np.nan
        elif label == "mean":
            total /= n_known
        else:
            most = total.argmax()
            total[:] = 0.0
            total[most] = 1.0
        yield frozen(total)


def _refuse_label(recording: Recording, number: int, label: WindowLabel) -> None:
    if label == "last" or recording.y is None or np.isnan(recording.y).any(axis=1).all():
        return
    classes = are_classes(recording.y)
    if classes != (label == "majority"):
        kind, other = ("classes", "majority") if classes else ("numbers", "mean")
        raise ValueError(
            f'label is "{label}", but the targets of recording {number} are {kind}; '
            f'pass label="last" or "{other}"'
        )


def duration(name: str, length: str) -> float:
    """Return the seconds of a text such as "5s"; an error calls it by its name.

    >>> duration("window", "500ms"), duration("window", "1.5 min")
    (0.5, 90.0)
    """
    found = _DURATION.fullmatch(length.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(
            f'{name} is {length!r}; pass a number of steps, or a duration such as "5s", "500ms", '
            '"1min" or "1h"'
        )
    return seconds


def count_steps(name: str, length: str, interval: float) -> int:
    """Return how many steps of an interval in seconds a duration has, rounded.

    >>> count_steps("window", "5s", 0.02)
    250
    """
    steps = round(duration(name, length) / interval)
    if steps < 1:
        raise ValueError(
            f"{name} is {length!r}, less than one step of {interval:g} s; pass a longer one"
        )
    return steps
