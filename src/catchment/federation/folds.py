"""A client's rows cut into folds, for what it chooses or predicts without looking at the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np

from catchment.arrays import Array, Integers
from catchment.data.recording import Recording
from catchment.features.feature_map import FeatureMap
from catchment.readout.readout import Readout
from catchment.readout.ridge_choice import choose_by_blocks
from catchment.readout.statistics import RidgeStatistics


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """Features (n, F), targets (n, K), weights (n,) and the fold (n,) of each row.

    Rows of a fold lie together: a fold is a share of the sequences where there are enough of them,
    else a stretch of each sequence, because neighbours in time tell each other's targets.
    """

    z: Array
    y: Array
    weight: Array
    fold: Integers
    fingerprint: str

    @classmethod
    def of(cls, features: FeatureMap, sequences: Iterable[Recording], n_folds: int) -> FoldedRows:
        """Return the rows with known targets of all sequences.

        >>> from catchment import Recipe, Reservoir
        >>> features = EchoStateMap(Reservoir.from_recipe(Recipe(units=5, inputs=1)), washout=2)
        >>> rows = FoldedRows.of(features, [Recording(np.zeros(8), np.zeros(8))], 3)
        >>> rows.fold
        array([0, 0, 1, 1, 2, 2])
        """
        recorded = list(sequences)
        if not recorded:
            raise ValueError("no sequences were given; pass at least one with targets")
        whole = not features.per_step or len(recorded) >= n_folds
        ys, weights, folds = [], [], []
        zs = features.rows([s.u for s in recorded], threads=1)
        for k, (sequence, z) in enumerate(zip(recorded, zs, strict=True)):
            ys.append(row_targets(sequence, features, len(z)))
            weights.append(np.full(len(z), sequence.weight))
            place = np.full(len(z), k % n_folds) if whole else np.arange(len(z)) * n_folds // len(z)
            folds.append(place)
        z, y, fold = np.concatenate(zs), np.concatenate(ys), np.concatenate(folds)
        known = ~np.isnan(y).any(axis=1)
        weight = np.concatenate(weights)
        return cls(z[known], y[known], weight[known], fold[known], features.fingerprint)

    @cached_property
    def blocks(self) -> dict[int, RidgeStatistics]:
        """Statistics of each fold that has rows."""
        return {
            int(k): RidgeStatistics.from_states(
                self.z[self.fold == k],
                self.y[self.fold == k],
                weight=self.weight[self.fold == k],
                fingerprint=self.fingerprint,
            )
            for k in np.unique(self.fold)
        }

    def total(self) -> RidgeStatistics:
        if not self.blocks:
            raise ValueError("there are no rows with a target; pass sequences with targets")
        return reduce(add, self.blocks.values())

    def best_ridge(self) -> float:
        """Return the ridge with the least error on folds left out of the solution."""
        if len(self.blocks) < 2:
            raise ValueError(
                f"the rows fill {len(self.blocks)} fold, choosing a ridge needs 2; pass a number"
            )
        return float(np.asarray(choose_by_blocks(list(self.blocks.values())).best))

    def out_of_fold(self, ridge: float | Array) -> Array:
        """Return outputs (n, K) for each row by a readout solved without the row's fold."""
        outputs = np.empty_like(self.y)
        total = self.total()
        for k, block in self.blocks.items():
            rest = total - block
            if rest.n_rows == 0:
                raise ValueError("all rows lie in one fold; predicting without it needs 2 folds")
            readout: Readout = rest.solve(ridge)
            outputs[self.fold == k] = readout(self.z[self.fold == k])
        return outputs


def row_targets(sequence: Recording, features: FeatureMap, n_rows: int) -> Array:
    """Return the targets (n, K) of a sequence's feature rows, NaN where they are not known."""
    if sequence.y is None:
        raise ValueError("a sequence has no targets; pass inputs and targets")
    if not sequence.per_step:
        return np.repeat(sequence.y[None], n_rows, axis=0)
    if not features.per_step:
        raise ValueError(
            "a sequence has a target per step, but pooled features give one row per sequence; "
            "pass pool=None or one target per sequence"
        )
    return sequence.y[features.washout :]
