"""Residual layers over another map: random features, and steps that were learned from sums.

With z the features of the inner map, A_t and b_t drawn from the seed, and steps D_t (m, d):

    x_0 = tanh(z A_0 + b_0),    f_t = tanh(x_t A_t+1 + b_t+1),    x_t+1 = x_t + f_t D_t

These are the features of DeepAFL (Tang et al., ICLR 2026) in models of earlier versions. Weights
are uniform between -1 and 1 over the root of the number of inputs, biases too. All of it is plain
float64: a hyperbolic tangent and a matrix product may differ in their last digit between machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from catchment import Array, PositiveInt
from catchment.features import FeatureMap
from catchment.features.echo_state import Purpose, Words, uniform


@dataclass(frozen=True, eq=False)
class Layers(FeatureMap):
    """Residual layers over the features of another map.

    Parameters
    ----------
    map
        What gives the features z, built.
    width
        Columns d of x.
    random
        Columns m of each layer's random features f.
    steps
        (t, m, d) what each layer adds; t layers are made.
    seed
        Of the random weights.
    scale
        Factor on the features z.
    beside
        Whether rows hold the next layer's random features f_t after x_t, as training needs them.

    >>> from catchment import EchoState
    >>> inner = EchoState(5).build(1, per_step=True)
    >>> layers = Layers(inner, width=3, random=4, steps=np.ones((1, 4, 3)), beside=True)
    >>> layers.rows([[0.0, 0.5]])[0].shape, layers.bounds
    ((2, 7), array([5., 5., 5., 1., 1., 1., 1.]))
    """

    map: FeatureMap
    width: PositiveInt = 128
    random: PositiveInt = 128
    steps: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    seed: int = 0
    scale: float = 1.0
    beside: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = np.shape(self.steps)
        if len(shape) != 3 or (shape[0] and shape[1:] != (self.random, self.width)):
            raise ValueError(
                f"steps have shape {shape}; pass (layers, {self.random}, {self.width})"
            )

    @property
    def n_features(self) -> int:
        return self.width + self.random if self.beside else self.width

    @property
    def bounds(self) -> Array:
        """Largest absolute value (F,) of each feature: every f is between -1 and 1."""
        most = 1.0 + np.abs(self.steps).sum(axis=(0, 1)) if len(self.steps) else np.ones(self.width)
        return np.concatenate([most, np.ones(self.n_features - self.width)])

    @property
    def cost(self) -> float:
        layer = 2 * self.width * self.random
        return self.map.cost + self.map.n_features * self.width + layer * (len(self.steps) + 1)

    def names(self) -> list[str]:
        """Return the name of every feature, in order."""
        x = [f"x{k}" for k in range(self.width)]
        return x + [f"f{k}" for k in range(self.n_features - self.width)]

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the rows (n, F) of each recording's inputs."""
        found = self.map.rows(inputs, threads=threads)
        x = self._activated(np.concatenate(found) * self.scale, 0, self.width)
        for t, step in enumerate(self.steps):
            x = x + self._activated(x, t + 1, self.random) @ step
        if self.beside:
            x = np.hstack([x, self._activated(x, len(self.steps) + 1, self.random)])
        return np.split(x, np.cumsum([len(rows) for rows in found])[:-1])

    def _activated(self, x: Array, layer: int, n_columns: int) -> Array:
        """Return tanh(x A + b) (n, n_columns) with the weights of a layer."""
        A, b = self.weights(layer, x.shape[1], n_columns)
        return np.asarray(np.tanh(x @ A + b))

    def weights(self, layer: int, n: int, n_columns: int) -> tuple[Array, Array]:
        """Return the weights A (n, n_columns) and biases b (n_columns,) of a layer."""
        largest = 1.0 / math.sqrt(n)
        drawn = [
            uniform(Words(seed=self.seed, layer=layer, purpose=what), count, -largest, largest)
            for what, count in ((Purpose.INPUT_VALUES, n * n_columns), (Purpose.BIAS, n_columns))
        ]
        return drawn[0].reshape(n, n_columns), drawn[1]
