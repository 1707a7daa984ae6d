"""Exact class weights in one round: clients send their statistics class by class.

The weights of the classes depend on how often each occurs in all clients together, which no client
knows when it sends. Statistics by class can be weighted afterwards, for K times the bytes, and the
weights may be changed later. The server sees which class each client has how often; so it does
from plain statistics of one-hot targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Literal

import numpy as np

from catchment.errors import UploadError
from catchment.features import FeatureMap
from catchment.federation import (
    Algorithm,
    Data,
    Kept,
    Requirements,
    RoundContext,
    Rows,
    Tally,
    added_by_key,
)
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.readout import Model, RidgeStatistics, StatisticsSet, spread_targets
from catchment.wire import Message


@dataclass(frozen=True, eq=False)
class ByClass:
    """Statistics of each class, summed and by client, and the weighted solution."""

    total: StatisticsSet | None = None
    by_client: Mapping[str, StatisticsSet] = field(default_factory=dict)
    weighted: RidgeState = field(default_factory=RidgeState)


@dataclass(frozen=True, kw_only=True)
class BalancedRidge(Algorithm[ByClass, Tally[StatisticsSet], Model]):
    """Exact ridge regression with class weights, from statistics sent class by class.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    classes
        Names of the outputs; targets are one-hot rows.
    weights
        "balanced" gives every class that occurs the same total weight; "rows" every row, which is
        the plain ridge from sums that tell its classes apart; or one factor per class.
    ridge, store_per_client
        As for `FederatedRidge`.
    """

    features: FeatureMap
    classes: tuple[str, ...]
    weights: Literal["balanced", "rows"] | tuple[float, ...] = "balanced"
    ridge: float | Literal["auto", "leave-one-client-out", "leave-one-group-out", "gcv"] = (
        "leave-one-client-out"
    )
    store_per_client: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._solver()
        if self.weights == "balanced" or self.weights == "rows":
            return
        if len(self.weights) != len(self.classes) or not all(w >= 0 for w in self.weights):
            raise ValueError(
                f"weights are {self.weights}; pass 'balanced', 'rows', or one number, not "
                f"negative, for each of {len(self.classes)} classes"
            )

    def _solver(self) -> FederatedRidge:
        return FederatedRidge(
            features=self.features,
            ridge=self.ridge,
            classes=self.classes,
            store_per_client=self.store_per_client,
        )

    @property
    def requirements(self) -> Requirements:
        return self._solver().requirements

    def start(self) -> ByClass:
        return ByClass()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> StatisticsSet:
        rows = Rows.of(self.features, data(), classes=True)
        y = rows.y
        if y.shape[1] != len(self.classes):
            raise UploadError(
                "shape", f"targets have {y.shape[1]} columns for {len(self.classes)} classes"
            )
        labels, numbers = rows.y.argmax(axis=1), range(len(self.classes))
        return StatisticsSet({k: rows.only(labels == k).statistics() for k in numbers})

    def read_update(self, parts: Message, context: RoundContext) -> Tally[StatisticsSet]:
        update = StatisticsSet.from_message(parts)
        K = len(self.classes)
        if sorted(update.members) != list(range(K)):
            raise UploadError("shape", f"{len(update.members)} classes came, {K} are planned")
        for statistics in update.members.values():
            self._solver().check(statistics, context)
        return Tally.of(update, context.client if self.store_per_client else "")

    def server_update(
        self, state: ByClass, total: Tally[StatisticsSet], context: RoundContext
    ) -> ByClass:
        summed = total.total if state.total is None else state.total + total.total
        return self.solved(ByClass(summed, added_by_key(state.by_client, total.by_client)))

    def solved(self, state: ByClass) -> ByClass:
        """Return the state with its classes weighted and the readout solved."""
        if state.total is None:
            return state
        n_classes, weights = len(self.classes), self.weights
        factors = [1.0] * n_classes if isinstance(weights, str) else list(weights)
        if weights == "balanced":
            size = np.array([state.total.members[k].weight for k in range(n_classes)])
            even = size.sum() / max((size > 0).sum(), 1)
            factors = [float(even / n) if n > 0 else 0.0 for n in size]
        by_client = {name: _weighted(s, factors) for name, s in state.by_client.items()}
        weighted = RidgeState(_weighted(state.total, factors), by_client)
        return replace(state, weighted=self._solver().solved(weighted))

    def result(self, state: ByClass) -> Model:
        return self._solver().result(state.weighted)

    def figures(self, state: ByClass) -> dict[str, float]:
        return self._solver().figures(state.weighted)

    def kept(self, state: ByClass) -> Kept:
        return self._solver().kept(state.weighted)

    def tally(self, state: ByClass) -> Tally[StatisticsSet] | None:
        """Return the sums by class, and each client's own where they are kept."""
        return None if state.total is None else Tally(state.total, state.by_client)

    def alone(self, state: ByClass) -> BalancedRidge:
        return replace(self, ridge=self._solver().alone(state.weighted).ridge)


def among_by_class(state: ByClass, before: tuple[str, ...], after: tuple[str, ...]) -> ByClass:
    """Return sums by class with their classes among those of a later run, not solved.

    A class that is new has sums of no rows.
    """
    places, n = [after.index(name) for name in before], len(after)

    def spread(sums: StatisticsSet) -> StatisticsSet:
        known = {places[k]: spread_targets(one, places, n) for k, one in sums.members.items()}
        first = next(iter(known.values()))
        none = RidgeStatistics.zero(first.n_features, n, first.fingerprint, first.fixed)
        return StatisticsSet({k: known.get(k, none) for k in range(n)})

    total = None if state.total is None else spread(state.total)
    return ByClass(total, {name: spread(s) for name, s in state.by_client.items()})


def _weighted(statistics: StatisticsSet, factors: list[float]) -> RidgeStatistics:
    members = statistics.members
    if all(factor == 1 for factor in factors):
        return reduce(add, (members[k] for k in range(len(factors))))  # integers stay whole
    return reduce(add, (members[k].floats.scaled(factor) for k, factor in enumerate(factors)))
