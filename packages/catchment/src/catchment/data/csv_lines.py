"""CSV files by NumPy and the standard library alone, some thousand lines at a time.

NumPy's reader turns lines into columns in C; lines it does not take (quotes that span lines, marks
of missing values beside quotes) are split by the standard library. A file of 107 MB, 1.45 million
rows of seven numbers and a word, takes 2.9 s of one processor and 0.24 GB of memory in all, columns
included (`benchmarks/csv_speed.py`).

What the fields of a column of text mean: numbers, truth values, dates, times, or words.

The rules are those of pyarrow's CSV reader but for two: spaces around a field never matter, and
"0x1F" is a word. A column is of the first kind that all its fields fit: whole numbers, truth
values, dates, clock times, timestamps, numbers with a decimal point, and then words.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal, cast

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
    for text in dict.fromkeys(raw):
        value = "" if text is None else text.strip()
        lookup[text] = -1 if value in MISSING else places.setdefault(value, len(places))
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


_Kind = Literal["whole", "number", "text", "later"]

DELIMITERS = (",", ";", "\t")
_SAMPLE_BYTES = 1 << 16
_SAMPLE_LINES = 50
_GUESS_LINES = 50
_CHUNK_LINES = 20_000
_LONGEST_FIELD = 1 << 27  # characters; the standard library's own limit is 131072
_END = "\x00end of the file\x00"


def read_csv(path: Path) -> dict[str, NDArray[Any]]:
    """Return column name -> array (n,), from a .csv or .tsv file, also .gz.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.csv"
    ...     _ = path.write_text("day;load\\n1;0,5\\n2;NA\\n")
    ...     read_csv(path)
    {'day': array([1, 2]), 'load': array([0.5, nan])}
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    try:
        file = _File(path, delimiter_of(head_of(path)))
        return columns_of(file.columns())
    except (csv.Error, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(_strange_bytes(path)) from error


def head_of(path: Path) -> bytes:
    """Return a file's first bytes, unpacked."""
    with _opened(path) as file:
        return file.read(_SAMPLE_BYTES)


def delimiter_of(head: bytes) -> str:
    """Return what separates the fields: as often in every line as in the first one, if anything.

    >>> delimiter_of(b"t;x\\n1;0,5\\n")
    ';'
    """
    first, *rest = head.splitlines()[:_SAMPLE_LINES] or [b""]
    counts = {}
    for delimiter in DELIMITERS:
        count, *others = (
            re.sub(rb'"[^"]*"', b"", line).count(delimiter.encode()) for line in (first, *rest)
        )
        # The sample may end within a line, and a file in an empty one.
        even = all(other == count for other, line in zip(others, rest[:-1], strict=False) if line)
        counts[delimiter] = (count > 0 and even, count)
    return max(DELIMITERS, key=lambda delimiter: counts[delimiter])


def named(names: Sequence[str], path: Path) -> list[str]:
    """Return the names of columns without spaces around them; two of one name are refused."""
    plain = [name.strip() for name in names]
    if len(set(plain)) != len(plain):
        raise ValueError(f"{path.name} has two columns of one name; rename one of them")
    return plain


@dataclass
class _Column:
    """What has been read of one column, and as what."""

    kind: _Kind
    parts: list[NDArray[Any]] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)

    def take(self, fields: Sequence[str]) -> None:
        """Keep fields as numbers if all are, and else be read once more, later."""
        if self.kind == "text":
            self.fields += fields
        if self.kind in ("text", "later"):
            return
        present = ["nan" if one in MISSING else one for one in map(str.strip, fields)]
        found: NDArray[Any] | None = whole_numbers(present) if self.kind == "whole" else None
        if found is None:
            self.kind = "number"
            found = numbers(present)
        if found is None:
            self.kind = "later"
            self.parts.clear()
        else:
            self.parts.append(found)

    def take_parsed(self, values: NDArray[Any]) -> None:
        """Keep what NumPy read of the column."""
        if self.kind == "text":
            # One object for equal words: a file has few classes and many rows.
            same = {value: value for value in values}
            self.fields += map(same.__getitem__, values)
        elif self.kind != "later":
            self.parts.append(values.copy())

    @property
    def dtype(self) -> type[Any]:
        """What NumPy is to read it as."""
        return {"whole": np.int64, "number": np.float64}.get(self.kind, object)

    def held(self) -> NDArray[Any] | Texts:
        """Return the whole column."""
        if self.kind == "text" or not self.parts:
            return texts_of(self.fields)
        kind = np.int64 if self.kind == "whole" else np.float64
        return np.concatenate(self.parts).astype(kind, copy=False)


