"""An algorithm of one's own: the principal axes of everybody's inputs, exact, in one round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from catchment.arrays import Array
from catchment.errors import FederationError
from catchment.federation import Algorithm, Data, RoundContext
from catchment.wire import ROWS, Message, Shape


@dataclass(frozen=True)
class Products:
    """What a client sends: its rows, their sum, and the sum of their products."""

    n: Annotated[int, ROWS]
    total: Annotated[Array, Shape("features")]
    products: Annotated[Array, Shape("features", "features")]


@dataclass(frozen=True)
class Axes:
    """What comes of it: the mean (I,), the axes (C, I), and the variance (C,) along each."""

    mean: Array
    components: Array
    variances: Array


@dataclass(frozen=True)
class FederatedPCA(Algorithm[Products | None, Products, Axes]):
    """Principal axes of the inputs of all clients together."""

    n_components: int = 2

    def start(self) -> Products | None:
        return None

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Products:
        u = np.concatenate([recording.u for recording in data()])
        return Products(len(u), u.sum(axis=0), u.T @ u)

    def server_update(
        self, state: Products | None, total: Products, context: RoundContext
    ) -> Products:
        return total

    def result(self, state: Products | None) -> Axes:
        if state is None:
            raise FederationError("no client has answered yet")
        mean = state.total / state.n
        scatter = (state.products - state.n * np.outer(mean, mean)) / (state.n - 1)
        values, vectors = np.linalg.eigh(scatter)
        last = slice(None, -self.n_components - 1, -1)
        return Axes(mean, vectors.T[last], values[last])
