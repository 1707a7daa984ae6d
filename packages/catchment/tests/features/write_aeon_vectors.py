"""Write data/aeon.npz: what aeon 1.6.0 makes of small recordings, with the parameters it drew.

    pip install --no-deps --target DIR aeon==1.6.0 deprecated wrapt
    PYTHONPATH=DIR .venv/bin/python tests/features/write_aeon_vectors.py

aeon asks for an older numba and numpy than this project's, so pip does not install both together;
it runs with the newer ones. Inputs are integers, and Hydra's weights are aeon's own rounded to
2^-10, so that its float32 arithmetic is exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

TARGET = Path(__file__).parent / "data" / "aeon.npz"
# Recordings, channels, steps, columns asked for.
MINIROCKET = {"one": (4, 1, 50, 252), "long": (2, 1, 400, 840), "many": (3, 5, 64, 336)}
# Recordings, channels, steps, groups.
HYDRA = {"one": (4, 1, 50, 4), "many": (3, 5, 64, 4)}


def recordings(n: int, channels: int, steps: int) -> Any:
    rng = np.random.default_rng([n, channels, steps])
    return rng.integers(-9, 10, (n, channels, steps)).cumsum(axis=2).astype(np.float32)


def minirocket(n: int, channels: int, steps: int, columns: int) -> dict[str, Any]:
    from aeon.transformations.collection.convolution_based import MiniRocket

    X = recordings(n, channels, steps)
    fitted = MiniRocket(columns, random_state=1).fit(X)
    names = ("sizes", "channels", "dilations", "per_dilation", "biases")
    given = dict(zip(names, fitted.parameters, strict=True))
    return {"X": X, "features": fitted.transform(X), **given}


def hydra(n: int, channels: int, steps: int, groups: int) -> dict[str, Any]:
    import torch
    from aeon.transformations.collection.convolution_based import HydraTransformer

    X = recordings(n, channels, steps)
    fitted = HydraTransformer(n_groups=groups, random_state=1, output_type="numpy").fit(X)
    inside = fitted._hydra
    whole = torch.round(inside.W * 2**10)
    inside.W = whole / 2**10
    return {
        "X": X,
        "features": fitted.transform(X),
        "W": whole.numpy().astype(np.int32),
        "dilations": inside.dilations.numpy(),
        "channels": torch.stack(inside.idx).numpy(),
    }


if __name__ == "__main__":
    found = {f"minirocket {k}": minirocket(*shape) for k, shape in MINIROCKET.items()}
    found |= {f"hydra {k}": hydra(*shape) for k, shape in HYDRA.items()}
    arrays = {f"{case}/{name}": x for case, all_ in found.items() for name, x in all_.items()}
    TARGET.parent.mkdir(exist_ok=True)
    np.savez_compressed(TARGET, **arrays)
