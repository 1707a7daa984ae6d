"""Ridge regression from its statistics: W = (G + ridge I)^-1 C, by Cholesky unless asked otherwise.

The intercept is not penalised: G and C are centred first and the intercept is the mean target less
the mean prediction. Normal equations lose digits of the weights as the ridge falls (relative error
about 1e-12 at ridge 1, 1e-6 at 1e-6 and 1e-3 at 1e-10 for states of condition 7e7), far fewer of
the predictions. One eigendecomposition serves any number of ridges but is 2 to 30 times less
accurate below ridge 1e-4, so it is used only where it is faster. Below 1e-8 keep the rows and use
`solve_rows`, which never forms G.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import eigh, eigvalsh, lapack, qr, solve_triangular, svd

from catchment.arrays import Array, refuse_nonfinite
from catchment.errors import SingularError
from catchment.readout.linear import Readout
from catchment.readout.statistics import RidgeStatistics

EPS = float(np.finfo(np.float64).eps)

# An eigendecomposition costs as much as this many Cholesky factorisations.
SPECTRUM_FROM = 15


def solve_readout(
    statistics: RidgeStatistics, ridge: float | Array = 1e-6, *, intercept: bool = True
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

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> readout = solve_readout(RidgeStatistics.from_states(z, y), 0.0)
    >>> readout.weights, readout.intercept
    (array([[2.]]), array([1.]))
    """
    per_output = checked_ridges(ridge, statistics.n_targets)
    values, group = np.unique(per_output, return_inverse=True)
    if len(values) >= SPECTRUM_FROM:
        weights = Spectrum.of(statistics, intercept=intercept).weights(per_output)
        return readout_from(statistics, weights, ridge, intercept=intercept)
    G, C = _system(statistics, intercept)
    weights = np.empty_like(C)
    for i, value in enumerate(values):
        last = i == len(values) - 1
        columns = group == i
        A = G if last else G.copy(order="F")
        solved = _cholesky_solve(A, C[:, columns], float(value))
        if solved is None:
            raise _singular_statistics(statistics, float(value), intercept)
        weights[:, columns] = solved
    return readout_from(statistics, weights, ridge, intercept=intercept)


def solve_path(
    statistics: RidgeStatistics, ridges: Iterable[float], *, intercept: bool = True
) -> list[Readout]:
    """Return one readout per ridge: by Cholesky for a few, from one eigendecomposition for many.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> path = solve_path(RidgeStatistics.from_states(z, y), [0.0, 2.0])
    >>> [round(float(readout.weights[0, 0]), 9) for readout in path]
    [2.0, 1.0]
    """
    values = [float(checked_ridges(ridge, 1)[0]) for ridge in ridges]
    if len(values) < SPECTRUM_FROM:
        return [solve_readout(statistics, value, intercept=intercept) for value in values]
    spectrum = Spectrum.of(statistics, intercept=intercept)
    return [
        readout_from(statistics, spectrum.weights(value), value, intercept=intercept)
        for value in values
    ]


def solve_rows(
    z: Array,
    y: Array,
    ridge: float,
    *,
    weight: Array | None = None,
    intercept: bool = True,
    method: Literal["qr", "svd"] = "qr",
) -> Readout:
    """Return the ridge readout of the rows themselves, for ridges below 1e-8.

    The condition number enters once, not squared as in the statistics; the price is that all rows
    are in memory. At ridge 0 and dependent features "qr" raises, "svd" gives the smallest weights.

    Parameters
    ----------
    z
        (n, F) features.
    y
        (n, K) targets. A row with a NaN target is left out, whole.
    weight
        (n,) non-negative sample weights; ones if not given.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> solve_rows(z, y, 0.0, method="svd").weights.round(12)
    array([[2.]])
    """
    beta = float(checked_ridges(ridge, 1)[0])
    if method not in ("qr", "svd"):
        raise ValueError(f"method is {method!r}; choose 'qr' or 'svd'")
    rows = _Rows.of(z, y, weight, intercept)
    W = _solve_qr(rows.z, rows.y, beta) if method == "qr" else _solve_svd(rows.z, rows.y, beta)
    return Readout(W, rows.target_mean - rows.feature_mean @ W, beta)


def squared_errors(statistics: RidgeStatistics, readout: Readout) -> Array:
    """Return the sum (K,) of squared errors of any readout on the rows behind the statistics.

    Each is q - 2 w'C + w'Gw with centred moments, plus the weight of the rows times their mean
    error squared; no rows are needed.

    >>> z, y = np.array([[0.0], [1.0]]), np.array([[1.0], [5.0]])
    >>> squared_errors(RidgeStatistics.from_states(z, y), Readout(np.array([[1.0]]), np.zeros(1)))
    array([17.])
    """
    if readout.weights.shape != statistics.cross.shape:
        raise ValueError(
            f"the readout has weights {readout.weights.shape}, the statistics have "
            f"{statistics.cross.shape} features and targets; use the features it was trained on"
        )
    if statistics.weight <= 0:
        return np.zeros(statistics.n_targets)
    G, C = statistics.moments()
    W = readout.weights
    q = statistics.target_moments()
    spread = q - 2 * (W * C).sum(axis=0) + (W * (G @ W)).sum(axis=0)
    error = statistics.target_sum - statistics.feature_sum @ W
    error = error / statistics.weight - readout.intercept
    return np.asarray(np.maximum(spread, 0.0) + statistics.weight * error**2)


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
        inverse = self._inverse(ridge)
        if (inverse == 0).any():
            column = int(np.argmin(inverse.min(axis=0)))
            raise _singular(self.values, float(np.atleast_1d(ridge)[column]), None)
        return np.asarray(self.vectors @ (self.cross * inverse))

    def squared_errors(self, ridge: float | Array) -> Array:
        """Return the sum (K,) of squared training errors at one ridge, or at (K,) ridges."""
        inverse = self._inverse(ridge)
        explained = self.cross**2 * inverse * (1 + np.asarray(ridge) * inverse)
        return np.asarray(np.maximum(self.target_moments - explained.sum(axis=0), 0.0))

    def degrees_of_freedom(self, ridge: float | Array) -> Array:
        """Return the effective number of parameters, of one ridge or of each of (K,) ridges."""
        shrinkage = self.values[:, None] * self._inverse(ridge)
        return np.asarray(shrinkage.sum(axis=0).reshape(np.shape(ridge)) + self.intercept)

    def _inverse(self, ridge: float | Array) -> Array:
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
    offset = (statistics.target_sum - statistics.feature_sum @ weights) / statistics.weight
    return Readout(weights, offset, ridge)


