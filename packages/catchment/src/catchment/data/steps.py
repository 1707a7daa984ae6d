"""What `Preprocessing` does to the steps of one recording: fill, resample, cut, look ahead, date.

Only gaps of inputs are filled. Missing targets need nothing: their rows leave the statistics.

Targets ahead in time are the predicted channels at each horizon, horizon by horizon. A channel that
is known beforehand (a price list, a timetable, a weather forecast) becomes further inputs: its
value at each horizon. Rows at the end of a recording in which nothing but such channels has a value
are the future; they are looked up, and are no steps of their own.

The calendar is hour, weekday and season of every step as sines and cosines, each of its period and
of half of it, so that a linear readout can tell morning from evening and weekend from Wednesday.
One turn is a day, a week from Monday on, and 365.2425 days from 1 January; the clock is the
recording's own, whatever its time zone. They are sums of products in one order, and so the same
bits on every machine: those of mathematical libraries differ in their last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal

import numpy as np

from catchment.arrays import (
    Array,
    Booleans,
    Integers,
    NonNegativeInt,
    PositiveInt,
    check_type,
    fits,
    frozen,
)
from catchment.data.recording import Recording, cut

Policy = Literal["error", "hold", "interpolate", "restart"]
WindowLabel = Literal["last", "majority", "mean"]
Calendar = Literal["hour", "weekday", "season"]
Channels = tuple[str, ...] | tuple[int, ...]

MAX_GAP = 2.5  # intervals, of the recording or of the new rate, whichever is longer
_NEAR = 1e-3  # of an interval: steps that lie so near the grid lie on it
_ALWAYS_ALLOWED = 1_000_000  # steps
_MAX_APART = 250  # new steps from a row to the next, usually: times in milliseconds are further

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+) ?(ms|s|min|h)")

DAY = 86_400.0
TURNS: dict[Calendar, float] = {"hour": DAY, "weekday": 7 * DAY, "season": 365.2425 * DAY}
MONDAY = 4 * DAY  # the first one after 1 January 1970
EARLIEST = 1e8  # seconds; numbers below are times of day or of a stop watch, not since 1970
COLUMNS = 4
TERMS = 9  # of a series, after which 20 digits are right


def fill_recording(
    recording: Recording, policy: Policy, number: int = 0, *, silent: float = 0.0
) -> list[tuple[int, Recording]]:
    """Return (first step, segment) for each segment that is left of a recording.

    "hold" repeats the last value of the channel; before the first value, that one. "interpolate"
    draws a line between the neighboring values; at the ends it holds. "restart" leaves out every
    step with a missing input; a target per step goes with its step, and one per sequence to every
    segment, which share the sequence's weight by length.

    `number` is what an error calls the recording, `silent` what "hold" and "interpolate" put in a
    channel without any value.

    >>> segments = fill_recording(Recording([1.0, np.nan, 3.0]), "restart")
    >>> [start for start, _ in segments]
    [0, 2]
    """
    missing = np.isnan(recording.u)
    if not missing.any():
        return [(0, recording)]
    if policy == "error":
        step, channel = np.argwhere(missing)[0].tolist()
        name = channel if recording.channels is None else repr(recording.channels[channel])
        raise ValueError(
            f"recording {number} has no input in channel {name} at step {step}; "
            'set gaps to "hold", "interpolate" or "restart"'
        )
    if policy == "restart":
        gap = missing.any(axis=1)
        edges = np.flatnonzero(np.diff(gap, prepend=True, append=True))
        n_kept, segments = int((~gap).sum()), []
        for start, stop in edges.reshape(-1, 2).tolist():
            segment = recording.part(start, stop)
            if recording.per_step is False:
                segment = replace(segment, weight=recording.weight * segment.n_steps / n_kept)
            segments.append((start, segment))
        return segments
    u: Array = recording.u.copy()
    steps = np.arange(len(u))
    for channel in np.flatnonzero(missing.any(axis=0)):
        gap = missing[:, channel]
        known = np.flatnonzero(~gap)
        if len(known) == 0:
            u[:, channel] = silent
        elif policy == "interpolate":
            u[gap, channel] = np.interp(steps[gap], known, u[known, channel])
        else:
            last = np.maximum(np.searchsorted(known, steps[gap]) - 1, 0)
            u[gap, channel] = u[known[last], channel]
    return [(0, replace(recording, u=u))]


def resample(recording: Recording, rate: float) -> Recording:
    """Return the recording with `rate` steps per second, from its first step on.

    Inputs and numeric targets per step are interpolated linearly, each column between those of its
    values that are known. Where these are more than 2.5 intervals apart (the column's median
    interval, or that of the new rate if it is longer) the result is missing, for the gap policy to
    treat. Classes per step are those of the nearest step. A recording that has the rate already,
    to a thousandth of an interval, is returned as it is. There is no filter: what is faster than
    half the new rate shows as something slower.

    >>> slow = Recording([0.0, 1.0, 4.0], times=[10.0, 11.0, 12.0])
    >>> fast = resample(slow, 2.0)
    >>> fast.u.ravel().tolist(), fast.times.tolist()
    ([0.0, 0.5, 1.0, 2.5, 4.0], [10.0, 10.5, 11.0, 11.5, 12.0])
    """
    if recording.times is None:
        raise ValueError(
            f"a recording of {recording.n_steps} steps has no times, so it cannot be brought to "
            f"{rate:g} Hz; name its time column, pass times=, or leave the rate out"
        )
    place: Array = (recording.times - recording.times[0]) * rate
    if np.abs(place - np.arange(len(place))).max() <= _NEAR:
        return recording
    n_steps = int(min(np.floor(place[-1] + _NEAR) + 1, 2.0**62))
    if np.median(np.diff(place)) > _MAX_APART or n_steps > max(_ALWAYS_ALLOWED, 1000 * len(place)):
        raise ValueError(
            f"a recording of {len(place)} steps over {place[-1] / rate:g} s would have {n_steps} "
            f"steps at {rate:g} Hz; check that its times are seconds, or cut it at long gaps"
        )
    y = recording.y
    if y is not None and recording.per_step:
        if are_classes(y):
            points = np.arange(float(n_steps))
            nearest, apart = _neighbors(place, points)
            y = y[nearest]
            y[apart & (np.abs(place[nearest] - points) > _NEAR)] = np.nan
        else:
            y = _lines(place, y, n_steps)
    return replace(
        recording,
        u=_lines(place, recording.u, n_steps),
        y=y,
        times=recording.times[0] + np.arange(n_steps) / rate,
    )


def are_classes(y: Array) -> bool:
    """Return whether the known rows (n, K) are one-hot, with at least two classes.

    >>> are_classes(np.array([[0.0, 1.0], [np.nan, np.nan]])), are_classes(np.array([[0.5, 0.5]]))
    (True, False)
    """
    known = y[~np.isnan(y).any(axis=1)]
    is_one = known == 1.0
    return bool(
        y.shape[1] >= 2
        and len(known)
        and (is_one | (known == 0.0)).all()
        and (is_one.sum(axis=1) == 1).all()
    )


def _lines(place: Array, columns: Array, n_steps: int) -> Array:
    return np.stack([_line(place, column, n_steps) for column in columns.T], axis=1)


def _line(place: Array, values: Array, n_steps: int) -> Array:
    """Return one column at the steps 0, 1, ...; `place` is where its values are."""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(n_steps, np.nan)
    place, values = place[known], values[known]
    grid = np.arange(float(n_steps))
    nearest, apart = _neighbors(place, grid)
    line: Array = np.interp(grid, place, values)
    line[apart] = np.nan
    hit = np.abs(place[nearest] - grid) <= _NEAR
    line[hit] = values[nearest[hit]]
    return line


def _neighbors(place: Array, grid: Array) -> tuple[Integers, Booleans]:
    """Return the nearest place to each point, and whether those around it are too far apart."""
    right = np.searchsorted(place, grid)
    inside = (right > 0) & (right < len(place))
    after = np.minimum(right, len(place) - 1)
    before = np.maximum(right - 1, 0)
    nearest = np.where(place[after] - grid < grid - place[before], after, before)
    nearest = np.where(inside, nearest, np.where(right == 0, 0, len(place) - 1))
    interval = float(np.median(np.diff(place))) if len(place) > 1 else 0.0
    # The slack is for intervals that differ by rounding.
    far = place[after] - place[before] > MAX_GAP * max(interval, 1.0) * (1 + 1e-9)
    return nearest, ~inside | far


def cut_windows(
    recording: Recording, window: int, step: int, label: WindowLabel, number: int = 0
) -> Iterator[tuple[int, Recording]]:
    """Yield (first step, window) for every whole window of a recording; nothing is copied.

    A target per recording goes to all windows. Of targets per step each takes that of its "last"
    step, of classes that of the "majority" (the first of several), of numbers the "mean"; in the
    last two missing ones do not count. `number` is what an error calls the recording.

    >>> made = cut_windows(Recording([1.0, 2.0, 3.0], y=[4.0, 5.0, 6.0]), 2, 1, "mean")
    >>> [(start, window.u.ravel().tolist(), window.y.tolist()) for start, window in made]
    [(0, [1.0, 2.0], [4.5]), (1, [2.0, 3.0], [5.5])]
    """
    y, per_step = recording.y, recording.per_step
    known: Booleans = np.zeros(0, dtype=bool)
    values = np.zeros(0)
    if y is not None and per_step and label != "last":
        known = ~np.logical_or.reduce(np.isnan(y), axis=1)
        values = np.where(known[:, None], y, 0.0)
        classes = are_classes(y)
        if classes != (label == "majority") and known.any():
            kind, other = ("classes", "majority") if classes else ("numbers", "mean")
            raise ValueError(
                f'label is "{label}", but the targets of recording {number} are {kind}; '
                f'pass label="last" or "{other}"'
            )
    for start in range(0, recording.n_steps - window + 1, step):
        own, stop = y, start + window
        if y is not None and per_step and label == "last":
            own = y[stop - 1]
        elif per_step:
            own = values[start:stop].sum(axis=0)
            n_known = np.count_nonzero(known[start:stop])
            if n_known == 0:
                own[:] = np.nan
            elif label == "mean":
                own /= n_known
            else:
                own = (np.arange(len(own)) == own.argmax()).astype(float)
            frozen(own)
        yield start, cut(recording, start, stop, own)


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

    Of an interval of 0, which stands for one that is not known, there are enough.

    >>> count_steps("window", "5s", 0.02)
    250
    """
    seconds = duration(name, length)
    steps = round(seconds / interval) if interval else 1
    if steps < 1:
        raise ValueError(
            f"{name} is {length!r}, less than one step of {interval:g} s; pass a longer one"
        )
    return steps