@dataclass(frozen=True)
class _File:
    path: Path
    delimiter: str

    def columns(self) -> dict[str, NDArray[Any] | Texts]:
        """Return the columns: numbers, and text as it stands."""
        with self._lines() as lines:
            header = self._header(lines)
            names = named(header, self.path)
            first = list(islice(lines, _GUESS_LINES))
            columns = self._guessed(first, len(names))
            self._read(chain(first, lines), columns, range(len(names)))
        late = [place for place, column in enumerate(columns) if column.kind == "later"]
        if late:
            again = [_Column("text") for _ in late]
            with self._lines() as lines:
                self._header(lines)
                self._read(lines, again, late, n_fields=len(names))
            for place, column in zip(late, again, strict=True):
                columns[place] = column
        return {name: column.held() for name, column in zip(names, columns, strict=True)}

    def _lines(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(_opened(self.path), encoding="utf-8-sig", newline="")

    def _rows(self, lines: Iterator[str]) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self.delimiter)

    def _header(self, lines: Iterator[str]) -> list[str]:
        for row in self._rows(chain(lines, [_END])):
            if row and _END in row[-1]:
                if row != [_END]:
                    raise ValueError(self._what_is_wrong(len(row)))
            elif row:
                if "\0" in "".join(row):
                    raise ValueError(
                        f"{self.path.name} cannot be read: it is no text, for there is a zero byte "
                        "in its first line; save it as CSV"
                    )
                return row
        raise ValueError(f"{self.path.name} cannot be read: it is empty; leave it out")

    def _guessed(self, lines: list[str], n_columns: int) -> list[_Column]:
        """Return columns of the kinds that the first lines speak for; each may prove wrong."""
        columns = [_Column("whole") for _ in range(n_columns)]
        rows = [row for row in self._rows(iter(lines)) if len(row) == n_columns]
        for column, fields in zip(columns, zip(*rows, strict=True), strict=False):
            column.take(fields)
        return [_Column("text" if one.kind == "later" else one.kind) for one in columns]

    def _read(
        self,
        lines: Iterator[str],
        columns: list[_Column],
        places: Sequence[int],
        n_fields: int | None = None,
    ) -> None:
        """Read all lines into the columns at the places given."""
        n_fields = len(columns) if n_fields is None else n_fields
        while some := list(islice(lines, _CHUNK_LINES)):
            if not self._parse(some, columns, places, n_fields):
                self._split(some, lines, columns, places, n_fields)

    def _parse(
        self, lines: list[str], columns: list[_Column], places: Sequence[int], n_fields: int
    ) -> bool:
        """Return whether NumPy could read some lines, and then keep what it read."""
        text = "".join(lines)
        quoted = '"' in text
        if quoted and not all(map(_whole_line(self.delimiter), lines)):
            return False
        if any(one.kind == "whole" for one in columns) and _signed(self.delimiter)(text):
            return False
        wanted = None if len(places) == n_fields else places
        found = self._loaded(lines, columns, wanted)
        if found is None and not quoted:
            filled = _gap(self.delimiter).sub("nan", text)
            found = self._loaded(io.StringIO(filled, newline=""), columns, wanted)
        if found is None:
            return False
        for column, name in zip(columns, found.dtype.names, strict=True):
            column.take_parsed(found[name])
        return True

    def _loaded(
        self,
        lines: list[str] | io.StringIO,
        columns: list[_Column],
        places: Sequence[int] | None,
    ) -> Any | None:
        kinds = np.dtype([(str(place), column.dtype) for place, column in enumerate(columns)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # about no rows, or 1.0 as a whole number
            try:
                return np.loadtxt(
                    lines,
                    dtype=kinds,
                    delimiter=self.delimiter,
                    comments=None,
                    quotechar='"',
                    usecols=places,
                    ndmin=1,
                )
            except (ValueError, OverflowError, Warning):
                return None

    def _split(
        self,
        some: list[str],
        more: Iterator[str],
        columns: list[_Column],
        places: Sequence[int],
        n_fields: int,
    ) -> None:
        """Read some lines with the standard library, and those their last quotes reach into."""
        reader = csv.reader(chain(some, more, [_END]), delimiter=self.delimiter)
        rows = []
        while reader.line_num < len(some):
            rows.append(next(reader))
        filled = [row for row in rows if row]
        if any(len(row) != n_fields or _END in row[-1] for row in filled):
            raise ValueError(self._what_is_wrong(n_fields))
        every = list(zip(*filled, strict=True)) or [()] * n_fields
        for column, place in zip(columns, places, strict=True):
            column.take(every[place])

    def _what_is_wrong(self, n_fields: int) -> str:
        """Return a sentence about the first line that is not one of a table."""
        with self._lines() as lines:
            reader = csv.reader(chain(lines, [_END]), delimiter=self.delimiter)
            before, wrong = 0, ""
            for row in reader:
                if row and _END in row[-1] and row != [_END]:
                    wrong = "opens a quote that is never closed; close it"
                elif row and row != [_END] and len(row) != n_fields:
                    wrong = (
                        f"has {len(row)} fields and the header {n_fields}; write one for each "
                        f"column, and in quotes what holds a {self.delimiter!r}"
                    )
                if wrong:
                    return f"{self.path.name} cannot be read: line {before + 1} {wrong}"
                before = reader.line_num
        return f"{self.path.name} cannot be read: it changes while it is read; try again"


def _opened(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    return path.open("rb")


def _strange_bytes(path: Path) -> str:
    """Return a sentence about the first byte that is not UTF-8."""
    with _opened(path) as file:
        content = file.read()
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"{path.name} cannot be read: it is UTF-16 text; save it as UTF-8"
    try:
        content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return (
            f"{path.name} cannot be read: line {before.count(10) + 1} has the byte "
            f"0x{content[error.start]:02x}, which is not UTF-8; save the file as UTF-8"
        )
    return f"{path.name} cannot be read: it changes while it is read; try again"


@cache
def _whole_line(delimiter: str) -> Callable[[str], object]:
    """Return what finds a line whose quotes open at the start of a field and close at its end."""
    one = rf'(?:"(?:[^"]|"")*+"|[^"{delimiter}]*+)'
    return re.compile(rf"{one}(?:{delimiter}{one})*+[\r\n]*").fullmatch


@cache
def _signed(delimiter: str) -> Callable[[str], object]:
    """Return what finds a number that begins with a plus, which is no whole number here."""
    return re.compile(rf'(?:^|["{delimiter}])\s*\+', re.MULTILINE).search


@cache
def _gap(delimiter: str) -> re.Pattern[str]:
    """Return what finds the fields of lines without quotes that are missing."""
    marks = "|".join(re.escape(mark) for mark in sorted(MISSING - {""}, key=len, reverse=True))
    end = rf"(?=[{delimiter}\r\n]|\Z)"
    return re.compile(
        rf"(?<={delimiter}){end}|^(?={delimiter})|(?:^|(?<={delimiter}))(?:{marks}){end}",
        re.MULTILINE,
    )
