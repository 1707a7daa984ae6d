"""What the boards are shown with: maps whose device fits into 64 kB of RAM."""

from __future__ import annotations

from tools.edge.federation import Recipe

_WHOLE = {"units": 48, "grid": 15, "feature_grid": 8, "pool": "mean_std"}
RECIPES = {
    "48 units, whole": Recipe(map={**_WHOLE, "grid": 20}),
    "48 units, q15": Recipe(map=_WHOLE, number="q15"),
    "64 units, float32": Recipe(
        map={"units": 64, "grid": "none", "pool": "mean"}, number="float32"
    ),
    "128 units, float32": Recipe(
        map={"units": 128, "grid": "none", "pool": "mean"}, number="float32"
    ),
}
