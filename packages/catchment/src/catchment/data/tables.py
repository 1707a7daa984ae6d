"""Columns of CSV and Parquet files, which pyarrow reads, and of NumPy's npz.

The rules for CSV are those of pyarrow but for two: spaces around a field never matter, and numbers
may have a decimal comma. What it refuses is read once more, to say what is wrong in which line.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = (".csv", ".tsv", ".parquet", ".npz")
DELIMITERS = (",", ";", "\t")
_SAMPLE_BYTES, _SAMPLE_LINES = 1 << 16, 50
_BLOCK = 1 << 24  # bytes that pyarrow reads at a time; types are those of all blocks together
_END = "\x00end of the file\x00"


def read_columns(path: str | Path) -> dict[str, NDArray[Any]]:
    """Return column name -> array (n,), from a file .csv, .tsv (also .gz), .parquet or .npz.

    Fields of a CSV file are separated by commas, semicolons or tabs, whichever its first lines
    have; numbers may have a decimal comma, in quotes where commas separate. Spaces around names and
    text are dropped. Empty fields and the usual marks (NA, NaN, null) are missing.
    Of an npz file a vector (n,) is a column, and a matrix (n, k) called x the columns x_0 to x_k-1.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.csv"
    ...     _ = path.write_text("day; load\\n1; 0,5\\n2; NA\\n")
    ...     read_columns(path)
    {'day': array([1, 2]), 'load': array([0.5, nan])}
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; check the path")
    match kind_of(path):
        case ".csv" | ".tsv":
            return _read_csv(path)
        case ".parquet":
            return _read_parquet(path)
        case ".npz":
            return _read_npz(path)
    raise ValueError(f"{path.name} is not a .csv, .tsv, .parquet or .npz file; convert it first")


def kind_of(path: Path) -> str:
    """Return the last suffix of a file's name that does not tell of compression, in small letters.

    >>> kind_of(Path("log.CSV.gz"))
    '.csv'
    """
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return kinds[-1] if kinds else ""


def column_names(names: Sequence[str], path: Path) -> list[str]:
    """Return the names of columns without spaces around them; two of one name are refused."""
    plain = [name.strip() for name in names]
    if len(set(plain)) != len(plain):
        raise ValueError(f"{path.name} has two columns of one name; rename one of them")
    return plain


def values_of(column: Any) -> NDArray[Any]:
    """Return the values (n,) of a chunked column of pyarrow's, None or NaN where there is none."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string(column.type) or types.is_large_string(column.type):
        coded = column.dictionary_encode(null_encoding="encode").combine_chunks()
        # One object for equal words: a file has few classes and many rows.
        return np.take(np.asarray(coded.dictionary), np.asarray(coded.indices))
    if types.is_boolean(column.type) and column.null_count:
        column = column.cast("int8")
    return np.asarray(column.cast("float64") if types.is_decimal(column.type) else column)


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a file of text, packed or not."""
    import pyarrow
    from pyarrow.types import is_binary, is_string

    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
        _refuse_other_text(path, content)
        delimiter = delimiter_of(content[:_SAMPLE_BYTES])
        if content.count(b'"') % 2:
            _refuse_wrong_lines(path, content, delimiter)
        table = _parsed(content if content[-1:] in b"\r\n" else content + b"\n", delimiter)
        names = column_names(table.column_names, path)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, content) from error
    except pyarrow.ArrowInvalid as error:
        _refuse_wrong_lines(path, content, delimiter)
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    columns = dict(zip(names, table.columns, strict=True))
    texts = {}
    for name, column in columns.items():
        if is_binary(column.type):
            raise _not_utf8(path, content)
        if is_string(column.type):
            columns[name] = column = _read_again(column)
            if is_string(column.type):
                texts[name] = column
    read = {name: values_of(column) for name, column in columns.items()}
    return read | _with_decimal_commas(texts, read)


def _parsed(content: bytes, delimiter: str, decimal_point: str = ".") -> Any:
    """Return pyarrow's table of some text."""
    import pyarrow
    import pyarrow.csv

    return pyarrow.csv.read_csv(
        pyarrow.BufferReader(content),
        pyarrow.csv.ReadOptions(block_size=_BLOCK),
        pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content),
        pyarrow.csv.ConvertOptions(strings_can_be_null=True, decimal_point=decimal_point),
    )


