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
and those that are not, are counted, and r(k) is enlarged by their share. A series that comes in
segments needs its last L + H - 1 values only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz

from catchment.arrays import Array
from catchment.errors import UploadError
from catchment.features.base import warn_of_clipping
from catchment.wire import ROWS, SAME, SIGNED, WEIGHT, Kind, Shape, Summable

DIGITS = 12  # binary digits of inputs after the point
LARGEST = 2**15 - 1  # of inputs, as integers: below 8
Shape3 = tuple[int, int, int]
EXACT = 1 << 22  # steps whose products add up exactly in float64
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

    @classmethod
    def zero(
        cls, lags: int, covariates: int = 0, crossed: Shape3 = (0, 0, 0), fingerprint: str = ""
    ) -> Autocovariances:
        """Return what no series at all has."""
        wide = (1 + covariates, lags)
        shapes: tuple[tuple[int, ...], ...] = (wide, wide, wide, (covariates,) * 2, crossed)
        P, n, missing, Q, both = (np.zeros(shape, dtype=np.int64) for shape in shapes)
        return cls(P, n, missing, Q, both, 0, 0.0, fingerprint)

    @property
    def n_lags(self) -> int:
        return int(self.products.shape[1])

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
    def noise(self) -> float:
        """Standard deviation of the noise on each moment, as the counts show it; 0 without."""
        spread = 0.0 if self.is_counted else float(self.pairs.std())
        return spread * 4.0**-DIGITS / max(self.weight, 1.0)

    @property
    def forgets(self) -> bool:
        """Whether values far back tell nothing of the level, so that it stays where it is."""
        r = self.moments[0]
        return bool(r[0] > 0 and abs(r[len(r) // 2 :].mean()) < FORGOTTEN * r[0])

    def digest(self) -> str:
        """Return the SHA-256 of the numbers, the same wherever and in any order they were added."""
        text = hashlib.sha256(f"{self.fingerprint} {self.n_rows} {self.weight:g}".encode())
        for one in (self.products, self.pairs, self.missing, self.squares, self.crossed):
            text.update(f"{one.shape}".encode() + np.ascontiguousarray(one).tobytes())
        return text.hexdigest()

    def check(
        self,
        lags: int,
        covariates: int,
        fingerprint: str,
        *,
        noisy: bool = False,
        goes_on: bool = False,
    ) -> None:
        """Raise UploadError for sums that no series of this plan can have.

        Parameters
        ----------
        noisy
            Whether noise may be in them.
        goes_on
            Whether they may be of the end of a series, multiplied with what came before.
        """
        if self.products.shape != (1 + covariates, lags):
            raise UploadError(
                "shape", f"sums of shape {self.products.shape} came, not {(1 + covariates, lags)}"
            )
        if self.fingerprint != fingerprint:
            raise UploadError("fingerprint", "the sums are of other lags or another preparation")
        if noisy:
            return
        if any(one.dtype != np.int64 for one in (self.products, self.pairs, self.missing)):
            raise UploadError("type", "autocovariances came as floats; they are integers")
        n, r = int(self.pairs[0, 0]), self.products[0]
        if not n == self.n_rows == self.weight or self.pairs.min() < 0 or self.pairs[0].max() > n:
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
    covariates: Array | None = None,
    before: tuple[Array, Array] | None = None,
    fingerprint: str = "",
) -> Autocovariances:
    """Return the sums of a recording's series, those of its channels added up.

    Parameters
    ----------
    u
        (T, I) scaled inputs that are predicted, NaN where one is missing.
    lags
        How many r(k) there are, from k = 0 on.
    covariates
        (T, J) of the same steps.
    before
        (B, I) and (B, J), the steps just before: as many as there are lags but one are looked at,
        and their own products left out. So a recording in segments has the sums of one in one
        piece.

    >>> x = np.sin(np.arange(50.0))[:, None]
    >>> late = autocovariances(x[30:], 4, before=(x[27:30], np.empty((3, 0))))
    >>> (autocovariances(x[:30], 4) + late).digest() == autocovariances(x, 4).digest()
    True
    """
    beside = np.empty((len(u), 0)) if covariates is None else covariates
    past = (u[:0], beside[:0]) if before is None else before
    first = len(past[0])
    x, there = fixed_point(np.concatenate([past[0], u]))
    z, known = fixed_point(np.concatenate([past[1], beside]))
    squares = (z * there.sum(axis=1, keepdims=True))[first:].T @ z[first:]
    x, there, z, known = (np.ascontiguousarray(one.T) for one in (x, there, z, known))
    products = np.zeros((1 + len(z), lags), dtype=np.int64)
    pairs, missing = products.copy(), products.copy()
    for channel, own in enumerate(x):
        own_there = there[channel]
        whole = bool(own_there.all())
        later = [(own, own_there), *zip(z, known, strict=True)]
        for place, (series, mark) in enumerate(later):
            counted = whole and bool(mark.all())
            for k in range(min(lags, len(own))):
                begin = max(first, k)
                earlier = slice(begin - k, len(own) - k)
                products[place, k] += _dot(own[earlier], series[begin:])
                n_pairs, every = len(own) - begin, len(own) - begin
                if not counted:
                    n_pairs = int(own_there[earlier] @ mark[begin:])
                pairs[place, k] += n_pairs
                missing[place, k] += every - n_pairs
    n = int(pairs[0, 0])
    whole, none = np.rint(squares).astype(np.int64), np.zeros((0, 0, 0), dtype=np.int64)
    return Autocovariances(products, pairs, missing, whole, none, n, float(n), fingerprint)


def crossed(u: Array, known: Array, others: Array, steps: Sequence[int]) -> NDArray[np.int64]:
    """Return the sums (H, A, B) of known covariates (T, A) with others (T, B), steps before.

    Each product counts as often as there are values of u (T, I) at its later step.
    """
    weight = fixed_point(u)[1].sum(axis=1, keepdims=True)
    (a, _), (b, _) = fixed_point(known), fixed_point(others)
    sums = [(a * weight)[h:].T @ b[: max(len(b) - h, 0)] for h in steps]
    return np.asarray(np.rint(np.array(sums)), dtype=np.int64)


def _dot(a: Array, b: Array) -> int:
    """Return the sum of products of integers in float64, exactly, however long they are."""
    return sum(int(a[k : k + EXACT] @ b[k : k + EXACT]) for k in range(0, len(a), EXACT))


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
    def system(self) -> tuple[Array, Array, Array, Array, Array, Array]:
        """G' (L, L), C' (L, H), B' (H, L, J), s (H, J), Q (H, J, J) and c0 (H,)."""
        L, steps, r = self.lookback, np.array(self.steps), self.sums.moments
        ages = np.arange(L)
        G = r[0][np.abs(ages[:, None] - ages)]
        C = r[0][ages[:, None] + steps]
        m = np.zeros(L)
        m[: self.mean] = 1.0 / max(self.mean, 1)
        level = G @ m
        c0 = r[0, 0] - 2.0 * m @ C + m @ level
        J = len(self.ahead)
        B, s = np.zeros((len(steps), L, J)), np.zeros((len(steps), J))
        for j, known in enumerate(self.ahead):
            at = steps if known else np.full(len(steps), max(self.reach))
            B[:, :, j] = r[1 + j][ages + at[:, None]]
            s[:, j] = r[1 + j][at - steps] - B[:, :, j] @ m
        if self.mean:  # P x = x - m'x
            C = C - level[:, None]
            C, B = C - m @ C, B - np.einsum("l,hlj->hj", m, B)[:, None, :]
            G = G - np.outer(np.ones(L), level)
            G = G - np.outer(G @ m, np.ones(L))
        Q = np.repeat(self.sums.squares[None], len(steps), axis=0)
        n_known = sum(self.ahead)
        if 0 < n_known < J:  # what is known ahead comes first
            here = self.sums.crossed[[self.reach.index(h) for h in self.steps]]
            Q[:, :n_known, n_known:], Q[:, n_known:, :n_known] = here, here.transpose(0, 2, 1)
        Q = Q * 4.0**-DIGITS / max(self.sums.weight, 1.0)
        return (G + G.T) / 2.0, C, B, s, Q, c0

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
        if not self.ahead:
            return X, np.zeros((len(self.steps), 0))
        Y = np.einsum("la,a,hak->hlk", U, inverse, np.einsum("la,hlj->haj", U, B))
        small = (1e-9 + ridge) * self.variance * np.eye(len(self.ahead))
        S = Q + small - np.einsum("hlj,hlk->hjk", B, Y)
        V = np.linalg.solve(S, (s - np.einsum("hlj,lh->hj", B, X))[..., None])[..., 0]
        return X - np.einsum("hlj,hj->lh", Y, V), V

    def errors(self, W: Array, V: Array) -> Array:
        """Return the mean squared errors (H,) of some weights on the series behind these sums."""
        G, C, B, s, Q, c0 = self.system
        found = c0 - 2.0 * np.einsum("lh,lh->h", W, C) + np.einsum("lh,lh->h", W, G @ W)
        if self.ahead:
            found = found - 2.0 * np.einsum("hj,hj->h", V, s)
            found = found + 2.0 * np.einsum("lh,hlj,hj->h", W, B, V)
            found = found + np.einsum("hj,hjk,hk->h", V, Q, V)
        return np.asarray(np.maximum(found, 0.0))

    def freedom(self, ridge: float) -> float:
        """Return the effective degrees of freedom at a ridge."""
        values, _ = self.spectrum
        shares = values / (values + (ridge + 1e-12) * self.variance)
        return float(shares.sum()) + len(self.ahead)

    def doubt(self, W: Array) -> float:
        """Return the standard deviation of the mean of `errors` that noise on the sums causes."""
        inputs, found = self.weights(W), 0.0
        for h, step in enumerate(self.steps):
            v = np.concatenate([[1.0], np.zeros(step - 1), -inputs[:, h]])
            a = np.correlate(v, v, "full")[len(v) - 1 :]
            found += float(np.sqrt(a[0] ** 2 + 4.0 * (a[1:] ** 2).sum()))
        return self.sums.noise * found / len(self.steps)

    def weights(self, W: Array) -> Array:
        """Return the weights (L, H) of the inputs themselves: P'w + m."""
        if not self.mean:
            return W
        m = np.zeros(self.lookback)
        m[: self.mean] = 1.0 / self.mean
        return np.asarray(W - np.outer(m, W.sum(axis=0)) + m[:, None])


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
    def place(self) -> int:
        """Which is best: the least error, and of those as good the first."""
        return int(np.flatnonzero(self.errors <= self.errors.min() * (1 + 1e-6))[0])

    @property
    def best(self) -> Lags:
        k = self.place
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


def some(steps: tuple[int, ...]) -> tuple[int, ...]:
    """Return evenly chosen ones of many steps ahead, the first and the last among them."""
    if len(steps) <= MOST_HORIZONS:
        return steps
    places = np.linspace(0, len(steps) - 1, MOST_HORIZONS).round().astype(int)
    return tuple(steps[k] for k in dict.fromkeys(places.tolist()))


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
    few = some(steps)
    pairs = [(total - part, part) for part in apart] if len(apart) > 1 else [(total, total)]
    left_out = len(apart) > 1
    rows: list[tuple[float, float, float, float]] = []
    for L, mean in tried:
        errors = np.zeros(len(ridges))
        for rest, part in pairs:
            known = Equations(rest, L, mean, few, steps, ahead)
            held = Equations(part, L, mean, few, steps, ahead) if left_out else known
            for k, ridge in enumerate(ridges):
                W, V = known.solve(ridge)
                error = float(held.errors(W, V).mean())
                if not left_out:
                    # Values of a series, or where noise hides them clients, of many values each.
                    n = max(total.weight, 1.0) if total.is_counted else np.inf
                    error /= max(1.0 - known.freedom(ridge) / n, 1e-3) ** 2
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
