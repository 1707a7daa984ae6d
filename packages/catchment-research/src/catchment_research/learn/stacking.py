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
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge

from catchment import Array
from catchment.errors import IntegrityError
from catchment.federation import Algorithm, Data, Requirements, RoundContext, Rows, check_statistics
from catchment.readout import Readout, RidgeStatistics, unpack
from catchment.wire import NOTHING, Message, join, split
from catchment_research.learn.ensemble import (
    Ensemble,
    FoldedRows,
    Member,
    Members,
    ReservoirEnsemble,
    simplex_weights,
)


@dataclass(frozen=True, eq=False)
class Stack:
    """The sum of the clients' statistics of predictions."""

    total: RidgeStatistics | None = None


@dataclass(frozen=True, kw_only=True)
class Stacking(Algorithm[Stack, RidgeStatistics, Ensemble]):
    """Learn the weights of a trained ensemble's members, in one round.

    The server sees M(M+1)/2 + M + 3 numbers of each client: how well every member does on its rows.

    Parameters
    ----------
    ensemble
        The result of a `ReservoirEnsemble` plan that was run before.
    n_folds
        Folds in which a client's own member predicts rows it has not seen.

    >>> from catchment import Reservoir, Recording
    >>> from catchment.features import EchoState
    >>> from catchment.engine import run_locally
    >>> from catchment_research.learn import ReservoirEnsemble
    >>> from catchment.federation import Plan
    >>> features = EchoState.of(Reservoir(units=10, inputs=1), washout=5)
    >>> wave = np.sin(np.arange(121) / 5)
    >>> clients = {name: [Recording(wave[:-1], wave[1:])] for name in ("a", "b", "c")}
    >>> first = run_locally(Plan(algorithm=ReservoirEnsemble(features=features)), clients).result
    >>> stacked = run_locally(Plan(algorithm=Stacking(ensemble=first)), clients).result
    >>> round(float(stacked.weights.sum()), 9), stacked.predict(wave[:25]).shape
    (1.0, (20, 1))
    """

    ensemble: Ensemble
    n_folds: Annotated[int, Ge(2)] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ensemble.members:
            raise ValueError("the ensemble has no members; train it first")

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
    def requirements(self) -> Requirements:
        return Requirements(other_targets=True)

    def start(self) -> Stack:
        return Stack()

    def broadcast(self, state: Stack, context: RoundContext) -> Message:
        """Return all readouts; the recipes are part of the plan."""
        return join(
            "readouts", {name: self.ensemble.members[name].readout.parts() for name in self.names}
        )

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        named = split(received, "readouts")
        if named.keys() != set(self.names):
            raise IntegrityError("the server did not send a readout for each member")
        readouts = {name: Readout.from_message(named[name]) for name in self.names}
        sequences = list(data())
        columns = []
        for name in self.names:
            member = self.ensemble.members[name]
            rows = Rows.of(self.ensemble.features[name], sequences)
            own = name == context.client
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

    def read_update(self, parts: Message, context: RoundContext) -> RidgeStatistics:
        statistics = RidgeStatistics.from_message(parts)
        check_statistics(statistics, fingerprint=self.fingerprint, n_targets=1)
        return statistics

    def server_update(self, state: Stack, total: RidgeStatistics, context: RoundContext) -> Stack:
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


@dataclass(frozen=True, eq=False)
class StackedState:
    """The members that were gathered in the first round, and the statistics of the second."""

    members: Members = field(default_factory=Members)
    total: RidgeStatistics | None = None


@dataclass(frozen=True, kw_only=True)
class StackedEnsemble(Algorithm[StackedState, Members | RidgeStatistics, Ensemble]):
    """An ensemble whose weights are learned: a round for the members, a round for the weights.

    In the second round every client is sent all members' recipes and readouts.

    Parameters
    ----------
    ensemble
        What every client trains in the first round; its weighting is not used.
    n_folds
        Folds in which a client's own member predicts rows it has not seen.
    """

    ensemble: ReservoirEnsemble
    n_folds: Annotated[int, Ge(2)] = 5

    @property
    def requirements(self) -> Requirements:
        return self.ensemble.requirements | Requirements(rounds=2, other_targets=True)

    def start(self) -> StackedState:
        return StackedState()

    def broadcast(self, state: StackedState, context: RoundContext) -> Message:
        return NOTHING if context.round == 0 else state.members.parts()

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> Member | RidgeStatistics:
        if context.round == 0:
            return self.ensemble.client_update(received, data, context)
        stacking = self._stacking(Members.from_message(received))
        return stacking.client_update(stacking.broadcast(Stack(), context), data, context)

    def read_update(self, parts: Message, context: RoundContext) -> Any:
        if context.round == 0:
            return self.ensemble.read_update(parts, context)
        statistics = RidgeStatistics.from_message(parts)
        # Whose members they are of is compared when all are in: only the state knows.
        check_statistics(statistics, fingerprint=statistics.fingerprint, n_targets=1)
        return statistics

    def server_update(
        self, state: StackedState, total: Members | RidgeStatistics, context: RoundContext
    ) -> StackedState:
        if isinstance(total, Members):
            return StackedState(self.ensemble.server_update(state.members, total, context))
        expected = self._stacking(state.members).fingerprint
        if total.fingerprint != expected:
            raise IntegrityError("the statistics are of other members than were gathered")
        return replace(state, total=total if state.total is None else state.total + total)

    def result(self, state: StackedState) -> Ensemble:
        """Return the ensemble with the weights learned, or its first ones before they are."""
        if state.total is None:
            return self.ensemble.result(state.members)
        return self._stacking(state.members).result(Stack(state.total))

    def figures(self, state: StackedState) -> dict[str, float]:
        known = self.ensemble.figures(state.members)
        if state.total is None:
            return known
        return known | self._stacking(state.members).figures(Stack(state.total))

    def _stacking(self, members: Members) -> Stacking:
        return Stacking(ensemble=self.ensemble.result(members), n_folds=self.n_folds)


def error_products(statistics: RidgeStatistics) -> Array:
    """Return E (M, M), the summed products of the errors of M predictions of one target.

    >>> p, y = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0], [1.0]])
    >>> error_products(RidgeStatistics.from_states(p, y))
    array([[1., 0.],
           [0., 1.]])
    """
    statistics = statistics.floats
    C = statistics.cross
    E: Array = unpack(statistics.gram) - C - C.T + statistics.target_gram[0]
    return E