def _read_again(column: Any, decimal_point: str = ".") -> Any:
    """Return a column of text as what its fields mean without the spaces around them."""
    import pyarrow
    from pyarrow import compute

    coded = column.combine_chunks().dictionary_encode()
    words = io.BytesIO()
    trimmed = compute.utf8_trim_whitespace(coded.dictionary)
    pyarrow.csv.write_csv(pyarrow.table({"words": trimmed}), words)
    return _parsed(words.getvalue(), ",", decimal_point)["words"].take(coded.indices)


def _with_decimal_commas(texts: Any, read: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns of text that are numbers with decimal commas.

    None if as many columns or more have decimal points.
    """
    found = {}
    for name, column in texts.items():
        values = values_of(_read_again(column, ","))
        if values.dtype.kind == "f":
            found[name] = values
    points = 0
    for values in read.values():
        if values.dtype.kind == "f":
            finite = values[np.isfinite(values)]
            points += bool((finite != np.rint(finite)).any())
    return found if len(found) > points else {}


def delimiter_of(head: bytes) -> str:
    """Return what separates the fields: as often in every line as in the first one, if anything.

    >>> delimiter_of(b"t;x\\n1;0,5\\n")
    ';'
    """
    first, *rest = re.sub(rb'"[^"\n]*"', b"", head).splitlines()[:_SAMPLE_LINES] or [b""]

    def likely(delimiter: str) -> tuple[bool, int]:
        count = first.count(delimiter.encode())
        # The sample may end within a line, and a file in an empty one.
        even = all(line.count(delimiter.encode()) == count for line in rest[:-1] if line)
        return count > 0 and even, count

    return max(DELIMITERS, key=likely)


def _refuse_other_text(path: Path, content: bytes) -> None:
    """Raise ValueError if there is nothing, or what is no text of UTF-8 at first sight."""
    wrong = ""
    if not content.strip():
        wrong = "it is empty; leave it out"
    elif content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        wrong = "it is UTF-16 text; save it as UTF-8"
    elif b"\0" in content[:_SAMPLE_BYTES].lstrip().partition(b"\n")[0]:
        wrong = "it is no text, for there is a zero byte in its first line; save it as CSV"
    if wrong:
        raise ValueError(f"{path.name} cannot be read: {wrong}")


def _refuse_wrong_lines(path: Path, content: bytes, delimiter: str) -> None:
    """Raise ValueError about the first line that is not one of a table, if there is one."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    csv.field_size_limit(max(csv.field_size_limit(), len(content)))
    reader = csv.reader(chain(text, [_END]), delimiter=delimiter)
    before, n_fields, wrong = 0, 0, ""
    for row in reader:
        n_fields = n_fields or len(row)
        if row and _END in row[-1] and row != [_END]:
            wrong = "opens a quote that is never closed; close it"
        elif row and row != [_END] and len(row) != n_fields:
            wrong = (
                f"has {len(row)} fields and the header {n_fields}; write one for each "
                f"column, and in quotes what holds a {delimiter!r}"
            )
        if wrong:
            raise ValueError(f"{path.name} cannot be read: line {before + 1} {wrong}")
        before = reader.line_num


def _not_utf8(path: Path, content: bytes) -> ValueError:
    """Return a sentence about the first byte that is not UTF-8."""
    try:
        content.decode()
        return ValueError(f"{path.name} cannot be read: a name in it is not UTF-8")
    except UnicodeDecodeError as error:
        before = content[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return ValueError(
            f"{path.name} cannot be read: line {before.count(10) + 1} has the byte "
            f"0x{content[error.start]:02x}, which is not UTF-8; save the file as UTF-8"
        )


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        # The reader of data sets would look for pandas.
        with pyarrow.parquet.ParquetFile(path) as file:
            table = file.read()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    return dict(
        zip(column_names(table.column_names, path), map(values_of, table.columns), strict=True)
    )


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(
                f"{name} in {path.name} has shape {array.shape}; save vectors or matrices"
            )
        parts = (
            {name: array}
            if array.ndim == 1
            else {f"{name}_{k}": column for k, column in enumerate(array.T)}
        )
        if columns.keys() & parts.keys():
            raise ValueError(f"{path.name} has two columns of one name; rename one of them")
        columns |= parts
    if len({len(column) for column in columns.values()}) > 1:
        lengths = {name: len(column) for name, column in columns.items()}
        raise ValueError(f"the columns of {path.name} differ in length, {lengths}; save them alike")
    return columns
