"""How far a row of features is from every class: each class's normal model, from sums.

The squared Mahalanobis distance of z from class k, divided by the number of features,

    d_k(z) = (z - m_k)' S_k^-1 (z - m_k) / F,

with the mean m_k of the class and a covariance shrunk to a multiple of the identity. One covariance
for all classes, that of rows around the mean of their class, is known from the plain sums of
one-hot targets (`catchment.readout.heads`). A covariance for each class needs sums by class.

The distance from the nearest class tells what is no known class at all (Lee et al., NeurIPS 2018);
a classifier's own scores only compare the classes that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import lapack, solve_triangular

from catchment.arrays import Array
from catchment.errors import SingularError
from catchment.readout.feature_scale import rescaled, scale_of
from catchment.readout.heads import Gaussian, class_covariance, class_means
from catchment.readout.statistics import RidgeStatistics

Shrinkage = float | Literal["oas"]


@dataclass(frozen=True, eq=False)
class KnownClasses:
    """A normal model of every class: its mean, and a covariance of its own or everybody's.

    Parameters
    ----------
    means
        (F, K) of the scaled features.
    factors
        (1 or K, F, F) lower Cholesky factors of the covariances, one for all classes or one each.
    rows
        (K,) behind each class; one without any is infinitely far.
    scale
        (F,) by which features are divided first.

    >>> z = np.array([[0.0], [2.0], [5.0], [7.0]])
    >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> known = KnownClasses.of(RidgeStatistics.from_states(z, y), shrinkage=0.0)
    >>> known.distances(np.array([[1.0], [9.0]]))
    array([[ 0., 25.],
           [64.,  9.]])
    """

    means: Array
    factors: Array
    rows: Array
    scale: Array

    @classmethod
    def of(
        cls,
        sums: RidgeStatistics | Mapping[int, RidgeStatistics],
        *,
        shrinkage: Shrinkage = "oas",
        standardise: bool = False,
    ) -> KnownClasses:
        """Return the normal models that sums of one-hot targets tell.

        Parameters
        ----------
        sums
            Of all rows: every class then has the covariance within classes. Or of each class by
            its number: every class has its own.
        shrinkage
            How far a covariance is moved to a multiple of the identity, from 0 to 1; or "oas", as
            `Gaussian` has it.
        standardise
            Whether features are divided by their spread over all rows first.
        """
        by_class = None if isinstance(sums, RidgeStatistics) else [sums[k] for k in sorted(sums)]
        total = sums if isinstance(sums, RidgeStatistics) else _added(by_class or [])
        scale = scale_of(total, standardise)
        if scale is None:
            scale = np.ones(total.n_features)
        rows, means = class_means(rescaled(total, scale))
        head = Gaussian(shrinkage=shrinkage)
        every = [total] if by_class is None else by_class
        factors = [_factor(rescaled(one, scale), head) for one in every]
        return cls(means, np.stack(factors), np.asarray(rows), scale)

    def distances(self, z: Array) -> Array:
        """Return how far rows of features (n, F) are from each class, (n, K)."""
        found = np.full((len(z), len(self.rows)), np.inf)
        for k in np.flatnonzero(self.rows > 0):
            away = (z / self.scale - self.means[:, k]).T
            L = self.factors[k if len(self.factors) > 1 else 0]
            found[:, k] = (solve_triangular(L, away, lower=True) ** 2).sum(axis=0) / len(L)
        return found

    def nearest(self, z: Array) -> Array:
        """Return how far rows of features (n, F) are from the class that is nearest, (n,)."""
        return np.asarray(self.distances(z).min(axis=1))


def _added(by_class: list[RidgeStatistics]) -> RidgeStatistics:
    total = by_class[0]
    for one in by_class[1:]:
        total = total + one
    return total


def _factor(statistics: RidgeStatistics, head: Gaussian) -> Array:
    """Return the lower Cholesky factor (F, F) of the shrunk covariance around class means."""
    if not statistics.n_rows:
        return np.eye(statistics.n_features)
    S = class_covariance(statistics)
    share, added = head.strength(S, statistics.weight)
    S = (1 - share) * S + added * np.eye(len(S))
    factor, info = lapack.dpotrf(S, lower=1)
    noise = S.diagonal() * (16 + 4 * len(S)) * np.finfo(np.float64).eps
    if info or (factor.diagonal() ** 2 < noise).any():
        raise SingularError(
            f"the covariance of {len(S)} features has no inverse: some do not vary, or repeat "
            "others; pass shrinkage='oas' or a number above 0"
        )
    return np.asarray(factor)
