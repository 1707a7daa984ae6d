"""Forecasts from autocovariances: the Yule-Walker equations, solved for many steps ahead at once.

A Gram matrix of lags of one series is nearly Toeplitz, so that r(k), the sum over t of x(t - k)
x(t), stands for all of it. With age d of an input (0 is the present) and h steps ahead,

    G[d, e] = r(|d - e|)        C[d, h] = r(d + h)        w_h = G^-1 C_h

which for h = 1 are the equations of Yule (1927) and Walker (1931). What differs from the Gram of
rows are products at both ends of a series, fewer than L + H of T in each sum: this is another
estimator than least squares, as good where T is 10 (L + H) or more.

A trailing mean m'x over the last k steps, m = (1/k .. 1/k, 0 .. 0), is linear in the lags: with
P = I - 1 m' inputs become P x and targets y - m'x, and

    G' = P G P'        C' = P (C - G m 1')        w = (G' + ridge I)^-1 C'

So every lookback, trailing mean and ridge follows from the same sums, and so does the error of each
on clients left out: c0 - 2 w'C' + w'G'w, of their own sums. Covariates z add the sums of x(t - k)
z(t) and of z z': known ahead, they stand in the equations at t + h; others, such as a calendar, at
t, for which what is multiplied is z(t - H).

Inputs are integers of 16 bits, 12 of them binary digits; their products are added as integers of
64 bits. All are divided by the number of values, so that no spectrum is negative and no error of
any weights is: it is that on the series with zeros before and after it, and exceeds that on the
series by what a few steps of T add. Values that are missing are passed over; pairs that are there,
and those that are not, are counted, and r(k) is enlarged by their share. Among the values that are
forecast from, a missing one is held: where a gap begins that is noise of variance 2 (r(0) - r(1)),
whose share stands on the diagonal of G. A series that comes in segments needs its last L + H - 1
values only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.errors import UploadError
from catchment.features.base import warn_of_clipping
from catchment.readout.linear_algebra import toeplitz
from catchment.wire import ROWS, SAME, SIGNED, WEIGHT, Kind, Shape, Summable

DIGITS = 12  # binary digits of inputs after the point
LARGEST = 2**15 - 1  # of inputs, as integers: below 8
EXACT = 1 << 23  # values whose products add up exactly in float64
SUMS = ("products", "pairs", "missing", "squares", "crossed")
RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e3)  # of the variance
MOST_HORIZONS = 24  # by which settings are chosen
DOUBT = 2.0  # standard deviations that noise may have made an error smaller
FORGOTTEN = 0.1  # mean correlation with what is far back, below which a level is forgotten


@dataclass(frozen=True, eq=False)
class Autocovariances(Summable):
    """Sums of lagged products of series, and how many pairs are behind each; they add.

    Parameters
    ----------
    products
        (1 + J, n) sums of x(t - k) x(t), and of x(t - k) z(t) for each of J covariates, in units of
        4^-12.
    pairs, missing
        (1 + J, n) how many products each is the sum of, and how many gaps have left out of it.
    squares
        (J, J) sums of products of covariates, in the same units.
    crossed
        (H, A, B) sums of products of A covariates that are known ahead with B others so many steps
        before, for each of H steps ahead; empty unless there are both.
    n_rows, weight
        Values that are there, over all series.
    fingerprint
        Of the lags and the preparation; only alike ones add.

    >>> one = autocovariances(np.array([[1.0], [2.0], [np.nan], [3.0]]), 3)
    >>> (one.products * 4.0**-DIGITS).tolist(), one.pairs.tolist()
    ([[14.0, 2.0, 6.0]], [[3, 1, 1]])
    >>> (one + one - one).digest() == one.digest()
    True
    """

    KIND: ClassVar[Kind] = Kind(
        "autocovariances",
        "sums of products of a series with itself some steps later, and with what is known of the "
        "time, and how many pairs of values are behind each",
        (
            "how many values the client has, and where many are missing, at which distances",
            "the spectrum of its series: their level, variance, and how strong each rhythm is",
            "of a series shorter than the lags enough to rebuild it, but for a few alternatives",
        ),
    )

    products: Annotated[NDArray[Any], Shape("series", "lags"), SIGNED]
    pairs: Annotated[NDArray[Any], Shape("series", "lags"), SIGNED]
    missing: Annotated[NDArray[Any], Shape("series", "lags"), SIGNED]
    squares: Annotated[NDArray[Any], Shape("covariates", "covariates"), SIGNED]
    crossed: Annotated[NDArray[Any], Shape("steps", "known", "others"), SIGNED]
    n_rows: Annotated[int, ROWS]
    weight: Annotated[float, WEIGHT]
    fingerprint: Annotated[str, SAME] = ""

    @property
    def n_targets(self) -> int:
        """One: coefficients are shared by all series."""
        return 1

    @property
    def is_exact(self) -> bool:
        """Whether these are integers; sums with noise are not."""
        return self.products.dtype == np.int64

    @property
    def is_counted(self) -> bool:
        """Whether the pairs are those of the values; noise, which is far larger, hides them."""
        return bool(self.pairs[0, 0] == self.n_rows)

    @cached_property
    def moments(self) -> Array:
        """Mean products (1 + J, n); those of which there are no pairs are zero."""
        n = max(self.weight, 1.0)
        r = np.asarray(self.products * 4.0**-DIGITS / n, dtype=np.float64)
        if not self.is_counted or not self.missing.any():
            return r
        every = self.pairs + self.missing
        r = np.asarray(r * every * (n / every[0, 0]) / np.maximum(self.pairs, 1))
        # What gaps have left out need not be as the rest: no spectrum may become negative.
        least = np.linalg.eigvalsh(toeplitz(r[0]))[0]
        r[0, 0] += max(-float(least), 0.0)
        return np.asarray(r)

    @property
    def held(self) -> float:
        """Mean square of what is wrong with an input where gaps begin, and the value is held."""
        if not self.is_counted or not self.missing.any() or self.pairs.shape[1] < 2:
            return 0.0
        here, before = (self.pairs / np.maximum(self.pairs + self.missing, 1))[0, :2]
        r = self.moments[0]
        return max(2.0 * float((here - before) * (r[0] - r[1])), 0.0)

    @property
    def forgets(self) -> bool:
        """Whether values far back tell nothing of the level, so that it stays where it is."""
        r = self.moments[0]
        return bool(r[0] > 0 and abs(r[len(r) // 2 :].mean()) < FORGOTTEN * r[0])

    def digest(self) -> str:
        """Return the SHA-256 of the numbers, the same wherever and in any order they were added."""
        text = hashlib.sha256(f"{self.fingerprint} {self.n_rows} {self.weight:g}".encode())
        for one in map(self.__getattribute__, SUMS):
            text.update(f"{one.shape}".encode() + np.ascontiguousarray(one).tobytes())
        return text.hexdigest()

    def check(self, like: Autocovariances, *, noisy: bool = False, goes_on: bool = False) -> None:
        """Raise UploadError for sums that no series of a plan can have.

        Parameters
        ----------
        like
            Others of the plan, whatever is in them.
        noisy
            Whether noise may be in them.
        goes_on
            Whether they may be of the end of a series, multiplied with what came before.
        """
        for name in SUMS:
            came, wanted = getattr(self, name), getattr(like, name).shape
            if came.shape != wanted:
                raise UploadError("shape", f"{name} came with shape {came.shape}, not {wanted}")
            if came.dtype != np.int64 and not noisy:
                raise UploadError("type", f"{name} came as {came.dtype}; they are integers")
        if self.fingerprint != like.fingerprint:
            raise UploadError("fingerprint", "the sums are of other lags or another preparation")
        if noisy:
            return
        n, r = int(self.pairs[0, 0]), self.products[0]
        least = min(self.pairs.min(), self.missing.min())
        if not n == self.n_rows == self.weight or least < 0 or self.pairs[0].max() > n:
            raise UploadError("count", f"{self.n_rows} values cannot have made these pairs")
        # |x(t - k) x(t)| adds up to at most the squares (Cauchy and Schwarz).
        most = n * LARGEST**2 if goes_on else r[0]
        if not (0 <= r[0] <= n * LARGEST**2 and np.abs(r).max() <= most):
            raise UploadError("bound", "a series cannot vary with its past more than with itself")


def fixed_point(u: Array) -> tuple[Array, Array]:
    """Return inputs (T, I) as integers in float64, zero where missing, and where they are there.

    >>> fixed_point(np.array([[0.25], [np.nan], [8.0]]))[0].ravel().tolist()
    [1024.0, 0.0, 32767.0]
    """
    there = ~np.isnan(u)
    scaled = np.where(there, u, 0.0) * 2.0**DIGITS
    warn_of_clipping(int(np.count_nonzero(np.abs(scaled) > LARGEST + 1)), u.size, 8.0)
    return np.clip(np.rint(scaled), -LARGEST, LARGEST), there.astype(np.float64)


def autocovariances(
    u: Array,
    lags: int,
    *,
    known: Array | None = None,
    present: Array | None = None,
    steps: Sequence[int] = (),
    first: int = 0,
    fingerprint: str = "",
) -> Autocovariances:
    """Return the sums of a recording's series, those of its channels added up.

    Parameters
    ----------
    u
        (T, I) scaled inputs that are predicted, NaN where one is missing.
    lags
        How many r(k) there are, from k = 0 on.
    known, present
        (T, A) covariates that are known ahead, and (T, B) that are not, such as a calendar, which
        stand as far before u as the last of the steps.
    steps
        (H,) steps ahead.
    first
        Steps at the start whose own products are left out. So a recording in segments, each with
        the lags - 1 steps before it, has the sums of one in one piece.

    >>> x = np.sin(np.arange(50.0))[:, None]
    >>> late = autocovariances(x[27:], 4, first=3)
    >>> (autocovariances(x[:30], 4) + late).digest() == autocovariances(x, 4).digest()
    True
    """
    T, kind = len(u), np.float64 if u.size < EXACT else np.int64  # for which there is no BLAS
    a, b = (np.empty((T, 0)) if one is None else one for one in (known, present))
    late = np.full((max(steps, default=0), b.shape[1]), np.nan)
    x, there = (one.astype(kind) for one in fixed_point(u))
    z, told = (one.astype(kind) for one in fixed_point(np.hstack([a, np.vstack([late, b])[:T]])))
    total, n = x.sum(axis=1), there.sum(axis=1)
    products, pairs, missing = np.zeros((3, 1 + z.shape[1], lags), dtype=np.int64)
    for k in range(min(lags, T)):
        begin = max(first, k)
        old, new = slice(begin - k, T - k), slice(begin, T)
        products[0, k], products[1:, k] = np.vdot(x[old], x[new]), total[old] @ z[new]
        pairs[0, k], pairs[1:, k] = np.vdot(there[old], there[new]), n[old] @ told[new]
        missing[:, k] = x[new].size - pairs[:, k]
    weighted = z * n[:, None]
    A, early = a.shape[1], fixed_point(b)[0].astype(kind)
    squares = (weighted[first:].T @ z[first:]).astype(np.int64)
    both = (len(steps), A, b.shape[1]) if A and b.shape[1] else (0, 0, 0)
    crossed = np.zeros(both, dtype=np.int64)
    for place, h in enumerate(steps if crossed.size else ()):
        begin = max(first, h)
        crossed[place] = weighted[begin:, :A].T @ early[begin - h : max(T - h, 0)]
    count = int(pairs[0, 0])
    sums = (products, pairs, missing, squares, crossed)
    return Autocovariances(*sums, count, float(count), fingerprint)


class Lags(NamedTuple):
    """Settings of a solution: values that it looks at, of how many the mean is taken off, ridge."""

    lookback: int
    mean: int  # 0 for none
    ridge: float  # in units of the variance of the series


@dataclass(frozen=True, eq=False)
class Equations:
    """The Yule-Walker equations of some sums, for one lookback and one trailing mean.

    Parameters
    ----------
    sums
        Of any number of series.
    lookback, mean
        As in `Lags`.
    steps
        (H,) steps ahead.
    reach
        All steps ahead that the sums are made for.
    ahead
        (J,) whether each covariate is known ahead, and stands at the step that is predicted.
    """

    sums: Autocovariances
    lookback: int
    mean: int
    steps: tuple[int, ...]
    reach: tuple[int, ...]
    ahead: tuple[bool, ...] = ()

    @cached_property
    def trailing(self) -> Array:
        """m (L,), which gives the trailing mean of a window; zero for none."""
        return np.where(np.arange(self.lookback) < self.mean, 1.0 / max(self.mean, 1), 0.0)

    @cached_property
    def system(self) -> tuple[Array, Array, Array, Array, Array, Array]:
        """G' (L, L), C' (L, H), B' (H, L, J), s (H, J), Q (H, J, J) and c0 (H,)."""
        m, steps, r = self.trailing, np.array(self.steps), self.sums.moments
        ages = np.arange(self.lookback)
        G = toeplitz(r[0, ages]) + self.sums.held * np.eye(self.lookback)
        level = G @ m
        C = r[0][ages[:, None] + steps]
        c0 = r[0, 0] - m @ (2.0 * C - level[:, None])
        C = C - level[:, None]
        at = np.where(np.array(self.ahead, dtype=bool)[:, None], steps, max(self.reach))  # (J, H)
        j = 1 + np.arange(len(self.ahead))
        B = r[j, ages[:, None] + at.T[:, None, :]]
        s = r[j, at.T - steps[:, None]] - m @ B
        Q = np.repeat(self.sums.squares[None], len(steps), axis=0)
        if n_known := self.sums.crossed.shape[1]:  # what is known ahead comes first
            here = self.sums.crossed[[self.reach.index(h) for h in self.steps]]
            Q[:, :n_known, n_known:], Q[:, n_known:, :n_known] = here, here.transpose(0, 2, 1)
        Q = Q * 4.0**-DIGITS / max(self.sums.weight, 1.0)
        G = G - (level + level[:, None]) + m @ level
        return G, C - m @ C, B - (m @ B)[:, None, :], s, Q, c0

    @property
    def variance(self) -> float:
        """Of the series, which ridges are in units of."""
        return max(float(self.sums.moments[0, 0]), 1e-300)

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues (L,) of G', none below 0, and vectors (L, L)."""
        values, vectors = np.linalg.eigh(self.system[0])
        return np.maximum(values, 0.0), vectors

    def solve(self, ridge: float) -> tuple[Array, Array]:
        """Return the weights (L, H) of P x and (H, J) of the covariates, at a ridge."""
        _, C, B, s, Q, _ = self.system
        values, U = self.spectrum
        inverse = 1.0 / (values + (ridge + 1e-12) * self.variance)
        X = U @ ((U.T @ C) * inverse[:, None])
        Y = np.einsum("la,a,hak->hlk", U, inverse, np.einsum("la,hlj->haj", U, B))
        small = (1e-9 + ridge) * self.variance * np.eye(len(self.ahead))
        S = Q + small - np.einsum("hlj,hlk->hjk", B, Y)
        V = np.linalg.solve(S, (s - np.einsum("hlj,lh->hj", B, X))[..., None])[..., 0]
        return X - np.einsum("hlj,hj->lh", Y, V), V

    def errors(self, W: Array, V: Array) -> Array:
        """Return the mean squared errors (H,) of some weights on the series behind these sums."""
        G, C, B, s, Q, c0 = self.system
        found = c0 - 2.0 * np.einsum("lh,lh->h", W, C) + np.einsum("lh,lh->h", W, G @ W)
        found += 2.0 * (np.einsum("lh,hlj,hj->h", W, B, V) - np.einsum("hj,hj->h", V, s))
        found += np.einsum("hj,hjk,hk->h", V, Q, V)
        return np.asarray(np.maximum(found, 0.0))

    def doubt(self, W: Array) -> float:
        """Return the standard deviation of the mean of `errors` that noise on the sums causes."""
        inputs, found = self.weights(W), 0.0
        for h, step in enumerate(self.steps):
            v = np.concatenate([[1.0], np.zeros(step - 1), -inputs[:, h]])
            a = np.correlate(v, v, "full")[len(v) - 1 :]
            found += float(np.sqrt(a[0] ** 2 + 4.0 * (a[1:] ** 2).sum()))
        # Counts of pairs are as noisy as what is counted.
        spread = 0.0 if self.sums.is_counted else float(self.sums.pairs.std())
        return spread * 4.0**-DIGITS / max(self.sums.weight, 1.0) * found / len(self.steps)

    def weights(self, W: Array) -> Array:
        """Return the weights (L, H) of the inputs themselves: P'w + m."""
        return np.asarray(W - np.outer(self.trailing, W.sum(axis=0)) + self.trailing[:, None])


