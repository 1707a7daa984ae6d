"""aeon's MiniRocket classifier on a folder of files, for `benchmarks.answers.many_files`.

It runs by aeon's own interpreter and imports nothing of catchment. The classifier takes one array
of all windows, so the files are read into one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from aeon.classification.convolution_based import MiniRocketClassifier


def main(folder: Path) -> None:
    sides = []
    for part in ("train", "test"):
        held = [np.load(path) for path in sorted((folder / part).glob("*.npz"))]
        sides.append([np.concatenate([file[key] for file in held]) for key in ("X", "y")])
    (X, y), (X_test, y_test) = sides
    fitted = MiniRocketClassifier(n_kernels=504, random_state=0, n_jobs=1).fit(X, y)
    print(json.dumps({"accuracy": round(float((fitted.predict(X_test) == y_test).mean()), 4)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
