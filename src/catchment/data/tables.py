"""Sequences from CSV and Parquet files, and from NumPy's npz."""

from __future__ import annotations

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
    import pyarrow.csv
    import pyarrow.parquet
except ImportError as error:
    raise MissingExtraError("frames", needed_for="CSV and Parquet files") from error


def read_table(
    path: str | Path,
    *,
    inputs: str | Sequence[str],
    target: str | Sequence[str] | None = None,
    sequence: str | None = None,
    client: str | None = None,
    time: str | None = None,
    classes: Sequence[object] | None = None,
    per_step: bool | None = None,
) -> dict[str, list[Recording]]:
    """Return client name -> sequences, from a file .csv, .tsv (also .gz), .parquet or .npz.

    The parameters are those of `from_frame`. Empty fields and the usual marks (NA, NaN, null) are
    missing. Needs the extra "frames".

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
        sequence=sequence,
        client=client,
        time=time,
        classes=classes,
        per_step=per_step,
    )


def read_columns(path: str | Path) -> dict[str, NDArray[Any]]:
    """Return column name -> array (n,), from a file .csv, .tsv (also .gz), .parquet or .npz.

    Of an npz file a vector (n,) is a column, and a matrix (n, k) called x the columns x_0 to x_k-1.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.csv"
    ...     _ = path.write_text("day,load\\n1,0.5\\n2,\\n")
    ...     read_columns(path)
    {'day': array([1, 2]), 'load': array([0.5, nan])}
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; check the path")
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = kinds[-1] if kinds else ""
    if kind not in (".csv", ".tsv", ".parquet", ".npz"):
        raise ValueError(
            f"{path.name} is not a .csv, .tsv, .parquet or .npz file; convert it first"
        )
    if kind == ".npz":
        return _arrays(path)
    try:
        if kind == ".parquet":
            table = pyarrow.parquet.read_table(path)
        else:
            table = pyarrow.csv.read_csv(
                path,
                parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if kind == ".tsv" else ","),
                convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
            )
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    names = table.column_names
    if len(set(names)) != len(names):
        raise ValueError(f"{path.name} has two columns of one name; rename one of them")
    return {name: np.asarray(table[name]) for name in names}


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
