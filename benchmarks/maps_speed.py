"""How fast random convolutions are beside aeon's: the same windows, one thread each, in turns.

    python -m benchmarks.maps_speed --aeon PYTHON [--repeats 15]

Writes benchmarks/results/maps_speed.json. aeon 1.6.0 asks for an older numba and numpy than this
project's constraints have, so pip puts the two in one environment only without looking
(`pip install --no-deps --target DIR aeon==1.6.0 deprecated wrapt`, PYTHONPATH=DIR); PYTHON may also
be an environment of its own. Its Hydra needs torch and is left out where there is none.

Times are CPU microseconds for a recording, the least of all repeats. `catchment` is the transform
from arrays to features, as aeon's; `with checks` is `rows` of the built map, which looks for values
that are not finite, compares features with their bounds and rounds them to fixed point.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from benchmarks.aeon_side import data
from benchmarks.record import write
from catchment import Hydra, MiniRocket

# Channels and steps.
SHAPES = ((1, 150), (1, 500), (1, 1460), (9, 128))
RECORDINGS, FEATURES = 400, {"minirocket": 1008, "hydra": 1024}


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compared(kind: str, channels: int, steps: int, pipe: Pipe, repeats: int) -> dict[str, Any]:
    """Return the times of one kind of map on recordings of one shape."""
    described = (MiniRocket if kind == "minirocket" else Hydra)(FEATURES[kind])
    features = described.build(channels, per_step=False, classes=True)
    us = [np.ascontiguousarray(u.T) for u in data(RECORDINGS, channels, steps)]
    features.rows(us, threads=1)
    job = {"kind": kind, "n": RECORDINGS, "channels": channels, "steps": steps}
    n_theirs = pipe.ask(json.dumps({**job, "features": FEATURES[kind]}))
    ours, checked, theirs = [], [], []
    for _ in range(repeats):
        ours.append(cpu(lambda: features.compute_rows(us, 1)))
        checked.append(cpu(lambda: features.rows(us, threads=1)))
        if n_theirs:
            theirs.append(pipe.ask(""))
    if n_theirs:
        pipe.tell("next")
    each = 1e6 / RECORDINGS
    found: dict[str, Any] = {
        "map": kind,
        "channels": channels,
        "steps": steps,
        "features": features.n_features,
        "catchment": round(min(ours) * each, 1),
        "with checks": round(min(checked) * each, 1),
    }
    if n_theirs:
        # Hydra's numbers of features are multiples of other numbers: times are for equal ones.
        same = features.n_features / n_theirs
        found |= {
            "features of aeon": n_theirs,
            "aeon": round(min(theirs) * each * same, 1),
            "ratio": round(min(theirs) * same / min(ours), 2),
            "ratio with checks": round(min(theirs) * same / min(checked), 2),
        }
    return found


class Pipe:
    """aeon's program, asked line by line."""

    def __init__(self, python: str) -> None:
        command = [python, str(Path(__file__).with_name("aeon_side.py"))]
        self._there = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.versions = self._answer()

    def tell(self, line: str) -> None:
        stdin = self._there.stdin
        assert stdin is not None
        stdin.write(line + "\n")
        stdin.flush()

    def ask(self, line: str) -> Any:
        self.tell(line)
        return self._answer()

    def _answer(self) -> Any:
        stdout: IO[str] | None = self._there.stdout
        assert stdout is not None
        return json.loads(stdout.readline())

    def close(self) -> None:
        assert self._there.stdin is not None
        self._there.stdin.close()
        self._there.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aeon", required=True, help="an interpreter that has aeon 1.6.0")
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    pipe = Pipe(given.aeon)
    rows = []
    for kind in FEATURES:
        for channels, steps in SHAPES:
            rows.append(compared(kind, channels, steps, pipe, given.repeats))
            print(rows[-1], flush=True)
    pipe.close()
    settings = {"recordings": RECORDINGS, "repeats": given.repeats, "unit": "CPU microseconds"}
    write("maps_speed", {"aeon": pipe.versions, **settings, "jobs": rows})


if __name__ == "__main__":
    main()
