"""How long the first prediction of a machine takes, with and without kernels compiled beforehand.

    python -m benchmarks.first_prediction

Trains a model of the default map on three files, then runs `catchment predict` in fresh processes:
with an empty cache of kernels, with one that `python -m catchment.precompile` has filled, and once
more. Writes benchmarks/results/first_prediction.json, wall and CPU seconds of each process.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import write

ROWS = "t,load,price\n{0},{0},{0}\n" + "".join(
    f"{t},{(t * 7) % 11},{(t * 5) % 13}\n" for t in range(10, 2000)
)


def seconds(folder: Path, cache: Path, *words: str) -> dict[str, float]:
    """Return the seconds of a process of Python in a folder, with a cache of kernels."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-m", *words], cwd=folder, env=env, check=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": round(wall, 1), "cpu": round(cpu, 1)}


def main() -> None:
    """Time and write them."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        for k, who in enumerate(("ann", "bob", "cyd")):
            (folder / "data" / f"{who}.csv").write_text(ROWS.format(k))
        command = ("catchment.cli", "fit", "data", "--target", "price", "--out", "run")
        seconds(folder, folder / "own", *command)
        predict = ("catchment.cli", "predict", "run", "data/ann.csv", "--out", "new.csv")
        found["predict, nothing compiled"] = seconds(folder, folder / "empty", *predict)
        found["precompile"] = seconds(folder, folder / "full", "catchment.precompile")
        found["predict, precompiled"] = seconds(folder, folder / "full", *predict)
        found["predict, again"] = seconds(folder, folder / "full", *predict)
    print(found)
    write("first_prediction", {"seconds": found})


if __name__ == "__main__":
    main()
