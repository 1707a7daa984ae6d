"""CSV files give the columns that Python would give."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.csv
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catchment.data import read_columns, tables, values_of

MISSING = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "NA"]
MISSING += ["1.#QNAN", "N/A", "NULL", "NaN", "n/a", "nan", "null"]
GAPS = st.sampled_from(MISSING)
WHOLE = st.integers(-(2**64), 2**64).map(str)
SMALL = st.integers(0, 1).map(str)
FLOATS = st.floats(width=64).map(repr) | st.floats(-1e9, 1e9).map("{:+.3e}".format)
COMMAS = st.floats(-1e9, 1e9).map(lambda x: f"{x:.3f}".replace(".", ","))
BOOLS = st.sampled_from(["true", "False", "TRUE", "0", "1"])
DATES = st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)).map(str)
MOMENTS = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
STAMPS = MOMENTS.map(str) | MOMENTS.map(lambda one: one.isoformat(timespec="minutes"))
ZONED = st.builds(lambda stamp, zone: stamp + zone, STAMPS, st.sampled_from(["Z", "-05:30", "+02"]))
CLOCKS = st.times().map(lambda one: f"{one:%H:%M}") | st.times().map(lambda one: f"{one:%H:%M:%S}")
ODD = ["1_0", "0x1F", "+5", "-0", "007", "1.", ".5", "1e400", "Infinity", "2024-02-30", "24:00"]
ODD += ["inf", "-Infinity", "1e-320", "9" * 30, "0" * 30 + "1", "1e", "12:30:61", "2024-01-01 10Z"]
ODD += ["2024-01-01T10:00:00.5+0230", "1500-01-01 10:00:00.25", "2024-13-01", "0." + "0" * 30 + "1"]
ODD += ["2023-02-29", "2100-02-29", "2000-02-29", "2024-01-01T10:00Z05:30", "2024-01-01 1:00", "-"]
ODD += ["5\xa0", "\u0661", "1 000", "-", ".", "1,5", "1,5,2", "2024-01-01 10", "tRuE", "None"]
WORDS = st.text('ab ,;\t"\n\r_\xe9\x85\u2028\0', max_size=5) | st.sampled_from(ODD)
KINDS = [SMALL, WHOLE, FLOATS, COMMAS, BOOLS, DATES, STAMPS, ZONED, CLOCKS, WORDS, GAPS]


@st.composite
def fields_of_a_column(draw: st.DrawFn, n_rows: int) -> list[str]:
    """Draw fields of one kind, with gaps and spaces in some columns and intruders in a few."""
    kind = draw(st.sampled_from(KINDS))
    if draw(st.booleans()):
        kind = kind | GAPS
    if draw(st.integers(0, 3)) == 0:
        kind = kind | draw(st.sampled_from(KINDS))
    if draw(st.integers(0, 3)) == 0:
        kind = st.builds(
            "{}{}{}".format, st.sampled_from(["", " "]), kind, st.sampled_from(["", " "])
        )
    return draw(st.lists(kind, min_size=n_rows, max_size=n_rows))


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a CSV file."""
    n_rows, n_columns = draw(st.integers(0, 12)), draw(st.integers(1, 4))
    columns = [draw(fields_of_a_column(n_rows)) for _ in range(n_columns)]
    text = io.StringIO(newline="")
    end = draw(st.sampled_from(["\n", "\r\n"]))
    writer = csv.writer(
        text,
        delimiter=draw(st.sampled_from([",", ";", "\t"])),
        lineterminator=end,
        quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
    )
    writer.writerow([f"c{k}" for k in range(n_columns)])
    writer.writerows(zip(*columns, strict=True))
    written = text.getvalue()
    if draw(st.booleans()):
        written = written.removesuffix(end) + draw(st.sampled_from(["", end + end]))
    start = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    return start + written.encode()


