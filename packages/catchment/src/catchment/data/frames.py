"""Recordings from data frames (pandas, polars), which are not imported here."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import (
    Array,
    Booleans,
    Integers,
    as_numbers,
    refuse_conversions,
    refuse_nonfinite,
)
from catchment.data.recording import Recording
from catchment.errors import SettingError, nearest

Values = NDArray[Any]

ONE_CLIENT = "all"
PER_SECOND = {"ms": 1e3, "us": 1e6, "ns": 1e9, "milliseconds": 1e3, "nanoseconds": 1e9}
SINCE_1970 = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
# Digits left out, as spreadsheets write it; day and month first would be anybody's guess.
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[ T]+(\d{1,2})(:.*))?$")


def missing_values(values: Values) -> Booleans:
    """Return which values (n,) of a column are missing: NaN, NaT, None or pandas' NA.

    >>> missing_values(np.array(["a", None, np.nan], dtype=object))
    array([False,  True,  True])
    """
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind == "O":
        # Text is most of what there is, and never missing.
        missing = [not isinstance(value, str) and is_missing(value) for value in values]
        return np.array(missing, dtype=bool)
    return np.zeros(len(values), dtype=bool)


def is_missing(value: object) -> bool:
    """Return whether a value stands for none."""
    if value is None:
        return True
    # NaN and NaT do not equal themselves, and pandas' NA answers neither yes nor no.
    same = value == value
    return not (isinstance(same, bool | np.bool_) and bool(same))


def refuse_missing(values: Values, name: str) -> None:
    """Raise ValueError if a column lacks a value."""
    missing = np.flatnonzero(missing_values(values))
    if len(missing):
        raise ValueError(f"column {name!r} is empty in row {missing[0]}; fill it or drop the row")


def holds_text(values: Values) -> bool:
    """Return whether a column has any text."""
    return values.dtype.kind == "O" and any(isinstance(value, str) for value in values)


def first_text(values: Values) -> str | None:
    """Return the first text of a column that is no number and its row, or None if there is none.

    Rows count from 1, below the header.

    >>> first_text(np.array(["1.5", "oops"], dtype=object))
    "'oops' in row 2"
    """
    for row, value in enumerate(values.tolist(), start=1):
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return f"{value!r} in row {row}"
    return None


def in_seconds(times: Values, name: str) -> Values:
    """Return times (n,) of one file in seconds where they are numbers of another unit.

    The column's name says it, as `time_ms` does, or their size: clocks that count from 1970 on.

    >>> in_seconds(np.array([1.7e12, 1.7e12 + 20]), "t").tolist()
    [1700000000.0, 1700000000.02]
    """
    if times.dtype.kind not in "iuf" or not len(times):
        return times
    plain = name.casefold()
    for word, count in PER_SECOND.items():
        if plain == word or plain.endswith((f"_{word}", f"({word})", f"[{word}]")):
            return np.asarray(times / count)
    latest = times.max()
    return next((np.asarray(times / count) for least, count in SINCE_1970 if latest > least), times)


def times_of(values: Values, name: str) -> Values:
    """Return a column of times, text read as the moments it names; none may be missing."""
    refuse_missing(values, name)
    if not holds_text(values):
        return in_seconds(values, name)
    try:
        return np.array([moment_of(value) for value in values.tolist()], dtype=object)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"time column {name!r} holds text that is not ISO 8601 ({error}); "
            "convert it to numbers or timestamps"
        ) from error


def moment_of(text: str) -> dt.datetime | dt.time:
    """Return the moment or the clock time that a text of ISO 8601 names, or of year, month, day.

    >>> moment_of("1990/1/31 7:00")
    datetime.datetime(1990, 1, 31, 7, 0)
    """
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        if found := _YEAR_FIRST.match(text):
            year, month, day, hour, rest = found.groups("")
            text = f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}{rest or ':00'}"
            return dt.datetime.fromisoformat(text)
        # Where neither reads it, the second error names the text as well as the first.
        return dt.time.fromisoformat(text)


def seconds_of(times: Values) -> Array:
    """Return sorted times as seconds: numbers as they are, others from the first of them."""
    if times.dtype.kind == "M":
        times = times - times[0]
    if times.dtype.kind == "m":
        # Whole nanoseconds differ exactly; the division rounds once.
        return times.astype("m8[ns]").astype(np.int64) / 1e9
    first = times[0]
    try:
        moments = times.tolist()
        if isinstance(first, dt.time):
            moments = [dt.datetime.combine(dt.date.min, clock, None) for clock in moments]
        # Datetimes, and the timestamps of pandas, differ by something that knows its seconds.
        if times.dtype.kind == "O" and isinstance(moments[0] - moments[0], dt.timedelta):
            return np.array([(moment - moments[0]).total_seconds() for moment in moments])
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


class Frame(Protocol):
    """What pandas and polars frames have in common: column names, and columns by name."""

    @property
    def columns(self) -> Any: ...

    def __getitem__(self, name: Any, /) -> Any: ...


def from_frame(
    frame: Frame | Mapping[str, Any],
    *,
    inputs: str | Sequence[str],
    target: str | Sequence[str] | None = None,
    recording: str | None = None,
    client: str | None = None,
    time: str | None = None,
    classes: Sequence[object] | None = None,
    per_step: bool | None = None,
) -> dict[str, list[Recording]]:
    """Return client name -> recordings, from the named columns of a frame.

    Clients and recordings come in the order of their first rows. Missing numbers are NaN, for the
    gap policy to treat. A recording's channels are the names of its inputs; its times, if a column
    of times is named, are seconds.

    Parameters
    ----------
    frame
        A pandas or polars frame, or a mapping of column names to arrays.
    inputs
        Columns of the inputs.
    target
        Columns of numbers; or, with `classes`, one column of labels.
    recording
        Column whose value names a row's recording within its client. Without it a client's rows
        are one recording.
    client
        Column whose value names a row's client. Without it there is one client, "all".
    time
        Column of numbers, timestamps, clock times or ISO 8601 text, by which the rows of a
        recording are sorted. No time may occur twice in a recording. Numbers are seconds unless
        the column's name (`t_ms`) or their size (milliseconds since 1970) says otherwise; anything
        else becomes seconds from the recording's first step. Without it rows keep their order and
        the recordings have no times.
    classes
        The labels that may occur, in the order of the outputs: the same for all clients.
        `class_labels` lists those of a column.
    per_step
        Whether every step has its own target. If not given: yes for numbers, no for labels. If
        not, the target must be the same in all rows of a recording that have one.

    >>> frame = {"who": ["ann", "bob", "ann"], "t": [2, 1, 1], "x": [0.2, 0.3, 0.1]}
    >>> clients = from_frame(frame, inputs="x", client="who", time="t")
    >>> clients["ann"][0].u.ravel().tolist(), clients["bob"][0].u.ravel().tolist()
    ([0.1, 0.2], [0.3])
    >>> clients["ann"][0].times, clients["ann"][0].channels
    (array([1., 2.]), ('x',))
    """
    names = listed(inputs)
    if not names:
        raise ValueError("inputs names no column; pass at least one")
    u = numbers_of(frame, names)
    for name, values in zip(names, u.T, strict=True):
        refuse_nonfinite(values, f"column {name!r}", missing=True)
    if len(u) == 0:
        raise ValueError("there are no rows; leave it out, or fill it")
    per_step = classes is None if per_step is None else per_step
    y = None if target is None else _targets(frame, listed(target), classes)
    times = None if time is None else times_of(_column(frame, time), time)
    labels = None if classes is None or target is None else tuple(map(str, classes))
    table = Rows(u, y, times, tuple(names), per_step, labels)
    owners = [ONE_CLIENT] * len(u) if client is None else _keys(frame, client)
    parts = [""] * len(u) if recording is None else _keys(frame, recording)
    if len(owners) != len(parts):
        raise ValueError("the client and the recording column differ in length")
    groups: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(owners, parts, strict=True)):
        groups.setdefault(key, []).append(row)
    clients: dict[str, list[Recording]] = {}
    for (name, part), rows in groups.items():
        named = {"client": client and name, "recording": recording and part}
        where = ", ".join(f"{what} {value!r}" for what, value in named.items() if value is not None)
        clients.setdefault(name, []).append(table.recording(np.array(rows), where))
    return clients


@dataclass(frozen=True)
class Rows:
    """The rows of a frame, of which some make a recording."""

    u: Array
    y: Array | None
    times: Values | None
    channels: tuple[str, ...]
    per_step: bool
    classes: tuple[str, ...] | None

    def recording(self, rows: Integers, where: str) -> Recording:
        """Return some rows in the order of their times; an error says where they are."""
        try:
            seconds = epoch = None
            if self.times is not None:
                rows = rows[order_of(self.times[rows])]
                seconds, epoch = seconds_of(self.times[rows]), epoch_of(self.times[rows])
            own = None if self.y is None else self.y[rows]
            if own is not None and not self.per_step:  # the one row that all known ones are
                known = own[~np.isnan(own).any(axis=1)]
                if len(known) and not (known == known[0]).all():
                    raise SettingError("the target changes from row to row", "per_step", True)
                own = (known if len(known) else own)[0]
            return Recording(
                self.u[rows],
                own,
                per_step=self.per_step,
                times=seconds,
                channels=self.channels,
                classes=self.classes,
                epoch=epoch,
            )
        except SettingError as error:
            raise (error.within(where) if where else error) from error
        except ValueError as error:
            raise ValueError(f"{where}: {error}" if where else str(error)) from error


def class_labels(frame: Frame | Mapping[str, Any], column: str) -> tuple[Any, ...]:
    """Return the labels that occur in a column, sorted, without missing ones.

    Clients of one federation must agree on their classes: pass the union to all of them.

    >>> class_labels({"activity": ["walk", "sit", None, "walk"]}, "activity")
    ('sit', 'walk')
    """
    values = _column(frame, column)
    return tuple(sorted(set(values[~missing_values(values)].tolist())))


def one_hot(labels: Iterable[object], classes: Sequence[object]) -> Array:
    """Return one row (n, K) per label, 1 at its class; NaN where the label is missing.

    >>> one_hot(["sit", None], ["sit", "walk"])
    array([[ 1.,  0.],
           [nan, nan]])
    """
    place = {label: k for k, label in enumerate(classes)}
    if len(place) != len(classes):
        raise ValueError("a class occurs twice; name every class once")
    values = np.asarray(labels, dtype=object).tolist()
    codes = np.array([place.get(label, -1) for label in values], dtype=np.int64)
    y = np.zeros((len(values), len(classes)))
    y[np.arange(len(values)), codes] = 1.0
    for row in np.flatnonzero(codes < 0).tolist():
        if not is_missing(values[row]):
            label = values[row]
            raise ValueError(f"there is no class {label!r}; {nearest(str(label), classes)}")
        y[row] = np.nan
    return y


def listed(columns: str | Sequence[str] | None) -> list[str]:
    """Return names of columns as a list."""
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)


def _column(frame: Frame | Mapping[str, Any], name: str) -> Values:
    known = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    if name not in known:
        raise ValueError(f"there is no column {name!r}; {nearest(name, known)}")
    column = frame[name]
    if isinstance(column, np.ma.MaskedArray):
        refuse_conversions(column, f"the values of column {name!r}")
    values = np.asarray(column)
    if values.dtype.kind == "U":
        # Among text numpy would write a missing value as the word nan.
        values = np.asarray(frame[name], dtype=object)
    if values.ndim != 1:
        raise ValueError(
            f"column {name!r} has {values.ndim} dimensions; it must be one column of scalars"
        )
    return values


def numbers_of(frame: Frame | Mapping[str, Any], names: list[str]) -> Array:
    """Return columns of numbers as (n, k) float64, NaN where a value is missing."""
    columns = []
    for name in names:
        values = _column(frame, name)
        try:
            if values.dtype.kind in "mM":
                raise TypeError("it holds times")
            if values.dtype.kind == "O":
                values = np.where(missing_values(values), np.nan, values)
            columns.append(as_numbers(values, "its values"))
        except (TypeError, ValueError) as error:
            odd = first_text(values)
            if odd is not None:
                raise ValueError(
                    f"column {name!r} is not numeric: it has {odd}; mend it"
                ) from error
            raise ValueError(f"column {name!r} is not numeric: {error}") from error
    if len({len(values) for values in columns}) > 1:
        raise ValueError(f"the columns {', '.join(names)} differ in length")
    return np.stack(columns, axis=1)


def _targets(
    frame: Frame | Mapping[str, Any], names: list[str], classes: Sequence[object] | None
) -> Array:
    if not names:
        raise ValueError("target names no column; pass None for recordings without targets")
    if classes is not None:
        if len(names) != 1:
            raise ValueError(f"classes belong to one target column, not to {len(names)}")
        return one_hot(_column(frame, names[0]), classes)
    for name in names:
        if holds_text(_column(frame, name)):
            labels = class_labels(frame, name)
            raise SettingError(f"target {name!r} holds text", "classes", labels)
    return numbers_of(frame, names)


def _keys(frame: Frame | Mapping[str, Any], name: str) -> list[str]:
    values = _column(frame, name)
    refuse_missing(values, name)
    return [str(key) for key in values.tolist()]
