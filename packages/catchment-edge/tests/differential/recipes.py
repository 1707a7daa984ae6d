"""Random models: any map, with any preparation, of classes or of numbers.

Everything is drawn from one number, which hypothesis draws: strategies of hypothesis would mostly
vary a few recipes a little, and no recipe is made smaller here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

import catchment as ct
from catchment import Array
from catchment.features import EchoState, Pipeline, Reservoir
from catchment.features.echo_state import ACTIVATIONS, TOPOLOGIES, MixedActivation

STEPS = 40  # of a recording
CHANNELS = 3
POOLS: tuple[Any, ...] = ("last", "mean", "mean_std", "max")


@dataclass(frozen=True, eq=False)
class Case:
    """A map, how recordings are prepared, and what is predicted."""

    described: Any
    preprocessing: ct.Preprocessing
    per_step: bool
    classes: bool
    channels: int
    seed: int

    def __repr__(self) -> str:
        told = f"{self.described}, {self.preprocessing}, per_step={self.per_step}"
        return f"Case({told}, classes={self.classes}, seed={self.seed})"

    @cached_property
    def model(self) -> ct.Model:
        """Return the model that a few recordings of noise give."""
        return ct.fit(Pipeline(self.preprocessing, self.described), self.recordings(), ridge=0.1)

    def recordings(self) -> list[ct.Recording]:
        rng = np.random.default_rng(self.seed)
        made = []
        for k in range(4):
            u = inputs(rng, self.channels)
            if self.classes:
                made.append(
                    ct.Recording.labeled(u, k % 2, ("left", "right"), per_step=self.per_step)
                )
            elif self.per_step:
                made.append(ct.Recording(u, rng.normal(size=(STEPS, 2))))
            else:
                made.append(ct.Recording(u, rng.normal(size=2), per_step=False))
        return made

    def tested(self) -> list[Array]:
        """Return raw recordings: without gaps, with some, and with one before a first value."""
        rng = np.random.default_rng(self.seed + 1)
        plain, gaps, late = (inputs(rng, self.channels) for _ in range(3))
        plain[STEPS // 2] += 50.0  # beyond every range
        gaps[1:][rng.random((STEPS - 1, self.channels)) < 0.2] = np.nan
        late[: STEPS // 8, 0] = np.nan
        late[:, self.channels - 1] = np.nan if self.channels > 1 else late[:, 0]
        return [plain, gaps, late]

    @property
    def steps(self) -> int | None:
        """Return the length of recordings, for exports that must know it."""
        windows = self.preprocessing.window is not None
        return None if windows or self.model.features.per_step else STEPS


def inputs(rng: np.random.Generator, channels: int) -> Array:
    waves = np.sin(np.arange(STEPS)[:, None] / rng.uniform(1, 6, channels))
    return np.asarray(3.0 + 2.0 * waves + rng.normal(0, 0.5, (STEPS, channels)))


def echo_state(rng: Random, per_step: bool, grid: int | None) -> Any:
    shares = [rng.randint(0, 2) for _ in ACTIVATIONS]
    shares[0] += not any(shares)
    mixture = MixedActivation(
        **{a: s / sum(shares) for a, s in zip(ACTIVATIONS, shares, strict=True)}
    )
    units: Any = rng.choice([5, 8, 13, (5, 4)])
    activation: Any = rng.choice([*ACTIVATIONS, mixture])
    return ct.EchoState(
        units,
        seed=rng.randint(0, 99),
        topology=rng.choice(TOPOLOGIES),
        spectral_radius=rng.choice([0.3, 0.8]),
        leak_rate=rng.choice([0.25, 0.7, 1.0]),
        activation=activation,
        bias=rng.random() < 0.5,
        input=rng.random() < 0.5,
        pool=None if per_step else rng.choice(POOLS),
        segments=1 if per_step else rng.choice([1, 2, 3]),
        washout=rng.choice([0, 3]),
        bits=grid,
        feature_bits=None if grid is None else rng.choice([8, min(grid, 12)]),
        range="auto" if grid is None else 8,
    )


def cut_reservoir(rng: Random, per_step: bool, channels: int) -> Any:
    """Return a reservoir that cuts a recording several times."""
    normal = np.random.default_rng(rng.randint(0, 99)).normal
    N, L = rng.choice([4, 9]), rng.choice([7, 16])
    reservoir = Reservoir.from_matrices(
        0.3 * normal(size=(N, N)),
        normal(size=(N, channels)),
        bias=0.1 * normal(size=N),
        leak_rate=0.5,
        activation=rng.choice(ACTIVATIONS),
        bits=rng.choice([15, 20]),
        cut=(L, rng.randint(1, L)),
        range=8,
    )
    pool = None if per_step else rng.choice(POOLS)
    return EchoState.of(reservoir, pool=pool, feature_bits=8, washout=rng.choice([0, 9]))


def library_map(rng: Random, per_step: bool, grid: int | None) -> Any:
    seed = rng.randint(0, 99)
    diagonal = ct.DiagonalReservoir(
        rng.choice([8, 14]),
        seed=seed,
        nonlinearity=rng.choice(["products", "mix", "both", "none"]),
        washout=rng.choice([0, 4]),
        bits=grid,
    )
    if per_step:
        nvar = ct.NVAR(rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3), bits=grid)
        activation: Any = rng.choice(["cos", "relu"])
        fourier = ct.RandomFourierFeatures(features=12, seed=seed, activation=activation, bits=grid)
        return rng.choice([diagonal, nvar, fourier])
    length = rng.choice([None, 60])
    rocket = ct.MiniRocket(rng.choice([20, 90]), seed=seed, length=length, bits=grid)
    hydra = ct.Hydra(32, seed=seed, length=length, bits=grid)
    return rng.choice([diagonal, rocket, hydra, ct.WindowStatistics(bits=grid)])


def nested(rng: Random, per_step: bool, grid: int) -> Any:
    other, echo = library_map(rng, per_step, 12), echo_state(rng, per_step, grid)
    made = [
        ct.FeatureUnion(echo, other),
        ct.AppendNorm(other),
        ct.RandomProjection(other, 4),
        ct.RandomFourierFeatures(echo, 10, bits=10),
    ]
    return rng.choice(made)


def drawn_case(seed: int) -> Case:
    """Return a model that every form can have."""
    rng = Random(seed)
    per_step, classes = rng.random() < 0.5, rng.random() < 0.5
    channels, grid = rng.randint(1, CHANNELS), rng.choice([None, 12, 15, 20])
    kind = rng.choice(["echo", "echo", "cut", "library", "library", "nested"])
    if kind == "cut":
        grid, described = 15, cut_reservoir(rng, per_step, channels)
    elif kind == "echo":
        described = echo_state(rng, per_step, grid)
    elif kind == "library":
        described = library_map(rng, per_step, None if grid is None else rng.choice([8, 12]))
    else:
        grid = grid or 12
        described = nested(rng, per_step, grid)
    window = None if per_step else rng.choice([None, 16])
    preprocessing = ct.Preprocessing(
        gaps="hold",
        window=window,
        step=rng.choice([None, 6, 20]) if window else None,
        scale=rng.choice(["none", "federated"]),
    )
    return Case(described, preprocessing, per_step, classes, channels, seed)
