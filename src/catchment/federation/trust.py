"""Which uploads to believe: what no honest client can send is refused, with its own code.

For any data M = [[n, s', t'], [s, G, C], [t, C', Y'Y]] is a matrix of moments: symmetric and never
negative. Statistics that break this were not computed from data.
"""

from __future__ import annotations

import numpy as np

from catchment.arrays import Array
from catchment.errors import UploadError
from catchment.readout.packing import unpack
from catchment.readout.statistics import RidgeStatistics

TOLERANCE = 1e-8  # of the largest eigenvalue: what rounding may do to a matrix of moments


def check_statistics(
    statistics: RidgeStatistics,
    *,
    fingerprint: str,
    n_targets: int | None = None,
    state_bound: float | None = None,
) -> None:
    """Raise UploadError, with a code of its own, for statistics that no data can have.

    Parameters
    ----------
    fingerprint
        Of the features that the plan asks for.
    n_targets
        Columns of the targets, if known.
    state_bound
        Largest absolute value a feature can have, if there is one.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)), fingerprint="f")
    >>> check_statistics(s, fingerprint="f")
    >>> check_statistics(s.scaled(-1.0), fingerprint="f")
    Traceback (most recent call last):
    catchment.errors.UploadError: the weight is -3.0 for 3 rows; it cannot be negative
    """
    if statistics.fingerprint != fingerprint:
        raise UploadError(
            "fingerprint",
            f"the statistics are of features {statistics.fingerprint[:12] or 'unknown'}, "
            f"the plan asks for {fingerprint[:12]}; rebuild the reservoir from the plan's recipe",
        )
    if n_targets is not None and statistics.n_targets != n_targets:
        raise UploadError("shape", f"{statistics.n_targets} targets came, {n_targets} are planned")
    numbers = (statistics.feature_sum, statistics.target_sum, statistics.gram, statistics.cross)
    if not all(np.isfinite(a).all() for a in (*numbers, statistics.target_gram)):
        raise UploadError("not-finite", "the statistics hold NaN or infinite numbers")
    if not np.isfinite(statistics.weight) or statistics.weight < 0:
        raise UploadError(
            "count",
            f"the weight is {statistics.weight} for {statistics.n_rows} rows; "
            "it cannot be negative",
        )
    M = moment_matrix(statistics)
    diagonal = np.diagonal(M)
    if state_bound is not None:
        largest = float(diagonal[1 : 1 + statistics.n_features].max(initial=0.0))
        if largest > statistics.weight * state_bound**2 * (1 + TOLERANCE):
            raise UploadError(
                "bound",
                f"a mean squared feature is {largest / max(statistics.weight, 1e-300):.3g}, "
                f"above {state_bound**2:.3g}, the largest this reservoir can have",
            )
    # Scaled to ones on the diagonal, so that large targets do not hide a small impossible block.
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    smallest = float(np.linalg.eigvalsh(M / np.outer(scale, scale))[0])
    if (diagonal < 0).any() or smallest < -TOLERANCE * len(M):
        raise UploadError("moments", "no data can have these moments; the upload is not believed")


def moment_matrix(statistics: RidgeStatistics) -> Array:
    """Return the moments (1 + F + K, 1 + F + K) of the constant, the features and the targets."""
    F, K = statistics.n_features, statistics.n_targets
    M = np.empty((1 + F + K, 1 + F + K))
    M[0, 0] = statistics.weight
    M[0, 1 : 1 + F] = M[1 : 1 + F, 0] = statistics.feature_sum
    M[0, 1 + F :] = M[1 + F :, 0] = statistics.target_sum
    M[1 : 1 + F, 1 : 1 + F] = unpack(statistics.gram)
    M[1 : 1 + F, 1 + F :] = statistics.cross
    M[1 + F :, 1 : 1 + F] = statistics.cross.T
    M[1 + F :, 1 + F :] = unpack(statistics.target_gram)
    return M
