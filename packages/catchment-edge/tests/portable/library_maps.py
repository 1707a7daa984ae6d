"""Maps as the library builds them from recipes, of every pool and activation, with sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from catchment import Array, Integers
from catchment.features import EchoState, Reservoir
from tools.portable.dump import IntegerMap, IntegerSequence, dumped_map

# Settings of the recipe and of the map, and the number of sequences.
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "steps": ({"bits": 20}, {"feature_bits": 8, "washout": 5, "bias": True}, 12),
    "one sequence": ({"bits": 24}, {"feature_bits": 24}, 1),
    "words": ({"bits": 15}, {"feature_bits": 8, "input": False}, 12),
    "mean": ({"bits": 20}, {"feature_bits": 8, "pool": "mean"}, 12),
    "mean of parts": ({"bits": 24}, {"feature_bits": 12, "pool": "mean", "segments": 3}, 3),
    "mean and deviation": ({"bits": 20}, {"feature_bits": 8, "pool": "mean_std"}, 12),
    "fine deviation": ({"bits": 24}, {"feature_bits": 24, "pool": "mean_std"}, 12),
    "last": ({"bits": 16}, {"feature_bits": 10, "pool": "last", "segments": 2}, 12),
    "max": ({"bits": 20}, {"feature_bits": 6, "pool": "max"}, 12),
    "sigmoid": ({"bits": 20, "activation": "sigmoid"}, {"feature_bits": 8}, 12),
    "sin": ({"bits": 20, "activation": "sin"}, {"feature_bits": 8}, 12),
    "relu": ({"bits": 20, "activation": "relu"}, {"feature_bits": 8}, 12),
    "identity": ({"bits": 20, "activation": "identity"}, {"feature_bits": 8}, 12),
    "two layers": ({"bits": 20, "units": (20, 15)}, {"feature_bits": 8}, 12),
    "cut": ({"bits": 18}, {"feature_bits": 10, "washout": 3}, 2),
    "cut and pooled": ({"bits": 18}, {"feature_bits": 10, "pool": "mean_std"}, 2),
}
NAMES = tuple(SETTINGS)


def drawn(name: str) -> tuple[EchoState, list[Array], list[Integers]]:
    """Return the map of this name, with inputs and the targets of three classes."""
    of_recipe, of_map, n = SETTINGS[name]
    common: dict[str, Any] = {"units": 40, "inputs": 3, "seed": 5, "leak_rate": 0.3}
    recipe = Reservoir(**{**common, **of_recipe})
    features = EchoState.of(recipe, **of_map)
    rng = np.random.default_rng([3, list(SETTINGS).index(name)])
    shortest, longest = (2500, 4000) if name.startswith("cut") else (60, 200)
    us = [rng.normal(size=(int(rng.integers(shortest, longest)), 3)) for _ in range(n)]
    n_rows = [len(u) - features.washout if features.per_step else 1 for u in us]
    ys = [np.eye(3, dtype=np.int64)[rng.integers(0, 3, rows)] for rows in n_rows]
    return features, us, ys


def integers_of(
    features: EchoState, us: list[Array], ys: list[Integers]
) -> tuple[IntegerMap, list[IntegerSequence]]:
    """Return a map and sequences in integers."""
    sequences = [IntegerSequence.of(features, u, y) for u, y in zip(us, ys, strict=True)]
    return IntegerMap.of(features), sequences


def library_dumps() -> list[bytes]:
    """Return the dump of every map."""
    return [dumped_map(*integers_of(*drawn(name))) for name in NAMES]
