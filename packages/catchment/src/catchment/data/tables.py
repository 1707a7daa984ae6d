"""Columns of CSV files, of Parquet files, which pyarrow reads, and of NumPy's npz.

A CSV file whose rows differ in length, or that is not UTF-8, is read once more by Python, to say
what is wrong in which line.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import string
import zipfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import MissingExtraError

KINDS = (".csv", ".tsv", ".parquet", ".npz")
DELIMITERS = (",", ";", "\t")
_SAMPLE_BYTES, _SAMPLE_LINES = 1 << 16, 50
_NOTHING = string.whitespace.encode() + BOM_UTF8
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
    from catchment.data.csv_fields import Fields

    try:
        content = _content(path)
        head = content[:_SAMPLE_BYTES].tobytes()
        delimiter, wrong = delimiter_of(head), _other_text(head, content)
        if not wrong:
            with suppress(UnicodeDecodeError):
                fields = Fields.of(content[3 * head.startswith(BOM_UTF8) :], delimiter)
                if fields is not None:
                    names = column_names(fields.names, path)
                    return dict(zip(names, fields.columns(), strict=True))
            wrong = _wrong_line(_content(path).tobytes(), delimiter)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        wrong = str(error)
    raise ValueError(f"{path.name} cannot be read: {wrong}")


def _content(path: Path) -> NDArray[np.uint8]:
    """Return the bytes of a file, unpacked, which may be written over."""
    if path.suffix.lower() == ".gz":
        return np.frombuffer(bytearray(gzip.decompress(path.read_bytes())), dtype=np.uint8)
    return np.fromfile(path, dtype=np.uint8)


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


def _other_text(head: bytes, content: NDArray[np.uint8]) -> str:
    """Return what is wrong if there is nothing, or what is no text of UTF-8 at first sight."""
    if not head.strip(_NOTHING) and not content.tobytes().strip(_NOTHING):
        return "it is empty; leave it out"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "it is UTF-16 text; save it as UTF-8"
    if b"\0" in head.lstrip().partition(b"\n")[0]:
        return "it is no text, for there is a zero byte in its first line; save it as CSV"
    return ""


def _wrong_line(content: bytes, delimiter: str) -> str:
    """Return what is wrong with the first line that is not one of a table, and what to do."""
    try:
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        line = len((error.object[: error.start] + b".").splitlines())
        odd = error.object[error.start]
        return f"line {line} has the byte 0x{odd:02x}, which is not UTF-8; save the file as UTF-8"
    csv.field_size_limit(max(csv.field_size_limit(), len(content)))
    reader = csv.reader(chain(text, [_END]), delimiter=delimiter)
    before, n_fields = 0, 0
    for row in reader:
        n_fields = n_fields or len(row)
        if row and _END in row[-1] and row != [_END]:
            return f"line {before + 1} opens a quote that is never closed; close it"
        if row and row != [_END] and len(row) != n_fields:
            return (
                f"line {before + 1} has {len(row)} fields and the header {n_fields}; write one for "
                f"each column, and in quotes what holds a {delimiter!r}"
            )
        before = reader.line_num
    return "its last line opens a quote that is never closed; close it"


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("parquet", needed_for="Parquet files") from error
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
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    found: list[tuple[str, NDArray[Any]]] = []
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(
                f"{name} in {path.name} has shape {array.shape}; save vectors or matrices"
            )
        of_matrix = ((f"{name}_{k}", column) for k, column in enumerate(array.T))
        found += of_matrix if array.ndim == 2 else [(name, array)]
    names = column_names([name for name, _ in found], path)
    columns = dict(zip(names, (column for _, column in found), strict=True))
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of {path.name} differ in length, {lengths}; save them alike")
    return columns
