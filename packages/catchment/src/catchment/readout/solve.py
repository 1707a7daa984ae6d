"""Ridge regression from its statistics: W = (G + ridge I)^-1 C, by Cholesky unless asked otherwise.

The intercept is not penalized: G and C are centered first and the intercept is the mean target less
the mean prediction. Dividing features by d is a congruence, G_ij / (d_i d_j), so a readout of
standardized features is solved from the sums of the raw ones, and its weights, divided by d, are
for raw features again; d is the spread of all rows together, also where some are left out of a
solution: everybody's ridge then means the same.

Normal equations lose digits of the weights as the ridge falls (relative error about 1e-12 at ridge
1, 1e-6 at 1e-6 and 1e-3 at 1e-10 for states of condition 7e7), far fewer of the predictions. One
eigendecomposition serves any number of ridges but is 2 to 30 times less accurate below ridge 1e-4,
so it is used only where it is faster.

Every entry of G is rounded, in the sum and once more as the mean is taken off, by about eps times
the mean squared length g of a raw feature column. Errors of F^2 entries that have nothing to do
with each other move eigenvalues by about eps g sqrt(F), and what solves the system rounds by eps
times its largest eigenvalue. Below a few times that G + ridge I need not be positive, and its
solution is one of the rounding: `smallest_ridge` is this limit. `benchmarks/results/precision.md`
shows it measured. What lies below takes the rows themselves. The condition of G says nothing by
itself: in directions with small eigenvalues there may be nothing to learn. Noise-free series are
what has something there.

Statistics in fixed point are integers, so the normal equations with an intercept,

    [n  s'         ] [b]   [t]
    [s  G + P      ] [w] = [C]         P = diag(ridge_k d_i^2), d_i what feature i is divided by,

are one definite system, and its solution to 53 binary digits is one definite array, by any factor.
A factor in float64 finds the leading digits; what they leave of the right side is computed in
integers, without a rounding, and gives the next ones. It ends when no weight could round otherwise.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from operator import attrgetter, mul
from typing import Final

import numpy as np

from catchment.arrays import Array, Integers, NonNegativeFloat, check_type
from catchment.errors import PrecisionWarning, SingularError
from catchment.readout import integers
from catchment.readout.linear_algebra import cholesky, cholesky_solve, inverse_norm
from catchment.readout.statistics import (
    CONSTANT,
    Readout,
    RidgeStatistics,
    diagonal,
    mirror_lower,
    pack,
)

EPS: Final = float(np.finfo(np.float64).eps)
STILL_FALLS = 0.8  # of the error, for half a power of ten: a smaller ridge would lower it further
WORTH_TELLING = 1e-6  # share of the targets' variance: below it few miss digits
FAINT = CONSTANT / 8  # share of the second moment: a variance below it may be rounding alone
LARGE = 1e3  # features that are as large and hardly vary lack centering, smaller ones are at rest
REMEDY: Final = "scale the inputs"

# Of the solution in integers.
WORD = 62  # binary digits of a piece of the matrix
LEAST_GAIN = 3  # digits: a factor that finds fewer in a step is too far from the matrix
ENOUGH, MOST = 75, 200  # digits of the largest weight before the first and the last look
FURTHEST = 500  # digits after the point that count of what is left
_FLOAT = 53

# An eigendecomposition costs as much as this many Cholesky factorizations.
SPECTRUM_FROM = 15
WIDE = 2048  # features from which on it is worth to look for a spectrum of few rows
# Times the trace of G and rounding: a larger ridge is beyond doubt, unless means are much larger.
NEAR = 1024


def scale_of(statistics: RidgeStatistics, standardize: bool) -> Array | None:
    """Return what features (F,) are divided by before a ridge acts, None if they are not.

    >>> scale_of(RidgeStatistics.zero(2, 1), False) is None
    True
    """
    return feature_scale(statistics) if standardize else None


def feature_scale(statistics: RidgeStatistics) -> Array:
    """Return the standard deviation (F,) of each feature, 1 for one that does not vary.

    >>> z = np.array([[0.0, 5.0], [4.0, 5.0]])
    >>> feature_scale(RidgeStatistics.from_states(z, np.zeros((2, 1))))
    array([2., 1.])
    """
    if statistics.weight <= 0:
        raise ValueError(f"the statistics have weight {statistics.weight}; add data first")
    statistics = statistics.floats
    raw = diagonal(statistics.gram) / statistics.weight
    variance = raw - (statistics.feature_sum / statistics.weight) ** 2
    return np.sqrt(np.where(variance > CONSTANT * raw, variance, 1.0))


def rescaled(statistics: RidgeStatistics, scale: Array | None) -> RidgeStatistics:
    """Return the statistics that the features would have had, had each been divided by its scale.

    They have a fingerprint of their own, so that they add only to others of the same scale.

    Parameters
    ----------
    scale
        (F,) positive numbers; None to divide by nothing.

    >>> z, y = np.array([[0.0], [4.0]]), np.array([[1.0], [3.0]])
    >>> rescaled(RidgeStatistics.from_states(z, y), np.array([2.0])).moments()
    (array([[2.]]), array([[2.]]))
    """
    if scale is None:
        return statistics
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


def for_raw_features(readout: Readout, scale: Array | None) -> Readout:
    """Return the readout of undivided features that equals one solved for features / scale.

    >>> readout = Readout(np.array([[6.0]]), np.zeros(1))
    >>> for_raw_features(readout, np.array([2.0])).weights
    array([[3.]])
    """
    if scale is None:
        return readout
    return replace(readout, weights=readout.weights / np.asarray(scale)[:, None])


def smallest_ridge(statistics: RidgeStatistics) -> float:
    """Return the smallest ridge that these sums can tell from their own rounding.

    >>> z = np.array([[1.0], [3.0]])
    >>> smallest_ridge(RidgeStatistics.from_states(z, z)) == 80 * EPS
    True
    """
    if statistics.weight <= 0:
        return 0.0
    raw, centered = map(math.fsum, squared_lengths(statistics))
    return EPS * max(8.0 * raw / math.sqrt(max(statistics.n_features, 1)), 4.0 * centered)


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
    raw = diagonal(known.gram)
    if known.weight <= 0:
        return raw, raw
    centered = raw - known.feature_sum * (known.feature_sum / known.weight)
    return raw, np.where(centered > CONSTANT * raw, centered, 0.0)


def warn_of_faint(statistics: RidgeStatistics) -> None:
    """Warn of large features that vary by so little of their size that they count as constant.

    >>> z = np.array([[1e6], [1e6 + 0.5]])
    >>> warn_of_faint(RidgeStatistics.from_states(z - 1e6, z))
    """
    raw, centered = squared_lengths(statistics)
    known = statistics.floats
    left = raw - known.feature_sum * (known.feature_sum / max(known.weight, 1.0))
    faint = (centered == 0) & (left > FAINT * raw) & (raw > LARGE**2 * known.weight)
    if faint.any():
        warnings.warn(
            f"{faint.sum()} of {len(raw)} features, such as number {faint.argmax()}, vary by less "
            "than a millionth of their size, too little for sums of products to tell, and count as "
            "constant; center them in the map, by taking off a number near their mean",
            PrecisionWarning,
            stacklevel=3,
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


def _condition(statistics: RidgeStatistics) -> str:
    """Return the condition of the centered Gram matrix in words."""
    values = np.linalg.eigvalsh(statistics.lower_moments()[0])
    least, most = float(values[0]), float(values[-1])
    if least <= EPS * most:
        return f"the Gram matrix has a condition beyond {1 / EPS:.0e}"
    return f"the Gram matrix has condition {most / least:.0e}"


@dataclass(frozen=True, eq=False)
class ExactSystem:
    """The equations of statistics in fixed point, with the ridge, in integers.

    The intercept, if there is one, is the weight of a first feature that is 1 in every row.
    """

    sums: RidgeStatistics  # in float64
    intercept: bool
    pieces: tuple[integers.Whole, ...]  # int64, packed, whose sum, each shifted, is the matrix
    step: int  # binary digits that the matrix is multiplied with
    right: integers.Whole  # (F, K) or (1 + F, K), Python's integers
    digits: Integers  # after the point of each feature
    target_digits: int
    constant: Integers  # features that do not vary, whose weight is zero
    scale: Array  # (F, 1) what features are divided by before the ridge acts
    penalty: integers.Whole  # (F, 1) or (1 + F, 1), what the ridge adds...
    places: int  # ...and how many binary places it has

    @classmethod
    def of(
        cls, statistics: RidgeStatistics, ridge: float, scale: Array | None, *, intercept: bool
    ) -> ExactSystem:
        """Return the equations of statistics in fixed point, with a ridge on scaled features."""
        fixed = statistics.fixed
        assert fixed is not None
        matrix: integers.Whole = statistics.gram
        right, digits = statistics.cross.astype(object), fixed.digits
        constant = np.zeros(0, dtype=np.int64)
        if intercept:
            one, n = 1 << fixed.bits, int(statistics.weight)
            edge = integers.multiplied(statistics.feature_sum, one)
            corner = integers.canonical(np.array([n * one * one], dtype=object))
            matrix = integers.canonical(np.concatenate([corner, edge, matrix]))
            right = np.concatenate([statistics.target_sum.astype(object)[None] * one, right])
            digits = np.concatenate([[fixed.bits], digits])
            # Features that do not vary, by the rule of the centered moments, in integers.
            squares = n * diagonal(statistics.gram).astype(object)
            spread = squares - statistics.feature_sum.astype(object) ** 2
            constant = 1 + np.flatnonzero(round(1 / CONSTANT) * spread <= squares)
            right[constant] = 0
        pieces = []
        while matrix.dtype == object:
            pieces.append((matrix & ((1 << WORD) - 1)).astype(np.int64))
            matrix = integers.canonical(matrix >> WORD)
        step = _FLOAT - 1 - 2 * len(digits).bit_length()
        sums, target = statistics.floats, fixed.target_digits
        d = np.ones((fixed.n_features, 1)) if scale is None else scale[:, None]
        value, exponent = np.frexp(d * d * ridge)
        exponent = exponent - _FLOAT + 2 * fixed.digits[:, None]
        low = min(0, int(exponent[value != 0].min(initial=0)))
        penalty = np.zeros((len(digits), 1), dtype=object)
        penalty[int(intercept) :] = (value * 2.0**_FLOAT).astype(np.int64).astype(object)
        penalty[int(intercept) :] <<= np.where(value != 0, exponent - low, 0).astype(object)
        equations = (*pieces, matrix), step, right, digits, target, constant
        return cls(sums, intercept, *equations, d, penalty, -low)

    def solved(self, solve: Callable[[Array], Array]) -> tuple[Array, Array] | None:
        """Return weights (F, K) and intercepts (K,), each number rounded once.

        None if the system is so near to singular that float64 does not find the next digits.

        Parameters
        ----------
        solve
            From (F, K) to the solution of the centered system with the ridge; that of divided
            features if there is a scale.

        >>> from catchment.readout.fixed_point import FixedPoint
        >>> fixed = FixedPoint(4, ((1, 0),))
        >>> s = RidgeStatistics.from_states(np.array([[0.0], [3.0]]), np.eye(2)[:, :1], fixed=fixed)
        >>> system = ExactSystem.of(s, 1.0, None, intercept=True)
        >>> system.solved(lambda r: r / 5.4)
        (array([[-0.27272727]]), array([0.90909091]))
        """
        after = self.places
        rest, n_outputs = self.right << after, self.right.shape[1]
        solution, point = np.zeros_like(rest), np.zeros(n_outputs, dtype=object)
        units, twice = (self.digits - self.target_digits)[:, None], 2 * self.digits[:, None]
        known = begun = None  # digits after the point of the last step, and of the first
        while True:
            # What is left of the right side, none of it beyond float64, and its solution, about.
            cut = max(after + max(point) - FURTHEST, 0)
            left = ((rest >> cut) if cut else rest).astype(np.float64)
            open_ = np.asarray(left.any(axis=0))
            if not open_.any():
                break
            left = np.ldexp(left, (cut - after - point).astype(np.int64) + units - twice)
            step = np.ldexp(self._about(left, solve), -units)
            if not np.isfinite(step).all():
                return None
            places = self.step - np.frexp(np.abs(step).max(axis=0))[1].astype(np.int64)
            if known is None or begun is None:
                begun = places
                point = (np.maximum(places, 0) + MOST + self.step).astype(object)
                rest = rest << point
            elif (places < known + LEAST_GAIN)[open_].any():
                return None
            for k in np.flatnonzero(open_ & (places - begun >= ENOUGH)):
                # What the solution may be off by if the next step begins at these places.
                error = 1 << max(point[k] - int(places[k]) + self.step + 1, 0)
                low = (solution[:, k] - error).astype(np.float64)
                high = (solution[:, k] + error).astype(np.float64)
                if places[k] - begun[k] >= MOST or (low == high).all():
                    # Zero where the solution is not known from it.
                    solution[np.abs(solution[:, k]) <= error, k] = 0
                    rest[:, k] = step[:, k] = open_[k] = 0
            if not open_.any():
                break
            known = places
            taken = np.rint(np.ldexp(step, places))
            whole, by = taken.astype(np.int64).astype(object), point - places.astype(object)
            solution = solution + (whole << by)
            rest = rest - ((self.penalty * whole + (self._times(taken) << after)) << by)
            rest[self.constant] = 0
        found = np.ldexp(solution.astype(np.float64), units - point.astype(np.int64))
        return (found[1:], found[0]) if self.intercept else (found, np.zeros(n_outputs))

    def _about(self, left: Array, solve: Callable[[Array], Array]) -> Array:
        """Return the solution of a right side (F, K) or (1 + F, K), to some digits."""
        first, mean = int(self.intercept), self.sums.feature_sum / self.sums.weight
        centered = left[first:] - np.outer(mean, left[0]) if first else left
        centered[self.constant - first] = 0.0
        step = solve(centered / self.scale) / self.scale
        level = left[:first] / self.sums.weight - mean @ step
        return np.concatenate([level[:first], step])

    def _times(self, taken: Array) -> integers.Whole:
        """Return the matrix times digits (F, K) of the solution.

        Modulo 2^64 the product is exact, and float64 says which of the multiples of that to add.
        """
        from catchment.readout.exact_kernels import times_packed

        floats = np.ascontiguousarray(taken.T)
        digits, product = floats.astype(np.int64), None
        for k, one in enumerate(self.pieces):
            whole, about = np.zeros_like(digits), np.zeros_like(floats)
            times_packed(one, digits, floats, whole, about)
            upper = np.rint((about - whole) * 2.0**-64).astype(np.int64).astype(object)
            part = (upper << 64) + whole
            product = part if product is None else product + (part << k * WORD)
        assert product is not None
        return product.T


def solve_readout(
    statistics: RidgeStatistics,
    ridge: float = 1e-6,
    *,
    intercept: bool = True,
    scale: Array | None = None,
) -> Readout:
    """Return the readout that minimizes squared error plus ridge times squared weights.

    Parameters
    ----------
    statistics
        Sums over all rows.
    ridge
        One number, not negative.
    intercept
        Whether to fit an intercept, which is not penalized.
    scale
        (F,) what features are divided by before the ridge acts; the readout is for features as they
        are.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> readout = solve_readout(RidgeStatistics.from_states(z, y), 0.0)
    >>> readout.weights, readout.intercept
    (array([[2.]]), array([1.]))
    """
    check_type(ridge, NonNegativeFloat, "ridge")
    divided = rescaled(statistics, scale)
    G, C = divided.lower_moments(intercept=intercept)
    of_ridge = G.ravel(order="K")[:: len(G) + 1]
    of_ridge += float(ridge)
    before = of_ridge.copy()
    factor = None
    with suppress(np.linalg.LinAlgError):
        factor = cholesky(G)  # in the place of G
    # A squared pivot over its diagonal entry is the share of a feature that the ones before it do
    # not explain; this measure does not depend on the features' units, as the condition does.
    noise = before * (16 + 4 * len(G)) * EPS
    if factor is None or ((factor.diagonal() ** 2 < noise) & (ridge < 2 * EPS * before)).any():
        lower, _ = divided.lower_moments(intercept=intercept)
        known: Array = np.linalg.eigvalsh(lower).astype(np.float64)
        enough = smallest_ridge(divided)
        raise singular_error(known, ridge, divided.n_rows, enough=enough)
    if len(G) and ridge <= NEAR * EPS * before.sum():
        _warn_of_rounding(divided, ridge, factor, before)
    solve = partial(cholesky_solve, factor)
    if statistics.fixed is not None and C.size:
        exact = ExactSystem.of(statistics, ridge, scale, intercept=intercept).solved(solve)
        if exact is not None:
            return Readout(*exact, ridge)
    weights = np.ascontiguousarray(solve(C) if scale is None else solve(C) / scale[:, None])
    return readout_from(statistics, weights, ridge, intercept=intercept)


def _warn_of_rounding(
    statistics: RidgeStatistics, ridge: float, factor: Array, before: Array
) -> None:
    """Warn if the smallest eigenvalue, in any units of the features, is rounding.

    Parameters
    ----------
    factor
        Of the matrix with the ridge, whose diagonal (F,) is `before`.
    """
    limit = smallest_ridge(statistics)
    if ridge >= limit:
        return
    smallest, varied = 1.0 / inverse_norm(factor / np.sqrt(before)[:, None]), before > 2 * ridge
    ratio = squared_lengths(statistics)[0][varied] / before[varied]
    mean = float(ratio.mean()) if varied.any() else 0.0
    if smallest < 8 * EPS * statistics.n_features**0.5 * mean:
        warnings.warn(
            f"ridge {ridge:g} is below {limit:.0e}, the smallest that sums of products can "
            f"tell here ({_condition(statistics)}): the weights hold rounding; {REMEDY}",
            PrecisionWarning,
            stacklevel=3,
        )


def solve_path(
    statistics: RidgeStatistics,
    ridges: Iterable[float],
    *,
    intercept: bool = True,
    scale: Array | None = None,
) -> list[Readout]:
    """Return one readout per ridge: by Cholesky for a few, from one eigendecomposition for many.

    `scale` is that of `solve_readout`. They are for comparisons: also in fixed point each is as
    float64 finds it.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> path = solve_path(RidgeStatistics.from_states(z, y), [0.0, 2.0])
    >>> [round(float(readout.weights[0, 0]), 9) for readout in path]
    [2.0, 1.0]
    """
    acted_on = rescaled(statistics, scale).floats
    values = list(map(float, ridges))
    for value in values:
        check_type(value, NonNegativeFloat, "ridge")
    if len(values) < SPECTRUM_FROM:
        found = [solve_readout(acted_on, value, intercept=intercept) for value in values]
    else:
        spectrum = Spectrum.of(acted_on, intercept=intercept, within=min(values) > 0)
        inverses = list(map(spectrum.inverse, values))
        for value, inverse in zip(values, inverses, strict=True):
            if (inverse == 0).any():
                raise singular_error(spectrum.values, value, None)
        # One product of all is quicker than one of each: the vectors are read once.
        crosses = list(map(mul, repeat(spectrum.cross), inverses))
        every = np.hsplit(spectrum.vectors @ np.hstack(crosses), len(values))
        fitting = partial(readout_from, acted_on, intercept=intercept)
        found = list(map(fitting, every, values))
    return list(map(for_raw_features, found, repeat(scale)))


def path_errors(statistics: RidgeStatistics, readouts: Sequence[Readout]) -> Array:
    """Return the sums (R, K) of squared errors of readouts on the rows behind the statistics.

    Each is q - 2 w'C + w'Gw with centered moments, plus the weight of the rows times their mean
    error squared; no rows are needed.

    >>> z, y = np.array([[0.0], [1.0]]), np.array([[1.0], [5.0]])
    >>> readouts = [Readout(np.array([[w]]), np.ones(1)) for w in (1.0, 4.0)]
    >>> path_errors(RidgeStatistics.from_states(z, y), readouts)
    array([[9.],
           [0.]])
    """
    for readout in readouts:
        if readout.weights.shape != statistics.cross.shape:
            raise ValueError(
                f"the readout has weights {readout.weights.shape}, the statistics have "
                f"{statistics.cross.shape} features and targets; use the features it was trained on"
            )
    statistics = statistics.floats
    R, K = len(readouts), statistics.n_targets
    if statistics.weight <= 0 or R == 0:
        return np.zeros((R, K))
    G, C = statistics.moments()
    W = np.hstack(list(map(attrgetter("weights"), readouts)))
    quadratic = (W * (G @ W)).sum(axis=0).reshape(R, K)
    linear = (W * np.tile(C, R)).sum(axis=0).reshape(R, K)
    spread = statistics.target_moments() - 2 * linear + quadratic
    mean = statistics.target_sum - (statistics.feature_sum @ W).reshape(R, K)
    mean = mean / statistics.weight - np.array(list(map(attrgetter("intercept"), readouts)))
    return np.asarray(np.maximum(spread, 0.0) + statistics.weight * mean**2)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigendecomposition of G, from which every ridge is solved at the cost of a product.

    Errors and degrees of freedom at ridge 0 are the limits of those at a vanishing ridge, also when
    G is singular.
    """

    values: Array  # (F,) ascending, not negative; without zeros where rows are few
    vectors: Array  # (F, F), or as many columns as values
    cross: Array  # (F, K) = vectors' C
    target_moments: Array  # (K,)
    intercept: bool

    @classmethod
    def of(
        cls, statistics: RidgeStatistics, *, intercept: bool = True, within: bool = False
    ) -> Spectrum:
        """Return the spectrum of the statistics' moments, centered if there is an intercept.

        Parameters
        ----------
        within
            Whether eigenvalues of zero may be left out where rows are far fewer than features: for
            the weights of positive ridges, which lie within the span of the rows.

        >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
        >>> Spectrum.of(RidgeStatistics.from_states(z, y)).values
        array([2.])
        """
        G, C = statistics.lower_moments(intercept=intercept)
        n, F = statistics.n_rows, len(G)
        Q = None
        if within and F >= WIDE and 0 < n <= F // 4:
            some = np.random.default_rng(0).normal(size=(F, n))
            Q, _ = np.linalg.qr(mirror_lower(G) @ some)
            G = Q.T @ (G @ Q)
        values, vectors = np.linalg.eigh(G)
        vectors = vectors if Q is None else Q @ vectors
        return cls(
            np.maximum(values, 0.0),
            vectors,
            vectors.T @ C,
            statistics.target_moments(intercept=intercept),
            intercept,
        )

    def squared_errors(self, ridge: float) -> Array:
        """Return the sum (K,) of squared training errors at a ridge."""
        inverse = self.inverse(ridge)
        explained = self.cross**2 * inverse * (1 + ridge * inverse)
        return np.asarray(np.maximum(self.target_moments - explained.sum(axis=0), 0.0))

    def degrees_of_freedom(self, ridge: float) -> float:
        """Return the effective number of parameters at a ridge."""
        return float((self.values[:, None] * self.inverse(ridge)).sum(axis=0)[0] + self.intercept)

    def inverse(self, ridge: float) -> Array:
        """Return 1 / (eigenvalue + ridge), (F, 1); zero where that is only rounding."""
        largest, shifted = self.values[-1], self.values[:, None] + ridge
        kept = (shifted > len(self.values) * EPS * largest) | (ridge > 2 * EPS * largest)
        return np.asarray(np.divide(1.0, shifted, out=np.zeros_like(shifted), where=kept))


