"""Weights of an ensemble's members, learned on data each has not seen.

Every client runs all members on its rows and sends the Gram matrix (M, M) of their predictions,
with their products with the targets; its own member answers by cross-validation, so that no member
is judged on rows it was trained on. From the sum the server has E, the products of the members'
errors, and takes the weights on the simplex with the least w'Ew (Breiman 1996 shows why weights
must not be negative).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from catchment.arrays import Array
from catchment.errors import IntegrityError
from catchment.federation.algorithm import Data, Needs, Turn
from catchment.federation.folds import FoldedRows
from catchment.federation.learn.ensemble import Ensemble, simplex_weights
from catchment.federation.rows import Rows
from catchment.federation.upload_checks import check_statistics
from catchment.readout.packing import unpack
from catchment.readout.readout import Readout
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import Parts, join, split


@dataclass(frozen=True, eq=False)
class Stack:
    """The sum of the clients' statistics of predictions."""

    total: RidgeStatistics | None = None


@dataclass(frozen=True, kw_only=True)
class Stacking:
    """Learn the weights of a trained ensemble's members, in one round.

    The server sees M(M+1)/2 + M + 3 numbers of each client: how well every member does on its rows.

    Parameters
    ----------
    ensemble
        The result of a `ReservoirEnsemble` plan that was run before.
    n_folds
        Folds in which a client's own member predicts rows it has not seen.

    >>> from catchment import Recipe, Reservoir, Recording
    >>> from catchment.features import EchoStateMap
    >>> from catchment.engine.local import run_locally
    >>> from catchment.federation.learn.ensemble import ReservoirEnsemble
    >>> from catchment.federation.plan import Plan
    >>> features = EchoStateMap(Reservoir.from_recipe(Recipe(units=10, inputs=1)), washout=5)
    >>> wave = np.sin(np.arange(121) / 5)
    >>> clients = {name: [Recording(wave[:-1], wave[1:])] for name in ("a", "b", "c")}
    >>> first = run_locally(Plan(algorithm=ReservoirEnsemble(features=features)), clients).result
    >>> stacked = run_locally(Plan(algorithm=Stacking(ensemble=first)), clients).result
    >>> round(float(stacked.weights.sum()), 9), stacked.predict(wave[:25]).shape
    (1.0, (20, 1))
    """

    ensemble: Ensemble
    n_folds: int = 5

    def __post_init__(self) -> None:
        if not self.ensemble.members:
            raise ValueError("the ensemble has no members; train it first")
        if self.n_folds < 2:
            raise ValueError(f"n_folds is {self.n_folds}; pass at least 2")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The members in the order of their weights."""
        return tuple(sorted(self.ensemble.members))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all members' features and readouts: what the predictions are of."""
        sha = hashlib.sha256()
        for name in self.names:
            member = self.ensemble.members[name]
            sha.update(self.ensemble.features[name].fingerprint.encode())
            sha.update(member.readout.weights.tobytes() + member.readout.intercept.tobytes())
        return sha.hexdigest()

    @property
    def needs(self) -> Needs:
        return Needs()

    def start(self) -> Stack:
        return Stack()

    def broadcast(self, state: Stack, turn: Turn) -> Parts:
        """Return all readouts; the recipes are part of the plan."""
        return join(
            "readouts", {name: self.ensemble.members[name].readout.parts() for name in self.names}
        )

    def client_update(self, received: Parts, data: Data, turn: Turn) -> RidgeStatistics:
        named = split(received, "readouts")
        if named.keys() != set(self.names):
            raise IntegrityError("the server did not send a readout for each member")
        readouts = {name: Readout.from_parts(named[name]) for name in self.names}
        sequences = list(data())
        columns = []
        for name in self.names:
            member = self.ensemble.members[name]
            rows = Rows.of(self.ensemble.features[name], sequences)
            own = name == turn.client
            columns.append(
                FoldedRows.of(rows, self.n_folds).out_of_fold(member.readout.ridge)
                if own
                else readouts[name](rows.z)
            )
        # One weight per member for all outputs: every output of a row is a row of its own here.
        predictions = np.stack(columns, axis=-1).reshape(-1, len(columns))
        return RidgeStatistics.from_states(
            predictions,
            rows.y.reshape(-1, 1),
            weight=np.repeat(rows.weight, rows.y.shape[1]),
            fingerprint=self.fingerprint,
        )

    def read_update(self, parts: Parts, turn: Turn) -> RidgeStatistics:
        statistics = RidgeStatistics.from_parts(parts)
        check_statistics(statistics, fingerprint=self.fingerprint, n_targets=1)
        return statistics

    def server_update(self, state: Stack, total: RidgeStatistics, turn: Turn) -> Stack:
        return Stack(total if state.total is None else state.total + total)

    def result(self, state: Stack) -> Ensemble:
        """Return the ensemble with the weights that were learned."""
        if state.total is None:
            return self.ensemble
        return replace(self.ensemble, weights=simplex_weights(error_products(state.total)))

    def figures(self, state: Stack) -> dict[str, float]:
        """Return the mean squared error of the weighted members on rows they have not seen."""
        if state.total is None or state.total.weight <= 0:
            return {}
        E = error_products(state.total)
        w = simplex_weights(E)
        return {"held-out error": float(w @ E @ w / state.total.weight)}


def error_products(statistics: RidgeStatistics) -> Array:
    """Return E (M, M), the summed products of the errors of M predictions of one target.

    >>> p, y = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0], [1.0]])
    >>> error_products(RidgeStatistics.from_states(p, y))
    array([[1., 0.],
           [0., 1.]])
    """
    C = statistics.cross
    E: Array = unpack(statistics.gram) - C - C.T + statistics.target_gram[0]
    return E
