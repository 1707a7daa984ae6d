"""A feature map of one's own: window statistics, one row per recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
from catchment.features import FeatureMap


@dataclass(frozen=True)
class WindowStatistics(FeatureMap):
    """Mean, deviation, extremes and mean step of every channel; inputs beyond `limit` are cut."""

    channels: int
    limit: float = 10.0

    @property
    def n_features(self) -> int:
        return 5 * self.channels

    @property
    def bounds(self) -> Array:
        return np.full(self.n_features, 2 * self.limit)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [self._row(np.clip(u, -self.limit, self.limit)) for u in inputs]

    def _row(self, u: Array) -> Array:
        steps = np.abs(np.diff(u, axis=0)).sum(axis=0) / max(len(u) - 1, 1)
        parts = (u.mean(axis=0), u.std(axis=0), u.min(axis=0), u.max(axis=0), steps)
        return np.concatenate(parts)[None]
