"""Readouts of a stream: forgetting by exponential weights, or a window that slides.

Recursive least squares with forgetting divides its covariance by the forgetting factor at every
step and so blows up as soon as the inputs stop exciting it. Here only the statistics are forgotten,

    G <- forgetting G + z z',    C <- forgetting C + z y',

and the ridge is added anew at each solve, so the system is never worse posed than at the first
step. The window keeps its rows and sums them when it is asked: what rounding a subtraction of old
rows leaves would pile up.

A state is a frozen value: `update` returns the next one, at the cost of a few passes over the sums.
A solve is a Cholesky factorization, so ask for the readout when it is needed, not after every row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment.arrays import Array, Factor, PositiveInt, as_matrix, check_fields, refuse_nonfinite
from catchment.readout.solve import checked_ridges, scale_of, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics

BLOCK = 128  # rows that are weighed and added together


@dataclass(frozen=True, eq=False, kw_only=True)
class OnlineRidge:
    """Ridge statistics of a stream; `start` makes the empty one.

    Parameters
    ----------
    forgetting
        The newest row has weight 1, the one before it this weight, then its square, and so on; 1
        forgets nothing. A row whose target is missing ages the others all the same.
    length
        Only so many of the last rows count, all alike; None for all.
    standardize
        Whether the ridge acts on features divided by their standard deviation, as maps that say so
        want it.

    >>> online = OnlineRidge.start(1, 1, forgetting=0.9, ridge=1e-9)
    >>> for t in range(300):
    ...     slope = 1.0 if t < 100 else -2.0
    ...     online = online.update([[np.sin(t)]], [[slope * np.sin(t)]])
    >>> online.readout().weights.round(3)
    array([[-2.]])
    >>> OnlineRidge.start(1, 1, length=3).update(np.eye(9, 1), np.ones(9)).statistics.n_rows
    3
    """

    folded: RidgeStatistics
    ridge: float | Array = 1e-6
    intercept: bool = True
    standardize: bool = False
    forgetting: Factor = 1.0
    length: PositiveInt | None = None
    last: tuple[Array, Array] | None = None  # rows and targets of the window

    def __post_init__(self) -> None:
        check_fields(self)
        if self.forgetting < 1 and self.length is not None:
            raise ValueError(f"forgetting is {self.forgetting}; pass 1 with a window")

    @classmethod
    def start(
        cls, n_features: int, n_targets: int, *, fingerprint: str = "", **settings: Any
    ) -> OnlineRidge:
        """Return the state before any row, with these settings by name."""
        checked_ridges(settings.get("ridge", 0.0), n_targets)
        return cls(folded=RidgeStatistics.zero(n_features, n_targets, fingerprint), **settings)

    def update(self, z: Array, y: Array) -> OnlineRidge:
        """Return the state after feature rows (n, F) with targets (n, K), oldest first."""
        z, y = as_matrix(z, "features"), as_matrix(y, "targets")
        F, K = self.folded.cross.shape
        if z.shape != (len(z), F) or y.shape != (len(z), K):
            raise ValueError(
                f"features {z.shape} and targets {y.shape} do not fit; pass (n, {F}) and (n, {K})"
            )
        if self.length is not None:
            known = ~np.isnan(y).any(axis=1)
            refuse_nonfinite(z[known], "features")
            refuse_nonfinite(y[known], "targets")
            pairs = zip(self.last or (z[:0], y[:0]), (z, y), strict=True)
            z, y = (np.concatenate(both)[-self.length :] for both in pairs)
            return replace(self, last=(z, y))
        total, name = self.folded, self.folded.fingerprint
        for at in range(0, len(z), BLOCK):
            new = z[at : at + BLOCK], y[at : at + BLOCK]
            n = len(new[0])
            weight = self.forgetting ** np.arange(n - 1.0, -1.0, -1.0)
            more = RidgeStatistics.from_states(*new, weight=weight, fingerprint=name)
            total = total.scaled(self.forgetting**n) + more
        return replace(self, folded=total)

    @property
    def statistics(self) -> RidgeStatistics:
        """The sums of the rows so far, as far as they count."""
        if self.last is None:
            return self.folded
        return RidgeStatistics.from_states(*self.last, fingerprint=self.folded.fingerprint)

    def readout(self) -> Readout:
        """Return the readout of the rows so far."""
        known = self.statistics
        scale = scale_of(known, self.standardize)
        return solve_readout(known, self.ridge, intercept=self.intercept, scale=scale)
