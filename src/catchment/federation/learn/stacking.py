"""Weights of an ensemble's members, learned on data each has not seen.

Every client runs all members on its rows and sends the Gram matrix (M, M) of their predictions,
with their products with the targets; its own member answers by cross-validation, so that no member
is judged on rows it was trained on. From the sum the server has E, the products of the members'
errors, and takes the weights on the simplex with the least w'Ew (Breiman 1996 shows why weights
must not be negative).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from catchment.arrays import Array
from catchment.errors import IntegrityError
from catchment.federation.folds import FoldedRows
from catchment.federation.learn.ensemble import Ensemble, simplex_weights
from catchment.federation.plan import Data, Turn
from catchment.federation.upload_checks import check_statistics
from catchment.readout.model import Model
from catchment.readout.packing import unpack
from catchment.readout.readout import Readout
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import NOTHING, Parts, join, split


@dataclass(frozen=True, eq=False)
class Stack:
    """The sum of the clients' statistics of predictions, and the ensemble with its new weights."""

    total: RidgeStatistics | None = None
    ensemble: Ensemble = field(default_factory=Ensemble)


@dataclass(frozen=True, kw_only=True)
class Stacking:
    """Learn the weights of a trained ensemble's members, in one round.

    The server sees M(M+1)/2 + M + 3 numbers of each client: how well every member does on its rows.

    Parameters
    ----------
    ensemble
        The state of a `ReservoirEnsemble` plan that was run before.
    n_folds
        Folds in which a client's own member predicts rows it has not seen.

    >>> from catchment import Features, Recipe, Reservoir, Recording
    >>> from catchment.engine.local import fit
    >>> from catchment.federation.learn.ensemble import ReservoirEnsemble
    >>> from catchment.federation.plan import Plan
    >>> features = Features(Reservoir.from_recipe(Recipe(units=10, inputs=1)), washout=5)
    >>> wave = np.sin(np.arange(121) / 5)
    >>> clients = {name: [Recording(wave[:-1], wave[1:])] for name in ("a", "b", "c")}
    >>> first = fit(Plan(algorithm=ReservoirEnsemble(features=features)), clients).state
    >>> stacked = fit(Plan(algorithm=Stacking(ensemble=first)), clients).state.ensemble
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
            sha.update(member.features.fingerprint.encode())
            sha.update(member.readout.weights.tobytes() + member.readout.intercept.tobytes())
        return sha.hexdigest()

    def start(self) -> Stack:
        return Stack(None, self.ensemble)

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
            rows = FoldedRows.of(member.features, sequences, self.n_folds)
            own = name == turn.client
            columns.append(
                rows.out_of_fold(member.readout.ridge) if own else readouts[name](rows.z)
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
        total = total if state.total is None else state.total + total
        weights = simplex_weights(error_products(total))
        return Stack(total, replace(self.ensemble, weights=weights))

    def model(self, state: Stack) -> Model:
        return state.ensemble.model

    def save_state(self, state: Stack) -> Parts:
        return NOTHING if state.total is None else state.total.parts()

    def load_state(self, parts: Parts) -> Stack:
        if parts.kind == NOTHING.kind:
            return self.start()
        total = RidgeStatistics.from_parts(parts)
        return Stack(total, replace(self.ensemble, weights=simplex_weights(error_products(total))))


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
