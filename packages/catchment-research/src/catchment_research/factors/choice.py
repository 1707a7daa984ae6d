"""The choice of the ridge from factors: as from statistics, with ridges ten digits smaller.

The rules are those of `catchment.readout.ridge_choice`: generalised cross-validation, or the error
on blocks that were left out. A block is left out by merging the factors of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Literal

import numpy as np

from catchment import Array, ordered_map
from catchment.readout import EPS, FINEST_CLASSES, Readout, RidgeChoice, best_ridge
from catchment_research.factors.factors import RidgeFactors, without_each
from catchment_research.factors.solve import (
    FactorSpectrum,
    factor_errors,
    factor_path,
    factor_scale,
    solve_factors,
)

N_RIDGES = 49  # tried by blocks; two for every power of ten
N_GCV = 57  # tried by generalised cross-validation


def chosen_from_factors(
    factors: RidgeFactors,
    ridge: float | Array | Literal["gcv"],
    *,
    classes: bool = False,
    per_output: bool = False,
    intercept: bool = True,
    standardise: bool = False,
) -> tuple[RidgeChoice | None, Readout]:
    """Return the readout of factors, and how its ridge was chosen if it was not given.

    Parameters
    ----------
    ridge, classes, per_output, intercept, standardise
        As for `chosen_readout` of `catchment.readout.ridge_choice`.

    >>> z = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> factors = RidgeFactors.from_states(z, z)
    >>> chosen_from_factors(factors, 0.5)[1].ridge
    0.5
    >>> chosen_from_factors(factors, "gcv")[1].ridge < 1e-10
    True
    """
    scale = factor_scale(factors) if standardise else None
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
    standardise: bool = False,
    threads: int | None = None,
) -> RidgeChoice:
    """Return the ridge with the least squared error on blocks that were left out of the solution.

    Parameters
    ----------
    blocks
        Factors of at least two disjoint sets of rows: stretches of time, sequences or clients.
    ridges
        (R,) ridges to try; `factor_grid` of all rows if not given.
    per_output, intercept, standardise, threads
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
    scale = factor_scale(total) if standardise else None
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
        raise ValueError("no feature varies in these factors; there is nothing to regularise")
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
