"""QR factors of a client's rows: a second statistic, for what sums of products lose.

For rows [1, Z, Y], each multiplied by the root of its weight, QR decomposition gives a triangle

    R = [ r   r m'  r t' ]        r^2 the weight, m and t the means of features and targets
        [     A     B    ]        A'A the centered Gram matrix, A'B the centered cross moments
        [           D    ]        D'D what no readout explains

as many numbers as packed statistics have. Factors of two sets of rows are merged by the QR
decomposition of one on top of the other, which is that of all rows. The condition of R is the root
of that of the Gram matrix R'R: of noise-free series, where the latter is beyond float64, a readout
from factors is that of the rows themselves.

What it costs: merging takes F^3 operations where adding takes F^2; factors do not add number by
number, so no secure aggregation hides them and no noise is calibrated to them; they are float64, so
their last bits depend on the order of merging and on the processor, also where features lie in
fixed point; and what was merged cannot be taken out again, only left out of a new merge. What they
tell is what statistics tell: R'R are the statistics.

Householder reflections take new rows B into R without forming a product: [R; B] = Q R~ (LAPACK's
dtpqrt, which leaves the zeros of R alone). Each column is wrong by a few units in its own last
place, and no square is ever taken, so R keeps what a Gram matrix loses: columns whose differences
are below the root of the machine's precision. Rows of R may have any sign; here its diagonal is not
negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Annotated, ClassVar, NoReturn

import numpy as np
from scipy.linalg import lapack

from catchment import Array, refuse_nonfinite, single_blas_thread
from catchment.data import Recording
from catchment.errors import FingerprintError
from catchment.features import FeatureMap, Part
from catchment.readout import (
    Readout,
    RidgeStatistics,
    in_windows,
    pack,
    packed_length,
    recording_targets,
    unpack_lower,
)
from catchment.wire import ROWS, WEIGHT, Kind, Shape, Structure, Triangle

NUMBERS = ("feature_mean", "target_mean", "triangle", "cross", "target_triangle")  # as they travel
ROWS_TOGETHER = 2048  # rows that are taken in at once
BLOCK = 32  # columns that LAPACK reflects together


@dataclass(frozen=True, eq=False)
class RidgeFactors(Structure):
    """A triangular factor of rows [1, Z, Y], from which ridge regression is solved.

    `triangle` (A above) and `target_triangle` (D) are packed upper triangles with a diagonal that
    is not negative, `cross` is B. `weight` is the sum of the sample weights and equals `n_rows`
    when none were given. `fingerprint` names the features: factors of different features do not
    merge.

    >>> z, y = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]])
    >>> a, b = RidgeFactors.from_states(z[:1], y[:1]), RidgeFactors.from_states(z[1:], y[1:])
    >>> (a + b).solve(0.0).weights.round(12)
    array([[2.]])
    >>> (a + b).n_rows, (a + b).weight
    (3, 3.0)
    """

    KIND: ClassVar[Kind] = Kind(
        "ridge-factors",
        "a triangular factor of the client's rows of features and targets, whose product with "
        "itself are the sums over them: how many there are, the sum of every feature and target, "
        "and the sums of their products",
        (
            *RidgeStatistics.KIND.tells,
            "all that sums tell, to more digits",
        ),
    )

    n_rows: Annotated[int, ROWS]
    weight: Annotated[float, WEIGHT]
    feature_mean: Annotated[Array, Shape("features")]
    target_mean: Annotated[Array, Shape("targets")]
    triangle: Annotated[Array, Triangle("features")]
    cross: Annotated[Array, Shape("features", "targets")]
    target_triangle: Annotated[Array, Triangle("targets")]
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if self.cross.ndim != 2:
            raise ValueError(f"cross has shape {self.cross.shape}; pass a matrix (F, K)")
        F, K = self.cross.shape
        shapes = ((F,), (K,), (packed_length(F),), (F, K), (packed_length(K),))
        for name, shape in zip(NUMBERS, shapes, strict=True):
            if getattr(self, name).shape != shape:
                raise ValueError(
                    f"{name} has shape {getattr(self, name).shape}, expected {shape} for "
                    f"{F} features and {K} targets"
                )
        if self.n_rows < 0:
            raise ValueError(f"n_rows is {self.n_rows}; factors cannot hold fewer than no rows")

    @classmethod
    def from_states(
        cls, z: Array, y: Array, *, weight: Array | None = None, fingerprint: str = ""
    ) -> RidgeFactors:
        """Return the factors of features (n, F) and targets (n, K).

        Parameters
        ----------
        z
            (n, F) features.
        y
            (n, K) targets. A row with a NaN target is left out, whole.
        weight
            (n,) non-negative sample weights; ones if not given.
        """
        z, y = np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if z.ndim != 2 or y.ndim != 2 or len(z) != len(y):
            raise ValueError(
                f"features {z.shape} and targets {y.shape} must be matrices with equally many rows"
            )
        given = np.ones(len(z)) if weight is None else np.asarray(weight, dtype=np.float64)
        if given.shape != (len(z),) or not np.isfinite(given).all() or (given < 0).any():
            raise ValueError(
                f"weight has shape {given.shape} for {len(z)} rows; "
                "pass one finite, non-negative number per row"
            )
        known = ~np.isnan(y).any(axis=1)
        z, y, given = z[known], y[known], given[known]
        refuse_nonfinite(z, "features")
        refuse_nonfinite(y, "targets")
        root = np.sqrt(given)[:, None]
        R = np.zeros((1 + z.shape[1] + y.shape[1],) * 2)
        for start in range(0, len(z), ROWS_TOGETHER):
            some = slice(start, start + ROWS_TOGETHER)
            R = with_rows(R, np.hstack([root[some], z[some] * root[some], y[some] * root[some]]))
        n_rows, total = len(z), float(given.sum())
        return cls.from_triangle(
            R, y.shape[1], n_rows=n_rows, weight=total, fingerprint=fingerprint
        )

    @classmethod
    def from_triangle(
        cls, R: Array, n_targets: int, *, n_rows: int, weight: float, fingerprint: str = ""
    ) -> RidgeFactors:
        """Return the factors that a triangle (1 + F + K, 1 + F + K) of rows [1, Z, Y] holds.

        >>> R = np.array([[2.0, 6.0, 8.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
        >>> RidgeFactors.from_triangle(R, 1, n_rows=4, weight=4.0).feature_mean
        array([3.])
        """
        F = len(R) - 1 - n_targets
        means = R[0, 1:] / R[0, 0] if R[0, 0] > 0 else np.zeros(len(R) - 1)
        inner = R[1:, 1:]
        return cls(
            n_rows,
            weight,
            means[:F].copy(),
            means[F:].copy(),
            pack(inner[:F, :F]),
            inner[:F, F:].copy(),
            pack(inner[F:, F:]),
            fingerprint,
        )

    @property
    def n_features(self) -> int:
        return len(self.cross)

    @property
    def n_targets(self) -> int:
        return len(self.target_mean)

    @property
    def feature_sum(self) -> Array:
        """The sum (F,) of every feature over the rows."""
        return self.weight * self.feature_mean

    @property
    def target_sum(self) -> Array:
        """The sum (K,) of every target over the rows; of classes it counts them, to rounding."""
        return self.weight * self.target_mean

    @cached_property
    def inner(self) -> Array:
        """The factor (F + K, F + K) of the rows less their means: [[A, B], [0, D]]."""
        F, K = self.cross.shape
        R = np.zeros((F + K, F + K))
        R[:F, :F] = unpacked_triangle(self.triangle)
        R[:F, F:] = self.cross
        R[F:, F:] = unpacked_triangle(self.target_triangle)
        return R

    @property
    def whole(self) -> Array:
        """The factor (1 + F + K, 1 + F + K) of the rows [1, Z, Y] themselves."""
        R = np.zeros((1 + len(self.inner),) * 2)
        R[0, 0] = np.sqrt(self.weight)
        R[0, 1:] = R[0, 0] * np.concatenate([self.feature_mean, self.target_mean])
        R[1:, 1:] = self.inner
        return R

    @cached_property
    def statistics(self) -> RidgeStatistics:
        """The sums of products, R'R, to as many digits as those have.

        >>> z, y = np.array([[1.0], [3.0]]), np.array([[0.0], [4.0]])
        >>> RidgeFactors.from_states(z, y).statistics.gram.round(12)
        array([10.])
        """
        F = self.n_features
        R = self.whole
        M = R.T @ R
        return RidgeStatistics(
            self.n_rows,
            self.weight,
            M[0, 1 : 1 + F].copy(),
            M[0, 1 + F :].copy(),
            pack(M[1 : 1 + F, 1 : 1 + F]),
            M[1 : 1 + F, 1 + F :].copy(),
            pack(M[1 + F :, 1 + F :]),
            self.fingerprint,
        )

    def __add__(self, other: RidgeFactors) -> RidgeFactors:
        """Return the factors of all rows behind both; the order of merging shows in last bits."""
        self._refuse_mixing(other)
        if other.n_rows == 0 or self.n_rows == 0:
            return self if other.n_rows == 0 else other
        R = merged(self.whole, other.whole)
        return RidgeFactors.from_triangle(
            R,
            self.n_targets,
            n_rows=self.n_rows + other.n_rows,
            weight=self.weight + other.weight,
            fingerprint=self.fingerprint,
        )

    def __sub__(self, other: object) -> NoReturn:
        """Refuse: taking rows out of a factor loses the digits that it is there to keep."""
        raise TypeError(
            "factors are merged, and what was merged cannot be taken out again to all digits; "
            "merge the factors of those who stay (store_per_client=True), or use statistics"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RidgeFactors):
            return NotImplemented
        return (
            (self.fingerprint, self.n_rows, self.weight)
            == (other.fingerprint, other.n_rows, other.weight)
        ) and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in NUMBERS)

    __hash__ = None  # type: ignore[assignment]

    def solve(self, ridge: float | Array = 1e-6, *, intercept: bool = True) -> Readout:
        """Return the readout that minimizes squared error plus ridge times squared weights.

        Parameters
        ----------
        ridge
            One number, or (K,) numbers, one per output.
        intercept
            Whether to fit an intercept, which is not penalized.
        """
        from catchment_research.factors.solve import solve_factors

        return solve_factors(self, ridge, intercept=intercept)

    def _refuse_mixing(self, other: RidgeFactors) -> None:
        if not isinstance(other, RidgeFactors):
            raise TypeError(
                f"cannot merge RidgeFactors with {type(other).__name__}; make both of rows, or add "
                "the `statistics` of the factors"
            )
        if self.fingerprint != other.fingerprint:
            raise FingerprintError(
                f"factors of different features do not merge: {self.fingerprint[:12] or 'none'} "
                f"and {other.fingerprint[:12] or 'none'}; use one recipe and one feature map"
            )
        if self.cross.shape != other.cross.shape:
            raise ValueError(
                f"factors of {self.cross.shape} and {other.cross.shape} features and targets do "
                "not merge"
            )


def merged_factors(by_client: Mapping[str, RidgeFactors]) -> RidgeFactors:
    """Return the merge of clients' factors, in the order of their names.

    >>> one = RidgeFactors.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> merged_factors({"bob": one, "ann": one}).n_rows
    6
    """
    if not by_client:
        raise ValueError("there are no factors; pass those of at least one client")
    return reduce(add, (by_client[name] for name in sorted(by_client)))


def without_each(parts: Sequence[RidgeFactors]) -> list[RidgeFactors]:
    """Return for each of two or more parts the merge of all others, in three merges a part.

    >>> z = np.arange(6.0)[:, None]
    >>> parts = [RidgeFactors.from_states(z[k::3], z[k::3]) for k in range(3)]
    >>> [rest.n_rows for rest in without_each(parts)]
    [4, 4, 4]
    """
    if len(parts) < 2:
        raise ValueError(f"there are {len(parts)} parts; leaving one out needs at least 2")
    after = [parts[-1]]
    for part in parts[-2:0:-1]:
        after.append(part + after[-1])
    after.reverse()  # after[k] are all parts from number k + 1 on
    found, before = [after[0]], parts[0]
    for k, part in enumerate(parts[1:-1], start=1):
        found.append(before + after[k])
        before = before + part
    return [*found, before]


def with_rows(triangle: Array, rows: Array) -> Array:
    """Return the factor (n, n) of what a triangle stands for and of further rows (m, n).

    >>> with_rows(np.zeros((2, 2)), np.array([[3.0, 0.0], [4.0, 0.0]])).round(12) + 0.0
    array([[5., 0.],
           [0., 0.]])
    """
    if len(rows) == 0 or len(triangle) == 0:
        return triangle
    return _reflected(triangle, rows, 0)


def merged(one: Array, other: Array) -> Array:
    """Return the factor (n, n) of all rows behind two factors.

    >>> merged(np.diag([3.0, 1.0]), np.diag([4.0, 0.0])).round(12) + 0.0
    array([[5., 0.],
           [0., 1.]])
    """
    return one if len(one) == 0 else _reflected(one, other, len(one))


def _reflected(triangle: Array, rows: Array, n_triangular: int) -> Array:
    block = min(BLOCK, len(triangle))
    found, _, _, info = lapack.dtpqrt(n_triangular, block, triangle, rows)
    if info:
        raise ValueError(f"LAPACK refused a factor of shape {triangle.shape} (info {info})")
    upper = np.triu(found)
    return np.asarray(np.where(upper.diagonal() < 0, -1.0, 1.0)[:, None] * upper)


def unpacked_triangle(packed: Array) -> Array:
    """Return the upper triangle (n, n) of its packed numbers, zeros below it.

    >>> unpacked_triangle(np.array([1.0, 2.0, 3.0]))
    array([[1., 2.],
           [0., 3.]])
    """
    return np.triu(unpack_lower(packed).T)


def accumulate_factors(features: FeatureMap, sequences: Iterable[Recording]) -> RidgeFactors:
    """Return the factors of all sequences; an iterator is read as it goes.

    Rows whose target is NaN are left out. A target per sequence stands for each of its rows. The
    result is in float64 on one thread of the CPU, also for features that lie in fixed point.

    Parameters
    ----------
    features
        Map from inputs to feature rows.
    sequences
        With targets, all of one kind and width.

    >>> from catchment import EchoState
    >>> u = np.sin(np.arange(200) / 5)
    >>> features = EchoState(30, seed=1, washout=20).build(1, per_step=True)
    >>> total = accumulate_factors(features, [Recording(u[:-1], u[1:])])
    >>> total.n_rows, total.n_features
    (179, 31)
    """
    total: RidgeFactors | None = None
    with single_blas_thread():
        for window in in_windows(sequences):
            part = _of_window(features, window)
            total = part if total is None else total + part
    if total is None:
        raise ValueError("no sequences were given; pass at least one with targets")
    return total


def _of_window(features: FeatureMap, window: Sequence[Recording]) -> RidgeFactors:
    targets = recording_targets(window, per_step=features.per_step)
    n_targets, weight = targets[0].shape[-1], np.array([s.weight for s in window])
    if not features.per_step:
        running = _Running(features, n_targets)
        rows = features.rows([s.u for s in window], threads=1)
        running.take(np.concatenate(rows), np.stack(targets), weight)
        return running.result()
    parts = features.stacked([s.u for s in window], targets, np.sqrt(weight), threads=1)
    return reduce(add, [_of_part(features, part, n_targets) for part in parts])


def _of_part(features: FeatureMap, part: Part, n_targets: int) -> RidgeFactors:
    running = _Running(features, n_targets)
    for block in part(1):
        if block is None:
            running = _Running(features, n_targets)
            continue
        n, Z = block
        running.take_weighted(n, Z[-1], Z[:-1])
    return running.result()


class _Running:
    """A factor that takes rows in, a few thousand together."""

    def __init__(self, features: FeatureMap, n_targets: int) -> None:
        size = 1 + features.n_features + n_targets
        self.n_targets, self._features = n_targets, features
        self._R = np.zeros((size, size))
        self._waiting: list[Array] = []
        self._n_waiting, self._n_rows, self._weight = 0, 0, 0.0

    def take(self, z: Array, y: Array, weight: Array) -> None:
        """Take rows (n, F) with targets (n, K), NaN where they are not known, and weights (n,)."""
        known = ~np.isnan(y).any(axis=1)
        root = np.sqrt(weight[known])
        columns = np.vstack([z[known].T, y[known].T]) * root
        self.take_weighted(int(known.sum()), root, columns)

    def take_weighted(self, n_rows: int, root: Array, columns: Array) -> None:
        """Take columns (F + K, n) that are multiplied by the roots (n,) of their weights."""
        self._n_rows += n_rows
        self._weight += float(np.square(root).sum())
        self._waiting.append(np.vstack([root, columns]).T)
        self._n_waiting += columns.shape[1]
        if self._n_waiting >= ROWS_TOGETHER:
            self._reflect()

    def _reflect(self) -> None:
        self._R = with_rows(self._R, np.concatenate(self._waiting))
        self._waiting, self._n_waiting = [], 0

    def result(self) -> RidgeFactors:
        """Return the factors of all rows so far."""
        if self._n_waiting:
            self._reflect()
        if not np.isfinite(self._R).all():
            raise ValueError("features or targets are not finite; mend the recordings first")
        return RidgeFactors.from_triangle(
            self._R,
            self.n_targets,
            n_rows=self._n_rows,
            weight=self._weight,
            fingerprint=self._features.fingerprint,
        )
