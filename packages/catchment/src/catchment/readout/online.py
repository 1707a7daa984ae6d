"""Readouts of a stream: forgetting by exponential weights, or a window that slides.

Recursive least squares with forgetting divides its covariance by the forgetting factor at every
step and so blows up as soon as the inputs stop exciting it. Here only the statistics are forgotten,

    G <- forgetting G + z z',    C <- forgetting C + z y',

and the ridge is added anew at each solve, so the system is never worse posed than at the first
step. The window keeps its rows and sums them when it is asked: what rounding a subtraction of old
rows leaves would pile up.

A state is a frozen value: `update` returns the next one and costs little. A solve is a Cholesky
factorization, so ask for the readout when it is needed, not after every row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment.arrays import Array, Factor, PositiveInt, as_matrix, check_fields, refuse_nonfinite
from catchment.readout.solve import checked_ridges, scale_of, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics

# Rows that wait until they enter the statistics together.
BLOCK = 128

Rows = tuple[Array, Array]


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
    waiting: tuple[Rows, ...] = ()
    n_waiting: int = 0

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
        # Copies, so that a caller may reuse its buffers.
        z, y = np.array(as_matrix(z, "features")), np.array(as_matrix(y, "targets"))
        F, K = self.folded.cross.shape
        if z.shape != (len(z), F) or y.shape != (len(z), K):
            raise ValueError(
                f"features {z.shape} and targets {y.shape} do not fit; pass (n, {F}) and (n, {K})"
            )
        known = ~np.isnan(y).any(axis=1)
        refuse_nonfinite(z[known], "features")
        refuse_nonfinite(y[known], "targets")
        n = self.n_waiting + len(z)
        grown = replace(self, waiting=(*self.waiting, (z, y)), n_waiting=n)
        if self.length is None:
            if n < BLOCK:
                return grown
            return replace(grown, folded=grown.statistics, waiting=(), n_waiting=0)
        if len(grown.waiting) < BLOCK and n < 2 * self.length:
            return grown
        last = grown._rows()
        return replace(self, waiting=(last,), n_waiting=len(last[0]))

    @property
    def statistics(self) -> RidgeStatistics:
        """The sums of the rows so far, as far as they count."""
        total, name = self.folded, self.folded.fingerprint
        if not self.waiting:
            return total
        z, y = self._rows()
        if self.length is not None:
            return RidgeStatistics.from_states(z, y, fingerprint=name)
        for start in range(0, len(z), BLOCK):
            block = z[start : start + BLOCK], y[start : start + BLOCK]
            n = len(block[0])
            weight = self.forgetting ** np.arange(n - 1.0, -1.0, -1.0)
            new = RidgeStatistics.from_states(*block, weight=weight, fingerprint=name)
            total = total.scaled(self.forgetting**n) + new
        return total

    def readout(self) -> Readout:
        """Return the readout of the rows so far."""
        known = self.statistics
        scale = scale_of(known, self.standardize)
        return solve_readout(known, self.ridge, intercept=self.intercept, scale=scale)

    def _rows(self) -> Rows:
        """Return the rows that wait, or of a window the last of them."""
        first = 0 if self.length is None else -self.length
        z, y = map(np.concatenate, zip(*self.waiting, strict=True))
        return z[first:], y[first:]
