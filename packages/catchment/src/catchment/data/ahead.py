"""What lies ahead in time: targets at several horizons, and channels that are known beforehand.

Targets are the predicted channels at each horizon, horizon by horizon. A channel that is known
beforehand (a price list, a timetable, a weather forecast) becomes further inputs: its value at each
horizon. Rows at the end of a recording in which nothing but such channels has a value are the
future; they are looked up, and are no steps of their own.

Hour, weekday and season of every step as sine and cosine, for readouts that know the clock.

Each has its period and half of it, so that a linear readout can tell morning from evening and
weekend from Wednesday. One turn is a day, a week from Monday on, and 365.2425 days from 1 January;
the clock is the recording's own, whatever its time zone.

Sines and cosines are sums of products in one order, and so the same bits on every machine: those of
mathematical libraries differ in their last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording

Channels = tuple[str, ...] | tuple[int, ...]


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
    many = isinstance(value, list | tuple | range | np.ndarray)
    steps = list(value) if many else [value]
    whole = all(_is_whole(h) and h >= 1 for h in steps)
    if not whole or not steps:
        raise ValueError(f"horizon is {value!r}; pass a whole number of steps, 1 or more, or some")
    if any(b <= a for a, b in pairwise(steps)):
        raise ValueError(f"horizon is {value!r}; pass every number of steps once, the least first")
    return tuple(map(int, steps)) if many else int(value)


def checked_channels(name: str, value: Any) -> Channels:
    """Return names or numbers of channels as a tuple, each once.

    >>> checked_channels("known", "price"), checked_channels("known", [0, 2])
    (('price',), (0, 2))
    """
    given: list[Any] = [value] if isinstance(value, str | Integral) else list(value)
    texts = all(isinstance(one, str) for one in given)
    numbers = all(_is_whole(one) and one >= 0 for one in given)
    if not given or not (texts or numbers) or len(set(given)) != len(given):
        raise ValueError(
            f"{name} is {value!r}; pass names of channels, or their numbers from 0 on, each once"
        )
    return tuple(map(str, given)) if texts else tuple(map(int, given))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


Calendar = Literal["hour", "weekday", "season"]

DAY = 86_400.0
TURNS: dict[Calendar, float] = {"hour": DAY, "weekday": 7 * DAY, "season": 365.2425 * DAY}
MONDAY = 4 * DAY  # the first one after 1 January 1970
EARLIEST = 1e8  # seconds; numbers below are times of day or of a stop watch, not since 1970
COLUMNS = 4
TERMS = 9  # of a series, after which 20 digits are right


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
