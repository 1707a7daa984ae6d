"""Statistics of more classes: a class is a column, and one that is new is a column of zeros.

Whoever has no row of a class has zeros in its column of C and of Y'Y, and counts none. So sums over
three classes are sums over four, and those of a client with the fourth are added by `+`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from catchment.arrays import Integers
from catchment.readout.packing import packed_length
from catchment.readout.statistics import RidgeStatistics


def united(*named: Sequence[str] | None) -> tuple[str, ...]:
    """Return all classes that are named, in the order in which they come first.

    >>> united(("sit", "walk"), None, ("walk", "run"))
    ('sit', 'walk', 'run')
    """
    return tuple(dict.fromkeys(name for names in named for name in names or ()))


def spread_targets(
    statistics: RidgeStatistics, places: Sequence[int], n_targets: int
) -> RidgeStatistics:
    """Return the statistics with their targets among more, which are zero in every row.

    Whole numbers stay what they are, so that a sum over clients with different classes is exact.

    Parameters
    ----------
    places
        (K,) where each target is among the new ones.
    n_targets
        How many there are then.

    >>> z, y = np.array([[2.0], [3.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> more = spread_targets(RidgeStatistics.from_states(z, y), (2, 0), 3)
    >>> more.cross, more.target_gram
    (array([[3., 0., 2.]]), array([1., 0., 0., 0., 0., 1.]))
    """
    K, at = statistics.n_targets, np.asarray(places, dtype=np.int64)
    if (
        at.shape != (K,)
        or len(set(at.tolist())) != K
        or not set(at.tolist()) <= set(range(n_targets))
    ):
        raise ValueError(
            f"places are {tuple(places)} for {K} targets among {n_targets}; give each one of its "
            f"own, from 0 to {n_targets - 1}"
        )
    cross = np.zeros((statistics.n_features, n_targets), statistics.cross.dtype)
    cross[:, at] = statistics.cross
    target_sum = np.zeros(n_targets, statistics.target_sum.dtype)
    target_sum[at] = statistics.target_sum
    gram = np.zeros(packed_length(n_targets), statistics.target_gram.dtype)
    rows, columns = np.triu_indices(K)
    gram[_in_triangle(at[rows], at[columns], n_targets)] = statistics.target_gram
    return replace(statistics, cross=cross, target_sum=target_sum, target_gram=gram)


def _in_triangle(rows: Integers, columns: Integers, n: int) -> Integers:
    """Return where pairs of n targets are in a packed upper triangle."""
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    return np.asarray(low * n - low * (low - 1) // 2 + high - low)


def only_targets(statistics: RidgeStatistics, places: Sequence[int]) -> RidgeStatistics:
    """Return the statistics with some of their targets; every row stays, whatever its class.

    Of a class without rows nothing is then left, as if nobody had ever named it.

    Parameters
    ----------
    places
        Which targets stay, in their new order.

    >>> z, y = np.array([[2.0], [3.0]]), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> only_targets(RidgeStatistics.from_states(z, y), (0, 2)).cross
    array([[2., 3.]])
    """
    K, at = statistics.n_targets, np.asarray(places, dtype=np.int64)
    rows, columns = np.triu_indices(len(at))
    return replace(
        statistics,
        cross=np.ascontiguousarray(statistics.cross[:, at]),
        target_sum=statistics.target_sum[at],
        target_gram=statistics.target_gram[_in_triangle(at[rows], at[columns], K)],
    )
