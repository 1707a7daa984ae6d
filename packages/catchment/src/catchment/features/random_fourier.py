"""`RandomFourierFeatures`: random features of inputs, or of another map's rows.

    z_j = cos(w_j x + b_j)         the kernel exp(-scale^2 |x - x'|^2 / 2) (Rahimi and Recht 2007)
    z_j = max(0, w_j x)            random layers of rectifiers, as RanPAC has them

Weights w are nearly normal: sums of twelve uniform numbers, which every machine rounds alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt, Le

from catchment.arrays import Array, PositiveInt
from catchment.compiling import njit
from catchment.features.base import FeatureMap, handed
from catchment.features.echo_state.kernels import SAFE_MATH, fixed_sin
from catchment.features.echo_state.weights import ROUND, Purpose, Words, rounded, uniform

Activation = Literal["cos", "relu"]
WEIGHT_DIGITS, VALUE_DIGITS = 14, 14  # of weights, and of what they multiply
FARTHEST = 256.0  # largest absolute value of what they multiply
LARGEST_WEIGHT = 64.0
LARGEST_RELU = 64.0
CLASS_BITS = 12  # of rectified features, where targets are classes
UNIFORMS = 12  # their sum has variance 1
BLOCK_ROWS = 4096
SINE_DIGITS = 24
R_SINE, TOP = ROUND / 2**SINE_DIGITS, 1.0 - 2.0**-SINE_DIGITS
TURN = 26353589 / 2**22  # 2 pi to 22 binary digits


@dataclass(frozen=True)
class RandomFourierFeatures(FeatureMap):
    """Random cosines, or random rectifiers, of another map's rows or of the inputs of each step.

    What enters is rounded to 14 binary digits after the point and cut off at 256 in absolute
    value, so pass values of moderate size.

    Parameters
    ----------
    map
        A map whose rows enter; None for the inputs of each step.
    features
        How many.
    seed
        Names the random draws.
    scale
        Standard deviation of a weight. For "cos" the rows' kernel is exp(-scale^2 d^2 / 2) at
        distance d.
    activation
        "cos" or "relu"; rectified features are cut off at 64.
    bits
        Bits of the features. "auto" is 24 for numbers, and for classes 8, or 12 with "relu".

    >>> built = RandomFourierFeatures(features=5).build(2, per_step=True)
    >>> z, = built.rows([np.ones((3, 2))])
    >>> z.shape, bool((abs(z) <= 1).all())
    ((3, 5), True)
    """

    map: FeatureMap | None = None
    features: PositiveInt = 500
    seed: int = 0
    scale: Annotated[float, Gt(2.0**-WEIGHT_DIGITS), Le(LARGEST_WEIGHT / 6)] = 1.0
    activation: Activation = "cos"
    bits: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    n_features = handed("features")

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        if self.map is None and not per_step:
            raise ValueError(
                "random features of inputs are a row per step, and these recordings have one "
                "target each; pass a map with one row each, such as "
                "RandomFourierFeatures(EchoState(200))"
            )
        rectified = classes and self.activation == "relu" and self.bits == "auto"
        return {"bits": CLASS_BITS} if rectified else {}

    @property
    def _width(self) -> int:
        return self.known_inputs if self.map is None else self.map.n_features

    @property
    def per_step(self) -> bool:
        return self.map is None or self.map.per_step

    @property
    def bounds(self) -> Array:
        return np.full(self.features, 1.0 if self.activation == "cos" else LARGEST_RELU)

    @property
    def cost(self) -> float:
        return (0.0 if self.map is None else self.map.cost) + 2.0 * self._width * self.features

    def names(self) -> list[str]:
        return [f"{self.activation}{j}" for j in range(self.features)]

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        """Weights (F, features), of turns for "cos", and phases (features,), in fixed point."""
        n = self._width * self.features
        rng = Words(seed=self.seed, layer=0, purpose=Purpose.RECURRENT_VALUES)
        normal = np.full(n, -UNIFORMS / 2)
        for _ in range(UNIFORMS):
            normal += uniform(rng, n)
        unit = self.scale / (2 * np.pi) if self.activation == "cos" else self.scale
        W = rounded(normal * unit, WEIGHT_DIGITS).reshape(self._width, self.features)
        largest = float(np.abs(W).sum(axis=0).max()) * FARTHEST
        if largest >= 2.0 ** (53 - WEIGHT_DIGITS - VALUE_DIGITS):
            raise ValueError(
                f"sums of {self._width} values with weights of scale {self.scale:g} would be "
                "rounded; use a smaller scale, or fewer features of the inner map"
            )
        phases = uniform(Words(seed=self.seed, layer=0, purpose=Purpose.BIAS), self.features)
        return W, rounded(phases, WEIGHT_DIGITS + VALUE_DIGITS)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        given = inputs if self.map is None else self.map.rows(inputs, threads=threads)
        (W, phases), x = self._weights, np.concatenate(given)
        z = np.empty((len(x), self.features))
        for first in range(0, len(x), BLOCK_ROWS):
            # Every sum is exact, so its order does not matter.
            part = np.clip(x[first : first + BLOCK_ROWS], -FARTHEST, FARTHEST)
            values = rounded(part, VALUE_DIGITS) @ W
            if self.activation == "relu":
                np.clip(values, 0.0, LARGEST_RELU, out=values)
            else:
                values += phases
                cosines(values)
            z[first : first + BLOCK_ROWS] = values
        return np.split(z, np.cumsum([len(one) for one in given])[:-1])


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def cosines(turns):
    """cos of so many turns (n, F), in place; they have 28 binary digits after the point."""
    for t in range(turns.shape[0]):
        for j in range(turns.shape[1]):
            v = turns[t, j] + 0.25
            v = v - (v + ROUND - ROUND)
            turns[t, j] = fixed_sin(v * TURN, R_SINE, TOP)
