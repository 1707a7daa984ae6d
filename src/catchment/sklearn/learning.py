"""What the regressor and the classifier do alike: statistics, the ridge, honest training scores.

Leaving row i out of a ridge regression with an unpenalised intercept changes its residual from e to
e / (1 - h), with h = 1/n + (z - m)'(G + ridge I)^-1 (z - m) on centred moments, so leave-one-out
scores need no second fit. Weights count as repetitions: one unit of weight is left out.
"""

from __future__ import annotations

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.features.feature_map import FeatureMap
from catchment.readout.accumulate import accumulate
from catchment.readout.model import Model
from catchment.readout.readout import Readout
from catchment.readout.ridge_choice import choose_by_gcv, ridge_grid
from catchment.readout.solve import Spectrum
from catchment.readout.statistics import RidgeStatistics
from catchment.sklearn.inputs import Given


def statistics_of(
    features: FeatureMap, given: Given, y: Array, weight: Array | None, *, threads: int
) -> RidgeStatistics:
    """Return the statistics of all samples: targets (n, K), weights (n,) or None."""
    if given.pooled or weight is not None:
        z, kept = training_rows(features, given, threads=threads), given.after(features.washout)
        weight = None if weight is None else weight[kept]
        return RidgeStatistics.from_states(
            z, y[kept], weight=weight, fingerprint=features.fingerprint
        )
    targets = np.split(y, np.cumsum(given.lengths)[:-1])
    sequences = (
        Recording(u, target, per_step=True) for u, target in zip(given.inputs, targets, strict=True)
    )
    return accumulate(features, sequences, threads=threads)


def training_rows(features: FeatureMap, given: Given, *, threads: int) -> Array:
    """Return the feature rows of all sequences, without their washout, one after the other."""
    return np.concatenate(features.rows(given.inputs, threads=threads))


def known_statistics(model: Model) -> RidgeStatistics:
    """Return the statistics of a fitted model; ValueError if they were dropped."""
    if model.statistics is None:
        raise ValueError("the fitted model has lost its statistics; fit the estimator again")
    return model.statistics


def chosen_ridge(
    ridge: float | Array | str, statistics: RidgeStatistics, *, finest: float = 0.0
) -> float | Array:
    """Return the ridge to solve with: the one given, or for "gcv" the best of a wide grid.

    Parameters
    ----------
    ridge
        A number, one per output, or "gcv".
    statistics
        Of the training rows.
    finest
        Share of the targets' variance that the training error need not fall below: ridges that
        fit more closely are not tried.

    >>> z = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> s = RidgeStatistics.from_states(z, z)
    >>> chosen_ridge(0.5, s), chosen_ridge("gcv", s) < 1e-4 < chosen_ridge("gcv", s, finest=1e-8)
    (0.5, True)
    """
    if not isinstance(ridge, str):
        return ridge
    if ridge != "gcv":
        raise ValueError(f'ridge is {ridge!r}; pass a number, one per output, or "gcv"')
    if statistics.n_rows == 0 or not statistics.lower_moments()[0].diagonal().any():
        # Nothing varies, so every positive ridge gives the mean of the targets.
        return 1.0
    low, high = ridge_grid(statistics, 2)
    # With fewer rows than features the best ridge may be as large as the largest eigenvalue.
    grid = np.geomspace(low, high * statistics.n_features, 33)
    if finest > 0:
        spectrum = Spectrum.of(statistics)
        left = np.array([spectrum.squared_errors(tried).sum() for tried in grid])
        coarse = left >= finest * spectrum.target_moments.sum()
        grid = grid[coarse] if coarse.any() else grid[-1:]
    return choose_by_gcv(statistics, grid).best


def leave_one_out(statistics: RidgeStatistics, readout: Readout, z: Array, y: Array) -> Array:
    """Return what the readout would predict (n, K) for each training row had it not been there.

    Parameters
    ----------
    statistics
        Of the training rows, these among them.
    readout
        Solved from the statistics.
    z, y
        (n, F) features and (n, K) targets.

    >>> from catchment.readout.solve import solve_readout
    >>> z, y = np.array([[0.0], [1.0], [2.0], [4.0]]), np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> s = RidgeStatistics.from_states(z, y)
    >>> last = s - RidgeStatistics.from_states(z[:1], y[:1])
    >>> loo = leave_one_out(s, solve_readout(s, 0.5), z, y)
    >>> bool(np.isclose(loo[0], solve_readout(last, 0.5)(z[:1])).all())
    True
    """
    spectrum = Spectrum.of(statistics)
    centred = z - statistics.feature_sum / statistics.weight
    along = (centred @ spectrum.vectors) ** 2
    leverage = 1.0 / statistics.weight + along @ spectrum.inverse(readout.ridge)
    # Weights below one per row, or rows fitted exactly, leave nothing to divide by.
    left = np.clip(1.0 - leverage, 1e-3, 1.0)
    return np.asarray(y - (y - readout(z)) / left)
