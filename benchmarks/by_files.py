"""How long a first-time user takes from `kit` to `contribution`, as far as a script can tell.

    python -m benchmarks.by_files             # twelve sites; writes results/by_files.json

Every command is a process of its own, as typed, on recordings of twelve synthetic people with six
channels and two servers. What a person needs to read, to copy a folder and to mail a file is not in
it. The first contribution compiles the map's kernels into a cache that was empty.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import write

SITES, ROWS = 12, 6_000
PLAN = """[data]
files = "*.csv"
label = "activity"
inputs = ["ax", "ay", "az", "gx", "gy", "gz"]
classes = ["rest", "walk", "run"]
time = "t"
per_step = true
test = "folds"

[preprocessing]
scale = "own"
window = "2s"

[features]
map = "window_statistics"

[[protections]]
name = "secure_aggregation"
servers = 2
rows_per_feature = 2
bits = 32
"""


def recordings(path: Path, person: int, n_rows: int) -> None:
    """Write what a site has: a clock at 50 Hz, six channels, and what is being done."""
    rng, t = np.random.default_rng(person), np.arange(n_rows) / 50
    doing = (t // 20).astype(int) % 3
    strength = np.array([0.1, 1.0, 2.0])[doing, None]
    u = strength * np.sin(2 * np.pi * t[:, None] * (1 + np.arange(6) / 7))
    u += rng.normal(0, 0.3, u.shape)
    with path.open("w", newline="\n") as file:
        file.write("t,ax,ay,az,gx,gy,gz,activity\n")
        for k in range(n_rows):
            values = ",".join(f"{one:.4f}" for one in u[k])
            file.write(f"{t[k]:.2f},{values},{('rest', 'walk', 'run')[doing[k]]}\n")


def typed(folder: Path, cache: Path, *words: str) -> float:
    """Return the seconds of a command in a process of its own."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    began = time.perf_counter()
    command = [sys.executable, "-m", "catchment.cli", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return time.perf_counter() - began


def journey(folder: Path, sites: int = SITES, n_rows: int = ROWS) -> dict[str, Any]:
    """Return the seconds of each command that is typed, and the bytes of a contribution."""
    names, cache = [f"site{k:02d}" for k in range(sites)], folder / "cache"
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8", newline="\n")
    listed = "\n".join(names) + "\n"
    (folder / "sites.csv").write_text(listed, encoding="utf-8", newline="\n")
    found: dict[str, Any] = {"sites": sites, "rows": n_rows}
    found["kit"] = typed(folder, cache, "kit", "plan.toml", "--sites", "sites.csv")
    kits, each, paths = folder / "kits", [], []
    for k, name in enumerate(names):
        own = kits / name

        recordings(own / "data" / "log.csv", k, n_rows)
        # The line that the page in the folder says.
        page = (own / "README.txt").read_text(encoding="utf-8")
        (line,) = (one for one in page.splitlines() if one.strip().startswith("catchment "))
        each.append(typed(own, cache, *line.split()[1:]))
        paths.append(str(own / f"{name}.contribution"))
    found["contribute, first"], found["contribute, later"] = each[0], float(np.median(each[1:]))
    found["inspect"] = typed(folder, cache, "inspect", paths[0])
    found["kit to contribution"] = found["kit"] + each[0] + found["inspect"]
    same = ["--plan", "plan.toml", "--identities", "identities.json"]
    add = ["combine", *paths, *same, "--out", "run"]
    found["combine, to the batch"] = typed(kits, cache, *add)
    found["assist"] = typed(kits, cache, "assist", "run.batch", *same, "--keys", "helper/keys")
    found["combine, to the model"] = typed(kits, cache, *add, "--answer", "run.answer")
    found["contribution, bytes"] = Path(paths[0]).stat().st_size
    return found


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        found = journey(folder)
    finally:
        shutil.rmtree(folder)
    write("by_files", found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
