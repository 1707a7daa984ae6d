"""Hour, weekday and season of every step as sine and cosine, for readouts that know the clock.

Each has its period and half of it, so that a linear readout can tell morning from evening and
weekend from Wednesday. One turn is a day, a week from Monday on, and 365.2425 days from 1 January;
the clock is the recording's own, whatever its time zone.

Sines and cosines are sums of products in one order, and so the same bits on every machine: those of
mathematical libraries differ in their last.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording

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
    turns = [
        (seconds - MONDAY if kind == "weekday" else seconds) / TURNS[kind] * times
        for kind in kinds
        for times in (1, 2)
    ]
    return np.stack([wave for one in turns for wave in _sine_and_cosine(one)], axis=1)


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
