"""What ridge statistics say outright: class counts, class means, and single rows by difference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from catchment import Array
from catchment.features.echo_state import ACTIVATIONS
from catchment.readout import RidgeStatistics
from catchment_lab.audit.differentiable_reservoir import Drive

_INVERSE: dict[str, Callable[[Array], Array]] = {
    "tanh": np.arctanh,
    "sigmoid": lambda y: 2 * np.arctanh(2 * y - 1),
    "identity": lambda y: y,
}


def class_counts(statistics: RidgeStatistics) -> Array:
    """Return how many rows of each class (K,) there are: the sums of one-hot targets.

    >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> class_counts(RidgeStatistics.from_states(np.ones((3, 1)), y))
    array([2., 1.])
    """
    return statistics.floats.target_sum.copy()


def class_means(statistics: RidgeStatistics) -> Array:
    """Return the mean features (K, F) of each class; of a class with one row, that row.

    >>> z, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> class_means(RidgeStatistics.from_states(z, y))
    array([[1., 2.],
           [3., 4.]])
    """
    statistics = statistics.floats
    counts = statistics.target_sum[:, None]
    return np.divide(
        statistics.cross.T, counts, out=np.zeros_like(statistics.cross.T), where=counts > 0
    )


def counts_from_moments(statistics: RidgeStatistics) -> Array:
    """Return the class counts (K,) from G and C alone, as if sums had not been sent.

    diag(C' G^+ C) is exact while there are no more rows than features.

    >>> z, y = np.eye(3)[:2], np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> counts_from_moments(RidgeStatistics.from_states(z, y)).round(9)
    array([2., 0.])
    """
    G, C = statistics.moments(intercept=False)
    return np.asarray((C * (np.linalg.pinv(G, hermitian=True) @ C)).sum(axis=0))


def added_row(before: RidgeStatistics, after: RidgeStatistics) -> tuple[Array, Array]:
    """Return the features (F,) and targets (K,) of the one row that two uploads differ by.

    >>> z, y = np.array([[1.0], [5.0]]), np.array([[2.0], [7.0]])
    >>> one, two = RidgeStatistics.from_states(z[:1], y[:1]), RidgeStatistics.from_states(z, y)
    >>> added_row(one, two)
    (array([5.]), array([7.]))
    """
    change = (after - before).floats
    return change.feature_sum, change.target_sum


def input_between(first: Array, second: Array, drive: Drive) -> Array | None:
    """Return the input (I,) that led from one feature row (F,) to the next, in closed form.

    None if the features do not say: no states and no inputs among them, pooled rows, or activations
    without an inverse.
    """
    features = drive.features
    if features.pool is not None:
        return None
    at = int(features.bias)
    if features.input:
        return second[at : at + features.reservoir.n_inputs].copy()
    layer = drive.layers[0]
    w = layer.weights
    known = {ACTIVATIONS.index(name): of for name, of in _INVERSE.items()}
    if not set(np.unique(w.activation)) <= set(known):
        return None
    x, x_next = first[at : at + w.n_units], second[at : at + w.n_units]
    y = (x_next - (1 - w.leak) * x) / w.leak
    v = np.empty_like(y)
    for code in np.unique(w.activation):
        of = w.activation == code
        v[of] = known[int(code)](y[of])
    net = (v - w.shift) / w.gain - layer.W @ x - w.bias
    return np.asarray(np.linalg.lstsq(layer.W_in, net, rcond=None)[0])
