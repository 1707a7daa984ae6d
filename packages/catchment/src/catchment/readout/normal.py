"""What is normal, from sums that add: mean and covariance of rows, and how far a new row is off.

Of rows r with weight n, sum s and Gram matrix R'R the mean is m = s / n and the covariance
S = R'R / n - m m'. It is shrunk towards a multiple of the identity with the same trace,

    V = (1 - a) S + a (trace S / F) I,

and a row's score is its squared Mahalanobis distance over the number of columns,
(r - m)' V^-1 (r - m) / F: about 1 on average over the rows that it was made of.

With shrinkage "auto" the share a is the oracle approximation of Chen, Wiesel, Eldar and Hero (IEEE
Trans. Signal Processing 58, 2010, eq. 23, as scikit-learn's `OAS` has it), because it needs nothing
but S and n. It takes rows for independent and normal; neighbouring rows of a series are not, so
that it rather shrinks too little. Rows are features, or the errors of a readout, whose moments
follow from the same sums: with e = y - W'z - b and centred moments

    n S_e = Y'Y - W'C - C'W + W'G W.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from catchment.arrays import Array
from catchment.readout.feature_scale import feature_scale
from catchment.readout.packing import mirror_lower, pack, unpack, unpack_lower
from catchment.readout.readout import Readout
from catchment.readout.statistics import CONSTANT, RidgeStatistics
from catchment.wire import Shape, Structure, Triangle

Shrinkage = float | Literal["auto"]


@dataclass(frozen=True, eq=False)
class NormalModel(Structure):
    """Mean and shrunk covariance of rows, as sums tell them.

    Parameters
    ----------
    mean
        (F,) of the rows.
    packed
        Upper triangle of the shrunk covariance (F, F).
    shrinkage
        How far the covariance was shrunk, between 0 and 1.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 2)) * [1.0, 3.0]
    >>> sums = RidgeStatistics.from_states(z, np.zeros((400, 1)))
    >>> normal = NormalModel.of(sums, shrinkage=0.0)
    >>> round(float(normal.scores(z).mean()), 12), normal.scores(np.array([[0.0, 12.0]])).round(1)
    (1.0, array([8.]))
    """

    mean: Annotated[Array, Shape("features")]
    packed: Annotated[Array, Triangle("features")]
    shrinkage: float

    @classmethod
    def of(
        cls,
        statistics: RidgeStatistics,
        shrinkage: Shrinkage = "auto",
        *,
        standardise: bool = False,
    ) -> NormalModel:
        """Return what is normal for features, from their sums, those on a grid too.

        Parameters
        ----------
        shrinkage
            A number from 0 to 1, or "auto".
        standardise
            Whether features are divided by their standard deviation before the covariance is
            shrunk, so that the scale of a feature makes no difference.
        """
        n = _checked_weight(statistics)
        mean = statistics.floats.feature_sum / n
        scale = feature_scale(statistics) if standardise else np.ones(len(mean))
        covariance = statistics.moments()[0] / n / np.outer(scale, scale)
        shrunk, share = shrunk_covariance(covariance, n, shrinkage)
        return cls(mean, pack(shrunk * np.outer(scale, scale)), share)

    @classmethod
    def of_errors(
        cls, statistics: RidgeStatistics, readout: Readout, shrinkage: Shrinkage = "auto"
    ) -> NormalModel:
        """Return what is normal for the errors of a readout on the rows behind statistics.

        >>> z = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> y = np.array([[0.0], [2.0], [3.0], [7.0]])
        >>> sums = RidgeStatistics.from_states(z, y)
        >>> NormalModel.of_errors(sums, sums.solve(0.0), 0.0).covariance.round(12)
        array([[0.45]])
        """
        n, held = _checked_weight(statistics), statistics.floats
        W = readout.weights
        G, C = statistics.moments()
        t = held.target_sum
        Y = unpack(held.target_gram) - np.outer(t, t) / n
        E = (Y - W.T @ C - C.T @ W + W.T @ G @ W) / n
        # Where errors are all but nothing, what rounding leaves of the difference may be below it.
        np.fill_diagonal(E, np.maximum(E.diagonal(), CONSTANT * Y.diagonal() / n))
        mean = (t - W.T @ held.feature_sum) / n - readout.intercept
        shrunk, share = shrunk_covariance((E + E.T) / 2, n, shrinkage)
        return cls(mean, pack(shrunk), share)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def covariance(self) -> Array:
        """The shrunk covariance (F, F)."""
        return mirror_lower(unpack_lower(self.packed))

    def scores(self, rows: Array) -> Array:
        """Return the score (n,) of rows (n, F): squared Mahalanobis distance over F."""
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(
                f"rows have shape {rows.shape}; pass (n, {self.n_features}), as those that the "
                "model was made of"
            )
        away = solve_triangular(
            self._factor, (rows - self.mean).T, lower=True, check_finite=False, overwrite_b=True
        )
        return np.asarray(np.einsum("fn,fn->n", away, away) / self.n_features)

    @cached_property
    def _factor(self) -> Array:
        try:
            return np.asarray(cholesky(self.covariance, lower=True))
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"the covariance of {self.n_features} columns has no inverse at a shrinkage of "
                f"{self.shrinkage:g}; pass a larger one, such as 0.01, or shrinkage='auto'"
            ) from error


def shrunk_covariance(
    covariance: Array, n_rows: float, shrinkage: Shrinkage = "auto"
) -> tuple[Array, float]:
    """Return a covariance (F, F) shrunk towards a multiple of the identity, and how far.

    >>> shrunk_covariance(np.diag([1.0, 3.0]), 100, 0.5)[0]
    array([[1.5, 0. ],
           [0. , 2.5]])
    """
    F = len(covariance)
    mean_variance = float(np.trace(covariance)) / F
    if not mean_variance > 0:
        raise ValueError(
            "nothing varies in the rows, so that every change would be infinitely unusual; use "
            "recordings in which something happens, or another map"
        )
    share = oracle_shrinkage(covariance, n_rows) if shrinkage == "auto" else float(shrinkage)
    if not 0 <= share <= 1:
        raise ValueError(f"shrinkage is {shrinkage}; pass a number from 0 to 1, or 'auto'")
    shrunk = (1.0 - share) * covariance
    shrunk[np.arange(F), np.arange(F)] += share * mean_variance
    return shrunk, share


def oracle_shrinkage(covariance: Array, n_rows: float) -> float:
    """Return how far to shrink the covariance (F, F) of so many independent normal rows.

    >>> round(oracle_shrinkage(np.diag([1.0, 3.0]), 100), 4)
    0.1287
    """
    F = len(covariance)
    mean_square = float(np.mean(np.square(covariance)))
    squared_mean = (float(np.trace(covariance)) / F) ** 2
    spread = (n_rows + 1.0) * (mean_square - squared_mean / F)
    return 1.0 if spread <= 0 else min(1.0, (mean_square + squared_mean) / spread)


def _checked_weight(statistics: RidgeStatistics) -> float:
    if not statistics.weight > 0:
        raise ValueError("no row is behind the sums; add the statistics of normal recordings")
    return float(statistics.weight)
