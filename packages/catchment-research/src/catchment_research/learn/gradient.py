"""Federated averaging (McMahan et al., AISTATS 2017) of a readout by gradient steps.

Clients take gradient steps from the server's readout on the mean squared error of their rows,

    V <- V - step (A V - B),    A = [Z 1]'[Z 1] / n + ridge,    B = [Z 1]'Y / n,

and the server moves by the mean change. After many rounds that is about the readout of the pooled
data, which `FederatedRidge` gives in one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigvalsh

from catchment.arrays import Array, NonNegativeFloat, PositiveFloat, PositiveInt
from catchment.errors import UploadError
from catchment.features import FeatureMap
from catchment.federation import (
    Algorithm,
    Data,
    RoundContext,
    Rows,
    Weighting,
    augmented,
    client_weight,
)
from catchment.federation.learn import learned, read_readouts
from catchment.readout import Model, Readout, accumulate
from catchment.wire import NOTHING, Message
from catchment_research.learn.optimizers import Arrays, Mean, ServerOptimizer
from catchment_research.learn.recordings import UNKNOWN, Progress, TrainedSum

MEAN = Mean()


@dataclass(frozen=True, eq=False)
class Averaged:
    """The readout so far, what the server's optimizer remembers, and how clients did last."""

    readout: Readout | None = None
    memory: Arrays = ()
    progress: Progress = UNKNOWN


@dataclass(frozen=True, kw_only=True)
class GradientAveraging(Algorithm[Averaged, TrainedSum, Model]):
    """Rounds of gradient steps on the clients, averaged; the mean change moves the server.

    The server sees each client's change, weight and loss unless a protection hides them; under
    noise the loss is not sent. The loss is the mean squared error of rows and outputs, without the
    ridge, before each step. A client keeps nothing between rounds, so it computes its features anew
    in each.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    epochs
        Passes of a client over its data in a round.
    batch_size
        Rows per step, in an order drawn anew in each epoch. None takes one step per epoch on all
        rows, computed from the ridge statistics.
    learning_rate
        Length of a step: relative to the largest curvature of the rows it is taken on, so that
        anything below 2 is stable; with `relative=False`, in absolute terms. Small batches are
        noisy: give them a tenth.
    ridge
        Penalty per row: the exact readout's ridge divided by its number of rows.
    optimizer
        What the server does with the mean change.
    initial
        Where to begin; zeros if not given.
    """

    features: FeatureMap
    epochs: PositiveInt = 1
    batch_size: PositiveInt | None = None
    learning_rate: PositiveFloat = 1.0
    relative: bool = True
    ridge: NonNegativeFloat = 0.0
    weighting: Weighting = "samples"
    optimizer: ServerOptimizer = MEAN
    initial: Readout | None = field(default=None, metadata={"hidden": True})
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relative and self.learning_rate >= 2:
            raise ValueError(
                f"learning_rate is {self.learning_rate}; pass less than 2 unless relative=False"
            )

    def start(self) -> Averaged:
        return Averaged(self.initial)

    def broadcast(self, state: Averaged, context: RoundContext) -> Message:
        return NOTHING if state.readout is None else state.readout.parts()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> TrainedSum:
        F = self.features.n_features
        penalty = np.append(np.full(F, self.ridge), 0.0)[:, None]  # the constant, last, has none
        if self.batch_size is None:
            statistics = accumulate(self.features, data(), threads=1)
            weight, K = statistics.weight, statistics.n_targets
        else:
            rows = Rows.of(self.features, data())
            weight, K = float(rows.weight.sum()), rows.y.shape[1]
        before = np.zeros((F + 1, K))
        if received.kind != NOTHING.kind:
            shared = Readout.from_message(received)
            if shared.weights.shape != (F, K):
                raise UploadError(
                    "shape",
                    f"the server's readout has shape {shared.weights.shape}, this client's data "
                    f"need {(F, K)}",
                )
            before = np.vstack([shared.weights, shared.intercept])
        if self.batch_size is None:
            squares = statistics.target_moments(intercept=False) / (weight or 1.0)
            after, loss = self._descend(before, penalty, *augmented(statistics), squares)
        else:
            after, loss = self._descend_batches(before, penalty, rows, context.rng())
        change = after - before
        moved = TrainedSum.of((change[:F], change[F]), client_weight(self.weighting, weight))
        return moved.told(Progress(loss))

    def _descend(
        self, V: Array, penalty: Array, A: Array, B: Array, squares: Array
    ) -> tuple[Array, float]:
        """Return the readout after all epochs, and the mean of the losses before each."""
        A = A + np.diagflat(penalty)
        step = self.learning_rate / (largest_eigenvalue(A) if self.relative else 1.0)
        losses = []
        for _ in range(self.epochs):
            pull = A @ V
            fitted = (V * (pull - penalty * V - 2 * B)).sum(axis=0)
            losses.append(float(np.mean(fitted + squares)))
            V = V - step * (pull - B)
        return V, float(np.mean(losses))

    def _descend_batches(
        self, V: Array, penalty: Array, rows: Rows, rng: np.random.Generator
    ) -> tuple[Array, float]:
        Z = np.column_stack([rows.z, np.ones(len(rows.z))])
        size, squares = self.batch_size or len(Z), 0.0
        for _ in range(self.epochs):
            order = rng.permutation(len(Z))
            for some in np.split(order, range(size, len(Z), size)):
                w, batch = rows.weight[some, None], Z[some]
                total = float(w.sum())
                if total <= 0:
                    continue
                error = batch @ V - rows.y[some]
                squares += float((w * error**2).sum())
                gradient = batch.T @ (w * error) / total + penalty * V
                step = self.learning_rate
                if self.relative:
                    root = batch * np.sqrt(w / total)
                    small = root @ root.T if len(root) < root.shape[1] else root.T @ root
                    step /= largest_eigenvalue(small) + self.ridge
                V = V - step * gradient
        return V, squares / (self.epochs * max(float(rows.weight.sum()), 1e-300) * rows.y.shape[1])

    def read_update(self, parts: Message, context: RoundContext) -> TrainedSum:
        return read_readouts(TrainedSum.from_message(parts), self, context)

    def server_update(self, state: Averaged, total: TrainedSum, context: RoundContext) -> Averaged:
        change = total.mean()
        if state.readout is None:
            values: Arrays = tuple(np.zeros_like(array) for array in change)
        else:
            values = (state.readout.weights, state.readout.intercept)
        memory = state.memory or self.optimizer.start(values)
        values, memory = self.optimizer.step(values, change, memory)
        return Averaged(Readout(values[0], values[1]), memory, total.progress(scored=False))

    def result(self, state: Averaged) -> Model:
        return Model(self.features, learned(state.readout), self.classes)

    def figures(self, state: Averaged) -> dict[str, float]:
        """Return how the clients did, where they say, and the norm of the readout's weights."""
        if state.readout is None:
            return state.progress.figures
        norm = float(np.linalg.norm(state.readout.weights))
        return state.progress.figures | {"weight norm": norm}


def largest_eigenvalue(A: Array) -> float:
    """Return the largest eigenvalue of a symmetric matrix.

    >>> largest_eigenvalue(np.diag([1.0, 3.0]))
    3.0
    """
    last = len(A) - 1
    return float(eigvalsh(A, subset_by_index=(last, last), check_finite=False)[0])
