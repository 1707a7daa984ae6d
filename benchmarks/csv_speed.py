"""How fast a large CSV file is read: by this library, by pyarrow and by pandas.

    python -m benchmarks.csv_speed             # 1.45 million rows, 107 MB; writes results/csv.json

Each reader has processes of its own, in turns; quickest CPU seconds of three, with its import, and
the most memory that such a process had, all of it. The file has seven numbers and a word in each
row.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import write

ROWS, REPEATS = 1_450_000, 3
READERS = ("catchment", "pyarrow", "pandas")


def write_file(path: Path, n_rows: int) -> None:
    """Write rows of a clock, six sensors and a word."""
    rng = np.random.default_rng(0)
    words = np.array(["walking", "sitting", "standing", "upstairs"])
    with path.open("w") as file:
        file.write("t,ax,ay,az,gx,gy,gz,activity\n")
        for start in range(0, n_rows, 50_000):
            n = min(50_000, n_rows - start)
            x, chosen = rng.normal(size=(n, 6)), words[rng.integers(0, 4, n)]
            t = np.arange(start, start + n) * 0.02
            line = "%.2f" + ",%.6f" * 6 + ",%s\n"
            file.writelines(line % (a, *b, c) for a, b, c in zip(t, x, chosen, strict=True))


def measure(reader: str, path: Path) -> dict[str, float]:
    """Return the CPU seconds of importing and reading in this process, and its peak of memory."""
    read: Any
    before = time.process_time()
    if reader == "catchment":
        from catchment.data import read_columns as read
    elif reader == "pyarrow":
        from pyarrow.csv import read_csv

        from catchment.data import values_of

        def read(path: Path) -> list[Any]:
            return [values_of(column) for column in read_csv(path).columns]

    else:
        from pandas import read_csv as read
    read(path)
    spent = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"CPU seconds": round(spent, 2), "peak MB": round(peak)}


def main() -> None:
    """Measure every reader and keep the results."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.csv"
        write_file(path, ROWS)
        size = path.stat().st_size / 1e6
        found: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
        for _ in range(REPEATS):
            for name in READERS:
                command = [sys.executable, "-m", "benchmarks.csv_speed", name, str(path)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                found[name].append(json.loads(done.stdout))
    rows = []
    for name, runs in found.items():
        best = min(runs, key=lambda run: run["CPU seconds"])
        speed = round(size / best["CPU seconds"])
        rows.append({"reader": name, "MB a second": speed, **best})
    packages = {name: version(name) for name in ("pyarrow", "pandas")}
    write("csv", {"file MB": round(size), "rows of the file": ROWS, **packages, "rows": rows})
    print(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of the documentation."""
    names = ("reader", "MB a second", "CPU seconds", "peak MB")
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
    else:
        main()
