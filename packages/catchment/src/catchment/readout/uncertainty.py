"""How sure a readout is: predictive variance from statistics, and intervals that need no model.

The ridge readout is the mean of a Bayesian linear model with prior variance noise / ridge, so

    noise    s^2 = SSE / (n - df)
    variance s^2 (1 + h(z)),   h(z) = 1/n + (z - m)' (G + ridge I)^-1 (z - m)

with centred G, mean feature m, rows n (their weight) and effective degrees of freedom df; features
are divided by their spread first where the ridge acts on such. The leverage h alone says how far a
feature row lies from those seen in training. These intervals hold if the errors are independent and
normal. Those of split conformal prediction (Vovk et al. 2005; Lei et al. 2018), by
`conformal_quantile` or by `catchment.calibrate`, hold for any errors, as long as calibration rows
and new rows are exchangeable; rows of one drifting series are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from catchment.arrays import Array
from catchment.readout.solve import (
    Spectrum,
    checked_ridges,
    for_raw_features,
    rescaled,
    scale_of,
    solve_readout,
)
from catchment.readout.statistics import Readout, RidgeStatistics


@dataclass(frozen=True, eq=False)
class BayesianReadout:
    """A readout with the variance of its predictions; `bayesian_readout` makes one."""

    readout: Readout
    spectrum: Spectrum
    feature_mean: Array  # (F,) zeros without an intercept
    weight: float  # of the training rows
    noise_variance: Array  # (K,)
    residual_freedom: Array  # (K,) n - df
    scale: Array | None = None  # (F,) what features are divided by before the ridge acts

    def __call__(self, z: Array) -> Array:
        """Return the predictions (n, K)."""
        return self.readout(z)

    def leverage(self, z: Array) -> Array:
        """Return the leverage (n, K) of rows (n, F): what they add to the variance, in noises."""
        ridges = checked_ridges(self.readout.ridge, self.readout.n_outputs)
        centred = np.asarray(z, dtype=np.float64) - self.feature_mean
        if self.scale is not None:
            centred = centred / self.scale
        along = (centred @ self.spectrum.vectors) ** 2
        base = 1.0 / self.weight if self.spectrum.intercept else 0.0
        return np.asarray(along @ self.spectrum.inverse(ridges) + base)

    def variance(self, z: Array) -> Array:
        """Return the variance (n, K) of a new target at feature rows (n, F)."""
        return np.asarray(self.noise_variance * (1.0 + self.leverage(z)))

    def novelty(self, z: Array) -> Array:
        """Return a score (n,) that is 1 on average over the training rows and grows away from them.

        It is the leverage over the mean training leverage, the largest of the outputs'.
        """
        mean = (self.weight - self.residual_freedom) / self.weight
        return np.asarray((self.leverage(z) / mean).max(axis=1))

    def interval(
        self, z: Array, coverage: float = 0.9, *, normal: bool = False
    ) -> tuple[Array, Array]:
        """Return lower and upper ends, (n, K) each, that hold a new target with this probability.

        Parameters
        ----------
        z
            (n, F) features.
        coverage
            Probability, between 0 and 1, that each single target lies inside.
        normal
            Whether to take the noise variance for known; else Student's t allows for its estimate.
        """
        tail = (1.0 + _checked_coverage(coverage)) / 2.0
        factor = ndtri(tail) if normal else stdtrit(self.residual_freedom, tail)
        mean, half = self.readout(z), factor * np.sqrt(self.variance(z))
        return mean - half, mean + half


def bayesian_readout(
    statistics: RidgeStatistics,
    ridge: float | Array = 1e-6,
    *,
    intercept: bool = True,
    standardise: bool = False,
) -> BayesianReadout:
    """Return the ridge readout together with the variance of its predictions.

    Parameters
    ----------
    statistics
        Sums over all training rows; a row of weight 2 counts as two rows.
    ridge
        One number, or (K,) numbers, one per output.
    standardise
        Whether the ridge acts on features divided by their standard deviation.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(200, 1))
    >>> y = z + 0.5 * rng.normal(size=(200, 1))
    >>> model = bayesian_readout(RidgeStatistics.from_states(z, y))
    >>> model.noise_variance.round(2)
    array([0.26])
    >>> model.novelty(np.array([[0.0], [8.0]])).round()
    array([ 1., 35.])
    """
    mean = statistics.floats.feature_sum / statistics.weight
    scale = scale_of(statistics, standardise)
    if scale is not None:
        statistics = rescaled(statistics, scale)
    readout = solve_readout(statistics, ridge, intercept=intercept)
    spectrum = Spectrum.of(statistics, intercept=intercept)
    ridges = checked_ridges(ridge, statistics.n_targets)
    freedom = statistics.weight - spectrum.degrees_of_freedom(ridges)
    if (freedom < 1).any():
        raise ValueError(
            f"{statistics.weight:g} rows and {statistics.weight - freedom.min():.1f} effective "
            "parameters leave no freedom to estimate the noise; add rows or raise the ridge"
        )
    return BayesianReadout(
        readout=readout if scale is None else for_raw_features(readout, scale),
        spectrum=spectrum,
        feature_mean=mean if intercept else np.zeros_like(mean),
        weight=statistics.weight,
        noise_variance=spectrum.squared_errors(ridges) / freedom,
        residual_freedom=freedom,
        scale=scale,
    )


def conformal_quantile(scores: Array, coverage: float) -> Array:
    """Return the ceil((n + 1) coverage)-th smallest of the scores (n, K), for each of K columns.

    The one past n makes the coverage hold for a new row, not only for those at hand.

    >>> conformal_quantile(np.arange(1.0, 10.0)[:, None], 0.8)
    array([8.])
    """
    n, rank = len(scores), math.ceil((len(scores) + 1) * _checked_coverage(coverage) - 1e-9)
    if rank > n:
        needed = math.ceil(coverage / (1 - coverage) - 1e-9)
        raise ValueError(
            f"coverage {coverage} needs at least {needed} calibration rows, got {n}; "
            "add rows or lower the coverage"
        )
    return np.asarray(np.partition(scores, rank - 1, axis=0)[rank - 1])


def _checked_coverage(coverage: float) -> float:
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is {coverage}; pass a probability between 0 and 1, such as 0.9")
    return coverage
