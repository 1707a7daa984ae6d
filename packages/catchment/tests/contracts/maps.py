"""Feature maps that pass the contract suite; a new one adds a line to MAPS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from catchment import Array
from catchment.features import (
    NVAR,
    AppendNorm,
    DiagonalReservoir,
    EchoState,
    FeatureMap,
    FeatureUnion,
    Hydra,
    MiniRocket,
    RandomFourierFeatures,
    RandomProjection,
    Reservoir,
    WindowStatistics,
)
from catchment.features.echo_state import LogUniform, MixedActivation

CHANNELS = 3


@dataclass(frozen=True)
class OwnStatistics(FeatureMap):
    """Mean, deviation, extremes and mean step of every channel; inputs beyond `limit` are cut."""

    channels: int = CHANNELS
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


@dataclass(frozen=True)
class Delays(FeatureMap):
    """The last inputs of every step, zeros before the first: a map with a row per step."""

    lags: int
    weights: Array
    per_step = True
    bounds = property(lambda self: np.full(self.n_features, np.inf))

    @property
    def n_features(self) -> int:
        return self.lags * CHANNELS

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        found = []
        for u in inputs:
            padded = np.vstack([np.zeros((self.lags - 1, CHANNELS)), u * self.weights])
            windows = np.lib.stride_tricks.sliding_window_view(padded, self.lags, axis=0)
            found.append(windows.reshape(len(u), -1))
        return found


def adapted_map() -> EchoState:
    reservoir = EchoState(12, seed=5).build(CHANNELS, per_step=True).reservoir
    rng = np.random.default_rng(0)
    adapted = reservoir.with_plasticity(rng.uniform(0.5, 1.5, 12), rng.normal(size=12))
    return EchoState.of(adapted, washout=2)


def matrix_map() -> EchoState:
    rng = np.random.default_rng(1)
    W, W_in = 0.2 * rng.normal(size=(8, 8)), rng.normal(size=(8, CHANNELS))
    return EchoState.of(Reservoir.from_matrices(W, W_in), bias=True, input=False)


DEEP = EchoState(
    (10, 8),
    leak_rate=(LogUniform(0.1, 1.0), 0.5),
    activation=(MixedActivation(tanh=0.5, sin=0.5), "tanh"),
    segments=2,
    pool="mean",
)
MAPS: dict[str, Callable[[], FeatureMap]] = {
    "echo state per step": lambda: EchoState(20, washout=3).build(CHANNELS, per_step=True),
    "echo state pooled": lambda: EchoState(20).build(CHANNELS, per_step=False),
    "deep echo state": lambda: DEEP.build(CHANNELS, per_step=False),
    "single precision": lambda: EchoState(20, precision="float32").build(CHANNELS, per_step=True),
    "echo state in fixed point": lambda: EchoState(20, washout=3, bits=20, feature_bits=12).build(
        CHANNELS, per_step=True
    ),
    "pooled in fixed point": lambda: EchoState(20, bits=20, feature_bits=8).build(
        CHANNELS, per_step=False, classes=True
    ),
    "side by side per step": lambda: FeatureUnion(
        EchoState(20, washout=3), EchoState(8, washout=1, bits=20, feature_bits=12)
    ).build(CHANNELS, per_step=True),
    "side by side pooled": lambda: FeatureUnion(EchoState(20), WindowStatistics()).build(
        CHANNELS, per_step=False, classes=True
    ),
    "projected per step": lambda: RandomProjection(EchoState(20, washout=3), 9).build(
        CHANNELS, per_step=True
    ),
    "projected floats": lambda: RandomProjection(WindowStatistics(), 6).build(
        CHANNELS, per_step=False
    ),
    "with norm": lambda: AppendNorm(MiniRocket(90)).build(CHANNELS, per_step=False, classes=True),
    "with norm per step": lambda: AppendNorm(EchoState(20, washout=3)).build(
        CHANNELS, per_step=True
    ),
    "adapted by plasticity": adapted_map,
    "given matrices": matrix_map,
    "own statistics": lambda: OwnStatistics(),
    "window statistics": lambda: WindowStatistics().build(CHANNELS, per_step=False, classes=True),
    "hydra": lambda: Hydra(96).build(CHANNELS, per_step=False, classes=True),
    "minirocket": lambda: MiniRocket(100).build(CHANNELS, per_step=False, classes=True),
    "delays": lambda: Delays(4, np.array([1.0, 0.5, 2.0])),
    "diagonal per step": lambda: DiagonalReservoir(21, washout=3).build(CHANNELS, per_step=True),
    "diagonal pooled": lambda: DiagonalReservoir(20, nonlinearity="both").build(
        CHANNELS, per_step=False, classes=True
    ),
    "diagonal in float64": lambda: DiagonalReservoir(20, nonlinearity="mix", bits=None).build(
        CHANNELS, per_step=True
    ),
    "quadratic delays": lambda: NVAR(3, stride=2, washout=2).build(CHANNELS, per_step=True),
    "random features": lambda: RandomFourierFeatures(EchoState(9), features=30).build(
        CHANNELS, per_step=False, classes=True
    ),
    "random rectifiers": lambda: RandomFourierFeatures(features=12, activation="relu").build(
        CHANNELS, per_step=True
    ),
}
