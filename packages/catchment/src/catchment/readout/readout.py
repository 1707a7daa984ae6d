"""The linear map from features to outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array, frozen
from catchment.errors import IntegrityError
from catchment.wire import Parts


@dataclass(frozen=True, eq=False)
class Readout:
    """A linear map: weights (F, K) and intercept (K,); call it on features (n, F).

    >>> Readout(np.array([[2.0], [1.0]]), np.array([0.5]))(np.array([[1.0, 3.0]]))
    array([[5.5]])
    """

    weights: Array
    intercept: Array
    ridge: Array | float = 0.0

    def __post_init__(self) -> None:
        # One memory order, because the last bits of a matrix product depend on it and a reloaded
        # readout must predict the very same numbers.
        weights = np.array(self.weights, dtype=np.float64, order="C")
        intercept = np.array(self.intercept, dtype=np.float64)
        if weights.ndim != 2 or intercept.shape != weights.shape[1:]:
            raise ValueError(
                f"weights {weights.shape} and intercept {intercept.shape} do not fit; "
                "pass weights (F, K) and intercept (K,)"
            )
        object.__setattr__(self, "weights", frozen(weights))
        object.__setattr__(self, "intercept", frozen(intercept))

    @property
    def n_features(self) -> int:
        return len(self.weights)

    @property
    def n_outputs(self) -> int:
        return len(self.intercept)

    def __call__(self, z: Array) -> Array:
        if z.shape[-1] != len(self.weights):
            raise ValueError(
                f"features have {z.shape[-1]} columns, the readout was solved for "
                f"{len(self.weights)}; use the features it was trained on"
            )
        return np.asarray(z @ self.weights + self.intercept)

    def parts(self) -> Parts:
        """Return the readout as it travels."""
        return Parts(
            "readout", {}, (self.weights, self.intercept, np.atleast_1d(self.ridge).astype(float))
        )

    @classmethod
    def from_parts(cls, parts: Parts) -> Readout:
        """Return the readout that travelled; IntegrityError if it is malformed."""
        weights, intercept, ridge = parts.expect("readout", 3).arrays
        if ridge.shape not in ((1,), intercept.shape):
            raise IntegrityError(f"ridges came with shape {ridge.shape}")
        return cls(weights, intercept, float(ridge[0]) if len(ridge) == 1 else ridge)
