"""Scaling, centring and class balance from the statistics that were sent anyway: no second round.

Centring is part of every solution with an intercept: the sums of the features give G - n m m'.
Dividing features by their spread is as exact (`catchment.readout.solve`), because both come
after the features. What comes before a reservoir, the scale of its inputs, bends every state, and
no statistics can undo it: agree on it beforehand (`input_scaler` reads it off an earlier upload, or
`catchment.data.scaling` asks for it).

With one-hot targets column k of C is the sum of the features of class k, so the class means m_k and
the scatter within classes, S = G - sum_k n_k m_k m_k', are known, but not each class's own scatter.
`balanced` gives every class the same weight with S in place of the classes' own: all sums exact
but for that. For full exactness send statistics by class (`catchment.federation.learn.balanced`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from catchment.arrays import Array
from catchment.data.scaling import Moments, Scaler
from catchment.features.echo_state.echo_state import EchoStateMap
from catchment.readout.device import same_features
from catchment.readout.statistics import RidgeStatistics, pack, unpack


def input_scaler(features: EchoStateMap, statistics: RidgeStatistics) -> Scaler:
    """Return the scaler of the inputs, read off statistics of features that hold the inputs.

    It is that of the rows behind the statistics: without the washout and rows without a target.

    Parameters
    ----------
    features
        Per step, with `input=True`.
    statistics
        Of one client, or summed over all; of these features.
    """
    if not features.input or not features.per_step:
        raise ValueError(
            "these features do not hold the inputs of every step; use input=True and pool=None"
        )
    if not same_features(statistics.fingerprint, features.fingerprint):
        raise ValueError("the statistics come from other features; pass those they were made with")
    first = int(features.bias)
    columns = slice(first, first + features.reservoir.n_inputs)
    statistics = statistics.floats
    total = statistics.feature_sum[columns]
    squares = unpack(statistics.gram).diagonal()[columns].copy()
    count = np.full(len(total), statistics.n_rows, dtype=np.int64)
    if statistics.weight != statistics.n_rows:
        raise ValueError("the rows are weighted; a scaler needs the statistics of unweighted rows")
    return Scaler.from_moments(Moments.of_sums(count, total, squares))


def class_weights(statistics: RidgeStatistics) -> Array:
    """Return the factor (K,) per class that gives all classes the same weight; 0 for empty ones.

    >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> class_weights(RidgeStatistics.from_states(np.ones((4, 1)), y))
    array([0.66666667, 2.        ])
    """
    statistics = statistics.floats
    _refuse_numbers(statistics)
    n = statistics.target_sum
    present = n > 0
    return np.where(present, statistics.weight / present.sum() / np.where(present, n, 1.0), 0.0)


def balanced(statistics: RidgeStatistics) -> RidgeStatistics:
    """Return statistics in which every class has the same weight, of one-hot targets.

    Class means and counts are exact; the scatter within each class is replaced by that of all
    classes together, so the result is that of reweighted rows if the classes scatter alike.

    >>> z, y = np.array([[1.0], [1.0], [4.0]]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> balanced(RidgeStatistics.from_states(z, y)).feature_sum
    array([7.5])
    """
    statistics = statistics.floats
    factor = class_weights(statistics)
    n, C = statistics.target_sum, statistics.cross
    means = C / np.where(n > 0, n, 1.0)
    # Each class adds its mean's outer product, weighted anew less what is in G already.
    G = unpack(statistics.gram) + (means * (n * (factor - 1.0))) @ means.T
    return replace(
        statistics,
        feature_sum=(C * factor).sum(axis=1),
        target_sum=n * factor,
        gram=pack(G),
        cross=C * factor,
        target_gram=pack(np.diag(n * factor)),
    )


def _refuse_numbers(statistics: RidgeStatistics) -> None:
    Y, n = unpack(statistics.target_gram), statistics.target_sum
    near = 1e-9 * max(statistics.weight, 1e-300)
    one_hot = np.abs(Y - np.diag(n)).max() <= near and abs(n.sum() - statistics.weight) <= near
    if not one_hot or (n < 0).any():
        raise ValueError("the targets are not one-hot rows; only classes can be balanced")