def channel_numbers(name: str, wanted: Channels, channels: Sequence[str] | int) -> list[int]:
    """Return the numbers of channels that are named, or that are numbers already.

    >>> channel_numbers("known", ("price",), ("load", "price")), channel_numbers("known", (0,), 2)
    ([1], [0])
    """
    n = channels if isinstance(channels, int) else len(channels)
    found = []
    for one in wanted:
        if isinstance(one, str):
            if isinstance(channels, int):
                raise ValueError(
                    f"{name} has the channel {one!r}, and the recordings' channels have no names; "
                    "name them, or pass numbers"
                )
            if one not in channels:
                raise ValueError(f"{name} has the channel {one!r}; there are {', '.join(channels)}")
            found.append(list(channels).index(one))
        elif one >= n:
            raise ValueError(f"{name} has the channel {one}; there are {n}, counted from 0")
        else:
            found.append(one)
    return found


def inputs_ahead(u: Array, horizons: Sequence[int]) -> Array:
    """Return the rows (T, H I) that come each horizon later, NaN where there are none.

    >>> inputs_ahead(np.array([[1.0], [2.0], [3.0]]), (1, 2)).tolist()
    [[2.0, 3.0], [3.0, nan], [nan, nan]]
    """
    T, n = u.shape
    y = np.full((T, len(horizons), n), np.nan)
    for k, h in enumerate(horizons):
        y[: max(T - h, 0), k] = u[h:]
    return y.reshape(T, -1)


