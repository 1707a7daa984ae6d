"""The linear map from features to outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array


@dataclass(frozen=True, eq=False)
class Readout:
    """A linear map: weights (F, K) and intercept (K,); call it on features (n, F).

    >>> Readout(np.array([[2.0], [1.0]]), np.array([0.5]))(np.array([[1.0, 3.0]]))
    array([[5.5]])
    """

    weights: Array
    intercept: Array
    ridge: Array | float = 0.0

    def __call__(self, z: Array) -> Array:
        if z.shape[-1] != len(self.weights):
            raise ValueError(
                f"features have {z.shape[-1]} columns, the readout was solved for "
                f"{len(self.weights)}; use the features it was trained on"
            )
        return np.asarray(z @ self.weights + self.intercept)
