"""CSV and Parquet files by pyarrow: the columns of `csv_lines`, several times faster."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.data.csv_lines import Texts, columns_of, delimiter_of, named, texts_of
from catchment.data.csv_lines import read_csv as read_csv_lines
from catchment.errors import MissingExtraError

try:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet
except ImportError as error:
    raise MissingExtraError("frames", needed_for="Parquet files") from error

_BLOCK = 1 << 24  # bytes that pyarrow reads at a time; types are those of all blocks together
_MAX_BLOCK = 2**31 - 1


def read_csv(path: Path) -> dict[str, NDArray[Any]]:
    """Return column name -> array (n,), from a .csv or .tsv file, also .gz.

    What pyarrow refuses or reads otherwise than `csv_lines` is left to that: it says what is wrong
    in which line.
    """
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
        columns = None if _reads_otherwise(content) else _columns(content)
    except (pyarrow.ArrowException, UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error):
        columns = None
    if columns is None:
        return read_csv_lines(path)
    names = named(list(columns), path)
    return columns_of(dict(zip(names, columns.values(), strict=True)))


def read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    """Return column name -> array (n,), from a .parquet file."""
    try:
        # The reader of data sets would look for pandas.
        with pyarrow.parquet.ParquetFile(path) as file:
            table = file.read()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    names = named(table.column_names, path)
    columns = zip(names, table.columns, strict=True)
    return {name: np.asarray(plain(column)) for name, column in columns}


def _reads_otherwise(content: bytes) -> bool:
    """Return whether there may be hexadecimal numbers, or a quote that is never closed."""
    return b"0x" in content or b"0X" in content or content.count(b'"') % 2 == 1


def _columns(content: bytes) -> dict[str, NDArray[Any] | Texts] | None:
    """Return the columns, with text as it stands; None if there is text that is not UTF-8."""
    # A block must not end within quotes: a file that has any is one block.
    block = min(len(content) + 1, _MAX_BLOCK) if b'"' in content else _BLOCK
    table = pyarrow.csv.read_csv(
        pyarrow.BufferReader(content),
        read_options=pyarrow.csv.ReadOptions(block_size=block),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter_of(content[: 1 << 16])),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
    )
    if any(pyarrow.types.is_binary(field.type) for field in table.schema):
        return None
    if len(set(table.column_names)) != table.num_columns:
        return None
    return {
        name: _texts(column) if pyarrow.types.is_string(column.type) else np.asarray(plain(column))
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _texts(column: pyarrow.ChunkedArray) -> Texts:
    coded = column.combine_chunks().dictionary_encode()
    words = texts_of(coded.dictionary.to_pylist())
    codes = np.asarray(coded.indices.fill_null(-1)).astype(np.int64)
    # One more than the words, so that a row without any finds the last.
    return Texts(words.values, np.append(words.codes, -1)[codes])


def plain(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return a column whose values NumPy knows; those of a dictionary would go through pandas."""
    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pyarrow.types.is_boolean(kind) and column.null_count:
        return column.cast(pyarrow.int8())
    return column.cast(pyarrow.float64()) if pyarrow.types.is_decimal(kind) else column
