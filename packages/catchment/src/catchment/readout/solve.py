"""Ridge regression from its statistics: W = (G + ridge I)^-1 C, by Cholesky unless asked otherwise.

The intercept is not penalised: G and C are centred first and the intercept is the mean target less
the mean prediction. Normal equations lose digits of the weights as the ridge falls (relative error
about 1e-12 at ridge 1, 1e-6 at 1e-6 and 1e-3 at 1e-10 for states of condition 7e7), far fewer of
the predictions. One eigendecomposition serves any number of ridges but is 2 to 30 times less
accurate below ridge 1e-4, so it is used only where it is faster. What is below the limit of
`catchment.readout.precision` takes QR factors (upload="factors"), or the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh, eigvalsh, lapack

from catchment.arrays import Array, Integers
from catchment.errors import SingularError
from catchment.readout.exact_solve import ExactSystem
from catchment.readout.feature_scale import for_raw_features, rescaled
from catchment.readout.precision import smallest_ridge, warn_of_small_ridge
from catchment.readout.readout import Readout
from catchment.readout.statistics import RidgeStatistics

EPS = float(np.finfo(np.float64).eps)

# An eigendecomposition costs as much as this many Cholesky factorisations.
SPECTRUM_FROM = 15
# Times the trace of G and rounding: a larger ridge is beyond doubt, unless means are much larger.
NEAR = 1024


def solve_readout(
    statistics: RidgeStatistics,
    ridge: float | Array = 1e-6,
    *,
    intercept: bool = True,
    scale: Array | None = None,
) -> Readout:
    """Return the readout that minimises squared error plus ridge times squared weights.

    Parameters
    ----------
    statistics
        Sums over all rows.
    ridge
        One number, or (K,) numbers, one per output; not negative.
    intercept
        Whether to fit an intercept, which is not penalised.
    scale
        (F,) what features are divided by before the ridge acts; the readout is for features as they
        are.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> readout = solve_readout(RidgeStatistics.from_states(z, y), 0.0)
    >>> readout.weights, readout.intercept
    (array([[2.]]), array([1.]))
    """
    return _solved(statistics, ridge, intercept, scale, rounded=statistics.grid is not None)


def _solved(
    statistics: RidgeStatistics,
    ridge: float | Array,
    intercept: bool,
    scale: Array | None,
    *,
    rounded: bool,
) -> Readout:
    """Return the readout, its numbers `rounded` once from the exact solution where that is found.

    The statistics are on a grid then.
    """
    per_output = checked_ridges(ridge, statistics.n_targets)
    divided = statistics if scale is None else rescaled(statistics, scale)
    d = np.ones((statistics.n_features, 1)) if scale is None else np.asarray(scale)[:, None]
    G, C = _system(divided, intercept)
    system = ExactSystem.of(statistics, intercept=intercept) if rounded and C.size else None
    weights, known = np.empty_like(C), np.full(C.shape[1], np.nan)
    for outputs, value, solve in _solvers(divided, G, C, per_output, intercept):
        weights[:, outputs] = solve(C[:, outputs]) / d
        if system is not None:
            exact = system.solved(outputs, value, solve, scale)
            if exact is not None:
                weights[:, outputs], known[outputs] = exact
    readout = readout_from(statistics, weights, ridge, intercept=intercept)
    return replace(readout, intercept=np.where(np.isnan(known), readout.intercept, known))


def _solvers(
    statistics: RidgeStatistics, G: Array, C: Array, ridges: Array, intercept: bool
) -> Iterator[tuple[Integers, float | Array, Callable[[Array], Array]]]:
    """Yield outputs, their ridge or ridges, and what solves G + ridge I for them; G is lost."""
    values, group = np.unique(ridges, return_inverse=True)
    if len(values) >= SPECTRUM_FROM:
        spectrum = Spectrum.of(statistics, intercept=intercept)
        yield np.arange(len(ridges)), ridges, lambda right: spectrum.solve(right, ridges)
        return
    for i, value in enumerate(values):
        A = G if i == len(values) - 1 else G.copy(order="F")
        factored = _cholesky(A, float(value))
        if factored is None:
            raise _singular_statistics(statistics, float(value), intercept)
        factor, near = factored
        if near is not None:
            warn_of_small_ridge(statistics, float(value), *near)
        yield np.flatnonzero(group == i), float(value), _by_factor(factor)


def _by_factor(factor: Array) -> Callable[[Array], Array]:
    return lambda right: np.asarray(lapack.dpotrs(factor, right, lower=1)[0])


def solve_path(
    statistics: RidgeStatistics,
    ridges: Iterable[float],
    *,
    intercept: bool = True,
    scale: Array | None = None,
) -> list[Readout]:
    """Return one readout per ridge: by Cholesky for a few, from one eigendecomposition for many.

    `scale` is that of `solve_readout`. They are for comparisons: also on a grid each is as LAPACK
    finds it.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> path = solve_path(RidgeStatistics.from_states(z, y), [0.0, 2.0])
    >>> [round(float(readout.weights[0, 0]), 9) for readout in path]
    [2.0, 1.0]
    """
    if scale is not None:
        path = solve_path(rescaled(statistics, scale), ridges, intercept=intercept)
        return [for_raw_features(readout, scale) for readout in path]
    statistics = statistics.floats
    values = [float(checked_ridges(ridge, 1)[0]) for ridge in ridges]
    if len(values) < SPECTRUM_FROM:
        return [solve_readout(statistics, value, intercept=intercept) for value in values]
    spectrum = Spectrum.of(statistics, intercept=intercept)
    return [
        readout_from(statistics, spectrum.weights(value), value, intercept=intercept)
        for value in values
    ]


def squared_errors(statistics: RidgeStatistics, readout: Readout) -> Array:
    """Return the sum (K,) of squared errors of any readout on the rows behind the statistics.

    Each is q - 2 w'C + w'Gw with centred moments, plus the weight of the rows times their mean
    error squared; no rows are needed.

    >>> z, y = np.array([[0.0], [1.0]]), np.array([[1.0], [5.0]])
    >>> squared_errors(RidgeStatistics.from_states(z, y), Readout(np.array([[1.0]]), np.zeros(1)))
    array([17.])
    """
    return np.asarray(path_errors(statistics, [readout])[0])


def path_errors(statistics: RidgeStatistics, readouts: Sequence[Readout]) -> Array:
    """Return the sums (R, K) of squared errors of several readouts, as `squared_errors` of each.

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
    W = np.hstack([readout.weights for readout in readouts])
    quadratic = (W * (G @ W)).sum(axis=0).reshape(R, K)
    linear = (W * np.tile(C, R)).sum(axis=0).reshape(R, K)
    spread = statistics.target_moments() - 2 * linear + quadratic
    mean = statistics.target_sum - (statistics.feature_sum @ W).reshape(R, K)
    mean = mean / statistics.weight - np.array([readout.intercept for readout in readouts])
    return np.asarray(np.maximum(spread, 0.0) + statistics.weight * mean**2)


