"""Which uploads to believe: what no honest client can send is refused, with its own code.

For any data M = [[n, s', t'], [s, G, C], [t, C', Y'Y]] is a matrix of moments: symmetric and never
negative. Statistics that break this were not computed from data. What data could have, but other
clients' data speak against, is flagged in robust.py.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Literal

import numpy as np
from scipy.linalg import lapack

from catchment.arrays import Array
from catchment.errors import UploadError
from catchment.readout.device import same_features
from catchment.readout.grid import Grid
from catchment.readout.integers import is_plain, largest
from catchment.readout.statistics import SUMS, RidgeStatistics, mirror_lower, unpack_lower

TOLERANCE = 1e-7  # per row of a matrix of moments with ones on its diagonal: float32 is off by 6e-8
_LARGEST = 1 << 62  # of the compiled look at whole numbers
SLACK = 0.02  # of the weight: what a compressed upload may be off by


def check_statistics(
    statistics: RidgeStatistics,
    *,
    fingerprint: str,
    n_features: int | None = None,
    n_targets: int | None = None,
    state_bound: float | Array | None = None,
    constant: bool = False,
    one_hot: bool = False,
    grid: Grid | Literal["any"] | None = "any",
) -> None:
    """Raise UploadError, with a code of its own, for statistics that no data can have.

    Parameters
    ----------
    fingerprint
        Of the features that the plan asks for.
    n_features, n_targets
        Columns of the features and of the targets, if known.
    state_bound
        Largest absolute value a feature can have, one number or (F,), as a map's `bounds` say.
    constant
        Whether the first feature is one in every row.
    one_hot
        Whether every target row is a single one among zeros.
    grid
        On which the plan's statistics lie, None if they are float64.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)), fingerprint="f")
    >>> check_statistics(s, fingerprint="f")
    >>> check_statistics(s.scaled(-1.0), fingerprint="f")
    Traceback (most recent call last):
    catchment.errors.UploadError: the weight is -3.0 for 3 rows; it cannot be negative
    """
    check_origin(statistics, fingerprint, n_features, n_targets)
    if not np.isfinite(statistics.weight) or statistics.weight < 0:
        raise UploadError(
            "count",
            f"the weight is {statistics.weight} for {statistics.n_rows} rows; "
            "it cannot be negative",
        )
    if grid != "any":
        _check_grid(statistics, grid, bounded=state_bound is not None)
    if state_bound is not None and _passes_whole(
        statistics, state_bound, constant=constant, one_hot=one_hot
    ):
        return
    statistics = statistics.floats
    M = lower_moment_matrix(statistics)
    if state_bound is not None:
        _check_bound(statistics, M.diagonal()[1 : 1 + statistics.n_features], state_bound)
    if not _can_be_moments(M):
        _refuse_nonfinite(statistics)
        raise UploadError("moments", "no data can have these moments; the upload is not believed")
    if constant:
        _check_constant(statistics)
    if one_hot:
        _check_one_hot(statistics)


def check_origin(
    came: Any,
    fingerprint: str,
    n_features: int | None,
    n_targets: int | None,
) -> None:
    """Refuse what is of other features or targets, before anything is computed from it."""
    if came.fingerprint != fingerprint:
        if same_features(came.fingerprint, fingerprint):
            raise UploadError(
                "fingerprint",
                "the statistics were made for a plan of any device, or this plan is one and they "
                "were not; set devices='any' on both sides, or on neither",
            )
        raise UploadError(
            "fingerprint",
            f"the statistics are of features {came.fingerprint[:12] or 'unknown'}, "
            f"the plan asks for {fingerprint[:12]}; rebuild the reservoir from the plan's recipe",
        )
    if n_features is not None and came.n_features != n_features:
        raise UploadError("shape", f"{came.n_features} features came, {n_features} are planned")
    if n_targets is not None and came.n_targets != n_targets:
        raise UploadError("shape", f"{came.n_targets} targets came, {n_targets} are planned")


def lower_moment_matrix(statistics: RidgeStatistics) -> Array:
    """Return the moments (1 + F + K, 1 + F + K) of the constant, the features and the targets.

    Only the lower triangle is filled in; what lies above it has no meaning.
    """
    statistics = statistics.floats
    F, K = statistics.n_features, statistics.n_targets
    M = np.empty((1 + F + K, 1 + F + K), order="F")
    M[0, 0] = statistics.weight
    M[1 : 1 + F, 0] = statistics.feature_sum
    M[1 + F :, 0] = statistics.target_sum
    M[1 : 1 + F, 1 : 1 + F] = unpack_lower(statistics.gram)
    M[1 + F :, 1 : 1 + F] = statistics.cross.T
    M[1 + F :, 1 + F :] = unpack_lower(statistics.target_gram)
    return M


def moment_matrix(statistics: RidgeStatistics) -> Array:
    """Return the moments (1 + F + K, 1 + F + K) of the constant, the features and the targets.

    >>> s = RidgeStatistics.from_states(np.array([[2.0], [3.0]]), np.array([[1.0], [0.0]]))
    >>> moment_matrix(s)
    array([[ 2.,  5.,  1.],
           [ 5., 13.,  2.],
           [ 1.,  2.,  1.]])
    """
    return mirror_lower(lower_moment_matrix(statistics))


def _can_be_moments(M: Array) -> bool:
    """Whether no eigenvalue of the lower triangle M, scaled to a unit diagonal, is negative.

    With the diagonal enlarged by what rounding may have done, a Cholesky factorisation exists or it
    does not; it does not mind the scale of rows, so that large targets do not hide a small
    impossible block. M is overwritten.
    """
    diagonal = M.ravel(order="K")[:: len(M) + 1]
    if not diagonal.min(initial=0.0) >= 0.0:
        return False
    slack = TOLERANCE * len(M)
    diagonal *= 1.0 + slack
    diagonal[diagonal == 0.0] = slack
    return _has_factor(M)


def _has_factor(M: Array) -> bool:
    factor, info = lapack.dpotrf(M, lower=1, clean=0, overwrite_a=1)
    # A number that is not finite ends up in a pivot.
    return info == 0 and bool(np.isfinite(factor.diagonal().sum()))


def _passes_whole(
    statistics: RidgeStatistics, bound: float | Array, *, constant: bool, one_hot: bool
) -> bool:
    """Whether whole numbers certainly pass, in one compiled look at them.

    Of those that do not, the checks one by one say which of them and why.
    """
    grid, weight = statistics.grid, statistics.weight
    sums = itemgetter(*SUMS)(vars(statistics))
    if grid is None or not all(map(is_plain, sums)):
        return False
    limit = int(weight) << 2 * grid.bits
    if limit >= _LARGEST or not statistics.n_features:
        return False
    from catchment.readout.exact_kernels import passes

    n = 1 + statistics.n_features + statistics.n_targets
    M = np.empty((n, n))
    squares = np.square(np.broadcast_to(bound, statistics.n_features)) * weight * (1 + SLACK)
    slack = SLACK * weight + TOLERANCE, TOLERANCE * n
    scales = grid.scale, grid.target_scale
    most = int(weight) << grid.bits, limit
    # Filled row by row: read column by column, as LAPACK does, that is the lower triangle.
    return bool(
        passes(sums, weight, *scales, most, squares, (constant, one_hot), slack, M)
    ) and _has_factor(M.T)


def _check_grid(statistics: RidgeStatistics, grid: Grid | None, *, bounded: bool) -> None:
    """What is added to whole numbers is whole, in their units, and no larger than rows can be."""
    if statistics.grid != grid:
        came, wanted = (
            "float64" if g is None else f"whole numbers {g.to_json()[:60]}"
            for g in (statistics.grid, grid)
        )
        raise UploadError("grid", f"the statistics came as {came}, the plan asks for {wanted}")
    if grid is None or not bounded:
        return
    weight = int(statistics.weight)
    for name, most in (("feature_sum", 1 << grid.bits), ("gram", 1 << 2 * grid.bits)):
        if largest(getattr(statistics, name)) > weight * most:
            raise UploadError(
                "bound", f"{name} is larger than rows of weight {weight} on this grid can have"
            )


def _check_bound(statistics: RidgeStatistics, squares: Array, bound: float | Array) -> None:
    most = np.square(bound) * statistics.weight * (1 + SLACK)
    if (squares > most).any():
        place = int(np.argmax(squares > most))
        value = squares[place] / max(statistics.weight, 1e-300)
        raise UploadError(
            "bound",
            f"the mean square of feature {place} is {value:.3g}, above "
            f"{np.square(np.broadcast_to(bound, squares.shape)[place]):.3g}, the largest this "
            "reservoir can have",
        )


def _refuse_nonfinite(statistics: RidgeStatistics) -> None:
    numbers = (statistics.feature_sum, statistics.target_sum, statistics.gram, statistics.cross)
    if not all(np.isfinite(a).all() for a in (*numbers, statistics.target_gram)):
        raise UploadError("not-finite", "the statistics hold NaN or infinite numbers")


def _check_constant(statistics: RidgeStatistics) -> None:
    """A feature that is one in every row sums to the weight, and so do its squares."""
    counted = np.array([statistics.feature_sum[0], statistics.gram[0]])
    if (np.abs(counted - statistics.weight) > SLACK * statistics.weight + TOLERANCE).any():
        raise UploadError(
            "constant",
            f"the constant feature counts {counted[1]:.6g} rows, "
            f"the upload says {statistics.weight:.6g}",
        )


def _check_one_hot(statistics: RidgeStatistics) -> None:
    """Ones among zeros have squares equal to their sums, no products, and one per row."""
    Y = unpack_lower(statistics.target_gram)
    off = np.abs(np.tril(Y, -1)).max(initial=0.0)
    squares = np.abs(Y.diagonal() - statistics.target_sum).max(initial=0.0)
    whole = abs(float(statistics.target_sum.sum()) - statistics.weight)
    if max(off, squares, whole) > SLACK * statistics.weight + TOLERANCE:
        raise UploadError("classes", "the targets are not one class per row")