def _system(statistics: RidgeStatistics, intercept: bool) -> tuple[Array, Array]:
    if statistics.n_rows == 0 or statistics.weight <= 0:
        raise ValueError(
            f"the statistics hold {statistics.n_rows} rows of total weight {statistics.weight:g}; "
            "add data before solving"
        )
    return statistics.lower_moments(intercept=intercept)


def _cholesky_solve(A: Array, C: Array, ridge: float) -> Array | None:
    """Return (A + ridge I)^-1 C from the lower triangle of A, overwritten; None if singular."""
    diagonal = A.ravel(order="K")[:: len(A) + 1]
    diagonal += ridge
    before = diagonal.copy()
    factor, info = lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)
    # A squared pivot over its diagonal entry is the share of a feature that the ones before it do
    # not explain; this measure does not depend on the features' units, as the condition does.
    noise = before * (16 + 4 * len(A)) * EPS
    if info or ((factor.diagonal() ** 2 < noise) & (ridge < 2 * EPS * before)).any():
        return None
    weights: Array = lapack.dpotrs(factor, C, lower=1)[0]
    return weights


def _singular_statistics(
    statistics: RidgeStatistics, ridge: float, intercept: bool
) -> SingularError:
    G, _ = statistics.lower_moments(intercept=intercept)
    eigenvalues: Array = eigvalsh(G, check_finite=False).astype(np.float64)
    return _singular(eigenvalues, ridge, statistics.n_rows)


def _singular(eigenvalues: Array, ridge: float, n_rows: int | None) -> SingularError:
    F, largest = len(eigenvalues), max(float(eigenvalues[-1]), 0.0)
    rank = int((eigenvalues > F * EPS * largest).sum())
    smallest = max(float(eigenvalues[0]), 0.0) + ridge
    condition = (largest + ridge) / smallest if smallest > 0 else float("inf")
    rows = "" if n_rows is None else f" in {n_rows} rows"
    return SingularError(
        f"{F} features{rows} have rank {rank} (condition {condition:.0e}), which ridge {ridge:g} "
        f"does not mend; use a ridge of {max(1e3 * F * EPS * largest, 1e-12):.0e} or more, "
        "or leave out features that repeat others"
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows ready for least squares: known, centred, multiplied by the roots of their weights."""

    z: Array
    y: Array
    feature_mean: Array
    target_mean: Array

    @classmethod
    def of(cls, z: Array, y: Array, weight: Array | None, intercept: bool) -> _Rows:
        z, y = np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if z.ndim != 2 or y.ndim != 2 or len(z) != len(y):
            raise ValueError(
                f"features {z.shape} and targets {y.shape} must be matrices with equally many rows"
            )
        w = np.ones(len(z)) if weight is None else np.asarray(weight, dtype=np.float64)
        if w.shape != (len(z),) or not np.isfinite(w).all() or (w < 0).any():
            raise ValueError(
                f"weight has shape {w.shape} for {len(z)} rows; "
                "pass one finite, non-negative number per row"
            )
        known = ~np.isnan(y).any(axis=1) & (w > 0)
        z, y, w = z[known], y[known], w[known]
        if len(z) == 0:
            raise ValueError("there are no rows with a target and a weight; add data first")
        refuse_nonfinite(z, "features")
        refuse_nonfinite(y, "targets")
        root = np.sqrt(w)[:, None]
        if not intercept:
            return cls(z * root, y * root, np.zeros(z.shape[1]), np.zeros(y.shape[1]))
        means = w @ z / w.sum(), w @ y / w.sum()
        return cls((z - means[0]) * root, (y - means[1]) * root, *means)


def _solve_qr(z: Array, y: Array, ridge: float) -> Array:
    F = z.shape[1]
    Z = np.vstack([z, np.sqrt(ridge) * np.eye(F)])
    if len(Z) < F:
        raise _singular(np.zeros(F), ridge, len(z))
    Q, R = qr(Z, mode="economic", overwrite_a=True, check_finite=False)
    pivots = np.abs(R.diagonal())
    if (pivots <= len(Z) * EPS * np.linalg.norm(R, axis=0)).any():
        raise _singular(svd(z, compute_uv=False)[::-1] ** 2, ridge, len(z))
    return np.asarray(solve_triangular(R, Q[: len(z)].T @ y, check_finite=False))


def _solve_svd(z: Array, y: Array, ridge: float) -> Array:
    U, s, V = svd(z, full_matrices=False, check_finite=False)
    kept = s > max(z.shape) * EPS * s[0]
    inverse = np.divide(s, s**2 + ridge, out=np.zeros_like(s), where=kept)
    return np.asarray(V.T @ (inverse[:, None] * (U.T @ y)))
