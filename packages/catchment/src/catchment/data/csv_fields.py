"""The columns of CSV text: each is of the first kind that all of its fields have.

Kinds are integers, numbers, dates, timestamps to seconds or nanoseconds, without or with a zone,
nothing and truths; or else it is text. Integers have no gaps: with gaps they are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from catchment.arrays import Integers
from catchment.data.csv_kernels import MISSING, ZERO, find_words, read_numbers, split_rows
from catchment.data.frames import holds_text

_BLOCK = 1 << 16  # bytes
_FEW = 1 << 13  # words
_TRUTHS = dict.fromkeys(("1", "true", "True", "TRUE"), True)
_TRUTHS |= dict.fromkeys(("0", "false", "False", "FALSE"), False)
_SPACES = re.compile(  # as Python's `strip` knows them
    rb"(?:[\t-\r\x1c- ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f"
    rb"|\xe3\x80\x80)+"
)
# A date, or a timestamp such as 2024-01-31T10:30:59.25+01:00, digits being zeros.
_MOMENT = re.compile(
    rb"0{4}-00-00(?:[ T](00(?::?00(?::?00)?)?)((?<=:00:00)\.0{1,9})?(Z|[+-]00(?::?00)?)?)?"
)
_SWAPPED = str.maketrans(",.", ".,")
_USUAL = np.frombuffer(b"1970-01-01T00:00:00.000000000", dtype=np.uint8)
_DIGITS = np.flatnonzero(_USUAL - ZERO < 10)
_LONGEST = len("2024-01-31T10:30:59.123456789+01:00")
_NANOSECONDS = np.timedelta64(2**63 // 10**9, "s")  # which 64 bits can count, at most


@dataclass(frozen=True)
class Fields:
    """The fields of a table, row by row; where one stops in the text the next one starts."""

    text: NDArray[np.uint8]
    stops: Integers
    width: int

    @classmethod
    def of(cls, text: NDArray[np.uint8], delimiter: str) -> Fields | None:
        """Return the fields of a text, which is written over; None if its rows differ in length."""
        blocks = [text[k : k + _BLOCK] for k in range(0, len(text), _BLOCK)]
        ends = (delimiter + "\n\r").encode()
        n_ends = sum(np.count_nonzero(block == end) for block in blocks for end in ends)
        stops: Integers = np.empty(n_ends + 2, dtype=np.int64)
        n, width = split_rows(text, ord(delimiter), stops)
        if n < 0:
            return None
        stops = stops[: n + 1]
        used = text[: stops[n]]
        if used.min(initial=32) < 32 or used.max(initial=32) > 126:  # other spaces may be there
            spans = [found.span() for found in _SPACES.finditer(used.data)]
            starts, ends_ = np.array(spans, dtype=np.int64).reshape(-1, 2).T
            outer = np.searchsorted(stops, starts) < np.searchsorted(stops, ends_, side="right")
            gone = np.concatenate([np.arange(0), *map(np.arange, starts[outer], ends_[outer])])
            text, stops = np.delete(text, gone), stops - np.searchsorted(gone, stops)
        return cls(text, stops, width)

    @property
    def names(self) -> list[str]:
        """What the first row says."""
        return list(map(self._word, self.stops[: self.width], self.stops[1:]))

    @property
    def n_rows(self) -> int:
        """How many rows there are below the first one."""
        return (len(self.stops) - 1) // self.width - 1

    def columns(self) -> list[NDArray[Any]]:
        """Return all columns; decimal commas count if more columns have them than points."""
        read = [self._column(place) for place in range(self.width)]
        texts = [k for k, values in enumerate(read) if values is None or holds_text(values)]
        found = ((k, self._numbers(k, ",")) for k in texts)
        commas = {k: values for k, values in found if values is not None}
        numbers = [values for values in read if values is not None and values.dtype.kind == "f"]
        if len(commas) > sum(bool((values > np.floor(values)).any()) for values in numbers):
            read = [commas.get(k, values) for k, values in enumerate(read)]
        return [self._texts(k) if values is None else values for k, values in enumerate(read)]

    def _word(self, start: int, stop: int) -> str:
        return str(self.text.data[start:stop], "utf-8")

    def _column(self, place: int) -> NDArray[Any] | None:
        """Return a column (n,), or None if it is text of many words, or has decimal commas."""
        whole = self._numbers(place, ".", whole=True)
        if whole is not None and len(whole):
            return whole
        numbers = self._numbers(place, ".")
        if numbers is not None and not np.isnan(numbers).all():
            return numbers
        moments = self._moments(place) if numbers is None else None
        if moments is not None:
            return moments
        found = self._words(place, _FEW)
        if found is None:
            return None
        words, codes = found
        if MISSING.issuperset(words):
            return np.full(len(codes), None)
        if numbers is not None:
            return numbers  # all of them are written as NAN, or +nan
        if _TRUTHS.keys() | MISSING >= set(words):
            return np.array([_TRUTHS.get(word, np.nan) for word in words])[codes]
        return self._texts(place)

    def _numbers(self, place: int, point: str, *, whole: bool = False) -> NDArray[Any] | None:
        """Return a column of numbers, or None if any field is something else."""
        values = np.empty(self.n_rows, dtype=np.int64 if whole else np.float64)
        reals, first = values.view(np.float64), self.width + place
        where = (self.text, self.stops, self.width, first, ord(point), whole)
        row = 0
        while (row := read_numbers(*where, row, values.view(np.int64), reals)) < len(values):
            field = row * self.width + first
            word = self._word(*self.stops[field : field + 2])
            if whole or not word.isascii() or "_" in word:
                return None
            try:
                values[row] = float(word if point == "." else word.translate(_SWAPPED))
            except ValueError:
                return None
            row += 1
        return values

    def _words(self, place: int, most: int) -> tuple[list[str], Integers] | None:
        """Return the words of a column and which of them each row has; None if they are more."""
        codes: Integers = np.empty(self.n_rows, dtype=np.int64)
        spans, table = np.empty((most, 2), dtype=np.int64), np.zeros(2 * most, dtype=np.int32)
        first = self.width + place
        n = find_words(self.text, self.stops, self.width, first, codes, table, spans)
        return None if n < 0 else (list(map(self._word, *spans[:n].T.tolist())), codes)

    def _texts(self, place: int) -> NDArray[Any]:
        """Return a column of text (n,), one object for equal words: classes are few."""
        size = _FEW
        while (found := self._words(place, size)) is None:
            size *= 8
        words, codes = found
        known = [None if word in MISSING else word for word in words]
        return np.take(np.array(known, dtype=object), codes)

    def _moments(self, place: int) -> NDArray[Any] | None:
        """Return a column of dates or timestamps, None if any field is something else."""
        starts = self.stops[self.width + place : -1 : self.width]
        lengths = self.stops[self.width + place + 1 :: self.width] - starts
        longest, word = int(lengths.max()), self._word(starts[0], starts[0] + lengths[0])
        if longest > _LONGEST or (word not in MISSING and word[4:5] != "-"):
            return None
        text = self.text
        if starts[-1] + longest > len(text):
            text = np.append(text, np.zeros(longest, dtype=np.uint8))
        letters = sliding_window_view(text, longest)[starts]
        letters[np.arange(longest) >= lengths[:, None]] = 0
        forms = np.where(letters - ZERO < 10, np.uint8(ZERO), letters)
        moments, nanoseconds = np.full(self.n_rows, "NaT", "M8[s]"), np.zeros(self.n_rows, "m8[ns]")
        left, units, zoned = np.ones(self.n_rows, dtype=bool), {"D"}, set()
        while left.any():
            row = int(left.argmax())
            size = lengths[row]
            found = _MOMENT.fullmatch(forms[row, :size].tobytes())
            if found is None and letters[row, :size].tobytes().decode("latin-1") not in MISSING:
                return None
            alike = letters if found is None else forms
            words = alike.view(f"S{longest}")[:, 0]
            same = left & (lengths == size) & (words == words[row])
            left &= ~same
            if found is not None:
                try:
                    moments[same], nanoseconds[same] = _moment(letters[same], found)
                except ValueError:
                    return None
                units.add("ns" if found[2] else "s" if found[1] else "D")
                zoned.add(found[3] is not None)
        if len(zoned) > 1:
            return None
        if "ns" in units:
            far = np.abs(moments - np.datetime64(0, "s")) >= _NANOSECONDS
            return None if far.any() else moments.astype("M8[ns]") + nanoseconds
        return moments if "s" in units else moments.astype("M8[D]")


def _moment(letters: NDArray[np.uint8], form: re.Match[bytes]) -> tuple[Any, Any]:
    """Return the seconds (n,) since 1970, and nanoseconds, that texts (n, k) of one form name.

    ValueError says that a day, an hour or a minute does not exist.
    """

    def read(digits: Iterable[int], first: int, unit: str) -> Any:
        """Return the times that these digits name in the place of some of a usual time."""
        found = [k for k in digits if form.string[k] == ZERO]
        text = np.tile(_USUAL[: 29 if unit == "ns" else 19], (len(letters), 1))
        text[:, _DIGITS[first : first + len(found)]] = letters[:, found]
        return text.view(f"S{text.shape[1]}")[:, 0].astype(f"M8[{unit}]")

    date_and_clock = range(form.end(1) if form[1] else 10)
    fraction, zone = (range(*form.span(group)) for group in (2, 3))
    seconds = read(date_and_clock, 0, "s")
    if form[3]:
        offset = read(zone, 8, "s") - np.datetime64(0, "s")
        seconds += offset if form[3].startswith(b"-") else -offset
    return seconds, read(fraction, 14, "ns") - np.datetime64(0, "ns") if form[2] else 0
