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
from itertools import pairwise
from operator import add
from typing import Literal

import numpy as np

from catchment import Array
from catchment.readout import Counts, MahalanobisDetector, RidgeStatistics, log_edges
from reproductions.anomaly_maps import FORECAST_RIDGE

Learner = Literal["local", "federated", "left out", "personal"]
LEARNERS: tuple[Learner, ...] = ("local", "federated", "left out", "personal")
BLOCKS = 4
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

    @property
    def blocks(self) -> list[slice]:
        """The rows that are learned from in blocks, one of which is held out at a time."""
        return _blocks(self.start, self.stop)


def _blocks(start: int, stop: int) -> list[slice]:
    edges = [start + k * (stop - start) // BLOCKS for k in range(BLOCKS + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]


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
    parts = [[statistics(one.z[block]) for block in one.blocks] for one in clients]
    sums = [reduce(add, own) for own in parts]
    total = reduce(add, sums)
    together = [reduce(add, many) for many in zip(*parts, strict=True)]  # a block of everybody
    if learner == "federated":
        model = _normal(total, shrinkage)
        without = [_normal(total - block, shrinkage) for block in together]
        calm = tuple(_held_out(one, without) for one in clients)
        return [Scored(model.scores(one.z), calm) for one in clients]
    found = []
    for own, own_parts, one in zip(sums, parts, clients, strict=True):
        alone = learner == "local"
        used = own if alone else total - own
        left = own_parts if alone else [b - p for b, p in zip(together, own_parts, strict=True)]
        without = [_normal(used - block, shrinkage) for block in left]
        others = [one] if alone else [other for other in clients if other is not one]
        scores = _normal(used, shrinkage).scores(one.z)
        found.append(Scored(scores, tuple(_held_out(other, without) for other in others)))
    return found


def _held_out(one: Rows, without: Sequence[MahalanobisDetector]) -> Array:
    """Return scores of a client's normal rows, each block by a model that did not learn from it."""
    pairs = zip(one.blocks, without, strict=True)
    return np.concatenate([model.scores(one.z[block]) for block, model in pairs])


def _normal(total: RidgeStatistics, shrinkage: float) -> MahalanobisDetector:
    return MahalanobisDetector.of(total, shrinkage, standardize=True)


def forecast_errors(
    clients: Sequence[Rows], inputs: Sequence[Array], learner: Learner
) -> list[Rows]:
    """Return the errors of a forecast of the next inputs from rows, by the learner's readout.

    Those of normal rows are by readouts without the block that they are in.
    """
    parts = [
        [statistics(one.z[block], u[block.start + 1 : block.stop + 1]) for block in _known(one)]
        for one, u in zip(clients, inputs, strict=True)
    ]
    sums = [reduce(add, own) for own in parts]
    total = reduce(add, sums)
    together = [reduce(add, many) for many in zip(*parts, strict=True)]
    found = []
    for own, own_parts, one, u in zip(sums, parts, clients, inputs, strict=True):
        used = own if learner == "local" else total - own if learner == "left out" else total
        errors = _errors(used, one.z[:-1], u[1:])
        left = own_parts if learner == "local" else together
        for block, part in zip(_known(one), left, strict=True):
            if learner != "left out":  # whose readout has none of these rows anyway
                after = u[block.start + 1 : block.stop + 1]
                errors[block] = _errors(used - part, one.z[block], after)
        first = np.zeros((1, errors.shape[1]))
        found.append(Rows(np.concatenate([first, errors]), one.start + 1, one.stop))
    return found


def _known(one: Rows) -> list[slice]:
    """Return the blocks of rows whose next inputs are normal, too."""
    return _blocks(one.start, one.stop - 1)


def _errors(used: RidgeStatistics, z: Array, after: Array) -> Array:
    readout = used.solve(FORECAST_RIDGE * used.weight)
    return np.asarray(after - (z @ readout.weights + readout.intercept))


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
