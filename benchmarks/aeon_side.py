"""aeon's MiniRocket and Hydra behind a pipe, for `benchmarks.maps_speed`.

It runs by aeon's own interpreter and imports nothing of catchment. A line of JSON names a job: the
kind, recordings, channels, steps and features. The answer is how many features aeon makes of it,
0 where it cannot; each further empty line is answered by the CPU seconds of one transform, and a
line "next" ends the job.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np


def data(n: int, channels: int, steps: int) -> Any:
    """Return random walks (n, channels, steps) of deviation 1."""
    rng = np.random.default_rng([n, channels, steps])
    u = rng.normal(size=(n, channels, steps)).cumsum(axis=2)
    u -= u.mean(axis=2, keepdims=True)
    return u / u.std(axis=2, keepdims=True)


def transformer(kind: str, steps: int, features: int) -> Any:
    """Return aeon's transformer with about so many features, None where it cannot run."""
    from aeon.transformations.collection import convolution_based as aeon

    if kind == "minirocket":
        return aeon.MiniRocket(features, random_state=0, n_jobs=1)
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    dilations = int(np.log2((steps - 1) / 8)) + 1
    groups = max(2, 2 * round(features / (32 * dilations)))  # sixteen features for half of them
    return aeon.HydraTransformer(n_groups=groups, random_state=0, n_jobs=1, output_type="numpy")


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


def main() -> None:
    import aeon
    import numba

    say({"aeon": aeon.__version__, "numba": numba.__version__, "numpy": np.__version__})
    for line in sys.stdin:
        job = json.loads(line)
        X = data(job["n"], job["channels"], job["steps"]).astype(np.float32)
        fitted = transformer(job["kind"], job["steps"], job["features"])
        say(0 if fitted is None else fitted.fit(X).transform(X).shape[1])
        while fitted is not None and sys.stdin.readline().strip() != "next":
            start = time.process_time()
            fitted.transform(X)
            say(time.process_time() - start)


if __name__ == "__main__":
    main()
