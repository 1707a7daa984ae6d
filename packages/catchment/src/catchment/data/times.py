"""Columns of times: numbers, timestamps, clock times and ISO 8601 text, as seconds."""

from __future__ import annotations

import datetime as dt

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.data.columns import Values, holds_text, refuse_missing


def times_of(values: Values, name: str) -> Values:
    """Return a column of times, text read as the moments it names; none may be missing."""
    refuse_missing(values, name)
    if not holds_text(values):
        return values
    try:
        return np.array([_moment(value) for value in values.tolist()], dtype=object)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"time column {name!r} holds text that is not ISO 8601 ({error}); "
            "convert it to numbers or timestamps"
        ) from error


def _moment(text: str) -> dt.datetime | dt.time:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        # Where neither reads it, the second error names the text as well as the first.
        return dt.time.fromisoformat(text)


def seconds_of(times: Values) -> Array:
    """Return sorted times as seconds: numbers as they are, others from the first of them."""
    if times.dtype.kind == "M":
        return seconds_of(times - times[0])
    if times.dtype.kind == "m":
        # Whole nanoseconds differ exactly; the division rounds once.
        return times.astype("m8[ns]").astype(np.int64) / 1e9
    first = times[0]
    try:
        if times.dtype.kind != "O":
            return times.astype(np.float64)
        if isinstance(first, dt.time):
            return np.array([(_of_day(t) - _of_day(first)).total_seconds() for t in times])
        # Datetimes, and the timestamps of pandas, differ by something that knows its seconds.
        gaps = [moment - first for moment in times]
        if isinstance(gaps[0], dt.timedelta):
            return np.array([gap.total_seconds() for gap in gaps])
        return times.astype(np.float64)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"time {first!r} cannot be counted in seconds; "
            "convert the column to numbers or timestamps"
        ) from error


def epoch_of(times: Values) -> float | None:
    """Return when the first of sorted times was, in seconds since 1 January 1970; None if unknown.

    The clock is that of the times themselves: an offset from Greenwich is left out.

    >>> epoch_of(np.array(["1970-01-02T00:00"], dtype="M8[ns]"))
    86400.0
    """
    first = times[0]
    if times.dtype.kind == "M":
        return float(first.astype("M8[ns]").astype(np.int64) / 1e9)
    if isinstance(first, dt.datetime):  # as pandas's are, too
        return (first.replace(tzinfo=None) - dt.datetime(1970, 1, 1)).total_seconds()
    return None


def _of_day(clock: dt.time) -> dt.timedelta:
    return dt.timedelta(
        hours=clock.hour,
        minutes=clock.minute,
        seconds=clock.second,
        microseconds=clock.microsecond,
    )


def order_of(times: Values) -> NDArray[np.intp]:
    """Return the order in which times rise; ValueError if one occurs twice."""
    try:
        order = np.argsort(times, kind="stable")
    except TypeError as error:
        raise ValueError(f"times cannot be compared ({error}); give them one form") from error
    ordered = times[order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise ValueError(
            f"time {ordered[twice[0]]} occurs twice; keep one row per time, or name a column that "
            "tells recordings apart (recording)"
        )
    return order