@dataclass(frozen=True, eq=False)
class SolveReport:
    """How well a ridge system is posed, and what its solution leaves over on the training rows."""

    n_rows: int
    n_features: int
    ridge: float
    rank: int
    condition: float
    degrees_of_freedom: float
    squared_error: Array  # (K,)
    nrmse: Array  # (K,) 1 is a constant prediction


def diagnostics(
    statistics: RidgeStatistics, ridge: float = 1e-6, *, intercept: bool = True
) -> SolveReport:
    """Return rank, condition, effective degrees of freedom and training error of one ridge.

    The degrees of freedom are those of the weights, tr G (G + ridge I)^-1, plus one for an
    intercept. The condition is that of G + ridge I, infinite if it is singular.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> report = diagnostics(RidgeStatistics.from_states(z, y), 2.0)
    >>> report.rank, report.degrees_of_freedom, float(report.squared_error[0])
    (1, 1.5, 2.0)
    """
    beta = float(checked_ridges(ridge, 1)[0])
    spectrum = Spectrum.of(statistics, intercept=intercept)
    largest, smallest = spectrum.values[-1] + beta, spectrum.values[0] + beta
    errors = spectrum.squared_errors(beta)
    q = statistics.target_moments()
    nrmse = np.sqrt(np.divide(errors, q, out=np.full_like(q, np.inf), where=q > 0))
    return SolveReport(
        n_rows=statistics.n_rows,
        n_features=statistics.n_features,
        ridge=beta,
        rank=spectrum.rank,
        condition=float(largest / smallest) if smallest > 0 else float("inf"),
        degrees_of_freedom=float(spectrum.degrees_of_freedom(beta)),
        squared_error=errors,
        nrmse=nrmse,
    )


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigendecomposition of G, from which every ridge is solved at the cost of a product.

    Errors and degrees of freedom at ridge 0 are the limits of those at a vanishing ridge, also when
    G is singular; weights then raise SingularError.
    """

    values: Array  # (F,) ascending, not negative
    vectors: Array  # (F, F)
    cross: Array  # (F, K) = vectors' C
    target_moments: Array  # (K,)
    intercept: bool

    @classmethod
    def of(cls, statistics: RidgeStatistics, *, intercept: bool = True) -> Spectrum:
        """Return the spectrum of the statistics' moments, centred if there is an intercept.

        >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
        >>> Spectrum.of(RidgeStatistics.from_states(z, y)).values
        array([2.])
        """
        G, C = _system(statistics, intercept)
        values, vectors = eigh(G, overwrite_a=True, check_finite=False, driver="evd")
        return cls(
            np.maximum(values, 0.0),
            vectors,
            vectors.T @ C,
            statistics.target_moments(intercept=intercept),
            intercept,
        )

    @property
    def rank(self) -> int:
        """The number of eigenvalues above rounding."""
        return int((self.values > len(self.values) * EPS * self.values[-1]).sum())

    def weights(self, ridge: float | Array) -> Array:
        """Return the weights (F, K) at one ridge, or at (K,) ridges, one per output."""
        return np.asarray(self.vectors @ (self.cross * self._known_inverse(ridge)))

    def solve(self, right: Array, ridge: float | Array) -> Array:
        """Return what `weights` does for another right side (F, K) than the cross moments."""
        return np.asarray(self.vectors @ ((self.vectors.T @ right) * self._known_inverse(ridge)))

    def _known_inverse(self, ridge: float | Array) -> Array:
        inverse = self.inverse(ridge)
        if (inverse == 0).any():
            column = int(np.argmin(inverse.min(axis=0)))
            raise singular_error(self.values, float(np.atleast_1d(ridge)[column]), None)
        return inverse

    def squared_errors(self, ridge: float | Array) -> Array:
        """Return the sum (K,) of squared training errors at one ridge, or at (K,) ridges."""
        inverse = self.inverse(ridge)
        explained = self.cross**2 * inverse * (1 + np.asarray(ridge) * inverse)
        return np.asarray(np.maximum(self.target_moments - explained.sum(axis=0), 0.0))

    def degrees_of_freedom(self, ridge: float | Array) -> Array:
        """Return the effective number of parameters, of one ridge or of each of (K,) ridges."""
        shrinkage = self.values[:, None] * self.inverse(ridge)
        return np.asarray(shrinkage.sum(axis=0).reshape(np.shape(ridge)) + self.intercept)

    def inverse(self, ridge: float | Array) -> Array:
        """Return 1 / (eigenvalue + ridge), (F, 1) or (F, K); zero where that is only rounding."""
        beta, largest = np.atleast_1d(ridge), self.values[-1]
        shifted = self.values[:, None] + beta
        kept = (shifted > len(self.values) * EPS * largest) | (beta > 2 * EPS * largest)
        return np.asarray(np.divide(1.0, shifted, out=np.zeros_like(shifted), where=kept))


def checked_ridges(ridge: float | Array, n_outputs: int) -> Array:
    """Return (K,) ridges, one per output, after checking that each is finite and not negative.

    >>> checked_ridges(0.5, 2)
    array([0.5, 0.5])
    """
    ridges = np.asarray(ridge, dtype=np.float64)
    if ridges.shape not in ((), (n_outputs,)):
        raise ValueError(
            f"ridge has shape {ridges.shape}; pass one number or one per output ({n_outputs},)"
        )
    if not np.isfinite(ridges).all() or (ridges < 0).any():
        raise ValueError(f"ridge is {ridge}; pass a finite number that is not negative")
    return np.broadcast_to(ridges, (n_outputs,))


def readout_from(
    statistics: RidgeStatistics, weights: Array, ridge: float | Array, *, intercept: bool
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


def _system(statistics: RidgeStatistics, intercept: bool) -> tuple[Array, Array]:
    if statistics.n_rows == 0 or statistics.weight <= 0:
        raise ValueError(
            f"the statistics hold {statistics.n_rows} rows of total weight {statistics.weight:g}; "
            "add data before solving"
        )
    return statistics.lower_moments(intercept=intercept)


def _cholesky(A: Array, ridge: float) -> tuple[Array, tuple[float, Array] | None] | None:
    """Return the factor of A + ridge I from the lower triangle of A, overwritten; None if singular.

    Of a ridge near rounding also an estimate of the smallest eigenvalue of A + ridge I, scaled to a
    diagonal of ones, and the diagonal.
    """
    diagonal = A.ravel(order="K")[:: len(A) + 1]
    diagonal += ridge
    before = diagonal.copy()
    factor, info = lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)
    # A squared pivot over its diagonal entry is the share of a feature that the ones before it do
    # not explain; this measure does not depend on the features' units, as the condition does.
    noise = before * (16 + 4 * len(A)) * EPS
    if info or ((factor.diagonal() ** 2 < noise) & (ridge < 2 * EPS * before)).any():
        return None
    if not len(A) or ridge > NEAR * EPS * before.sum():
        return factor, None
    scaled = factor / np.sqrt(before)[:, None]
    return factor, (float(lapack.dpocon(scaled, 1.0, uplo="L")[0]), before)


def _singular_statistics(
    statistics: RidgeStatistics, ridge: float, intercept: bool
) -> SingularError:
    G, _ = statistics.lower_moments(intercept=intercept)
    eigenvalues: Array = eigvalsh(G, check_finite=False).astype(np.float64)
    return singular_error(eigenvalues, ridge, statistics.n_rows, enough=smallest_ridge(statistics))


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