@dataclass(frozen=True, eq=False)
class LagChoice:
    """Settings that were tried, the mean squared error of each, and which of them is best.

    Parameters
    ----------
    lookbacks, means, ridges, errors
        (n,) of each.
    deviations
        (H,) root mean squared errors expected at every step ahead that was asked for, at the best.
    by
        "clients" that were left out, "groups" of them, or "gcv", of the sum alone.
    """

    lookbacks: Array
    means: Array
    ridges: Array
    errors: Array
    deviations: Array
    by: str = "clients"

    @property
    def best(self) -> Lags:
        """The settings of the least error, and of those as good the first."""
        k = np.flatnonzero(self.errors <= self.errors.min() * (1 + 1e-6))[0]
        return Lags(int(self.lookbacks[k]), int(self.means[k]), float(self.ridges[k]))


def candidates(lookback: int, *, forgets: bool) -> list[tuple[int, int]]:
    """Return the lookbacks and trailing means that are tried, the largest first.

    Targets are differences from a trailing mean: a level that drifts is then no error. Without one
    is tried only where the level is forgotten within the lags: clients of the same time agree on a
    level, and cannot say whether it stays.

    >>> candidates(8, forgets=False)
    [(8, 1), (8, 8), (4, 1), (4, 4), (2, 1), (2, 2), (1, 1)]
    """
    L, found = lookback, list[tuple[int, int]]()
    while L >= 1 and len(found) < 12:
        found += [(L, mean) for mean in dict.fromkeys((0, 1, L) if forgets else (1, L))]
        L //= 2
    return found


