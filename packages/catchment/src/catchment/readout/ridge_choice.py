"""The choice of the ridge, from statistics alone.

Generalized cross-validation (Golub, Heath and Wahba 1979) scores a ridge by n SSE / (n - df)^2 with
n the weight of the rows and df the effective degrees of freedom. Blocked cross-validation solves
without each block in turn and scores the solution on that block; with W from the other blocks the
block's error is

    SSE_k = q_k - 2 tr(W'C_k) + tr(W'G_k W)

plus the terms of the intercept, so it needs no rows. A block may be a segment of time, or one
client, which can compute its part for itself: `path_errors` of what `solve_path` finds of the rest.

`chosen_readout` is the way from a sum to a readout that every way in takes: `fit`, `federate`,
scikit-learn's estimators and plans therefore solve to the same bits.

Ridges are the same numbers on every processor, what they score is not: of ridges whose scores are
within a millionth of the least, or within what rounding does at a small ridge, the largest is
taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import partial, reduce
from operator import add, attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge

from catchment.arrays import Array, NonNegativeFloat, check_type
from catchment.parallel import ordered_map
from catchment.readout.solve import (
    EPS,
    Spectrum,
    doubt,
    feature_scale,
    for_raw_features,
    path_errors,
    rescaled,
    smallest_ridge,
    solve_path,
    solve_readout,
    squared_lengths,
    warn_of_edge,
    warn_of_faint,
)
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.wire.structure import APART

if TYPE_CHECKING:
    from catchment.readout.heads import Head

N_GCV = 33  # ridges that generalized cross-validation tries
AS_GOOD = 1e-6  # of a score: ridges that differ by less are equally good, and the largest is taken
DEVIATION_BITS = 20  # of an expected error; more are not the same on every processor
FINEST_CLASSES = 1e-4  # one-hot targets need no closer fit; a smaller ridge would fit rounding


@dataclass(frozen=True, eq=False)
class RidgeChoice:
    """The ridges tried, what each scored, and the best one.

    `errors` are mean squared errors for blocks and GCV scores for GCV; less is better.
    `block_errors` and `block_weights` have one entry per block, and none for GCV.
    """

    ridges: Array  # (R,)
    errors: Array  # (R, K)
    best: Annotated[float, APART]
    block_errors: Array | None = None  # (B, R, K) sums of squared errors
    block_weights: Array | None = None  # (B,) weight of the rows behind each

    @property
    def at_edge(self) -> bool:
        """Whether the best ridge is the smallest or the largest tried, so that more should be."""
        return self.best in (self.ridges.min(), self.ridges.max())

    @property
    def deviation(self) -> Array | None:
        """Root mean squared error (K,) expected on new rows at the best ridge; None if unknown.

        It has 20 binary digits, so that it is the same on every processor; it is not where sums of
        products hold fewer, because the error is so small a share of the targets' variance.
        """
        squared = self.errors[np.argmax(self.ridges == self.best)]
        if not np.isfinite(squared).all():
            return None
        digits, exponent = np.frexp(np.sqrt(squared))
        short = np.rint(np.ldexp(digits, DEVIATION_BITS))
        return np.asarray(np.ldexp(short, exponent - DEVIATION_BITS))


def chosen_readout(
    statistics: RidgeStatistics,
    ridge: float | str,
    blocks: Sequence[RidgeStatistics] = (),
    *,
    head: Head | None = None,
    classes: bool = False,
    intercept: bool = True,
    standardize: bool = False,
    threads: int | None = None,
) -> tuple[RidgeChoice | None, Readout]:
    """Return the readout of a sum of statistics, and how its ridge was chosen if it was not given.

    Parameters
    ----------
    ridge
        A number, or "gcv".
    blocks
        Of which each is left out in turn to choose the ridge; none to take the one above.
    head
        Another way from the sums to a readout, which takes the ridge that is chosen.
    classes
        Whether the targets are one-hot, which no readout need fit to more than a hundredth.
    standardize
        Whether the ridge acts on features divided by their standard deviation.

    >>> z = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> s = RidgeStatistics.from_states(z, z)
    >>> chosen_readout(s, 0.5)[1].ridge, chosen_readout(s, "gcv")[1].ridge < 1e-4
    (0.5, True)
    """
    scale, choice = feature_scale(statistics) if standardize else None, None
    warn_of_faint(statistics)
    if blocks:
        choice = choose_by_blocks(
            blocks, standardize=standardize, threads=threads, intercept=intercept
        )
    elif isinstance(ridge, str):
        if ridge != "gcv":
            raise ValueError(f'ridge is {ridge!r}; pass a number, or "gcv"')
        finest = FINEST_CLASSES if classes else 0.0
        choice = choose_by_gcv(rescaled(statistics, scale), finest=finest, intercept=intercept)
    best: Any = ridge if choice is None else choice.best
    if head is None:
        return choice, solve_readout(statistics, best, intercept=intercept, scale=scale)
    readout = head.solve(rescaled(statistics, scale), best, intercept=intercept)
    return choice, for_raw_features(readout, scale)


def ridge_grid(statistics: RidgeStatistics, n_ridges: int = 25) -> Array:
    """Return ridges (R,), evenly spaced in the exponent, that span the features' own scale.

    They run from 1e-11 to 10 times the mean squared length of a centered feature column, but leave
    out what rounding would not let be solved.

    >>> s = RidgeStatistics.from_states(np.array([[0.0], [2.0]]), np.zeros((2, 1)))
    >>> ridge_grid(s, 4)
    array([2.e-11, 2.e-07, 2.e-03, 2.e+01])
    """
    check_type(n_ridges, Annotated[int, Ge(2)], "n_ridges")
    raw, centered = squared_lengths(statistics)
    scale = math.fsum(centered) / max(len(centered), 1)
    if scale <= 0:
        raise ValueError("no feature varies in these statistics; there is nothing to regularize")
    # Rounding follows the moments before centring, which are large where means are.
    smallest = max(1e-11 * scale, 4 * math.sqrt(statistics.n_features) * EPS * math.fsum(raw))
    return _geometric(min(smallest, scale), 10.0 * scale, n_ridges)


def _geometric(low: float, high: float, n: int) -> Array:
    """Return n numbers from low to high, each some factor times the last, on every processor.

    Logarithms of the mathematical library differ in their last bits, those of decimals do not.
    """
    with localcontext(Context(prec=30)):
        first = Decimal(low)
        step = (Decimal(high) / first).ln() / (n - 1)
        found = np.array([low] * (n - 1) + [high])
        for k in range(1, n - 1):
            found[k] = float(first * (step * k).exp())
    return found


def choose_by_gcv(
    statistics: RidgeStatistics,
    ridges: Sequence[float] | Array | None = None,
    *,
    intercept: bool = True,
    finest: float = 0.0,
) -> RidgeChoice:
    """Return the ridge with the least generalized cross-validation score.

    GCV treats the rows as independent. Rows of a time series are not, and the choice then tends to
    be too small: prefer `choose_by_blocks`.

    Parameters
    ----------
    ridges
        (R,) ridges to try. If not given, those of `ridge_grid` and on to the largest eigenvalue
        that the features may have, which is where the best may lie if rows are few; and smaller
        ones, as far as sums can tell them, if the smallest is the best.
    finest
        Share of the targets' variance that the training error need not fall below: ridges that
        fit more closely are not tried.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(50, 3))
    >>> s = RidgeStatistics.from_states(z, z[:, :1] + 0.1 * rng.normal(size=(50, 1)))
    >>> choose_by_gcv(s, [0.1, 1000.0]).best
    0.1
    """
    varies = statistics.n_rows > 0 and squared_lengths(statistics)[1].any()
    if ridges is None and not varies:
        # Every positive ridge gives the mean of the targets.
        K, known = statistics.n_targets, statistics.n_rows > 0
        errors = statistics.target_moments() / statistics.weight if known else np.zeros(K)
        return RidgeChoice(np.ones(1), errors[None], 1.0)
    tried = ridge_grid(statistics) if ridges is None else _given(ridges)
    if ridges is None:
        low, high = float(tried[0]), float(tried[-1])
        tried = _geometric(low, high * statistics.n_features, N_GCV)
    spectrum = Spectrum.of(statistics, intercept=intercept, within=bool((tried > 0).all()))
    if finest > 0:
        left = np.array([spectrum.squared_errors(ridge).sum() for ridge in tried])
        coarse = left >= finest * spectrum.target_moments.sum()
        tried = tried[coarse] if coarse.any() else tried[-1:]

    # Errors are a difference of moments: what is below its rounding must not rank ridges.
    floor, n = 16 * len(spectrum.values) * EPS * spectrum.target_moments, statistics.weight

    def scored(some: Array) -> Array:
        found = np.full((len(some), len(floor)), np.inf)
        for k, ridge in enumerate(some):
            left = n - float(spectrum.degrees_of_freedom(ridge))
            # Less than one: the readout all but interpolates, and the score would be noise.
            if left >= 1:
                found[k] = n * np.maximum(spectrum.squared_errors(ridge), floor) / left**2
        return found

    scores = scored(tried)
    if ridges is None and finest == 0:
        more = _smaller(statistics, tried, scores)
        if len(more):
            tried, scores = np.concatenate([more, tried]), np.vstack([scored(more), scores])
    return RidgeChoice(tried, scores, best_ridge(tried, scores, doubt(statistics, tried)))


def choose_by_blocks(
    blocks: Sequence[RidgeStatistics],
    ridges: Sequence[float] | Array | None = None,
    *,
    intercept: bool = True,
    standardize: bool = False,
    threads: int | None = None,
) -> RidgeChoice:
    """Return the ridge with the least squared error on blocks that were left out of the solution.

    Parameters
    ----------
    blocks
        Statistics of at least two disjoint sets of rows: segments of time, sequences or clients.
    ridges
        (R,) ridges to try. If not given, `ridge_grid` of all rows; and smaller ones, as far as sums
        can tell them, if the smallest of these is the best.
    standardize
        Whether the ridge acts on features divided by their standard deviation over all blocks.
    threads
        All cores if None; the result does not depend on it.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(50, 3))
    >>> y = z[:, :1] + 0.1 * rng.normal(size=(50, 1))
    >>> blocks = [RidgeStatistics.from_states(z[i::5], y[i::5]) for i in range(5)]
    >>> choose_by_blocks(blocks, [0.1, 1000.0]).best
    0.1
    """
    filled = list(filter(attrgetter("n_rows"), blocks))
    if len(filled) < 2:
        raise ValueError(
            f"{len(filled)} of {len(blocks)} blocks have rows; leaving one out needs at least 2"
        )
    total = reduce(add, filled)
    scale = feature_scale(total) if standardize else None
    acted_on = rescaled(total, scale)
    weights = np.array(list(map(attrgetter("weight"), filled)))

    def held_out(some: Array, block: RidgeStatistics) -> Array:
        return path_errors(block, solve_path(total - block, some, intercept=intercept, scale=scale))

    tried = ridge_grid(acted_on) if ridges is None else _given(ridges)
    errors = np.array(list(ordered_map(partial(held_out, tried), filled, threads=threads)))
    mean = errors.sum(axis=0) / weights.sum()
    more = _smaller(acted_on, tried, mean) if ridges is None else tried[:0]
    if len(more):
        found = np.array(list(ordered_map(partial(held_out, more), filled, threads=threads)))
        tried, errors = np.concatenate([more, tried]), np.hstack([found, errors])
        mean = errors.sum(axis=0) / weights.sum()
        warn_of_edge(acted_on, tried, mean)
    best = best_ridge(tried, mean, doubt(acted_on, tried))
    return RidgeChoice(tried, mean, best, errors, weights)


def _smaller(statistics: RidgeStatistics, tried: Array, errors: Array) -> Array:
    """Return smaller ridges, down to what sums can tell, if the smallest of these is the best."""
    if len(tried) < 2 or not np.isfinite(errors[0].sum()):
        return tried[:0]
    if best_ridge(tried, errors, doubt(statistics, tried)) != tried[0]:
        return tried[:0]
    limit = smallest_ridge(statistics)
    if not 0 < limit < tried[0]:
        return tried[:0]
    n_more = int(np.ceil(np.log(tried[0] / limit) / np.log(tried[1] / tried[0])))
    return _geometric(limit, float(tried[0]), n_more + 1)[:-1]


def _given(ridges: Sequence[float] | Array) -> Array:
    tried = np.asarray(ridges, dtype=np.float64)
    if tried.ndim != 1 or len(tried) == 0:
        raise ValueError(f"ridges have shape {tried.shape}; pass a list of at least one ridge")
    for ridge in tried.tolist():
        check_type(ridge, NonNegativeFloat, "ridge")
    return tried


def best_ridge(ridges: Array, errors: Array, doubts: Array | float = 0.0) -> float:
    """Return the largest ridge whose error, summed over (R, K), is the least, or as good as that.

    The last digits of scores are those of the processor, and must not choose.

    Parameters
    ----------
    doubts
        (R,) share of each score that may be rounding.

    >>> best_ridge(np.array([0.1, 1.0, 10.0]), np.array([[2.0], [2.0 + 1e-9], [3.0]]))
    1.0
    """
    if not np.isfinite(errors).any():
        raise ValueError(
            f"no ridge between {ridges.min():g} and {ridges.max():g} leaves a degree of freedom; "
            "try larger ones or add rows"
        )
    scores = errors.sum(axis=1)
    return float(ridges[scores <= np.nanmin(scores * (1 + AS_GOOD + doubts))].max())
