"""From sequences to factors: one pass, and memory that does not grow with the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

import numpy as np

from catchment import Array, single_blas_thread
from catchment.data import Recording
from catchment.features import FeatureMap, Part
from catchment.readout import in_windows, recording_targets
from catchment_research.factors.factors import ROWS_TOGETHER, RidgeFactors
from catchment_research.factors.triangles import with_rows


def accumulate_factors(features: FeatureMap, sequences: Iterable[Recording]) -> RidgeFactors:
    """Return the factors of all sequences; an iterator is read as it goes.

    Rows whose target is NaN are left out. A target per sequence stands for each of its rows. The
    result is in float64 on one thread of the CPU, also for features that lie on a grid.

    Parameters
    ----------
    features
        Map from inputs to feature rows.
    sequences
        With targets, all of one kind and width.

    >>> from catchment import EchoState
    >>> u = np.sin(np.arange(200) / 5)
    >>> features = EchoState(30, seed=1, washout=20).build(1, per_step=True)
    >>> total = accumulate_factors(features, [Recording(u[:-1], u[1:])])
    >>> total.n_rows, total.n_features
    (179, 31)
    """
    total: RidgeFactors | None = None
    with single_blas_thread():
        for window in in_windows(sequences):
            part = _of_window(features, window)
            total = part if total is None else total + part
    if total is None:
        raise ValueError("no sequences were given; pass at least one with targets")
    return total


def _of_window(features: FeatureMap, window: Sequence[Recording]) -> RidgeFactors:
    targets = recording_targets(window, per_step=features.per_step)
    n_targets, weight = targets[0].shape[-1], np.array([s.weight for s in window])
    if not features.per_step:
        running = _Running(features, n_targets)
        rows = features.rows([s.u for s in window], threads=1)
        running.take(np.concatenate(rows), np.stack(targets), weight)
        return running.result()
    parts = features.stacked([s.u for s in window], targets, np.sqrt(weight), threads=1)
    return reduce(add, [_of_part(features, part, n_targets) for part in parts])


def _of_part(features: FeatureMap, part: Part, n_targets: int) -> RidgeFactors:
    running = _Running(features, n_targets)
    for block in part(1):
        if block is None:
            running = _Running(features, n_targets)
            continue
        n, Z = block
        running.take_weighted(n, Z[-1], Z[:-1])
    return running.result()


class _Running:
    """A factor that takes rows in, a few thousand together."""

    def __init__(self, features: FeatureMap, n_targets: int) -> None:
        size = 1 + features.n_features + n_targets
        self.n_targets, self._features = n_targets, features
        self._R = np.zeros((size, size))
        self._waiting: list[Array] = []
        self._n_waiting, self._n_rows, self._weight = 0, 0, 0.0

    def take(self, z: Array, y: Array, weight: Array) -> None:
        """Take rows (n, F) with targets (n, K), NaN where they are not known, and weights (n,)."""
        known = ~np.isnan(y).any(axis=1)
        root = np.sqrt(weight[known])
        columns = np.vstack([z[known].T, y[known].T]) * root
        self.take_weighted(int(known.sum()), root, columns)

    def take_weighted(self, n_rows: int, root: Array, columns: Array) -> None:
        """Take columns (F + K, n) that are multiplied by the roots (n,) of their weights."""
        self._n_rows += n_rows
        self._weight += float(np.square(root).sum())
        self._waiting.append(np.vstack([root, columns]).T)
        self._n_waiting += columns.shape[1]
        if self._n_waiting >= ROWS_TOGETHER:
            self._reflect()

    def _reflect(self) -> None:
        self._R = with_rows(self._R, np.concatenate(self._waiting))
        self._waiting, self._n_waiting = [], 0

    def result(self) -> RidgeFactors:
        """Return the factors of all rows so far."""
        if self._n_waiting:
            self._reflect()
        if not np.isfinite(self._R).all():
            raise ValueError("features or targets are not finite; mend the recordings first")
        return RidgeFactors.from_triangle(
            self._R,
            self.n_targets,
            n_rows=self._n_rows,
            weight=self._weight,
            fingerprint=self._features.fingerprint,
        )
