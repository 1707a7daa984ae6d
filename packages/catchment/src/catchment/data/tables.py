"""Recordings from CSV and Parquet files, and from NumPy's npz; of the extras only pyarrow.

CSV needs no extra. Where pyarrow is installed it reads the large files, and the columns are the
same; only Parquet needs it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.data.csv_lines import read_csv
from catchment.data.frames import from_frame
from catchment.data.recording import Recording
from catchment.errors import MissingExtraError

KINDS = (".csv", ".tsv", ".parquet", ".npz")
_LARGE = 1 << 20  # bytes; with smaller files importing pyarrow takes longer than it saves


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
    there is `read`. Parquet needs the extra "frames".

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
    return _parquet(path) if kind == ".parquet" else _csv(path)


def kind_of(path: Path) -> str:
    """Return the last suffix of a file's name that does not tell of compression, in small letters.

    >>> kind_of(Path("log.CSV.gz"))
    '.csv'
    """
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return kinds[-1] if kinds else ""


def _csv(path: Path) -> dict[str, NDArray[Any]]:
    if path.stat().st_size >= _LARGE:
        try:
            from catchment.data import csv_arrow
        except MissingExtraError:
            pass
        else:
            return csv_arrow.read_csv(path)
    return read_csv(path)


def _parquet(path: Path) -> dict[str, NDArray[Any]]:
    from catchment.data import csv_arrow

    return csv_arrow.read_parquet(path)


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
