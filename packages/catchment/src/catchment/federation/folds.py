"""A client's rows cut into folds, for what it chooses or predicts without looking at the answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np

from catchment.arrays import Array, Integers
from catchment.federation.rows import Rows
from catchment.readout.ridge_choice import choose_by_blocks
from catchment.readout.statistics import Readout, RidgeStatistics


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """A client's rows and the fold (n,) of each, as `Rows.folds` cuts them.

    >>> from catchment import Recipe, Recording, Reservoir
    >>> from catchment.features import EchoStateMap
    >>> features = EchoStateMap(Reservoir.from_recipe(Recipe(units=5, inputs=1)), washout=2)
    >>> rows = Rows.of(features, [Recording(np.zeros(8), np.zeros(8))])
    >>> FoldedRows.of(rows, 3).fold
    array([0, 0, 1, 1, 2, 2])
    """

    rows: Rows
    fold: Integers

    @classmethod
    def of(cls, rows: Rows, n_folds: int) -> FoldedRows:
        return cls(rows, rows.folds(n_folds))

    @cached_property
    def blocks(self) -> dict[int, RidgeStatistics]:
        """Statistics of each fold that has rows."""
        return {int(k): self.rows.only(self.fold == k).statistics() for k in np.unique(self.fold)}

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
        outputs = np.empty_like(self.rows.y)
        total = self.total()
        for k, block in self.blocks.items():
            rest = total - block
            if rest.n_rows == 0:
                raise ValueError("all rows lie in one fold; predicting without it needs 2 folds")
            readout: Readout = rest.solve(ridge)
            outputs[self.fold == k] = readout(self.rows.z[self.fold == k])
        return outputs
