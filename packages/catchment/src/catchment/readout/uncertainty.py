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

import numpy as np

from catchment.arrays import Array
from catchment.readout.solve import Spectrum, checked_ridges, rescaled, scale_of
from catchment.readout.statistics import RidgeStatistics


def leverage(
    statistics: RidgeStatistics,
    ridge: float | Array,
    z: Array,
    *,
    intercept: bool = True,
    standardise: bool = False,
) -> tuple[Array, Spectrum]:
    """Return what rows (n, F) add to the variance of predictions (n, K), in noises; the spectrum.

    Parameters
    ----------
    statistics
        Sums over all training rows; a row of weight 2 counts as two rows.
    ridge
        One number, or (K,) numbers, one per output.
    standardise
        Whether the ridge acts on features divided by their standard deviation.

    >>> rows = np.array([[0.0], [2.0]])
    >>> leverage(RidgeStatistics.from_states(rows, rows), 0.0, rows)[0]
    array([[1.],
           [1.]])
    """
    mean = statistics.floats.feature_sum / statistics.weight if intercept else 0.0
    centred, scale = np.asarray(z, dtype=np.float64) - mean, scale_of(statistics, standardise)
    if scale is not None:
        statistics, centred = rescaled(statistics, scale), centred / scale
    spectrum = Spectrum.of(statistics, intercept=intercept)
    ridges = checked_ridges(ridge, statistics.n_targets)
    along = (centred @ spectrum.vectors) ** 2 @ spectrum.inverse(ridges)
    return np.asarray(along + (1.0 / statistics.weight if intercept else 0.0)), spectrum


def predictive_variance(
    statistics: RidgeStatistics,
    ridge: float | Array,
    z: Array,
    *,
    intercept: bool = True,
    standardise: bool = False,
) -> Array:
    """Return the variance (n, K) of new targets at feature rows (n, F), as `leverage` has them.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(200, 1))
    >>> s = RidgeStatistics.from_states(z, z + 0.5 * rng.normal(size=(200, 1)))
    >>> predictive_variance(s, 1e-6, np.array([[0.0], [8.0]])).round(2).ravel()
    array([0.27, 0.36])
    """
    spread, spectrum = leverage(statistics, ridge, z, intercept=intercept, standardise=standardise)
    ridges = checked_ridges(ridge, statistics.n_targets)
    freedom = statistics.weight - spectrum.degrees_of_freedom(ridges)
    if (freedom < 1).any():
        raise ValueError(
            f"{statistics.weight:g} rows and {statistics.weight - freedom.min():.1f} effective "
            "parameters leave no freedom to estimate the noise; add rows or raise the ridge"
        )
    return np.asarray(spectrum.squared_errors(ridges) / freedom * (1.0 + spread))


def conformal_quantile(scores: Array, coverage: float) -> Array:
    """Return the ceil((n + 1) coverage)-th smallest of the scores (n, K), for each of K columns.

    The one past n makes the coverage hold for a new row, not only for those at hand.

    >>> conformal_quantile(np.arange(1.0, 10.0)[:, None], 0.8)
    array([8.])
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is {coverage}; pass a probability between 0 and 1, such as 0.9")
    n, rank = len(scores), math.ceil((len(scores) + 1) * coverage - 1e-9)
    if rank > n:
        needed = math.ceil(coverage / (1 - coverage) - 1e-9)
        raise ValueError(
            f"coverage {coverage} needs at least {needed} calibration rows, got {n}; "
            "add rows or lower the coverage"
        )
    return np.asarray(np.partition(scores, rank - 1, axis=0)[rank - 1])