def checked_horizons(value: Any) -> int | tuple[int, ...]:
    """Return a horizon, or several as a tuple that rises.

    >>> checked_horizons(3), checked_horizons([1, 24])
    (3, (1, 24))
    """
    many = np.iterable(value)
    check_type(value, tuple[PositiveInt, ...] if many else PositiveInt, "horizon")
    steps = list(value) if many else [value]
    if not steps or any(b <= a for a, b in pairwise(steps)):
        raise ValueError(f"horizon is {value!r}; pass every number of steps once, the least first")
    return tuple(map(int, steps)) if many else int(value)


def checked_channels(name: str, value: Any, *, ahead: bool = True) -> Channels:
    """Return names or numbers of channels as a tuple, each once.

    >>> checked_channels("known", "price"), checked_channels("known", [0, 2])
    (('price',), (0, 2))
    """
    if not ahead:
        raise ValueError(f"{name} is {value!r} without a horizon; pass a horizon too")
    given: list[Any] = [value] if isinstance(value, str | Integral) else list(value)
    texts, numbers = fits(given, tuple[str, ...]), fits(given, tuple[NonNegativeInt, ...])
    if not given or not (texts or numbers) or len(set(given)) != len(given):
        raise ValueError(
            f"{name} is {value!r}; pass names of channels, or their numbers from 0 on, each once"
        )
    return tuple(map(str, given)) if texts else tuple(map(int, given))


