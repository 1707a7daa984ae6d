"""Algorithms of one's own: four methods and a dataclass, as a user would write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from catchment import Array
from catchment.errors import FederationError
from catchment.features import FeatureMap
from catchment.federation import Algorithm, Data, RoundContext
from catchment.readout import Model, Readout
from catchment.wire import ROWS, Message, Shape


@dataclass(frozen=True)
class ByClass:
    """What a client sends: its rows, and the count and the sum of the features of each class."""

    n: Annotated[int, ROWS]
    counts: Annotated[Array, Shape("classes")]
    sums: Annotated[Array, Shape("classes", "features")]


@dataclass(frozen=True)
class NearestMean(Algorithm[ByClass | None, ByClass, Model]):
    """The class whose mean features are nearest, as a readout: 2 m'z - m'm is largest there."""

    features: FeatureMap
    classes: tuple[str, ...] | None = None

    def start(self) -> ByClass | None:
        return None

    def client_update(self, received: Message, data: Data, context: RoundContext) -> ByClass:
        held = list(data())
        Z = np.concatenate(self.features.rows([recording.u for recording in held]))
        Y = np.stack([recording.y for recording in held if recording.y is not None])
        return ByClass(len(Z), Y.sum(axis=0), Y.T @ Z)

    def server_update(
        self, state: ByClass | None, total: ByClass, context: RoundContext
    ) -> ByClass:
        return total

    def result(self, state: ByClass | None) -> Model:
        if state is None:
            raise FederationError("no client has answered yet")
        means = state.sums / np.maximum(state.counts, 1)[:, None]
        readout = Readout(2 * means.T, -(means**2).sum(axis=1), ridge=0.0)
        return Model(self.features, readout, self.classes)
