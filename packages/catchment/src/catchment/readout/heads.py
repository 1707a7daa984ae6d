"""Other uses of the sums of a ridge regression on one-hot targets: heads, and known classes.

Column k of C = Z'Y is the sum of the features of class k, and the target sums n_k count its rows.
So the class means m_k = C_k / n_k are known, and so are the covariance of all rows,
(G - n m m') / (n - 1), and the one within classes, (G - sum_k n_k m_k m_k') / n. Linear
discriminant analysis (Fisher 1936) needs no more:

    score_k(z) = z'S^-1 m_k - m_k'S^-1 m_k / 2 + log p_k

It is the head of FedCGS (Guan et al., AAAI 2025), which takes the covariance of all rows, and one
of those of GH-OFL (Turazza et al., ICLR 2026). With S a multiple of the identity and equal p_k it
is the nearest class mean. FED3R (Fani et al., ICML 2024) divides the ridge weights of each class
by their length, so that frequent classes are not preferred. Every head is a `Readout`: what
predicts, saves, exports and evaluates one takes them all.

The squared Mahalanobis distance of z from class k, divided by the number of features,

    d_k(z) = (z - m_k)' S_k^-1 (z - m_k) / F,

with a covariance shrunk to a multiple of the identity, tells what is no known class at all (Lee et
al., NeurIPS 2018); a classifier's own scores only compare the classes that it has. One covariance
for all classes is known from the plain sums, one for each class needs sums by class.

A class is a column. Whoever has no row of it has zeros in its column of C and of Y'Y, and counts
none: so sums over three classes are sums over four, and those of a client with the fourth are added
by `+`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import ClassVar, Literal

import numpy as np

from catchment.arrays import Array, Fraction, NonNegativeFloat, check_fields
from catchment.errors import SingularError
from catchment.readout.linear_algebra import cholesky_solve, solve_triangular
from catchment.readout.solve import feature_scale, rescaled
from catchment.readout.statistics import Readout, RidgeStatistics, StatisticsSet, unpack

Shrinkage = Fraction | Literal["oas"]
NEVER = -1e30  # score of a class without rows; finite, so that exported models can hold it


class Head(ABC):
    """A way from summed statistics of one-hot targets to a readout of class scores."""

    uses_ridge: ClassVar[bool] = True  # whether the ridge of the training counts
    # At which a softmax of the scores gives probabilities; None if the scores are linear.
    temperature: ClassVar[float | None] = None

    @abstractmethod
    def solve(
        self, statistics: RidgeStatistics, ridge: float = 0.0, *, intercept: bool = True
    ) -> Readout:
        """Return the readout."""


@dataclass(frozen=True, kw_only=True)
class LDA(Head):
    """Gaussian classes with a common covariance: linear discriminant analysis.

    Parameters
    ----------
    shrinkage
        How far the covariance is moved to a multiple of the identity, between 0 and 1; or "oas":
        as far as the oracle approximating estimate says (Chen et al. 2010), which the sums tell.
        1 with equal priors is the nearest class mean.
    ridge
        What is added to every variance, as FedCGS does.
    covariance
        "within": of the rows around the mean of their class; "total": of all rows around their
        mean, divided by their number less one, as FedCGS has it.
    priors
        "counts": as often as a class occurs; or "equal".

    >>> z = np.array([[0.0], [2.0], [5.0], [7.0]])
    >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> readout = LDA(shrinkage=0.0).solve(RidgeStatistics.from_states(z, y))
    >>> readout.weights, readout(np.array([[3.5]])).round(3)
    (array([[1., 6.]]), array([[2.307, 2.307]]))
    """

    uses_ridge: ClassVar[bool] = False
    temperature: ClassVar[float | None] = 1.0

    shrinkage: Shrinkage = "oas"
    ridge: NonNegativeFloat = 0.0
    covariance: Literal["within", "total"] = "within"
    priors: Literal["counts", "equal"] = "counts"

    def __post_init__(self) -> None:
        check_fields(self)

    def solve(
        self, statistics: RidgeStatistics, ridge: float = 0.0, *, intercept: bool = True
    ) -> Readout:
        """Return the scores of every class; a class without rows is never the highest.

        The ridge and the intercept of a regression do not count; the head has its own.
        """
        n, means = class_means(statistics)
        if self.covariance == "within":
            S = class_covariance(statistics)
        elif (weight := statistics.weight) > 1:
            S = _centered(statistics.floats) / (weight - 1.0)
        else:
            raise ValueError(f"the rows weigh {weight:g}; a covariance needs more than one")
        S, _, added = shrunk_covariance(S, statistics.weight, self.shrinkage, self.ridge)
        weights = cholesky_solve(covariance_factor(S), means)
        present = n > 0
        p = np.where(present, n, 1.0) / n.sum() if self.priors == "counts" else np.ones(len(n))
        offset = np.log(p) - 0.5 * (means * weights).sum(axis=0)
        # A regression that is to be as smooth as this adds as much to its sums.
        return Readout(weights, np.where(present, offset, NEVER), statistics.weight * added)


@dataclass(frozen=True, kw_only=True)
class CosineHead(Head):
    """Ridge regression whose weights of each class are divided by their length.

    >>> z, y = np.array([[1.0, 0.0], [0.0, 2.0]]), np.eye(2)
    >>> CosineHead().solve(RidgeStatistics.from_states(z, y), 0.1, intercept=False).weights
    array([[1., 0.],
           [0., 1.]])
    """

    def solve(
        self, statistics: RidgeStatistics, ridge: float = 0.0, *, intercept: bool = True
    ) -> Readout:
        """Return the readout at this ridge, divided; a class without weights stays as it is."""
        solved = statistics.solve(ridge, intercept=intercept)
        length = np.linalg.norm(solved.weights, axis=0)
        length = np.where(length > 0, length, 1.0)
        return replace(solved, weights=solved.weights / length, intercept=solved.intercept / length)


HEADS: dict[str, type] = {"lda": LDA, "cosine": CosineHead}


def class_means(statistics: RidgeStatistics) -> tuple[Array, Array]:
    """Return the rows (K,) of each class and its mean features (F, K), zeros where it has no rows.

    >>> z, y = np.array([[1.0], [3.0], [4.0]]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> class_means(RidgeStatistics.from_states(z, y))
    (array([2., 1.]), array([[2., 4.]]))
    """
    known = statistics.floats
    n = known.target_sum
    if statistics.n_rows == 0 or not (n > 0).any():
        raise ValueError("the statistics hold no row of any class; add data before solving")
    return n, known.cross / np.where(n > 0, n, 1.0)


def class_covariance(statistics: RidgeStatistics) -> Array:
    """Return the covariance (F, F) of the rows around the means of their classes, over n.

    >>> z, y = np.array([[1.0], [3.0], [4.0]]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> class_covariance(RidgeStatistics.from_states(z, y)).round(3)
    array([[0.667]])
    """
    n, means = class_means(statistics)
    known = statistics.floats
    # Centered first: a difference of small numbers keeps digits that raw second moments lose.
    away = (means - (known.feature_sum / known.weight)[:, None]) * np.sqrt(n)
    return np.asarray((_centered(known) - away @ away.T) / known.weight)


def shrunk_covariance(
    covariance: Array, n_rows: float, shrinkage: float | str, ridge: float = 0.0
) -> tuple[Array, float, float]:
    """Return a covariance (F, F) moved to a multiple of the identity, how far, and what that adds.

    Parameters
    ----------
    shrinkage
        How far, from 0 to 1; any text: as far as so many rows say (Chen et al. 2010).
    ridge
        What every variance is given besides.

    >>> shrunk_covariance(np.diag([1.0, 3.0]), 25.0, "oas")
    (array([[1.5, 0. ],
           [0. , 2.5]]), 0.5, 1.0)
    """
    F, level = len(covariance), float(np.trace(covariance)) / len(covariance)
    if isinstance(shrinkage, str):
        mean_square = float(np.mean(covariance**2))
        spread = (n_rows + 1.0) * (mean_square - level**2 / F)
        shrinkage = 1.0 if spread <= 0 else min(1.0, (mean_square + level**2) / spread)
    shrunk, added = (1.0 - shrinkage) * covariance, shrinkage * level + ridge
    shrunk[np.arange(F), np.arange(F)] += added
    return shrunk, float(shrinkage), added


def _centered(known: RidgeStatistics) -> Array:
    mean = known.feature_sum / known.weight
    return np.asarray(unpack(known.gram) - known.weight * np.outer(mean, mean))


def covariance_factor(S: Array) -> Array:
    """Return the lower Cholesky factor (F, F) of a covariance; SingularError if there is none."""
    factor: Array | None = None
    noise = S.diagonal() * (16 + 4 * len(S)) * np.finfo(np.float64).eps
    with suppress(np.linalg.LinAlgError):
        factor = np.asarray(np.linalg.cholesky(S), dtype=np.float64)
    if factor is None or (factor.diagonal() ** 2 < noise).any():
        raise SingularError(
            f"the covariance of {len(S)} features has no inverse: some do not vary, or repeat "
            "others; pass shrinkage='oas', a number above 0, or a ridge"
        )
    return factor


@dataclass(frozen=True, eq=False)
class KnownClasses:
    """A normal model of every class: its mean, and a covariance of its own or everybody's.

    Parameters
    ----------
    means
        (F, K) of the scaled features.
    factors
        (1 or K, F, F) lower Cholesky factors of the covariances, one for all classes or one each.
    rows
        (K,) behind each class; one without any is infinitely far.
    scale
        (F,) by which features are divided first.

    >>> z = np.array([[0.0], [2.0], [5.0], [7.0]])
    >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> known = KnownClasses.of(RidgeStatistics.from_states(z, y), shrinkage=0.0)
    >>> known.distances(np.array([[1.0], [9.0]]))
    array([[ 0., 25.],
           [64.,  9.]])
    """

    means: Array
    factors: Array
    rows: Array
    scale: Array

    @classmethod
    def of(
        cls,
        sums: RidgeStatistics | StatisticsSet,
        *,
        shrinkage: Shrinkage = "oas",
        standardize: bool = False,
    ) -> KnownClasses:
        """Return the normal models that sums of one-hot targets tell.

        Parameters
        ----------
        sums
            Of all rows: every class then has the covariance within classes. Or a set of those of
            each class by its number: every class has its own.
        shrinkage
            How far a covariance is moved to a multiple of the identity, from 0 to 1; or "oas", as
            `LDA` has it.
        standardize
            Whether features are divided by their spread over all rows first.
        """
        every = [sums.members[k] for k in sorted(sums.members)]
        total = reduce(add, every)
        scale = feature_scale(total) if standardize else np.ones(total.n_features)
        rows, means = class_means(rescaled(total, scale))
        share, factors = LDA(shrinkage=shrinkage).shrinkage, [np.eye(len(scale))] * len(every)
        for k, one in enumerate(every):
            if one.n_rows:
                S = class_covariance(rescaled(one, scale))
                factors[k] = covariance_factor(shrunk_covariance(S, one.weight, share)[0])
        return cls(means, np.stack(factors), np.asarray(rows), scale)

    def distances(self, z: Array) -> Array:
        """Return how far rows of features (n, F) are from each class, (n, K)."""
        found = np.full((len(z), len(self.rows)), np.inf)
        for k in np.flatnonzero(self.rows > 0):
            away = np.ascontiguousarray((z / self.scale - self.means[:, k]).T)
            L = self.factors[k if len(self.factors) > 1 else 0]
            found[:, k] = (solve_triangular(L, away) ** 2).sum(axis=0) / len(L)
        return found

    def nearest(self, z: Array) -> Array:
        """Return how far rows of features (n, F) are from the class that is nearest, (n,)."""
        return np.asarray(self.distances(z).min(axis=1))


def united(*named: Sequence[str] | None) -> tuple[str, ...]:
    """Return all classes that are named, in the order in which they come first.

    >>> united(("sit", "walk"), None, ("walk", "run"))
    ('sit', 'walk', 'run')
    """
    return tuple(dict.fromkeys(name for names in named for name in names or ()))


def spread_targets(
    statistics: RidgeStatistics, places: Sequence[int], n_targets: int
) -> RidgeStatistics:
    """Return the statistics with their targets among more, which are zero in every row.

    Integers stay what they are, so that a sum over clients with different classes is exact.

    Parameters
    ----------
    places
        (K,) where each target is among the new ones.
    n_targets
        How many there are then.

    >>> z, y = np.array([[2.0], [3.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> more = spread_targets(RidgeStatistics.from_states(z, y), (2, 0), 3)
    >>> more.cross, more.target_gram
    (array([[3., 0., 2.]]), array([1., 0., 0., 0., 0., 1.]))
    """
    back = np.full(n_targets, -1)
    back[list(places)] = np.arange(statistics.n_targets)
    return only_targets(statistics, back.tolist())


def only_targets(statistics: RidgeStatistics, places: Sequence[int]) -> RidgeStatistics:
    """Return the statistics with some of their targets; every row stays, whatever its class.

    Of a class without rows nothing is then left, as if nobody had ever named it.

    Parameters
    ----------
    places
        Which targets stay, in their new order; -1 for one that is zero in every row.

    >>> z, y = np.array([[2.0], [3.0]]), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> only_targets(RidgeStatistics.from_states(z, y), (0, 2)).cross
    array([[2., 3.]])
    """
    K, at = statistics.n_targets, np.asarray(places, dtype=np.int64)
    new, (rows, columns) = at < 0, np.triu_indices(len(at))
    cross, target_sum = np.ascontiguousarray(statistics.cross[:, at]), statistics.target_sum[at]
    low, high = np.minimum(at[rows], at[columns]), np.maximum(at[rows], at[columns])
    gram = statistics.target_gram[np.maximum(low * K - low * (low - 1) // 2 + high - low, 0)]
    cross[:, new] = target_sum[new] = gram[new[rows] | new[columns]] = 0
    return replace(statistics, cross=cross, target_sum=target_sum, target_gram=gram)
