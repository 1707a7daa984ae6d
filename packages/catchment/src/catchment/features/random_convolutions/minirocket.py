"""MiniRocket in whole numbers, from a seed alone.

A recording is convolved with 84 kernels of nine taps at several dilations, and a feature is the
share of steps at which the output is above a bias (Dempster, Schmidt and Webb 2021, "MiniRocket: a
very fast (almost) deterministic transform for time series classification"). The authors take the
biases from training data; here they are quantiles on noise that the seed draws, so that clients
agree on the map without any data having been seen.

Inputs are rounded to 2^-16 and cut off, an output is a whole number, and a feature is a count
divided by the number of steps: every machine finds the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from catchment.arrays import Array
from catchment.features.base import FeatureMap
from catchment.features.random_convolutions.batches import in_batches
from catchment.features.random_convolutions.noise import noise_biases
from catchment.features.random_convolutions.places import KERNELS, channel_subsets, feature_list
from catchment.features.random_convolutions.schedule import Schedule, scheduled
from catchment.features.random_convolutions.settings import checked_settings

# An input is a whole number up to 2^22: nine channels of an output, 12 times that each, stay below
# 2^31. Digits after the point are 16, fewer where the range leaves no room for them.
INPUT_BITS, MOST_DIGITS = 22, 16


@dataclass(frozen=True)
class MiniRocket(FeatureMap):
    """Shares of steps at which dilated kernels are above a bias, one row per recording.

    Parameters
    ----------
    features
        Columns; any number.
    seed
        Names the random draws: channels of each feature, and the noise that gives biases.
    length
        None: dilations are spread over the length of each recording, so those of a recording twice
        as long are twice as long. A number of steps: they are those of a recording of this length
        for all, cut off where a recording is too short for them.
    biases
        "noise": quantiles of outputs on noise from the seed, which no data enter. Or a whole number
        for every feature, in units of the rounded inputs (2^-16 where the range is 64 or less).
    input_range
        A power of two at which inputs are cut off, after preparation.
    grid
        Bits of the features; "auto" is 8 for classes and 24 for numbers, None leaves the quotients.
    n_inputs
        Channels; filled in by `build`.

    >>> features = MiniRocket(252).build(2, per_step=False, classes=True)
    >>> t = np.linspace(0, 6, 150)
    >>> (z,) = features.rows([np.column_stack([np.sin(t), np.cos(t)])])
    >>> z.shape, z.min() >= 0, z.max() <= 1
    ((1, 252), np.True_, np.True_)
    """

    features: int = 504
    seed: int = 0
    length: int | None = None
    biases: Literal["noise"] | tuple[int, ...] = "noise"
    input_range: float = 64.0
    grid: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    standardise = True

    def __post_init__(self) -> None:
        checked_settings(self.features, self.seed, self.length, self.input_range)
        if isinstance(self.biases, str):
            if self.biases != "noise":
                raise ValueError(
                    f'biases is {self.biases!r}; give "noise" or a whole number for each feature'
                )
            return
        given = np.asarray(self.biases)
        if given.shape != (self.features,) or given.dtype.kind not in "iu":
            raise ValueError(
                f"biases have shape {given.shape} and type {given.dtype}; give a whole number for "
                f"each of {self.features} features"
            )
        if np.abs(given).max() >= 2**31:
            raise ValueError(f"biases reach {np.abs(given).max()}; give numbers below 2^31")
        object.__setattr__(self, "biases", tuple(given.tolist()))

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        self.refuse_steps(per_step)
        return {}

    @property
    def n_features(self) -> int:
        return self.features

    @property
    def digits(self) -> int:
        """Binary digits after the point of the rounded inputs."""
        return min(MOST_DIGITS, INPUT_BITS + 1 - int(np.frexp(self.input_range)[1]))

    @property
    def bounds(self) -> Array:
        return np.ones(self.n_features)

    @property
    def cost(self) -> float:
        return 4.0 * self.features

    def names(self) -> list[str]:
        listed = feature_list(self.features, self.length or 128)
        return [
            "ppv_" + "".join(map(str, KERNELS[k])) + f"_{i}"
            for k, i in zip(listed.kernel, np.arange(self.features) // len(KERNELS), strict=True)
        ]

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the features (1, F) of each recording (T, I)."""
        scale = 2.0**self.digits

        def work(together: Array) -> Array:
            _, T, n_inputs = together.shape
            schedule = _schedule(self, T, n_inputs)
            counts = schedule.counts(together, scale, self.input_range * scale)
            shares: Array = counts / schedule.positions
            return shares

        return in_batches(work, inputs, threads)


@lru_cache(maxsize=128)
def _schedule(settings: MiniRocket, length: int, n_inputs: int) -> Schedule:
    """Return what to count for recordings of this length."""
    nominal = settings.length or length
    listed = feature_list(settings.features, nominal)
    subsets = channel_subsets(settings.features, settings.seed, n_inputs)
    if isinstance(settings.biases, str):
        biases = noise_biases(listed, subsets, nominal, settings.seed, n_inputs, 2**settings.digits)
    else:
        biases = np.array(settings.biases)
    dilation = np.minimum(listed.dilation, max(1, (length - 1) // 8))
    return scheduled(length, listed.kernel, dilation, listed.padded, subsets, biases)
