"""A package of one's own: a feature map, an algorithm and a command that catchment finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from catchment import Model, Readout
from catchment.arrays import Array
from catchment.errors import FederationError
from catchment.features import FeatureMap
from catchment.federation import Algorithm, Data, RoundContext, Rows
from catchment.wire import ROWS, Message, Shape


@dataclass(frozen=True)
class Tides(FeatureMap):
    """Mean and range of every channel, after inputs beyond `limit` are cut."""

    channels: int
    limit: float = 10.0

    @property
    def n_features(self) -> int:
        return 2 * self.channels

    @property
    def bounds(self) -> Array:
        return np.full(self.n_features, 2 * self.limit)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        cut = [np.clip(u, -self.limit, self.limit) for u in inputs]
        return [np.concatenate([u.mean(axis=0), np.ptp(u, axis=0)])[None] for u in cut]


@dataclass(frozen=True)
class Means:
    """What a client sends: its rows of each class, counted and added up."""

    n: Annotated[int, ROWS]
    counts: Annotated[Array, Shape("classes")]
    sums: Annotated[Array, Shape("features", "classes")]


@dataclass(frozen=True)
class ClassMeans(Algorithm[Means | None, Means, Model]):
    """The class whose mean row is nearest; a plan fills in its map and the classes."""

    features: FeatureMap
    classes: tuple[str, ...]

    def start(self) -> Means | None:
        return None

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Means:
        rows = Rows.of(self.features, data(), classes=True)
        return Means(len(rows.y), rows.y.sum(axis=0), rows.z.T @ rows.y)

    def server_update(self, state: Means | None, total: Means, context: RoundContext) -> Means:
        return total

    def result(self, state: Means | None) -> Model:
        if state is None:
            raise FederationError("no client has answered yet")
        means = state.sums / np.maximum(state.counts, 1)
        return Model(self.features, Readout(means, -(means**2).sum(axis=0) / 2), self.classes)


def hours() -> None:
    """Say how long it is from one high water to the next."""
    print("12.4 hours")