def readout_from(
    statistics: RidgeStatistics, weights: Array, ridge: float, *, intercept: bool
) -> Readout:
    """Return the readout with these weights (F, K), its intercept making the mean error zero.

    >>> z, y = np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])
    >>> s = RidgeStatistics.from_states(z, y)
    >>> readout_from(s, np.array([[0.5]]), 0.0, intercept=True).intercept
    array([1.5])
    """
    if not intercept:
        return Readout(weights, np.zeros(statistics.n_targets), ridge)
    known = statistics.floats
    offset = (known.target_sum - known.feature_sum @ weights) / known.weight
    return Readout(weights, offset, ridge)


def singular_error(
    eigenvalues: Array, ridge: float, n_rows: int | None, *, enough: float = 0.0
) -> SingularError:
    """Return the error that names rank, condition and remedy, from ascending eigenvalues (F,) of G.

    Parameters
    ----------
    enough
        The smallest ridge that the statistics can tell, as far as it is known.

    >>> print(singular_error(np.array([0.0, 2.0]), 0.0, 10))
    2 features in 10 rows have rank 1 (condition inf), which ridge 0 does not mend; use a ridge of
    1e-12 or more, or leave out features that repeat others
    """
    F, largest = len(eigenvalues), max(float(eigenvalues[-1]), 0.0)
    rank = int((eigenvalues > F * EPS * largest).sum())
    smallest = max(float(eigenvalues[0]), 0.0) + ridge
    condition = (largest + ridge) / smallest if smallest > 0 else float("inf")
    rows = "" if n_rows is None else f" in {n_rows} rows"
    advised = max(2 * enough, 16 * EPS * largest, 1e-12)
    return SingularError(
        f"{F} features{rows} have rank {rank} (condition {condition:.0e}), which ridge {ridge:g} "
        f"does not mend; use a ridge of {advised:.0e} or more, or leave out features that repeat "
        "others"
    )