def calendar_columns(recording: Recording, kinds: tuple[Calendar, ...], number: int = 0) -> Array:
    """Return columns (T, 4 n) that say when every step was, n being how many kinds there are.

    For each kind sine and cosine of its turn, then of two turns. `number` is what an error calls
    the recording.

    >>> noon = Recording([1.0], times=[0.0], epoch=12 * 3600.0)
    >>> calendar_columns(noon, ("hour",)).round(3) + 0.0
    array([[ 0., -1.,  0.,  1.]])
    """
    seconds = clock(recording, number)
    waves: list[Array] = []
    for kind in kinds:
        turns = (seconds - MONDAY if kind == "weekday" else seconds) / TURNS[kind]
        waves += (*_sine_and_cosine(turns), *_sine_and_cosine(turns * 2))
    return np.stack(waves, axis=1)


def _sine_and_cosine(turns: Array) -> tuple[Array, Array]:
    """Return the sine (T,) and the cosine (T,) of so many turns."""
    part = turns - np.rint(turns)
    quarter = np.rint(4.0 * part)
    x = 2.0 * np.pi * (part - 0.25 * quarter)  # within a quarter of pi
    square = x * x
    sine, cosine = np.zeros(len(x)), np.zeros(len(x))
    for k in range(TERMS, -1, -1):
        sign = (-1.0) ** k
        sine = sine * square + sign / math.factorial(2 * k + 1)
        cosine = cosine * square + sign / math.factorial(2 * k)
    sine *= x
    odd, away = quarter % 2 == 1, quarter % 4 >= 2  # a quarter on, half a turn on
    found = np.where(odd, cosine, sine), np.where(odd, -sine, cosine)
    # Adding zero turns -0 into 0.
    sine, cosine = (np.where(away, -wave, wave) + 0.0 for wave in found)
    return sine, cosine


def calendar_names(kinds: tuple[Calendar, ...]) -> tuple[str, ...]:
    """Return what the columns are called.

    >>> calendar_names(("hour",))
    ('hour sin', 'hour cos', 'hour sin2', 'hour cos2')
    """
    return tuple(f"{kind} {wave}" for kind in kinds for wave in ("sin", "cos", "sin2", "cos2"))


def clock(recording: Recording, number: int = 0) -> Array:
    """Return seconds (T,) since 1 January 1970 by the recording's own clock.

    Times that are plain numbers are such seconds if they are large enough to be.
    """
    times, epoch = recording.times, recording.epoch
    if times is None:
        raise ValueError(
            f"the calendar needs times, and recording {number} has none; name its time column, "
            "or leave out the calendar"
        )
    if epoch is None and times[0] < EARLIEST:
        raise ValueError(
            f"the times of recording {number} begin at {times[0]:g} s, which says no date; name a "
            "column of dates, pass epoch=, or leave out the calendar"
        )
    return times if epoch is None else times + epoch
