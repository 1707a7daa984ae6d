"""Was this client, or this row, among the data? Tests from sums, and what noise leaves of them."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from catchment import Array
from catchment.federation import moment_matrix
from catchment.readout import RidgeStatistics


def membership_score(total: RidgeStatistics, candidate: RidgeStatistics) -> float:
    """Return how much of the total the candidate would take up in its strongest direction.

    The largest eigenvalue of A^-1 A_c for the moments A of the total and A_c of the candidate's
    rows. A member's is at most 1; above 1 it was certainly not there. Members score lower.
    """
    n = 1 + total.n_features
    A, A_c = moment_matrix(total)[:n, :n], moment_matrix(candidate)[:n, :n]
    floor = 1e-12 * np.trace(A) / n
    return float(
        eigh(A_c, A + floor * np.eye(n), eigvals_only=True, subset_by_index=(n - 1, n - 1))[0]
    )


def leverage(statistics: RidgeStatistics, rows: Array) -> Array:
    """Return z' A^-1 z (n,) of feature rows (n, F); at most 1 for a row that is among the data.

    Directions that no row has, and with fewer rows than features there are some, count as such: a
    row that needs one is not among the data.

    >>> s = RidgeStatistics.from_states(np.array([[1.0], [2.0]]), np.zeros((2, 1)))
    >>> leverage(s, np.array([[1.0], [5.0]])) <= 1 + 1e-6
    array([ True, False])
    """
    n = 1 + statistics.n_features
    values, vectors = eigh(moment_matrix(statistics)[:n, :n])
    Z = np.column_stack([np.ones(len(rows)), rows]) @ vectors
    return np.asarray((Z**2 / np.maximum(values, 1e-12 * values[-1])).sum(axis=1))


def area_under_curve(members: Array, others: Array) -> float:
    """Return the chance that a member scores lower than another, ties counted half.

    >>> area_under_curve(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.875
    """
    below = (members[:, None] < others[None]).mean()
    equal = (members[:, None] == others[None]).mean()
    return float(below + equal / 2)
