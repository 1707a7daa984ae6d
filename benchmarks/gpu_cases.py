"""The data and the maps of `gpu`: made up, but for UCI HAR where it is there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from catchment import (
    NVAR,
    AppendNorm,
    DefaultMap,
    DiagonalReservoir,
    EchoState,
    FeatureUnion,
    Hydra,
    MiniRocket,
    RandomFourierFeatures,
    RandomProjection,
    Recording,
    WindowStatistics,
)
from catchment.data import cohorts
from catchment.engine import data_of
from catchment.features import Reservoir

PLAN = """
[data]
source = "uci_har"

[features]
map = "echo_state"

[search]
units = [100, 200, 300]
spectral_radius = [0.1, 0.99]
leak_rate = [0.1, 1.0]
input_scaling = [0.1, 1.0]
connections = [1, 60]
"""

# Name -> the map, and whether every step has a row.
CASES: dict[str, tuple[Any, bool]] = {
    "echo_state, a row per step": (EchoState(60, washout=10), True),
    "echo_state, two layers": (EchoState((30, 20), washout=10), True),
    "echo_state, mean and deviation": (EchoState(60), False),
    "diagonal, a row per step": (DiagonalReservoir(60, washout=10), True),
    "diagonal, pooled": (DiagonalReservoir(60), False),
    "nvar": (NVAR(delays=3), True),
    "random_fourier": (RandomFourierFeatures(EchoState(30), features=50), True),
    "projected": (RandomProjection(EchoState(80), features=32), False),
    "window_statistics": (WindowStatistics(), False),
    "with_norm": (AppendNorm(WindowStatistics()), False),
    "minirocket": (MiniRocket(168), False),
    "hydra": (Hydra(128), False),
    "concat": (FeatureUnion(MiniRocket(84), EchoState(20)), False),
    "default": (DefaultMap(), False),
}


def reservoir(N: int, I: int, bits: int | None) -> Reservoir:
    """Return a dense reservoir of tanh units, radius about 0.9."""
    rng = np.random.default_rng(N)
    W = rng.uniform(-1, 1, (N, N)) * 0.9 / np.sqrt(N / 3)
    kept: dict[str, Any] = {} if bits is None else {"bits": bits, "cut": (0, 0)}
    return Reservoir.from_matrices(W, rng.uniform(-0.5, 0.5, (N, I)), **kept)


def recordings(n: int, T: int, I: int, *, per_step: bool) -> list[Recording]:
    """Return labeled random walks, three classes."""
    rng = np.random.default_rng(0)
    found = []
    for k in range(n):
        u = rng.normal(size=(T, I)) + 0.5 * (k % 3)
        y = np.eye(3)[rng.integers(0, 3, T)] if per_step else np.eye(3)[k % 3]
        found.append(Recording(u, y, per_step=per_step))
    return found


def windows(n: int) -> list[Recording]:
    """Return windows of the shape of UCI HAR's, 128 steps of nine channels, six classes."""
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.normal(size=(n, 128, 9)), axis=1) / 5
    return [Recording(u, np.eye(6)[k % 6], per_step=False) for k, u in enumerate(walks)]


def long_recording(T: int) -> Recording:
    """Return noise whose target is what it was a step before."""
    u = np.random.default_rng(0).normal(size=(T, 1))
    return Recording(u, 0.5 * np.roll(u, 1, axis=0))


@dataclass(frozen=True, eq=False)
class People:
    """Prepared windows of people, some of whom judge."""

    name: str
    train: dict[str, list[Recording]]
    validation: dict[str, list[Recording]]
    classes: tuple[str, ...]
    described: EchoState

    @property
    def n_windows(self) -> int:
        clients = [*self.train.values(), *self.validation.values()]
        return sum(len(recordings) for recordings in clients)


def made_up_people(data: Path | None, *, small: bool = False) -> People:
    """Return the training people of UCI HAR as a plan prepares them, or windows of their shape."""
    described = EchoState()
    if data is None or small:
        some = windows(48 if small else 7352)
        clients = {f"p{k}": some[k::21] for k in range(21)}
        clients = {name: found for name, found in clients.items() if found}
        train, validation, _ = cohorts(sorted(clients), validation=0.25, test=0, seed=0)
        name, classes = "made up", tuple("abcdef")
    else:
        from catchment.plans import parse_plan

        file = parse_plan(PLAN)
        held = file.load_data(data)
        raw = {name: list(data_of(source)()) for name, source in held.train.items()}
        preprocessing = file.preprocessing
        if not preprocessing.is_fitted:
            preprocessing = preprocessing.fitted(
                reduce(add, map(preprocessing.moments, raw.values()))
            )
        clients = {name: preprocessing.apply(found) for name, found in raw.items()}
        train, validation, _ = cohorts(sorted(clients), validation=0.25, test=0, seed=0)
        assert held.about.classes is not None
        name, classes = "UCI HAR", held.about.classes
    return People(
        name,
        {one: clients[one] for one in train},
        {one: clients[one] for one in validation},
        classes,
        described,
    )
