"""Per-step maps of the stream experiment alone: lags, exponential means, forgotten shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from catchment import Array
from catchment.features import FeatureMap

RANGE = 8.0  # where inputs are cut off
SMALLEST = 2.0**-7  # added before a logarithm


@dataclass(frozen=True)
class Lags(FeatureMap):
    """The last inputs of every step, each `stride` steps before the one after it.

    >>> rows = Lags(2).build(1, per_step=True).rows([[1.0, 2.0, 3.0]])[0]
    >>> rows.tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]]
    """

    lags: int = 24
    stride: int = 1
    bits: int | None = 12
    n_inputs: int | None = None
    per_step = True
    standardize = True
    bounds = property(lambda self: np.full(self.n_features, RANGE))

    @property
    def n_features(self) -> int:
        return self.lags * self.known_inputs

    @property
    def state_bytes(self) -> int:
        """Bytes of what is kept from one step to the next."""
        return 4 * self.known_inputs * (self.lags - 1) * self.stride

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        found = []
        for u in inputs:
            x = np.clip(u, -RANGE, RANGE)
            rows = np.zeros((len(x), self.lags, x.shape[1]))
            for k in range(min(self.lags, -(-len(x) // self.stride))):
                back = k * self.stride
                rows[back:, k] = x[: len(x) - back]
            found.append(rows.reshape(len(x), -1))
        return found


@dataclass(frozen=True)
class ExponentialMeans(FeatureMap):
    """The input, and exponential means of it, of its square and of its absolute steps.

    With `logarithms` the last two are logarithms of root mean squares and of mean steps.

    >>> ExponentialMeans().build(9, per_step=True).n_features
    117
    """

    rates: tuple[float, ...] = (1 / 8, 1 / 16, 1 / 32, 1 / 64)
    logarithms: bool = False
    bits: int | None = 12
    n_inputs: int | None = None
    per_step = True
    standardize = True

    @property
    def n_features(self) -> int:
        return self.known_inputs * (1 + 3 * len(self.rates))

    @property
    def bounds(self) -> Array:
        most = [RANGE, *[RANGE, RANGE if self.logarithms else RANGE**2, 2 * RANGE]]
        return np.repeat(most[:1] + most[1:] * len(self.rates), self.known_inputs)

    @property
    def cost(self) -> float:
        return 9.0 * self.known_inputs * len(self.rates)

    @property
    def state_bytes(self) -> int:
        """Bytes of what is kept from one step to the next."""
        return 4 * self.n_features

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [self._rows(np.clip(u, -RANGE, RANGE)) for u in inputs]

    def _rows(self, x: Array) -> Array:
        steps = np.abs(np.diff(x, axis=0, prepend=x[:1]))
        rows = [x]
        for a in self.rates:
            mean, square, step = (
                lfilter([a], [1, a - 1], v, axis=0) for v in (x, np.square(x), steps)
            )
            if self.logarithms:
                square = np.log2(np.sqrt(np.maximum(square, 0)) + SMALLEST)
                step = np.log2(step + SMALLEST)
            rows += [mean, square, step]
        return np.hstack(rows)


@dataclass(frozen=True)
class StreamingMiniRocket(FeatureMap):
    """MiniRocket's kernels on a stream: exponential means of "above the bias", one row per step.

    Kernels, dilations, channels and biases are those of `MiniRocket(features, seed, length)`. A
    share of steps becomes p + (1[C > bias] - p) 2^-rate, in integers of 16 bits.
    """

    features: int = 504
    seed: int = 0
    length: int = 64
    rate: int = 5
    bits: int | None = 8
    n_inputs: int | None = None
    per_step = True
    standardize = True
    bounds = property(lambda self: np.full(self.n_features, 1.0))

    @property
    def n_features(self) -> int:
        return self.features

    @property
    def cost(self) -> float:
        return 12.0 * self.features

    @property
    def state_bytes(self) -> int:
        """Bytes of what is kept: the last inputs for the widest kernel, and the shares."""
        return 4 * self.known_inputs * 8 * max(1, (self.length - 1) // 8) + 2 * self.features

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        from catchment.features.minirocket import (
            POSITIONS,
            channel_subsets,
            feature_list,
            noise_biases,
        )
        from reproductions.streams_kernels import forgotten_shares

        listed = feature_list(self.features, self.length)
        subsets = channel_subsets(self.features, self.seed, self.known_inputs)
        one = 2**16
        biases = noise_biases(listed, subsets, self.length, self.seed, self.known_inputs, one)
        first = np.concatenate([[0], np.cumsum([len(s) for s in subsets])])
        channels = np.concatenate([np.array(s, dtype=np.int64) for s in subsets])
        dilation = np.minimum(listed.dilation, max(1, (self.length - 1) // 8))
        found = []
        for u in inputs:
            x = np.ascontiguousarray(np.rint(np.clip(u, -64.0, 64.0) * one).astype(np.int32).T)
            shares = np.empty((self.features, len(u)), dtype=np.int32)
            forgotten_shares(
                x, POSITIONS[listed.kernel], dilation, first, channels, biases, self.rate, shares
            )
            found.append(shares.T / 2.0**16)
        return found
