"""How a trial of a search is trained and judged, here or on a device, with the same numbers.

A device makes the rows and sums the statistics, which on a grid are the very ones of the CPU. They
are solved, and the validation rows scored, on the CPU: so a search finds the same on any device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import add

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.features import FeatureMap
from catchment.federation import targets_of
from catchment.readout import (
    ClassCounts,
    Readout,
    RidgeStatistics,
    accumulate,
    device_for,
    path_errors,
    ridge_grid,
    solve_path,
    torch_form,
)

Clients = Mapping[str, list[Recording]]
LEAST_RIDGE = 3e-4  # of the features' own scale: below it rounding shows in the ninth digit


def ridges_of(total: RidgeStatistics, n_ridges: int = 16) -> Array:
    """Return the ridges that validation chooses from."""
    greatest = float(ridge_grid(total, 2)[-1])
    return np.geomspace(LEAST_RIDGE * greatest / 10, greatest, n_ridges)


def summed(
    features: FeatureMap, clients: Sequence[list[Recording]], device: str | None = None
) -> RidgeStatistics:
    """Return the sum of clients' statistics; on a device all their recordings run side by side."""
    if device_for(features, device) is None:
        return reduce(add, (accumulate(features, each, threads=1) for each in clients))
    return accumulate(features, chain.from_iterable(clients), device=device)


@dataclass(frozen=True)
class Judged:
    """The best score of a path of ridges on the validation clients, and its ridge."""

    score: float
    ridge: float


@dataclass(frozen=True, eq=False)
class ClassJudge:
    """Rows (n, F) of validation clients and their one-hot targets (n, K): judges by accuracy."""

    z: Array
    y: Array

    @classmethod
    def of(cls, features: FeatureMap, clients: Clients, device: str | None = None) -> ClassJudge:
        """Return the rows of all clients whose target is known."""
        every = list(chain.from_iterable(clients.values()))
        zs = _rows(features, [s.u for s in every], device)
        washout = features.washout if features.per_step else None
        y = np.concatenate([targets_of(s, len(zs[k]), washout, k) for k, s in enumerate(every)])
        known = ~np.isnan(y).any(axis=1)
        return cls(np.concatenate(zs)[known], y[known])

    def judged(self, total: RidgeStatistics) -> Judged:
        """Return the best accuracy of readouts solved from a sum; of equals, the stiffer's."""
        ridges = ridges_of(total)
        path = solve_path(total, ridges)
        values = [ClassCounts.of_scores(self.y, scores).accuracy for scores in self._scores(path)]
        k = max(range(len(values)), key=lambda k: (values[k], k))
        return Judged(values[k], float(ridges[k]))

    def _scores(self, path: Sequence[Readout]) -> list[Array]:
        """Return the scores (n, K) by each readout, from one product for all."""
        together = self.z @ np.hstack([readout.weights for readout in path])
        parts = np.split(together, len(path), axis=1)
        return [part + one.intercept for part, one in zip(parts, path, strict=True)]


@dataclass(frozen=True, eq=False)
class NumberJudge:
    """The sum of validation clients' statistics: judges by NRMSE."""

    held: RidgeStatistics

    @classmethod
    def of(cls, features: FeatureMap, clients: Clients, device: str | None = None) -> NumberJudge:
        """Return the sum over all clients."""
        return cls(summed(features, list(clients.values()), device))

    def judged(self, total: RidgeStatistics) -> Judged:
        """Return the least NRMSE of readouts solved from a sum."""
        ridges = ridges_of(total)
        values = nrmse_path(self.held, path_errors(self.held, solve_path(total, ridges)))
        k = int(values.argmin())
        return Judged(float(values[k]), float(ridges[k]))


def nrmse_path(statistics: RidgeStatistics, errors: Array) -> Array:
    """Return the NRMSE (R,) of squared errors (R, K), averaged over the outputs that vary."""
    variance = statistics.target_moments() / statistics.weight
    varied = variance > 0
    values: Array = np.sqrt(errors[:, varied] / statistics.weight / variance[varied]).mean(axis=1)
    return values


def _rows(features: FeatureMap, inputs: Sequence[Array], device: str | None) -> list[Array]:
    place = device_for(features, device)
    if place is None:
        return features.rows(inputs, threads=1)
    found: list[Array] = torch_form().device_rows(place, features, inputs)
    return found