def choose(
    total: Autocovariances,
    apart: Sequence[Autocovariances],
    tried: Sequence[tuple[int, int]],
    ridges: Sequence[float],
    *,
    steps: tuple[int, ...],
    ahead: tuple[bool, ...] = (),
    by: str = "clients",
) -> LagChoice:
    """Return how settings do, by sums left out of the total in turn, or by GCV if none are apart.

    Parameters
    ----------
    apart
        Parts of the total, such as every client's; fewer than two for generalized cross-validation.
    tried
        Lookbacks and trailing means.
    ridges
        In units of the variance.
    """
    spread = np.linspace(0, len(steps) - 1, MOST_HORIZONS).round().astype(int)
    few = tuple(np.array(steps)[np.unique(spread)].tolist())
    left_out = len(apart) > 1
    pairs = [(total - part, part) for part in apart] if left_out else [(total, total)]
    rows: list[tuple[float, float, float, float]] = []
    for L, mean in tried:
        errors = np.zeros(len(ridges))
        for rest, part in pairs:
            known, held = (Equations(one, L, mean, few, steps, ahead) for one in (rest, part))
            for k, ridge in enumerate(ridges):
                W, V = known.solve(ridge)
                error = float(held.errors(W, V).mean())
                if not left_out:
                    # Values of a series, or where noise hides them clients, of many values each.
                    n = max(total.weight, 1.0) if total.is_counted else np.inf
                    values = known.spectrum[0]
                    shares = values / (values + (ridge + 1e-12) * known.variance)
                    error /= max(1.0 - (shares.sum() + len(ahead)) / n, 1e-3) ** 2
                    error += DOUBT * known.doubt(W)
                errors[k] += error * part.weight / max(total.weight, 1.0)
        rows += [(L, mean, ridge, e) for ridge, e in zip(ridges, errors, strict=True)]
    lookbacks, means, own, found = np.array(rows).T
    made = LagChoice(lookbacks, means, own, found, np.zeros(0), by if left_out else "gcv")
    squared, best = np.zeros(len(steps)), made.best
    for rest, part in pairs:
        about = (best.lookback, best.mean, steps, steps, ahead)
        solved = Equations(rest, *about).solve(best.ridge)
        squared += part.weight * Equations(part, *about).errors(*solved)
    return replace(made, deviations=np.sqrt(squared / max(total.weight, 1.0)))
