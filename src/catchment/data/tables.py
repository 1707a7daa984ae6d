"""Sequences from CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Sequence as Many
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.data.frames import from_frame
from catchment.data.sequence import Sequence
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
    inputs: str | Many[str],
    target: str | Many[str] | None = None,
    sequence: str | None = None,
    client: str | None = None,
    time: str | None = None,
    classes: Many[object] | None = None,
    per_step: bool | None = None,
) -> dict[str, list[Sequence]]:
    """Return client name -> sequences, from a file .csv, .tsv (also .gz) or .parquet.

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
    """Return column name -> array (n,), from a file .csv, .tsv (also .gz) or .parquet.

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
    if kind not in (".csv", ".tsv", ".parquet"):
        raise ValueError(f"{path.name} is not a .csv, .tsv or .parquet file; convert it first")
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
