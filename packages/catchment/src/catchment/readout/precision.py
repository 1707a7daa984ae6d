"""How small a ridge sums of products can tell, and a warning where data ask for a smaller one.

Every entry of G = Z'Z is rounded, in the sum and once more as the mean is taken off, by about eps
times the mean squared length g of a raw feature column. Errors of F^2 entries that have nothing to
do with each other move eigenvalues by about eps g sqrt(F), and what solves the system rounds by
eps times its largest eigenvalue. Below a few times that, G + ridge I need not be positive, and its
solution is one of the rounding. `benchmarks/results/precision.md` shows it measured: at the limit
the error on new data is that of the rows to a few per cent, at a tenth of it sums may be refused.

The condition of G says nothing by itself: in directions with small eigenvalues there may be nothing
to learn. Noise-free series are what has something there.
"""

from __future__ import annotations

import math
import warnings
from typing import Final

import numpy as np
from scipy.linalg import eigvalsh

from catchment.arrays import Array
from catchment.errors import PrecisionWarning
from catchment.readout.statistics import CONSTANT, RidgeStatistics

EPS: Final = float(np.finfo(np.float64).eps)
STILL_FALLS = 0.8  # of the error, for half a power of ten: a smaller ridge would lower it further
WORTH_TELLING = 1e-6  # share of the targets' variance: below it few miss digits


def smallest_ridge(statistics: RidgeStatistics) -> float:
    """Return the smallest ridge that these sums can tell from their own rounding.

    >>> z = np.array([[1.0], [3.0]])
    >>> smallest_ridge(RidgeStatistics.from_states(z, z)) == 80 * EPS
    True
    """
    if statistics.weight <= 0:
        return 0.0
    raw, centred = map(math.fsum, squared_lengths(statistics))
    return EPS * max(8.0 * raw / math.sqrt(max(statistics.n_features, 1)), 4.0 * centred)


def doubt(statistics: RidgeStatistics, ridges: Array) -> Array:
    """Return the share (R,) of an error on rows left out that may be rounding, at each ridge.

    It is the inverse of the ridge. With fewer rows than features some directions have nothing but
    the ridge, and it is whole at the smallest that sums can tell; else a tenth.

    >>> z = np.array([[1.0], [3.0], [5.0]])
    >>> s = RidgeStatistics.from_states(z, z)
    >>> doubt(s, smallest_ridge(s) * np.array([0.0, 1.0, 4.0]))
    array([0.1  , 0.1  , 0.025])
    """
    limit = max(smallest_ridge(statistics), float(np.finfo(np.float64).tiny))
    most = 1.0 if statistics.n_rows <= statistics.n_features else 0.1
    return np.asarray(most * (limit / np.maximum(ridges, limit)))


def squared_lengths(statistics: RidgeStatistics) -> tuple[Array, Array]:
    """Return each feature's sum (F,) of squares, and that without its mean, 0 where none varies.

    One operation after another, so that every processor has the same numbers.

    >>> z = np.array([[1.0, 2.0], [3.0, 2.0]])
    >>> squared_lengths(RidgeStatistics.from_states(z, z))
    (array([10.,  8.]), array([2., 0.]))
    """
    known = statistics.floats
    raw = known.gram[_diagonal(known.n_features)]
    if known.weight <= 0:
        return raw, raw
    centred = raw - known.feature_sum * (known.feature_sum / known.weight)
    return raw, np.where(centred > CONSTANT * raw, centred, 0.0)


def warn_of_small_ridge(
    statistics: RidgeStatistics, ridge: float, smallest: float, diagonal: Array
) -> None:
    """Warn if the smallest eigenvalue of G + ridge I, in any units of the features, is rounding.

    Parameters
    ----------
    smallest
        An estimate of that eigenvalue, of features in units that make the diagonal ones.
    diagonal
        (F,) of G + ridge I in the features' own units.
    """
    limit, F = smallest_ridge(statistics), statistics.n_features
    raw = statistics.floats.gram[_diagonal(F)]
    varied = diagonal > 2 * ridge
    ratio = float((raw[varied] / diagonal[varied]).mean()) if varied.any() else 0.0
    rounding = 8 * EPS * F**0.5 * ratio
    if ridge < limit and smallest < rounding:
        warnings.warn(
            f"ridge {ridge:g} is below {limit:.0e}, the smallest that sums of products can tell "
            f"here ({_condition(statistics)}): the weights hold rounding; {REMEDY}",
            PrecisionWarning,
            stacklevel=4,
        )


def warn_of_edge(statistics: RidgeStatistics, ridges: Array, errors: Array) -> None:
    """Warn if the smallest ridge that sums can tell is the best, and a smaller would be better.

    Parameters
    ----------
    ridges
        (R,) tried, ascending from the smallest that the statistics can tell.
    errors
        (R, K) of each on rows that were left out; scores of GCV would fall for dependent rows.
    """
    scores = errors.sum(axis=1)
    if len(ridges) < 2 or not np.isfinite(scores[:2]).all() or scores.argmin() != 0:
        return
    variance = float(statistics.target_moments().sum() / max(statistics.weight, 1e-300))
    half_decades = np.log(ridges[1] / ridges[0]) / np.log(10**0.5)
    falls = (scores[0] / scores[1]) ** (1 / half_decades) if scores[1] > 0 else 1.0
    if scores[0] <= WORTH_TELLING * variance or falls > STILL_FALLS:
        return
    warnings.warn(
        f"the best ridge is {ridges[0]:.0e}, the smallest that sums of products can tell here "
        f"({_condition(statistics)}), and the squared error still falls there by {1 - falls:.0%} "
        f"for half a power of ten: the rows hold digits that sums lose; {REMEDY}",
        PrecisionWarning,
        stacklevel=4,
    )


REMEDY: Final = "scale the inputs, or use QR factors in the place of sums (upload='factors')"


def _condition(statistics: RidgeStatistics) -> str:
    """Return the condition of the centred Gram matrix in words."""
    values = eigvalsh(statistics.lower_moments()[0], check_finite=False)
    least, most = float(values[0]), float(values[-1])
    if least <= EPS * most:
        return f"the Gram matrix has a condition beyond {1 / EPS:.0e}"
    return f"the Gram matrix has condition {most / least:.0e}"


def _diagonal(size: int) -> Array:
    """Return where the diagonal of a matrix lies in its packed triangle."""
    k = np.arange(size)
    return np.asarray(k * size - k * (k - 1) // 2)
