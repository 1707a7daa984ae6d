"""What else reads CSV: how large it is, how fast, and what it reads like this library.

    python -m venv others && others/bin/pip install numpy duckdb arro3-core arro3-io
    python -m benchmarks.table_readers others/bin/python

Every reader has a process of its own and finds columns and types by its own rules. It reads a file
of 200 000 rows like that of `benchmarks.csv_speed`, quickest CPU seconds of three, and small files
with what the tests of `catchment.data` are about; these count if names and values come out as from
`read_columns`. Writes results/table_readers.json.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

ROWS, REPEATS = 200_000, 3
PACKAGES = {
    "catchment": (),
    "pyarrow": ("pyarrow",),
    "arro3": ("arro3-core", "arro3-io"),
    "duckdb": ("duckdb",),
    "Python's csv": (),
}
FILES = {
    "decimal commas": "t;x;who\n1;0,5;ann\n2;1,25;bob\n",
    "decimal commas in quotes": 't,x\n1,"0,5"\n2,"1,25"\n',
    "gaps": "t,x,who\n1,0.5,ann\n2,NA,\n3,,bob\n",
    "spaces": "t, x ,who\n1, 0.5, ann\n2,1.5 ,bob\n",
    "quotes": 't,who\n1,"ann, b"\n2,"say ""hm"""\n',
    "tabs": "t\tx\n1\t0.5\n2\t1.5\n",
    "days": "t,x\n2024-01-02,1\n2024-01-03,2\n",
    "a decimal far down": "x\n" + "1\n" * 40_000 + "0.5\n",
    "a word far down": "x\n" + "1\n" * 40_000 + "word\n",
    "integers beyond 64 bits": "x\n1\n36893488147419103232\n",
}


def read(reader: str, path: Path) -> Mapping[str, Any]:
    """Return the columns of a file, as a reader finds them without being told anything."""
    if reader == "catchment":
        from catchment.data import read_columns

        return read_columns(path)
    if reader == "pyarrow":
        table = import_module("pyarrow.csv").read_csv(path)
        return {name: np.asarray(table[name]) for name in table.column_names}
    if reader == "duckdb":
        with import_module("duckdb").connect(config={"threads": "1"}) as base:
            found = base.read_csv(str(path)).fetchnumpy()
        for name, values in found.items():
            if np.ma.is_masked(values):
                found[name] = values.astype(object).filled(None)
        return dict(found)
    if reader == "arro3":
        io = import_module("arro3.io")
        schema = io.infer_csv_schema(str(path), has_header=True)
        table = io.read_csv(str(path), schema, has_header=True).read_all()
        columns: dict[str, Any] = {}
        for name in table.column_names:
            column = table[name]
            numbers = any(kind in str(column.type) for kind in ("Float64", "Int64"))
            if column.null_count or not numbers:
                columns[name] = np.array([one.as_py() for one in column], dtype=object)
            else:
                columns[name] = np.asarray(column)
        return columns
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    columns = {}
    for name, fields in zip(header, zip(*rows, strict=True), strict=True):
        try:
            columns[name] = np.array(fields).astype(float)
        except ValueError:
            columns[name] = np.array(fields, dtype=object)
    return columns


def told(columns: Mapping[str, Any]) -> dict[str, list[str | float | None]]:
    """Return columns as plain values: numbers, text, None where there is nothing."""
    found: dict[str, list[str | float | None]] = {}
    for name, column in columns.items():
        values = np.asarray(column)
        if values.dtype.kind == "M":
            values = values.astype("datetime64[s]").astype(str).astype(object)
        found[name] = list(map(_plain, values.tolist()))
    return found


def _plain(value: Any) -> str | float | None:
    if value is None or value != value:
        return None
    return float(value) if isinstance(value, int | float) else str(value)


def measure(reader: str, folder: Path) -> dict[str, Any]:
    """Return what this process makes of all files, and its CPU seconds over the large one."""
    values: dict[str, Any] = {}
    for name in FILES:
        try:
            values[name] = told(read(reader, folder / f"{name}.csv"))
        except Exception as error:
            values[name] = f"{type(error).__name__}: {error}"[:200]
    before = time.process_time()
    read(reader, folder / "large.csv")
    seconds = time.process_time() - before
    size = 0.0
    for package in PACKAGES[reader]:
        files = [Path(str(path.locate())) for path in metadata.files(package) or []]
        size += sum(path.stat().st_size for path in files if path.is_file()) / 1e6
    return {"values": values, "seconds": seconds, "megabytes": size}


def main() -> None:
    """Ask every reader, and keep what came of it."""
    from benchmarks.csv_speed import write_file
    from benchmarks.record import write

    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in FILES.items():
            (folder / f"{file}.csv").write_text(text)
        write_file(folder / "large.csv", ROWS)
        expected: dict[str, Any] = {}
        for reader in PACKAGES:
            python = sys.executable if reader in ("catchment", "pyarrow") else sys.argv[1]
            command = [python, __file__, reader, name]
            runs = []
            for _ in range(REPEATS):
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                runs.append(json.loads(done.stdout))
            values, best = runs[0]["values"], min(run["seconds"] for run in runs)
            expected = expected or values
            other = [file for file in FILES if values[file] != expected[file]]
            rows[reader] = {
                "megabytes": round(runs[0]["megabytes"], 1),
                "CPU seconds": round(best, 2),
                "files alike": len(FILES) - len(other),
                "other values in": other,
            }
    write("table_readers", {"rows": ROWS, "files": len(FILES), "readers": rows})
    print(table(rows))


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the documentation."""
    lines = [
        f"| CSV by | MB | CPU seconds | of {len(FILES)} files read alike |",
        "|---|---|---|---|",
    ]
    for reader, row in rows.items():
        figures = (row["megabytes"], row["CPU seconds"], row["files alike"])
        lines.append(f"| {reader} | {' | '.join(f'{x:g}' for x in figures)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
    else:
        main()
