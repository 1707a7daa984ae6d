"""Scores of rows by what is normal: one's own sums, everybody's, and both together.

What a client sends are `RidgeStatistics` of its rows, whatever the learner:

- local: a client's own sums, which stay where they are;
- federated: everybody's sums, one mean and one covariance;
- left out: the same without the client that is judged, by `-`;
- personal: everybody's covariance about each one's own mean, which stays with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np

from catchment import Array
from catchment.readout import Counts, MahalanobisDetector, RidgeStatistics, log_edges
from reproductions.anomaly_maps import FORECAST_RIDGE

Learner = Literal["local", "federated", "left out", "personal"]
LEARNERS: tuple[Learner, ...] = ("local", "federated", "left out", "personal")
EDGES = log_edges(1e-6, 1e9, per_decade=256)  # a threshold is at most 0.9 % too high


@dataclass(frozen=True)
class Rows:
    """A client's rows (T, F), and those (start, stop) that it learns from."""

    z: Array
    start: int
    stop: int

    @property
    def train(self) -> Array:
        return self.z[self.start : self.stop]


def statistics(z: Array, y: Array | None = None) -> RidgeStatistics:
    """Return what a client sends of rows (n, F), with targets (n, K) if it forecasts."""
    return RidgeStatistics.from_states(z, np.zeros((len(z), 1)) if y is None else y)


@dataclass(frozen=True)
class Scored:
    """Scores (T,) of a client's rows, and those of normal rows by which its threshold is set."""

    scores: Array
    calm: tuple[Array, ...]


def changed(found: Sequence[Scored], change: Callable[[Array], Array]) -> list[Scored]:
    """Return what a change of score series makes of all of them, of shared ones once."""
    known: dict[int, tuple[Array, ...]] = {}
    for one in found:
        if id(one.calm) not in known:
            known[id(one.calm)] = tuple(map(change, one.calm))
    return [Scored(change(one.scores), known[id(one.calm)]) for one in found]


def scored(clients: Sequence[Rows], learner: Learner, shrinkage: float) -> list[Scored]:
    """Return the scores of every row of each client, by the learner's sums."""
    if learner == "personal":
        means = [one.train.mean(axis=0) for one in clients]
        moved = [
            Rows(one.z - m, one.start, one.stop) for one, m in zip(clients, means, strict=True)
        ]
        return scored(moved, "federated", shrinkage)
    sums = [statistics(one.train) for one in clients]
    total = reduce(add, sums)
    if learner == "federated":
        model = _normal(total, shrinkage)
        scores = [model.scores(one.z) for one in clients]
        calm = tuple(s[one.start : one.stop] for s, one in zip(scores, clients, strict=True))
        return [Scored(s, calm) for s in scores]
    found = []
    for own, one in zip(sums, clients, strict=True):
        alone = learner == "local"
        model = _normal(own if alone else total - own, shrinkage)
        others = [one] if alone else [other for other in clients if other is not one]
        found.append(Scored(model.scores(one.z), tuple(model.scores(o.train) for o in others)))
    return found


def _normal(total: RidgeStatistics, shrinkage: float) -> MahalanobisDetector:
    return MahalanobisDetector.of(total, shrinkage, standardize=True)


def forecast_errors(
    clients: Sequence[Rows], inputs: Sequence[Array], learner: Learner
) -> list[Rows]:
    """Return the errors of a forecast of the next inputs from rows, by the learner's readout."""
    pairs = [
        (one.z[one.start : one.stop - 1], u[one.start + 1 : one.stop])
        for one, u in zip(clients, inputs, strict=True)
    ]
    sums = [statistics(*pair) for pair in pairs]
    total = reduce(add, sums)
    found = []
    for own, one, u in zip(sums, clients, inputs, strict=True):
        used = own if learner == "local" else total - own if learner == "left out" else total
        readout = used.solve(FORECAST_RIDGE * used.weight)
        errors = u[1:] - (one.z[:-1] @ readout.weights + readout.intercept)
        first = np.zeros((1, errors.shape[1]))
        found.append(Rows(np.concatenate([first, errors]), one.start + 1, one.stop))
    return found


def thresholds(found: Sequence[Scored], rate: float) -> list[float]:
    """Return each client's threshold, which this share of normal scores lies above.

    By the sum of the histograms of those who have them.
    """
    known: dict[int, float] = {}
    for one in found:
        if id(one.calm) not in known:
            counts = reduce(add, (Counts.of(scores, EDGES) for scores in one.calm))
            known[id(one.calm)] = float(counts.quantile(1 - rate)[0])
    return [known[id(one.calm)] for one in found]


def pooled_difference(clients: Sequence[Rows], shrinkage: float) -> float:
    """Return the largest relative difference of federated scores from those of the pooled rows.

    The pooled ones are computed by numpy alone from the stacked rows: no sums, no statistics. Rows
    before the first that is learned from are left out: a forecast has no error at the first step,
    and the relative difference of a score of nothing means nothing.
    """
    stacked = np.concatenate([one.train for one in clients])
    mean, deviation = stacked.mean(axis=0), stacked.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    centered = (stacked - mean) / deviation
    covariance = np.cov(centered.T, bias=True).reshape(centered.shape[1], -1)
    size = np.trace(covariance) / len(covariance)
    shrunk = (1 - shrinkage) * covariance + shrinkage * size * np.eye(len(covariance))
    largest = 0.0
    for one, ours in zip(clients, scored(clients, "federated", shrinkage), strict=True):
        d = (one.z[one.start :] - mean) / deviation
        theirs = np.einsum("nf,fn->n", d, np.linalg.solve(shrunk, d.T)) / d.shape[1]
        largest = max(largest, float(np.max(np.abs(ours.scores[one.start :] - theirs) / theirs)))
    return largest
