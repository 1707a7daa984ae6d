"""Ridge regression from factors, as from the rows themselves: no product is formed.

A ridge is so many more rows: [A; sqrt(ridge) I] is factored as rows are, and its triangle solved.
One singular value decomposition A = U S V' serves any number of ridges,

    W = V S (S^2 + ridge)^-1 U'B,    SSE = |D|^2 + |ridge (S^2 + ridge)^-1 U'B|^2,

the error as a sum of squares and not as a difference. The condition of A enters once, where normal
equations have its square.

The ridge is chosen by the rules of `catchment.readout.ridge_choice`, generalized cross-validation
or the error on blocks that were left out, with ridges ten digits smaller. A block is left out by
merging the factors of all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular, svd, svdvals

from catchment import Array, ordered_map
from catchment.readout import (
    EPS,
    FINEST_CLASSES,
    SPECTRUM_FROM,
    Readout,
    RidgeChoice,
    best_ridge,
    checked_ridges,
    for_raw_features,
    singular_error,
)
from catchment_research.factors.factors import RidgeFactors, merged, with_rows, without_each

# A spread below this share of a feature's length is rounding left by the reflections.
CONSTANT = 1024 * EPS
N_RIDGES = 49  # tried by blocks; two for every power of ten
N_GCV = 57  # tried by generalized cross-validation


def solve_factors(
    factors: RidgeFactors,
    ridge: float | Array = 1e-6,
    *,
    intercept: bool = True,
    scale: Array | None = None,
) -> Readout:
    """Return the readout that minimizes squared error plus ridge times squared weights.

    Parameters
    ----------
    factors
        Of all rows.
    ridge
        One number, or (K,) numbers, one per output; not negative.
    intercept
        Whether to fit an intercept, which is not penalized.
    scale
        (F,) what features are divided by before the ridge acts; the readout is for features as they
        are.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> readout = solve_factors(RidgeFactors.from_states(z, y), 0.0)
    >>> readout.weights.round(12), readout.intercept.round(12)
    (array([[2.]]), array([1.]))
    """
    per_output = checked_ridges(ridge, factors.n_targets)
    R = _system(factors, intercept, scale)
    weights = np.empty(factors.cross.shape)
    for value in np.unique(per_output):
        columns = per_output == value
        weights[:, columns] = _solved(R, factors, float(value))[:, columns]
    return _readout(factors, weights, ridge, intercept, scale)


def factor_path(
    factors: RidgeFactors,
    ridges: Iterable[float],
    *,
    intercept: bool = True,
    scale: Array | None = None,
) -> list[Readout]:
    """Return one readout per ridge, of many from one singular value decomposition.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> path = factor_path(RidgeFactors.from_states(z, y), [0.0, 2.0])
    >>> [round(float(readout.weights[0, 0]), 9) for readout in path]
    [2.0, 1.0]
    """
    values = [float(checked_ridges(ridge, 1)[0]) for ridge in ridges]
    if len(values) < SPECTRUM_FROM:
        return [solve_factors(factors, value, intercept=intercept, scale=scale) for value in values]
    spectrum = FactorSpectrum.of(factors, intercept=intercept, scale=scale)
    return [_readout(factors, spectrum.weights(value), value, intercept, scale) for value in values]


def factor_errors(factors: RidgeFactors, readouts: Sequence[Readout]) -> Array:
    """Return the sums (R, K) of squared errors of several readouts on the rows behind factors.

    They are lengths of R [-b; -W; 1], and so no small differences of large numbers.

    >>> z, y = np.array([[0.0], [1.0]]), np.array([[1.0], [5.0]])
    >>> readouts = [Readout(np.array([[w]]), np.ones(1)) for w in (1.0, 4.0)]
    >>> factor_errors(RidgeFactors.from_states(z, y), readouts).round(12)
    array([[9.],
           [0.]])
    """
    for readout in readouts:
        if readout.weights.shape != factors.cross.shape:
            raise ValueError(
                f"the readout has weights {readout.weights.shape}, the factors have "
                f"{factors.cross.shape} features and targets; use the features it was trained on"
            )
    if not len(readouts):
        return np.zeros((0, factors.n_targets))
    R, one = factors.whole, np.eye(factors.n_targets)
    return np.array(
        [
            np.square(R @ np.vstack([-readout.intercept, -readout.weights, one])).sum(axis=0)
            for readout in readouts
        ]
    )


def factor_scale(factors: RidgeFactors) -> Array:
    """Return the standard deviation (F,) of each feature, 1 for one that does not vary.

    >>> z = np.array([[0.0, 5.0], [4.0, 5.0]])
    >>> factor_scale(RidgeFactors.from_states(z, np.zeros((2, 1)))).round(12)
    array([2., 1.])
    """
    if factors.weight <= 0:
        raise ValueError(f"the factors have weight {factors.weight}; add data first")
    spread, constant = _spreads(factors)
    return np.where(constant, 1.0, spread / np.sqrt(factors.weight))


@dataclass(frozen=True, eq=False)
class FactorSpectrum:
    """The singular values of A, from which every ridge is solved at the cost of a product.

    Errors and degrees of freedom at ridge 0 are the limits of those at a vanishing ridge, also when
    A is singular; weights then raise SingularError.
    """

    values: Array  # (F,) descending
    vectors: Array  # (F, F), a column for each
    cross: Array  # (F, K) = U'B
    left: Array  # (K,) squares that no readout explains
    intercept: bool

    @classmethod
    def of(
        cls, factors: RidgeFactors, *, intercept: bool = True, scale: Array | None = None
    ) -> FactorSpectrum:
        """Return the spectrum of the rows, centered if there is an intercept.

        >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
        >>> FactorSpectrum.of(RidgeFactors.from_states(z, y)).values.round(6)
        array([1.414214])
        """
        R, F = _system(factors, intercept, scale), factors.n_features
        U, s, V = svd(R[:F, :F], check_finite=False)
        left = np.square(R[F:, F:]).sum(axis=0)
        return cls(s, V.T, U.T @ R[:F, F:], left, intercept)

    @property
    def target_moments(self) -> Array:
        """The second moment (K,) of each target, centered if there is an intercept."""
        return np.asarray(self.left + np.square(self.cross).sum(axis=0))

    @property
    def _known(self) -> Array:
        """The singular values, zero where they are only rounding."""
        return np.where(self.values > len(self.values) * EPS * self.values[0], self.values, 0.0)

    def weights(self, ridge: float | Array) -> Array:
        """Return the weights (F, K) at one ridge, or at (K,) ridges, one per output."""
        s, beta = self._known[:, None], np.atleast_1d(ridge)
        if ((s == 0) & (beta == 0)).any():
            raise singular_error(self.values[::-1] ** 2, 0.0, None)
        return np.asarray(self.vectors @ (self.cross * s / (s**2 + beta)))

    def squared_errors(self, ridge: float | Array) -> Array:
        """Return the sum (K,) of squared training errors at one ridge, or at (K,) ridges."""
        s, beta = self._known[:, None], np.atleast_1d(ridge)
        shrunk = np.divide(beta, s**2 + beta, out=np.ones_like(s * beta), where=s**2 + beta > 0)
        return np.asarray(self.left + np.square(self.cross * shrunk).sum(axis=0))

    def degrees_of_freedom(self, ridge: float | Array) -> Array:
        """Return the effective number of parameters, of one ridge or of each of (K,) ridges."""
        s, beta = self._known[:, None], np.atleast_1d(ridge)
        kept = np.divide(s**2, s**2 + beta, out=np.zeros_like(s * beta), where=s > 0)
        return np.asarray(kept.sum(axis=0).reshape(np.shape(ridge)) + self.intercept)


def _spreads(factors: RidgeFactors) -> tuple[Array, Array]:
    """Return the centered length (F,) of each feature, and whether it is only rounding."""
    F = factors.n_features
    spread = np.linalg.norm(factors.inner[:F, :F], axis=0)
    length = np.hypot(spread, np.sqrt(factors.weight) * factors.feature_mean)
    return spread, spread <= CONSTANT * length


def _system(factors: RidgeFactors, intercept: bool, scale: Array | None) -> Array:
    """Return the triangle (F + K, F + K) that is solved: centered, without what does not vary."""
    if factors.n_rows == 0 or factors.weight <= 0:
        raise ValueError(
            f"the factors hold {factors.n_rows} rows of total weight {factors.weight:g}; "
            "add data before solving"
        )
    F, R = factors.n_features, factors.inner.copy()
    if intercept:
        R[:F, :F][:, _spreads(factors)[1]] = 0.0
    else:
        R = with_rows(R, factors.whole[:1, 1:])
    if scale is not None:
        R[:, :F] /= np.asarray(scale, dtype=np.float64)
    return R


def _solved(R: Array, factors: RidgeFactors, ridge: float) -> Array:
    """Return the weights (F, K) at one ridge."""
    F = factors.n_features
    more = np.zeros_like(R)
    np.fill_diagonal(more[:F, :F], np.sqrt(ridge))
    whole = merged(R, more) if ridge > 0 else R
    A = whole[:F, :F]
    if (A.diagonal() <= 2 * F * EPS * np.linalg.norm(A, axis=0)).any():
        raise singular_error(svdvals(R[:F, :F])[::-1] ** 2, ridge, factors.n_rows)
    return np.asarray(solve_triangular(A, whole[:F, F:], check_finite=False))


def _readout(
    factors: RidgeFactors,
    weights: Array,
    ridge: float | Array,
    intercept: bool,
    scale: Array | None,
) -> Readout:
    found = for_raw_features(Readout(weights, np.zeros(factors.n_targets), ridge), scale)
    if not intercept:
        return found
    offset = factors.target_mean - factors.feature_mean @ found.weights
    return Readout(found.weights, offset, ridge)


def chosen_from_factors(
    factors: RidgeFactors,
    ridge: float | Array | Literal["gcv"],
    *,
    classes: bool = False,
    per_output: bool = False,
    intercept: bool = True,
    standardize: bool = False,
) -> tuple[RidgeChoice | None, Readout]:
    """Return the readout of factors, and how its ridge was chosen if it was not given.

    Parameters
    ----------
    ridge, classes, per_output, intercept, standardize
        As for `chosen_readout` of `catchment.readout.ridge_choice`.

    >>> z = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> factors = RidgeFactors.from_states(z, z)
    >>> chosen_from_factors(factors, 0.5)[1].ridge
    0.5
    >>> chosen_from_factors(factors, "gcv")[1].ridge < 1e-10
    True
    """
    scale = factor_scale(factors) if standardize else None
    if not isinstance(ridge, str):
        return None, solve_factors(factors, ridge, intercept=intercept, scale=scale)
    if ridge != "gcv":
        raise ValueError(f'ridge is {ridge!r}; pass a number, one per output, or "gcv"')
    spectrum = FactorSpectrum.of(factors, intercept=intercept, scale=scale)
    finest = FINEST_CLASSES if classes else 0.0
    choice = _by_gcv(factors, spectrum, per_output=per_output, finest=finest)
    return choice, solve_factors(factors, choice.best, intercept=intercept, scale=scale)


def choose_by_factor_blocks(
    blocks: Sequence[RidgeFactors],
    ridges: Sequence[float] | Array | None = None,
    *,
    per_output: bool = False,
    intercept: bool = True,
    standardize: bool = False,
    threads: int | None = None,
) -> RidgeChoice:
    """Return the ridge with the least squared error on blocks that were left out of the solution.

    Parameters
    ----------
    blocks
        Factors of at least two disjoint sets of rows: segments of time, sequences or clients.
    ridges
        (R,) ridges to try; `factor_grid` of all rows if not given.
    per_output, intercept, standardize, threads
        As for `choose_by_blocks` of `catchment.readout.ridge_choice`.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(50, 3))
    >>> y = z[:, :1] + 0.1 * rng.normal(size=(50, 1))
    >>> blocks = [RidgeFactors.from_states(z[i::5], y[i::5]) for i in range(5)]
    >>> choose_by_factor_blocks(blocks, [0.1, 1000.0]).best
    0.1
    """
    filled = [block for block in blocks if block.n_rows > 0]
    if len(filled) < 2:
        raise ValueError(
            f"{len(filled)} of {len(blocks)} blocks have rows; leaving one out needs at least 2"
        )
    total = reduce(add, filled)
    scale = factor_scale(total) if standardize else None
    if ridges is None:
        tried = factor_grid(FactorSpectrum.of(total, intercept=intercept, scale=scale))
    else:
        tried = np.asarray(ridges, dtype=np.float64)

    def held_out(pair: tuple[RidgeFactors, RidgeFactors]) -> Array:
        rest, block = pair
        return factor_errors(block, factor_path(rest, tried, intercept=intercept, scale=scale))

    pairs = zip(without_each(filled), filled, strict=True)
    errors = np.array(list(ordered_map(held_out, pairs, threads=threads)))
    weights = np.array([block.weight for block in filled])
    mean = errors.sum(axis=0) / weights.sum()
    return RidgeChoice(tried, mean, best_ridge(tried, mean, per_output), errors, weights)


def factor_grid(spectrum: FactorSpectrum, n_ridges: int = N_RIDGES) -> Array:
    """Return ridges (R,), evenly spaced in the exponent, that span the features' own scale.

    They run from 1e-23 to 10 times the mean squared length of a feature column, but leave out
    what rounding would not let be told: the square of the largest singular value's last digits.

    >>> s = FactorSpectrum.of(RidgeFactors.from_states(np.array([[0.0], [2.0]]), np.zeros((2, 1))))
    >>> factor_grid(s, 3).round(24)
    array([2.e-23, 2.e-11, 2.e+01])
    """
    squares = np.square(spectrum.values)
    scale = float(squares.mean())
    if scale <= 0:
        raise ValueError("no feature varies in these factors; there is nothing to regularize")
    smallest = max(1e-23 * scale, len(squares) * EPS**2 * float(squares[0]))
    return np.geomspace(smallest, 10.0 * scale, n_ridges)


def _by_gcv(
    factors: RidgeFactors, spectrum: FactorSpectrum, *, per_output: bool, finest: float
) -> RidgeChoice:
    K, weight = factors.n_targets, factors.weight
    if not spectrum.values[0] > 0:
        # Every positive ridge gives the mean of the targets.
        errors = spectrum.target_moments / weight
        return RidgeChoice(np.ones(1), errors[None], np.ones(K) if per_output else 1.0)
    low, high = factor_grid(spectrum, 2)
    tried = np.geomspace(low, high * factors.n_features, N_GCV)
    if finest > 0:
        left = np.array([spectrum.squared_errors(ridge).sum() for ridge in tried])
        coarse = left >= finest * spectrum.target_moments.sum()
        tried = tried[coarse] if coarse.any() else tried[-1:]
    scores = np.array([_gcv(spectrum, ridge, weight) for ridge in tried])
    return RidgeChoice(tried, scores, best_ridge(tried, scores, per_output))


def _gcv(spectrum: FactorSpectrum, ridge: float, n: float) -> Array:
    left = n - float(spectrum.degrees_of_freedom(ridge))
    # Less than one: the readout all but interpolates, and the score would be noise over noise.
    if left < 1:
        return np.full(len(spectrum.left), np.inf)
    # What is below the rounding of the targets themselves must not rank ridges.
    floor = (16 * EPS) ** 2 * spectrum.target_moments
    return np.asarray(n * np.maximum(spectrum.squared_errors(ridge), floor) / left**2)
