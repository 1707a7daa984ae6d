"""What the boards are shown with: maps whose device fits into 64 kB of RAM."""

from __future__ import annotations

from tools.edge.federation import Recipe

_WHOLE = {"units": 48, "bits": 15, "feature_bits": 8, "pool": "mean_std"}
RECIPES = {
    "48 units, whole": Recipe(map={**_WHOLE, "bits": 20}),
    "48 units, 15 digits": Recipe(map=_WHOLE),
}
