"""Recordings from CSV and Parquet files, and from NumPy's npz; of the extras only pyarrow."""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.data.frames import from_frame
from catchment.data.recording import Recording
from catchment.errors import MissingExtraError

try:
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet
except ImportError as error:
    raise MissingExtraError("frames", needed_for="CSV and Parquet files") from error

KINDS = (".csv", ".tsv", ".parquet", ".npz")
_DELIMITERS = (",", ";", "\t")
_SAMPLE_LINES = 50
_MAX_BLOCK = 2**31 - 1  # of pyarrow's reader


def read_table(
    path: str | Path,
    *,
    inputs: str | Sequence[str],
    target: str | Sequence[str] | None = None,
    recording: str | None = None,
    client: str | None = None,
    time: str | None = None,
    classes: Sequence[object] | None = None,
    per_step: bool | None = None,
) -> dict[str, list[Recording]]:
    """Return client name -> recordings, from a file .csv, .tsv (also .gz), .parquet or .npz.

    The parameters are those of `from_frame`, the columns those of `read_columns`. For many files
    there is `read`. Needs the extra "frames".

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.csv"
    ...     _ = path.write_text("day,load\\n1,0.5\\n2,0.7\\n")
    ...     read_table(path, inputs="load", time="day")["all"][0].u
    array([[0.5], [0.7]])
    """
    return from_frame(
        read_columns(path),
        inputs=inputs,
        target=target,
        recording=recording,
        client=client,
        time=time,
        classes=classes,
        per_step=per_step,
    )


def read_columns(path: str | Path) -> dict[str, NDArray[Any]]:
    """Return column name -> array (n,), from a file .csv, .tsv (also .gz), .parquet or .npz.

    Fields of a CSV file are separated by commas, semicolons or tabs, whichever its first lines
    have; numbers may have a decimal comma, in quotes where commas separate. Spaces around names and
    text are dropped. Empty fields and the usual marks (NA, NaN, null) are missing.
    Of an npz file a vector (n,) is a column, and a matrix (n, k) called x the columns x_0 to x_k-1.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.csv"
    ...     _ = path.write_text("day,load\\n1,0.5\\n2,\\n")
    ...     read_columns(path)
    {'day': array([1, 2]), 'load': array([0.5, nan])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.csv"
    ...     _ = path.write_text("day; load\\n1; 0,5\\n2; 0,75\\n")
    ...     read_columns(path)
    {'day': array([1, 2]), 'load': array([0.5 , 0.75])}
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; check the path")
    kind = kind_of(path)
    if kind not in KINDS:
        raise ValueError(
            f"{path.name} is not a .csv, .tsv, .parquet or .npz file; convert it first"
        )
    if kind == ".npz":
        return _arrays(path)
    try:
        table = _parquet(path) if kind == ".parquet" else _csv(path)
    except (pyarrow.ArrowInvalid, gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    names = [name.strip() for name in table.column_names]
    if len(set(names)) != len(names):
        raise ValueError(f"{path.name} has two columns of one name; rename one of them")
    columns = zip(names, table.columns, strict=True)
    return {name: np.asarray(_plain(column)) for name, column in columns}


def kind_of(path: Path) -> str:
    """Return the last suffix of a file's name that does not tell of compression, in small letters.

    >>> kind_of(Path("log.CSV.gz"))
    '.csv'
    """
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return kinds[-1] if kinds else ""


def _parquet(path: Path) -> pyarrow.Table:
    # The reader of data sets would look for pandas.
    with pyarrow.parquet.ParquetFile(path) as file:
        return file.read()


def _plain(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return a column whose values NumPy knows; those of a dictionary would go through pandas."""
    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pyarrow.types.is_boolean(kind) and column.null_count:
        return column.cast(pyarrow.int8())
    return column.cast(pyarrow.float64()) if pyarrow.types.is_decimal(kind) else column


def _csv(path: Path) -> pyarrow.Table:
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        content = gzip.decompress(content)
    delimiter = _delimiter(content)
    table = _parsed(content, delimiter, ".")
    if b"," in content and (delimiter != "," or b'"' in content):
        other = _parsed(content, delimiter, ",")
        if _n_numeric(other) > _n_numeric(table):
            return other
    return table


def _delimiter(content: bytes) -> str:
    """Return what separates the fields: as often in every line as in the first one, if anything."""
    first, *rest = content[: 1 << 16].splitlines()[:_SAMPLE_LINES] or [b""]
    counts = {}
    for delimiter in _DELIMITERS:
        count, *others = (
            re.sub(rb'"[^"]*"', b"", line).count(delimiter.encode()) for line in (first, *rest)
        )
        # The sample may end within a line, and a file in an empty one.
        even = all(other == count for other, line in zip(others, rest[:-1], strict=False) if line)
        counts[delimiter] = (count > 0 and even, count)
    return max(_DELIMITERS, key=lambda delimiter: counts[delimiter])


def _parsed(content: bytes, delimiter: str, decimal: str) -> pyarrow.Table:
    table = pyarrow.csv.read_csv(
        pyarrow.BufferReader(content),
        # In one block, so that a column's type is that of all its values.
        read_options=pyarrow.csv.ReadOptions(block_size=min(len(content) + 1, _MAX_BLOCK)),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True, decimal_point=decimal),
    )
    for place, field in enumerate(table.schema):
        if pyarrow.types.is_string(field.type):
            trimmed = pyarrow.compute.utf8_trim_whitespace(table.column(place))
            table = table.set_column(place, field.name, trimmed)
    return table


def _n_numeric(table: pyarrow.Table) -> int:
    return sum(pyarrow.types.is_floating(field.type) for field in table.schema)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
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
        parts = {name: array} if array.ndim == 1 else _columns(name, array)
        if columns.keys() & parts.keys():
            raise ValueError(f"{path.name} has two columns of one name; rename one of them")
        columns |= parts
    if len({len(column) for column in columns.values()}) > 1:
        lengths = {name: len(column) for name, column in columns.items()}
        raise ValueError(f"the columns of {path.name} differ in length, {lengths}; save them alike")
    return columns


def _columns(name: str, matrix: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {f"{name}_{k}": matrix[:, k] for k in range(matrix.shape[1])}
