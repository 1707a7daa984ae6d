"""MiniRocket and QUANT as aeon has them, on the same people: what pooled data reach.

    python -m reproductions.map_sets windows.npz                  # where catchment is
    python benchmarks/aeon_maps.py windows.npz --out results      # where aeon is

needs aeon and numpy alone (QUANT torch, too), and writes maps_aeon.json, which `python -m
reproductions maps` puts into its table. All training windows are in one place: biases are quantiles
of them, and the ridge is aeon's choice, by windows left out. People have 1 008 kernels, problems of
the UCR archive as many as aeon gives them by itself. QUANT (people only) has aeon's own settings.
Cells that the file has already are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAME, QUANT = "MiniRocket of aeon, pooled", "QUANT of aeon, pooled"
FEW, USUAL = 1008, 10_000
ARCHIVE = ("ArrowHead", "GunPoint", "ItalyPowerDemand", "ACSF1", "BasicMotions", "UnitTest")


def named(method: str, kernels: int) -> str:
    """Return what a cell's method is called.

    >>> named(NAME, 1008), named(QUANT, 1008)
    ('MiniRocket of aeon, pooled, 1008', 'QUANT of aeon, pooled')
    """
    return f"{method}, {'1008' if kernels == FEW else '9996'}" if method == NAME else method


def classifier(method: str, kernels: int, seed: int) -> Any:
    """Return aeon's classifier."""
    if method == QUANT:
        from aeon.classification.interval_based import QUANTClassifier

        return QUANTClassifier(random_state=seed)
    from aeon.classification.convolution_based import MiniRocketClassifier

    return MiniRocketClassifier(n_kernels=kernels, random_state=seed)


def cell(
    name: str, arrays: Mapping[str, NDArray[Any]], method: str, kernels: int, seed: int
) -> dict[str, Any]:
    """Return the windows of every test person that are classified right."""
    u, label, person, names, fold = (
        arrays[f"{name}.{key}"] for key in ("u", "label", "person", "names", "fold")
    )
    x = np.ascontiguousarray(u.astype(np.float32).transpose(0, 2, 1))
    correct, windows, begun = {}, {}, time.process_time()
    counts = np.zeros((int(arrays[f"{name}.classes"]), 3), int)
    for k in range(int(fold.max()) + 1):
        testing = fold[person] == k
        model = classifier(method, kernels, seed)
        model.fit(x[~testing], label[~testing])
        said, true = model.predict(x[testing]), label[testing]
        for part, column in ((true[said == true], 0), (said, 1), (true, 2)):
            counts[:, column] += np.bincount(part, minlength=len(counts))
        for one in np.flatnonzero(fold == k):
            own = person[testing] == one
            correct[str(names[one])] = int((said == true)[own].sum())
            windows[str(names[one])] = int(own.sum())
    return {
        "set": name,
        "method": named(method, kernels),
        "seed": seed,
        "windows": windows,
        "correct": correct,
        "classes": counts.tolist(),
        "columns": kernels // 84 * 84 if method == NAME else 0,
        "server_seconds": (time.process_time() - begun) / (int(fold.max()) + 1),
    }


def main() -> None:
    """Compute the cells that the file does not have."""
    parser = argparse.ArgumentParser()
    parser.add_argument("windows", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--method", choices=(NAME, QUANT), default=NAME)
    given = parser.parse_args()
    path = given.out / "maps_aeon.json"
    cells = json.loads(path.read_text()) if path.is_file() else []
    with np.load(given.windows, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    for seed in range(given.seeds):
        for name in arrays["sets"].tolist():
            if given.method == QUANT and name in ARCHIVE:
                continue
            kernels = USUAL if name in ARCHIVE else FEW
            key = name, named(given.method, kernels), seed
            kept = [one for one in cells if (one["set"], one["method"], one["seed"]) == key]
            if any(one.get("classes") or name in ARCHIVE for one in kept):
                continue
            cells = [one for one in cells if one not in kept]
            cells.append(cell(name, arrays, given.method, kernels, seed))
            share = sum(cells[-1]["correct"].values()) / sum(cells[-1]["windows"].values())
            print(f"{name}, seed {seed}: {share:.4f}", flush=True)
            path.write_text(json.dumps(cells, indent=1) + "\n")


if __name__ == "__main__":
    main()
