"""Deep analytic federated learning: residual layers, each solved from one round of sums.

DeepAFL (Tang et al., ICLR 2026) begins with x_0 = tanh(z A_0 + b_0) and adds layers, with frozen
random features f_t = tanh(x_t A_t+1 + b_t+1), one after the other:

    W_t = (X'X + ridge I)^-1 X'Y                                      a classifier of x_t
    D_t = argmin |Y - X W_t - F D W_t|^2 + step_ridge |D|^2           what it leaves over
    x_t+1 = x_t + f_t D_t

With F'F = V diag(s) V' and W W' = U diag(w) U' the step is V [(V'F'R W'U)_ij / (step_ridge + s_i
w_j)] U', R = Y - X W_t. Its authors ask clients twice a layer, for X'X and X'Y, then for F'F and
W R'F, and once more at the end. Here a client sends the sums of both side by side, [X F]'[X F] and
[X F]'Y: R'F follows from them, and so do the sums of x_t+1. That is one round a layer, and none for
the last classifier; the numbers are the same.

The server sees sums only, so that secure aggregation may hide whose they are. What clients send
after the first round depends on everybody's data: no client can be taken out afterwards.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.linalg import eigh

from catchment import Array
from catchment.arrays import PositiveFloat, PositiveInt
from catchment.errors import FederationError, IntegrityError
from catchment.features import FeatureMap, Layers
from catchment.federation import Algorithm, Data, Kept, Requirements, RoundContext, check_statistics
from catchment.federation.learn import chosen_ridge, learned, readout_figures
from catchment.readout import (
    Model,
    Readout,
    RidgeChoice,
    RidgeStatistics,
    accumulate,
    chosen_readout,
    pack,
    solved_model,
    unpack,
)
from catchment.wire import Message


@dataclass(frozen=True, eq=False)
class DeepState:
    """The steps (t, m, d) of the layers so far, and the readout and sums of the last x."""

    steps: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    last: RidgeStatistics | None = None
    readout: Readout | None = None
    choice: RidgeChoice | None = None


@dataclass(frozen=True, kw_only=True)
class DeepRidge(Algorithm[DeepState, RidgeStatistics, Model]):
    """Residual layers over a map, one round of sums each, then ridge regression.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    layers
        How many, and so how many rounds.
    width
        Columns of the layers' own features.
    random
        Columns of each layer's random features; as many as `width` if not given.
    ridge
        Of the classifier after each layer: a number, or "gcv".
    step_ridge
        Of what each layer adds, above 0.
    intercept
        Whether outputs have an intercept; DeepAFL has none.
    scale
        Factor on the map's features before the first layer.
    seed
        Of the random weights.
    classes
        Names of the outputs if they are classes.

    >>> from catchment import EchoState, Plan, Recording, federate
    >>> u = np.sin(np.arange(300) / 5)
    >>> deep = DeepRidge(features=EchoState(10).build(1, per_step=True), layers=2, width=20)
    >>> run = federate(Plan(algorithm=deep, rounds=2), {"ann": [Recording(u[:-1], u[1:])]})
    >>> [round_.n_used for round_ in run.records], run.model.predict(u).shape
    ([1, 1], (300, 1))
    """

    features: FeatureMap
    layers: PositiveInt = 3
    width: int = 128
    random: int | None = None
    ridge: float | Literal["gcv"] = "gcv"
    step_ridge: PositiveFloat = 0.01
    intercept: bool = True
    scale: float = 1.0
    seed: int = 0
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.map_of(np.zeros((0, 0, 0)))

    @property
    def requirements(self) -> Requirements:
        return Requirements(rounds=self.layers, data_choice=chosen_ridge(self.ridge))

    def map_of(self, steps: Array, *, beside: bool = False) -> FeatureMap:
        """Return the map with the layers that have these steps (t, m, d)."""
        random = self.width if self.random is None else self.random
        return Layers(self.features, self.width, random, steps, self.seed, self.scale, beside)

    def start(self) -> DeepState:
        return DeepState()

    def broadcast(self, state: DeepState, context: RoundContext) -> Message:
        return Message("layers", {}, (state.steps,))

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        (steps,) = received.expect("layers", 1).arrays
        if steps.ndim != 3 or len(steps) != context.round or not np.isfinite(steps).all():
            raise IntegrityError(
                f"the layers of round {context.round} came with shape {steps.shape}"
            )
        features = self.map_of(steps, beside=True)
        return accumulate(features, data(), threads=1, classes=self.classes is not None)

    def read_update(self, parts: Message, context: RoundContext) -> RidgeStatistics:
        statistics = RidgeStatistics.from_message(parts)
        noisy = not context.client and parts.facts.get("noisy") is True
        check_statistics(
            statistics,
            fingerprint=statistics.fingerprint,  # the layers' own, which the sum is compared with
            n_features=self.map_of(np.zeros((0, 0, 0)), beside=True).n_features,
            n_targets=len(self.classes) if self.classes else None,
            one_hot=self.classes is not None and not noisy,
            fixed="any" if noisy else None,
        )
        return statistics

    def server_update(
        self, state: DeepState, total: RidgeStatistics, context: RoundContext
    ) -> DeepState:
        expected = self.map_of(state.steps, beside=True).fingerprint
        if total.fingerprint != expected:
            raise FederationError(
                f"the sums are of features {total.fingerprint[:12]}, the layers so far are "
                f"{expected[:12]}; every client must use the steps that it was sent"
            )
        d, F = self.width, total.n_features
        choice, readout = self._solved(transformed(total, np.eye(F, d)))
        G, C = total.moments(intercept=self.intercept)
        W = readout.weights
        left = (C[d:] - G[d:, :d] @ W) @ W.T
        step = sandwiched(G[d:, d:], left, W, self.step_ridge)
        last = transformed(total, np.vstack([np.eye(d), step]))
        choice, readout = self._solved(last)
        before = state.steps.reshape(-1, F - d, d)
        return DeepState(np.concatenate([before, step[None]]), last, readout, choice)

    def _solved(self, statistics: RidgeStatistics) -> tuple[RidgeChoice | None, Readout]:
        classes = self.classes is not None
        return chosen_readout(statistics, self.ridge, classes=classes, intercept=self.intercept)

    def result(self, state: DeepState) -> Model:
        readout = learned(state.readout)
        assert state.last is not None
        features = self.map_of(state.steps)
        return solved_model(features, state.last, readout, state.choice, classes=self.classes)

    def figures(self, state: DeepState) -> dict[str, float]:
        """Return the layers, the ridge, the error it was chosen by, and the norm of the weights."""
        return {"layers": float(len(state.steps))} | readout_figures(state.readout, state.choice)

    def kept(self, state: DeepState) -> Kept:
        return Kept(choice=state.choice)


def transformed(statistics: RidgeStatistics, matrix: Array) -> RidgeStatistics:
    """Return the statistics that the features z would have had as z T.

    Parameters
    ----------
    matrix
        T (F, F'), which becomes part of the fingerprint.

    >>> s = RidgeStatistics.from_states(np.array([[1.0, 2.0]]), np.ones((1, 1)))
    >>> transformed(s, np.array([[1.0], [1.0]])).gram
    array([9.])
    """
    known = statistics.floats
    G = matrix.T @ unpack(known.gram) @ matrix
    name = known.fingerprint.encode() + np.ascontiguousarray(matrix, dtype="<f8").tobytes()
    return replace(
        known,
        feature_sum=known.feature_sum @ matrix,
        gram=pack((G + G.T) / 2),
        cross=matrix.T @ known.cross,
        fingerprint=hashlib.sha256(name).hexdigest(),
    )


def sandwiched(gram: Array, left: Array, weights: Array, ridge: float) -> Array:
    """Return the step D (m, d) that minimizes |R - F D W|^2 + ridge |D|^2.

    Parameters
    ----------
    gram
        F'F (m, m).
    left
        F'R W' (m, d).
    weights
        W (d, K).

    >>> sandwiched(np.array([[4.0]]), np.array([[6.0]]), np.array([[1.0]]), 2.0)
    array([[1.]])
    """
    s, V = eigh(gram, check_finite=False)
    w, U = eigh(weights @ weights.T, check_finite=False)
    inner = (V.T @ left @ U) / (ridge + np.maximum(s, 0.0)[:, None] * np.maximum(w, 0.0))
    return np.asarray(V @ inner @ U.T)
