"""What the fields of a column of text mean: numbers, truth values, dates, times, or words.

The rules are those of pyarrow's CSV reader but for two: spaces around a field never matter, and
"0x1F" is a word. A column is of the first kind that all its fields fit: whole numbers, truth
values, dates, clock times, timestamps, numbers with a decimal point, and then words.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers

_MARKS = "#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|N/A|NA|NULL|NaN|n/a|nan|null"
MISSING = frozenset(["", *_MARKS.split("|")])

_WHOLE = re.compile(r"-?[0-9]+")
_COMMA = re.compile(r"[+-]?(?:[0-9]+(?:,[0-9]*)?|,[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTH = {"1": True, "true": True, "True": True, "TRUE": True}
_TRUTH |= {"0": False, "false": False, "False": False, "FALSE": False}
_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}(?::[0-9]{2})?")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]([0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(\.[0-9]{1,9})?)?)?)"
    r"(Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?)?"
)
_NANOSECOND_YEARS = (1678, 2261)  # whole ones that 64 bits hold


@dataclass(frozen=True)
class Texts:
    """A column of text: its different values, and for each row (n,) which of them it has.

    A missing value is the number -1. Values are stripped of spaces and none of them is missing.
    """

    values: tuple[str, ...]
    codes: Integers

    @property
    def has_gaps(self) -> bool:
        """Whether a row has no value."""
        return bool((self.codes < 0).any())


def texts_of(fields: Iterable[str | None]) -> Texts:
    """Return a column of the given fields, as they stand in a file.

    >>> texts_of(["b", " a", "NA", "b"])
    Texts(values=('b', 'a'), codes=array([ 0,  1, -1,  0]))
    """
    raw = list(fields)
    places: dict[str, int] = {}
    lookup: dict[str | None, int] = {}
    for field in dict.fromkeys(raw):
        value = "" if field is None else field.strip()
        lookup[field] = -1 if value in MISSING else places.setdefault(value, len(places))
    codes = np.fromiter(map(lookup.__getitem__, raw), np.int64, len(raw))
    return Texts(tuple(places), codes)


def columns_of(columns: dict[str, NDArray[Any] | Texts]) -> dict[str, NDArray[Any]]:
    """Return columns whose text is read for what it means.

    Columns of decimal commas are numbers, unless as many columns or more have decimal points.
    A column without any value is one of None.

    >>> columns_of({"x": texts_of(["0,5", "1"]), "on": texts_of(["true", "False"])})
    {'x': array([0.5, 1. ]), 'on': array([ True, False])}
    """
    read = {name: _read(column) for name, column in columns.items()}
    words = {
        name: column
        for name, column in columns.items()
        if isinstance(column, Texts) and read[name].dtype == object
    }
    commas = {name: _rows(comma_numbers(one.values), one) for name, one in words.items()}
    found = {name: values for name, values in commas.items() if values is not None}
    if found and len(found) > sum(map(_has_fractions, read.values())):
        read |= found
    return read


def _read(column: NDArray[Any] | Texts) -> NDArray[Any]:
    if isinstance(column, Texts):
        if not column.values:
            return np.full(len(column.codes), None)
        meant = _meaning(column.values)
        rows: NDArray[Any] = _rows(
            np.array(column.values, dtype=object) if meant is None else meant, column
        )
        return rows
    if not len(column) or (column.dtype.kind == "f" and np.isnan(column).all()):
        return np.full(len(column), None)
    return column


def _has_fractions(values: NDArray[Any]) -> bool:
    if values.dtype.kind != "f":
        return False
    finite = values[np.isfinite(values)]
    return bool((finite != np.rint(finite)).any())


def _rows(values: NDArray[Any] | None, column: Texts) -> Any:
    """Return the rows of a column whose different values are given; None if they are not."""
    if values is None or not column.has_gaps:
        return None if values is None else values[column.codes]
    if values.dtype.kind in "biu":
        values = values.astype(np.float64)
    rows = values[column.codes]
    if values.dtype.kind == "M":
        rows[column.codes < 0] = np.array("NaT", dtype=values.dtype)
    else:
        rows[column.codes < 0] = np.nan if values.dtype.kind == "f" else None
    return rows


def _meaning(values: Sequence[str]) -> NDArray[Any] | None:
    for kind in (whole_numbers, _truths, _moments, _clocks, numbers):
        found = kind(values)
        if found is not None:
            return found
    return None


def whole_numbers(values: Sequence[str]) -> Integers | None:
    """Return whole numbers of 64 bits, or None if a value is none.

    >>> whole_numbers(["7", "-2"]), whole_numbers(["7", "+2"])
    (array([ 7, -2]), None)
    """
    if not all(map(_WHOLE.fullmatch, values)):
        return None
    try:
        return np.fromiter(map(int, values), np.int64, len(values))
    except (OverflowError, ValueError):  # Python refuses thousands of digits
        return None


def numbers(values: Sequence[str]) -> Array | None:
    """Return numbers as Python reads them, or None if a value is none.

    >>> numbers(["0.5", "-inf"]), numbers(["1_000"])
    (array([ 0.5, -inf]), None)
    """
    joined = "".join(values)
    if "_" in joined or not joined.isascii():
        return None
    try:
        return np.fromiter(map(float, values), np.float64, len(values))
    except ValueError:
        return None


def comma_numbers(values: Sequence[str]) -> Array | None:
    """Return numbers with decimal commas, or None if a value is none.

    >>> comma_numbers(["0,5", "-1e3"])
    array([ 5.e-01, -1.e+03])
    """
    if not values or not all(map(_COMMA.fullmatch, values)):
        return None
    return numbers([value.replace(",", ".") for value in values])


def _truths(values: Sequence[str]) -> NDArray[np.bool_] | None:
    found = [_TRUTH.get(value) for value in values]
    return None if None in found else np.array(found, dtype=bool)


def _clocks(values: Sequence[str]) -> NDArray[Any] | None:
    if not all(map(_CLOCK.fullmatch, values)):
        return None
    try:
        return np.array([dt.time.fromisoformat(value) for value in values], dtype=object)
    except ValueError:
        return None


def _moments(values: Sequence[str]) -> NDArray[Any] | None:
    """Return dates or timestamps, in UTC where every one has a zone; None if some have none."""
    found = []
    for value in values:
        match = _MOMENT.fullmatch(value)
        if match is None:
            return None
        found.append(match)
    days, clocks, fractions, zones = zip(*(match.groups() for match in found), strict=True)
    if any(zones) and not all(zones):
        return None
    unit = "D" if not any(clocks) else "ns" if any(fractions) else "s"
    first, last = _NANOSECOND_YEARS
    if unit == "ns" and not first <= int(min(days)[:4]) <= int(max(days)[:4]) <= last:
        return None
    bare = [f"{day}T{clock}" if clock else day for day, clock in zip(days, clocks, strict=True)]
    try:
        moments = np.array(bare, dtype=f"M8[{unit}]")
    except ValueError:  # such as a 30th of February
        return None
    return moments - np.array([_offset(zone) for zone in zones]) if any(zones) else moments


def _offset(zone: str) -> np.timedelta64:
    if zone == "Z":
        return np.timedelta64(0, "s")
    digits = zone[1:].replace(":", "").ljust(4, "0")
    seconds = 3600 * int(digits[:2]) + 60 * int(digits[2:])
    return np.timedelta64(-seconds if zone[0] == "-" else seconds, "s")
