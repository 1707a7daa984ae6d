"""`WithNorm`: the length of the input vector as a further channel, for the map inside.

Sensors are worn in any direction, and the length of what they measure does not depend on it. With
inputs of standard deviation 1 the length is about sqrt(I), which is taken off:

    x = round(2^16 u), cut off at 2^22;  r = floor(sqrt(sum_i x_i^2)) - floor(2^16 sqrt(I))

in whole numbers but for the root, which IEEE 754 rounds the same way everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.features.base import FeatureMap

DIGITS = 16  # of inputs, after the point
RANGE = 64.0  # where inputs are cut off before they are squared


@dataclass(frozen=True)
class WithNorm(FeatureMap):
    """Another map of the inputs and of their Euclidean norm, which is one channel more.

    Parameters
    ----------
    map
        A map such as `MiniRocket(504)`.
    n_inputs
        Channels without the norm; filled in by `build`.

    >>> from catchment import WindowStatistics
    >>> built = WithNorm(WindowStatistics()).build(2, per_step=False)
    >>> built.n_inputs, built.n_features, built.names()[34]
    (2, 54, 'mean_u2')
    >>> round(float(built.rows([np.array([[3.0, 4.0]])])[0][0, 34]), 3)  # 5 - sqrt(2)
    3.586
    """

    n_more_inputs = 1

    map: FeatureMap
    n_inputs: int | None = None

    @property
    def n_features(self) -> int:
        return self.map.n_features

    @property
    def per_step(self) -> bool:
        return self.map.per_step

    @property
    def washout(self) -> int:
        return self.map.washout

    @property
    def bounds(self) -> Array:
        return self.map.reached_bounds

    @property
    def grid(self) -> Any:
        return self.map.grid

    @property
    def constant(self) -> bool:
        return self.map.constant

    @property
    def standardise(self) -> bool:
        return self.map.standardise

    @property
    def cost(self) -> float:
        return self.map.cost

    def names(self) -> list[str]:
        return self.map.names()

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the rows (n, F) of each recording's inputs (T, I)."""
        return self.map.rows([with_norm(u) for u in inputs], threads=threads)


def with_norm(u: Array) -> Array:
    """Return inputs (T, I) and the length of each of them, less sqrt(I), as the last column.

    >>> with_norm(np.array([[3.0, 4.0], [0.0, 0.0]]))[:, 2].round(3)
    array([ 3.586, -1.414])
    """
    from catchment.features.window_kernels import beside_norm

    usual = math.isqrt(u.shape[1] << 2 * DIGITS)
    found = np.empty((len(u), u.shape[1] + 1))
    beside_norm(u, 2.0**DIGITS, RANGE, usual, found)
    return found
