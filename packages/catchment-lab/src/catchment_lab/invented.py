"""Invented recordings of a plan's shape, on which a run is tried before there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data import Recording
from catchment.engine import data_of
from catchment.plans import About, Origin, PlanData, Recordings

LOOKED_AT = 9  # clients whose recordings are counted
RATE = 50.0  # steps a second, where nobody says


@dataclass(frozen=True)
class Shape:
    """What the recordings of a usual client are like.

    Parameters
    ----------
    about
        What clients share.
    recordings, steps
        How many recordings a client has, and of how many steps each.
    n_targets
        Columns of targets; 0 if there are none.
    rate
        Steps a second, where recordings have times.
    """

    about: About
    recordings: int
    steps: int
    n_targets: int
    rate: float | None = None

    @property
    def n_bytes(self) -> int:
        """Of a client's recordings in memory."""
        return 8 * self.recordings * self.steps * (len(self.about.channels) + self.n_targets)


def shape_of(held: PlanData) -> Shape:
    """Return the shape of a usual client, from a few that are read."""
    names = sorted(held.train)
    some = [held.train[name] for name in names[:: max(1, len(names) // LOOKED_AT)]]
    every = [list(data_of(source)()) for source in some]
    first = next(one for own in every for one in own)
    steps = [one.n_steps for own in every for one in own]
    times = first.times
    return Shape(
        held.about,
        max(round(len(steps) / len(every)), 1),
        max(round(float(np.mean(steps))), 1),
        0 if first.y is None else int(first.y.shape[-1]),
        None if times is None or len(times) < 2 else 1 / float(np.median(np.diff(times))),
    )


@dataclass(frozen=True)
class Invented(Origin):
    """So many invented clients of one shape, as the data of a plan."""

    clients: int
    shape: Shape

    @property
    def has_targets(self) -> bool:
        return self.shape.n_targets > 0

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        clients: Mapping[str, Any] = {
            f"client-{k:05d}": OneInvented(seed, k, self.shape) for k in range(self.clients)
        }
        return Recordings(clients, self.shape.about)


@dataclass(frozen=True)
class OneInvented:
    """One invented client: noise with a level of its own, and targets that follow it."""

    seed: int
    client: int
    shape: Shape

    def __call__(self) -> list[Recording]:
        rng = np.random.default_rng([self.seed, self.client])
        return [self._one(rng, k) for k in range(self.shape.recordings)]

    def _one(self, rng: np.random.Generator, number: int) -> Recording:
        shape, about = self.shape, self.shape.about
        T, K = shape.steps, shape.n_targets
        label = (self.client + number) % max(K, 1)
        u = rng.normal(size=(T, len(about.channels))) + label
        y: Array | None = None
        if about.classes is not None:
            y = np.eye(K)[rng.integers(0, K, T)] if about.per_step else np.eye(K)[label]
        elif K:
            y = rng.normal(size=(T, K)) if about.per_step else rng.normal(size=K)
        times = None if shape.rate is None else np.arange(T) / shape.rate
        per_step = about.per_step if y is not None else None
        return Recording(
            u, y, per_step=per_step, times=times, channels=about.channels, classes=about.classes
        )
