"""Clip each prompt's bottleneck, and add noise to it, before it leaves the client.

Two bottlenecks of length at most C differ by at most 2C, so Gaussian noise of standard deviation
s 2C on every number makes one question (epsilon, delta) private towards the language model's
server, whatever the signal was; R questions about the same signal tell as much as one with noise
s / sqrt R. A training run asks about every example in every epoch, so a little noise is soon none.

The context's tokens, where there are any, are sent as they are: this protects the signal only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from catchment import Array
from catchment.arrays import NonNegativeFloat, PositiveFloat, check_fields
from catchment.privacy.dp import gaussian_epsilon, rounded_normal

STEPS = 1 << 20  # fewest steps in a standard deviation


@dataclass(frozen=True, kw_only=True)
class PromptNoise:
    """A bound on the length of bottlenecks, and noise in units of how far two can lie apart.

    Parameters
    ----------
    bound
        Longest bottleneck; longer ones are shortened to it.
    multiplier
        Noise divided by twice the bound; 0 only shortens.

    >>> short, factor = PromptNoise(bound=1.0).shortened(np.array([[3.0, 4.0], [0.0, 0.5]]))
    >>> short
    array([[0.6, 0.8],
           [0. , 0.5]])
    """

    bound: PositiveFloat
    multiplier: NonNegativeFloat = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def spread(self) -> float:
        """Standard deviation of the noise on every number."""
        return 2 * self.bound * self.multiplier

    def shortened(self, codes: Array) -> tuple[Array, Array]:
        """Return codes (n, k) no longer than the bound, and the factors (n, 1) that did it."""
        length = np.linalg.norm(codes, axis=1, keepdims=True)
        factor = np.minimum(1.0, self.bound / np.maximum(length, 1e-300))
        return codes * factor, factor

    def guarded(self, codes: Array) -> Array:
        """Return what may leave the client instead of codes (n, k)."""
        short, _ = self.shortened(codes)
        if self.multiplier == 0:
            return short
        grid = math.ldexp(1.0, math.floor(math.log2(self.spread / STEPS)))
        noise = rounded_normal(self.spread / grid, short.size).reshape(short.shape)
        return np.asarray((np.trunc(short / grid) + noise) * grid)

    def pull_back(self, codes: Array, gradients: Array) -> Array:
        """Return gradients (n, ..., k) at what left the client as gradients at the codes (n, k)."""
        short, factor = self.shortened(codes)
        if (factor == 1).all():
            return gradients
        wide = (slice(None), *[None] * (gradients.ndim - 2))
        unit = (short / np.maximum(np.linalg.norm(short, axis=1, keepdims=True), 1e-300))[wide]
        across = gradients - unit * (gradients * unit).sum(axis=-1, keepdims=True)
        return np.where(factor[wide] < 1, factor[wide] * across, gradients)

    def epsilon(self, questions: int, delta: float) -> float:
        """Return the bound on what questions about one signal tell; infinite without noise.

        >>> noise = PromptNoise(bound=1.0, multiplier=4.0)
        >>> round(noise.epsilon(1, 1e-5), 2), round(noise.epsilon(20, 1e-5), 2)
        (0.93, 4.98)
        """
        if self.multiplier == 0:
            return math.inf
        return gaussian_epsilon(self.multiplier / math.sqrt(questions), delta)
