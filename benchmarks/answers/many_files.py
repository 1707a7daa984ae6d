"""MiniRocket over a folder that grows: aeon on one array, ours file by file.

    python -m benchmarks.answers.many_files --aeon PYTHON     # results/answers_files.json, 5 min
    python -m benchmarks.answers.many_files --files 2 --windows 40 --out /tmp     # ours only

A file holds the windows of one person, (windows, channels, steps) in float32, and their labels.
Both learn 504 columns and a ridge from the files, and are tested on four further people. PYTHON is
an interpreter that has aeon 1.6.0 (see `benchmarks.maps_speed`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers.watched import watched
from benchmarks.record import RESULTS, write
from catchment import MiniRocket, Recording, evaluate, federate

FILES, WINDOWS, CHANNELS, STEPS = (25, 100), 1000, 6, 128
CLASSES, COLUMNS, N_TEST, LIMIT = ("rest", "walk", "run", "ride"), 504, 4, 400.0


def make(folder: Path, n_files: int, n_windows: int) -> None:
    """Write people's windows: waves of a class's frequency at a person's pace, in much noise."""
    for k in range(n_files + N_TEST):
        rng = np.random.default_rng(k)
        labels = rng.integers(len(CLASSES), size=n_windows)
        pace = (0.08 + 0.04 * labels) * rng.uniform(0.9, 1.1)
        phase = rng.uniform(0, 2 * np.pi, (n_windows, CHANNELS, 1))
        angle = pace[:, None, None] * np.arange(STEPS) + phase
        u = np.sin(angle) + 1.5 * rng.normal(size=(n_windows, CHANNELS, STEPS))
        path = folder / ("test" if k >= n_files else "train") / f"person-{k:04d}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, X=u.astype(np.float32), y=labels)


def recordings(path: Path) -> list[Recording]:
    """Return the windows of one file."""
    held = np.load(path)
    return [
        Recording.labeled(x.T, CLASSES[k], classes=CLASSES)
        for x, k in zip(held["X"], held["y"], strict=True)
    ]


def ours(folder: Path) -> dict[str, Any]:
    """Learn from the files one after the other; one of them and 32 sums are in memory."""
    train, test = (
        {path.stem: partial(recordings, path) for path in sorted((folder / part).glob("*.npz"))}
        for part in ("train", "test")
    )
    run = federate(MiniRocket(COLUMNS), train, ridge="groups", threads=1)
    total = evaluate(run.model, test, threads=1).total
    assert total is not None
    return {"accuracy": round(total.value, 4)}


def rows_of(n_files: int, n_windows: int, aeon: str | None, limit: float) -> list[dict[str, Any]]:
    """Return what each library needs for a folder of so many files."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder, n_files, n_windows)
        size = sum(path.stat().st_size for path in (folder / "train").iterdir())
        commands = {"catchment": [sys.executable, "-m", "benchmarks.answers.many_files", "--one"]}
        if aeon is not None:
            commands["aeon"] = [aeon, str(Path(__file__).with_name("aeon_files.py"))]
        about = {"files": n_files, "windows": n_files * n_windows, "MiB": round(size / 2**20)}
        return [
            {"library": name, **about, **watched([*command, place], limit=limit)}
            for name, command in commands.items()
        ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=FILES)
    parser.add_argument("--windows", type=int, default=WINDOWS, help="of each file")
    parser.add_argument("--aeon", help="an interpreter that has aeon 1.6.0")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a run may take")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(ours(given.one)))
        return
    rows = [row for n in given.files for row in rows_of(n, given.windows, given.aeon, given.limit)]
    shape = {"columns": COLUMNS, "channels": CHANNELS, "steps": STEPS, "test people": N_TEST}
    write("answers_files", {**shape, "runs": rows}, folder=given.out)


if __name__ == "__main__":
    main()
