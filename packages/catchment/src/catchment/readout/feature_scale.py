"""Features divided by their spread before a ridge acts, from the statistics that are there anyway.

Dividing features by d is a congruence, G_ij / (d_i d_j), so a readout of standardised features is
solved from the sums of the raw ones, and its weights, divided by d, are for raw features again. The
spread is that of all rows together, also where some are left out of a solution: everybody's ridge
then means the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from catchment.arrays import Array
from catchment.readout.packing import pack, unpack
from catchment.readout.readout import Readout
from catchment.readout.statistics import CONSTANT, RidgeStatistics


def scale_of(statistics: RidgeStatistics, standardise: bool) -> Array | None:
    """Return what features (F,) are divided by before a ridge acts, None if they are not.

    >>> scale_of(RidgeStatistics.zero(2, 1), False) is None
    True
    """
    return feature_scale(statistics) if standardise else None


def feature_scale(statistics: RidgeStatistics) -> Array:
    """Return the standard deviation (F,) of each feature, 1 for one that does not vary.

    >>> z = np.array([[0.0, 5.0], [4.0, 5.0]])
    >>> feature_scale(RidgeStatistics.from_states(z, np.zeros((2, 1))))
    array([2., 1.])
    """
    if statistics.weight <= 0:
        raise ValueError(f"the statistics have weight {statistics.weight}; add data first")
    statistics = statistics.floats
    raw = unpack(statistics.gram).diagonal() / statistics.weight
    variance = raw - (statistics.feature_sum / statistics.weight) ** 2
    varied = variance > CONSTANT * raw
    return np.sqrt(np.where(varied, variance, 1.0))


def rescaled(statistics: RidgeStatistics, scale: Array) -> RidgeStatistics:
    """Return the statistics that the features would have had, had each been divided by its scale.

    They have a fingerprint of their own, so that they add only to others of the same scale.

    Parameters
    ----------
    scale
        (F,) positive numbers.

    >>> z, y = np.array([[0.0], [4.0]]), np.array([[1.0], [3.0]])
    >>> rescaled(RidgeStatistics.from_states(z, y), np.array([2.0])).moments()
    (array([[2.]]), array([[2.]]))
    """
    d = np.asarray(scale, dtype=np.float64)
    if d.shape != (statistics.n_features,) or not (np.isfinite(d).all() and (d > 0).all()):
        raise ValueError(
            f"scale has shape {d.shape}; pass one positive number for each of "
            f"{statistics.n_features} features"
        )
    statistics = statistics.floats
    name = statistics.fingerprint.encode() + d.astype("<f8").tobytes()
    return replace(
        statistics,
        feature_sum=statistics.feature_sum / d,
        gram=statistics.gram / pack(np.outer(d, d)),
        cross=statistics.cross / d[:, None],
        fingerprint=hashlib.sha256(name).hexdigest(),
    )


def for_raw_features(readout: Readout, scale: Array) -> Readout:
    """Return the readout of undivided features that equals one solved for features / scale.

    >>> readout = Readout(np.array([[6.0]]), np.zeros(1))
    >>> for_raw_features(readout, np.array([2.0])).weights
    array([[3.]])
    """
    return replace(readout, weights=readout.weights / np.asarray(scale)[:, None])


def for_scaled_features(readout: Readout, scale: Array) -> Readout:
    """Return the readout of features / scale that equals one for undivided features.

    >>> readout = Readout(np.array([[3.0]]), np.zeros(1))
    >>> for_scaled_features(readout, np.array([2.0])).weights
    array([[6.]])
    """
    return replace(readout, weights=readout.weights * np.asarray(scale)[:, None])