@settings(max_examples=200)
@given(content=files())
def test_columns_are_those_that_python_reads(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "generated.csv"
    path.write_bytes(content)
    columns: dict[str, NDArray[Any]] | str
    try:
        columns = read_columns(path)
    except ValueError as error:
        columns = str(error)
    _as_python_reads_it(content, columns)


@settings(max_examples=300)
@given(content=files())
def test_columns_are_those_of_pyarrow(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    assume(b"0x1F" not in content)  # an integer to pyarrow
    path = tmp_path_factory.getbasetemp() / "generated.csv"
    path.write_bytes(content)
    try:
        theirs = as_pyarrow_reads_it(content)
    except pyarrow.ArrowInvalid:
        with pytest.raises(ValueError, match="cannot be read"):
            read_columns(path)
        return
    ours = read_columns(path)
    assert list(ours) == list(theirs)
    for name, own in ours.items():
        other = theirs[name]
        if other.dtype.kind == "O" and any(isinstance(value, dt.time) for value in other.tolist()):
            # Clock times are text here, which a column of times is read from.
            clocks = [value and dt.time.fromisoformat(value) for value in own.tolist()]
            assert clocks == other.tolist()
        elif other.dtype.kind == "f" and np.isnan(other).all() and own.dtype.kind == "O":
            # To pyarrow NaN is a gap and "NaN " a number, which a space would decide.
            assert own.tolist() == [None] * len(other)
        else:
            assert own.dtype == other.dtype
            np.testing.assert_array_equal(own, other)


def as_pyarrow_reads_it(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns by pyarrow's rules, without spaces around words, and decimal commas."""
    table = _parsed(content + b"\n", tables.delimiter_of(content))
    columns, texts = dict(zip(table.column_names, table.columns, strict=True)), {}
    for name, column in columns.items():
        if pyarrow.types.is_string(column.type):
            columns[name] = column = _again(column)
            if pyarrow.types.is_string(column.type):
                texts[name] = column
    read = {name: values_of(column) for name, column in columns.items()}
    commas = {name: values_of(_again(column, ",")) for name, column in texts.items()}
    commas = {name: values for name, values in commas.items() if values.dtype.kind == "f"}
    numbers = [values[np.isfinite(values)] for values in read.values() if values.dtype.kind == "f"]
    points = sum(bool((values != np.rint(values)).any()) for values in numbers)
    return read | (commas if len(commas) > points else {})


def _parsed(content: bytes, delimiter: str, decimal_point: str = ".") -> Any:
    return pyarrow.csv.read_csv(
        pyarrow.BufferReader(content),
        pyarrow.csv.ReadOptions(block_size=1 << 24),
        pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        pyarrow.csv.ConvertOptions(strings_can_be_null=True, decimal_point=decimal_point),
    )


def _again(column: Any, decimal_point: str = ".") -> Any:
    """Return a column of text as what its fields are without the spaces around them."""
    coded, words = column.combine_chunks().dictionary_encode(), io.BytesIO()
    trimmed = pyarrow.compute.utf8_trim_whitespace(coded.dictionary)
    pyarrow.csv.write_csv(pyarrow.table({"words": trimmed}), words)
    return _parsed(words.getvalue(), ",", decimal_point)["words"].take(coded.indices)


INTEGERS = st.integers(0, 10**19) | st.integers(2**53, 2**54) | st.integers(10**16, 10**22)


@settings(max_examples=300)
@given(mantissas=st.lists(INTEGERS, min_size=1), exponent=st.integers(-345, 310), many=st.floats())
@example([2**53 + 1, 2**54 + 2, 2**63, 2**64 - 1], 0, 5e-324)
@example([5, 22250738585072011, 17976931348623157], 292, -0.0)
def test_numbers_are_rounded_as_python_rounds_them(
    tmp_path_factory: pytest.TempPathFactory, mantissas: list[int], exponent: int, many: float
) -> None:
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    fields = [f"{m}e{exponent}" for m in mantissas] + [f"-.{m:025d}" for m in mantissas]
    fields += [f"{m}.5" for m in mantissas] + [repr(many), f"{many:.18e}", f"{many:.25g}"]
    path.write_text("x\n" + "\n".join(fields) + "\n")
    expected = np.array(list(map(float, fields)))
    found = read_columns(path)["x"]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    known = ~np.isnan(found)
    assert found[known].tobytes() == expected[known].tobytes()


def _as_python_reads_it(content: bytes, columns: dict[str, NDArray[Any]] | str) -> None:
    """Compare with Python's csv and float, field by field."""
    delimiter = tables.delimiter_of(content)
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    header, *rows = [row for row in csv.reader(text, delimiter=delimiter) if row]
    if isinstance(columns, str):
        assert "cannot be read" in columns
        assert any(len(row) != len(header) for row in rows)
        return
    for place, values in enumerate(columns.values()):
        fields = [row[place].strip() for row in rows]
        assert len(fields) == len(values)
        for field, value in zip(fields, values.tolist(), strict=True):
            _is(field, value, values.dtype)


def _is(field: str, value: object, dtype: np.dtype[Any]) -> None:
    if field in MISSING:
        assert value is None or value != value
    elif isinstance(value, bool):
        assert value == (field.lower() in ("true", "1"))
    elif dtype.kind == "i":
        assert value == int({"0x1F": "31"}.get(field, field))
    elif dtype.kind == "f":
        words = {"true": "1", "false": "0", "0x1f": "31"}  # in a column with gaps
        number = float(words.get(field.lower(), field.replace(",", ".")))
        assert value == number or number != number
    elif isinstance(value, str):
        assert value == field
    elif dtype.kind == "M":
        _is_moment(field, value)
    else:
        assert value is None  # a column of nothing but NAN


def _is_moment(field: str, value: object) -> None:
    moment = dt.datetime.fromisoformat(field)
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, int):  # nanoseconds
        assert value == (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1000
    else:
        assert value == (moment if isinstance(value, dt.datetime) else moment.date())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot be read: it is empty"),
        (b"\n\n", "cannot be read: it is empty"),
        (b"\xef\xbb\xbf\n", "cannot be read: it is empty"),
        (b"x,y\n1,2\n3\n", "line 3 has 1 fields and the header 2"),
        (b"x,y\r\n1,2\r\n\r\n3,4,5\r\n", "line 4 has 3 fields and the header 2"),
        (b'x,y\n1,"a\nb"\n3\n', "line 4 has 1 fields and the header 2"),
        (b'x,y\n1,"a"\n3,"b\n4,c\n', "line 3 opens a quote that is never closed"),
        (b'x\n1\n"', "its last line opens a quote that is never closed"),
        (b'x,"y\n1,a\n', "line 1 opens a quote that is never closed"),
        (b"x,y\n1,a\n2,caf\xe9\n", "line 3 has the byte 0xe9, which is not UTF-8"),
        (b"caf\xe9,y\n1,a\n", "line 1 has the byte 0xe9, which is not UTF-8"),
        ("x,y\n1,a\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (b"x, x\n1,2\n", "two columns of one name"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_columns(path)


def test_a_damaged_packed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    packed = gzip.compress(b"x,y\n" + b"1,2\n" * 1000)
    for content in (packed[:-12], b"x,y\n1,2\n", packed[:30] + b"!" + packed[31:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"log\.csv\.gz cannot be read"):
            read_columns(path)


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for content in ("x,y", "x,y\n"):
        path.write_text(content)
        assert {name: len(column) for name, column in read_columns(path).items()} == {
            "x": 0,
            "y": 0,
        }


def test_very_long_lines_and_fields(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    names = [f"channel_{k}" for k in range(5000)]
    rows = [[f"{k}.25" for k in range(5000)], ["a" * 300_000, *["0.5"] * 4999]]
    path.write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    columns = read_columns(path)
    assert columns["channel_4999"].tolist() == [4999.25, 0.5]
    assert len(columns["channel_0"][1]) == 300_000


@pytest.mark.parametrize("late", ["0.5", "NA", "word", "2024-01-01", "+7", "9" * 19, "1,5", "true"])
def test_a_value_far_down_decides_for_its_whole_column(tmp_path: Path, late: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text("n;x\n" + "1;2\n" * 45_000 + f"{late};3\n" + "1;2\n")
    columns = read_columns(path)
    theirs = pd.read_csv(path, sep=";", dtype={"n": str}, keep_default_na=False)
    assert columns["x"].tolist() == theirs["x"].tolist()
    numbers = {"0.5": 0.5, "NA": np.nan, "+7": 7.0, "9" * 19: 1e19, "1,5": 1.5}
    if late in numbers:
        np.testing.assert_array_equal(columns["n"], [1.0] * 45_000 + [numbers[late], 1.0])
    elif late == "true":
        assert columns["n"].dtype == bool
        assert columns["n"].all()
    else:
        assert columns["n"].tolist() == theirs["n"].tolist()


def test_as_pandas_reads_a_large_quoted_file_with_gaps(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30_000, 3)), columns=["x", "y", "z"])
    frame["word"] = rng.choice(["walk, fast", "sit", 'say ""'], len(frame))
    frame.loc[rng.random(len(frame)) < 0.1, "y"] = np.nan
    path = tmp_path / "log.csv"
    frame.to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC, na_rep="NA")
    columns = read_columns(path)
    for name in "xyz":
        np.testing.assert_array_equal(columns[name], frame[name])
    assert columns["word"].tolist() == frame["word"].tolist()


def test_the_guide_has_the_speeds_that_were_measured() -> None:
    from benchmarks.csv_speed import table

    root = Path(__file__).parents[4]
    rows = json.loads((root / "benchmarks" / "results" / "csv.json").read_text())["rows"]
    assert table(rows) in (root / "docs" / "guides" / "own-data.md").read_text(encoding="utf-8")
