"""A feature map of one's own whose features lie in fixed point, or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catchment import Array
from catchment.features import FeatureMap


@dataclass(frozen=True)
class Waves(FeatureMap):
    """The mean of every channel under a few slow waves, squashed."""

    channels: int
    waves: int = 3
    bits: int | None = 8
    bounds = property(lambda self: np.full(self.n_features, 1.0))

    @property
    def n_features(self) -> int:
        return self.channels * self.waves

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [self._row(u) for u in inputs]

    def _row(self, u: Array) -> Array:
        steps = np.arange(len(u))[:, None, None]
        under = u[:, :, None] * np.cos(0.1 * steps * np.arange(self.waves))
        row: Array = np.tanh(under.mean(axis=0)).reshape(1, -1)
        return row
