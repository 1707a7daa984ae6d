"""The ridge solution of whole numbers, each weight rounded once: the same bits by any LAPACK.

Statistics on a grid are whole numbers, so the normal equations with an intercept,

    [n  s'         ] [b]   [t]
    [s  G + P      ] [w] = [C]         P = diag(ridge_k d_i^2), d_i what feature i is divided by,

are one definite system, and its solution to 53 binary digits is one definite array. A factor in
float64 finds the leading digits of the solution; what they leave of the right side is computed in
integers, without a rounding, and gives the next digits. The matrix is cut into slices so short that
a float64 product with some twenty digits of the solution is exact in any order of its sums. It ends
when no weight could round otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from catchment.arrays import Array, Integers
from catchment.readout import integers
from catchment.readout.statistics import CONSTANT, RidgeStatistics

SHORTEST = 20  # binary digits of the solution that a step finds at least, if the factor does
LEAST_GAIN = 3  # digits: a factor that finds fewer in a step is too far from the matrix
ENOUGH, MOST = 75, 200  # digits of the largest weight before the first and the last look
_FLOAT = 53


@dataclass(frozen=True, eq=False)
class ExactSystem:
    """The equations of statistics on a grid, without the ridge, in whole numbers.

    The intercept, if there is one, is the weight of a first feature that is 1 in every row.
    """

    sums: RidgeStatistics  # in float64
    intercept: bool
    slices: list[Array]  # packed triangles whose sum, each shifted, is the matrix
    width: int  # binary digits of a slice
    step: int  # binary digits that a slice is multiplied with
    right: integers.Whole  # (F, K) or (1 + F, K), Python's integers
    digits: Integers  # after the point of each feature
    target_digits: int
    constant: Integers  # features that do not vary, whose weight is zero

    @classmethod
    def of(cls, statistics: RidgeStatistics, *, intercept: bool) -> ExactSystem:
        """Return the equations of statistics that have a grid."""
        grid = statistics.grid
        assert grid is not None
        matrix, right, digits = statistics.gram, statistics.cross.astype(object), grid.digits
        constant = np.zeros(0, dtype=np.int64)
        if intercept:
            one, n = 1 << grid.bits, int(statistics.weight)
            edge = integers.multiplied(statistics.feature_sum, one)
            corner = integers.canonical(np.array([n * one * one], dtype=object))
            matrix = integers.canonical(np.concatenate([corner, edge, matrix]))
            right = np.concatenate([statistics.target_sum.astype(object)[None] * one, right])
            digits = np.concatenate([[grid.bits], digits])
            constant = 1 + _constant(statistics)
            right[constant] = 0
        n_bits = max(integers.largest(matrix).bit_length(), 1)
        room = _FLOAT - len(digits).bit_length()
        count = -(-n_bits // (room - SHORTEST))
        width = -(-n_bits // count)
        return cls(
            statistics.floats,
            intercept,
            _slices(matrix, width, count),
            width,
            room - width,
            right,
            digits,
            grid.target_digits,
            constant,
        )

    def solved(
        self,
        outputs: Integers,
        ridge: float | Array,
        solve: Callable[[Array], Array],
        scale: Array | None = None,
    ) -> tuple[Array, Array] | None:
        """Return weights (F, K) and intercepts (K,) of some outputs, each number rounded once.

        None if the system is so near to singular that float64 does not find the next digits.

        Parameters
        ----------
        ridge
            One number, or (K,) numbers, one for each of these outputs.
        solve
            From (F, K) to the solution of the centred system with the ridge, about; that of divided
            features if there is a scale.
        scale
            (F,) what features are divided by before the ridge acts.

        >>> from catchment.readout.grid import Grid
        >>> grid = Grid(4, ((1, 0),))
        >>> s = RidgeStatistics.from_states(np.array([[0.0], [3.0]]), np.eye(2)[:, :1], grid=grid)
        >>> system = ExactSystem.of(s, intercept=True)
        >>> system.solved(np.array([0]), 1.0, lambda r: r / 5.4)
        (array([[-0.27272727]]), array([0.90909091]))
        """
        first = int(self.intercept)
        d = np.ones(len(self.digits) - first) if scale is None else scale
        ridges = np.broadcast_to(ridge, outputs.shape)
        columns = [
            _Column(self, self.right[:, k], d * d * beta)
            for k, beta in zip(outputs, ridges, strict=True)
        ]
        places = (self.digits - self.target_digits)[:, None]
        while not all(column.done for column in columns):
            left = np.array([column.left() for column in columns]).T
            left = np.ldexp(left, places - 2 * self.digits[:, None])
            step = np.ldexp(self._step(left, solve, d[:, None]), -places)
            if not np.isfinite(step).all():
                return None
            for column, change in zip(columns, step.T, strict=True):
                if not column.done and not column.take(change):
                    return None
        found = np.ldexp(np.array([column.rounded() for column in columns]).T, places)
        return found[first:], found[0] if self.intercept else np.zeros(len(columns))

    def _step(self, left: Array, solve: Callable[[Array], Array], d: Array) -> Array:
        """Return the solution of what is left, about."""
        if not self.intercept:
            return solve(left / d) / d
        mean = self.sums.feature_sum / self.sums.weight
        centred = left[1:] - np.outer(mean, left[0])
        centred[self.constant - 1] = 0.0
        step = solve(centred / d) / d
        return np.concatenate([(left[0] / self.sums.weight - mean @ step)[None], step])

    def times(self, step: Array) -> list[int]:
        """Return the matrix times whole numbers (F,) of few digits, exactly."""
        found = [0] * len(step)
        for i, one in enumerate(self.slices):
            part = blas.dspmv(len(step), 1.0, one, step, lower=1).astype(np.int64).tolist()
            by = i * self.width
            found = [a + (b << by) for a, b in zip(found, part, strict=True)] if by else part
        return found


class _Column:
    """The solution of one output, digit after digit."""

    def __init__(self, system: ExactSystem, right: integers.Whole, penalty: Array) -> None:
        self.system = system
        n = len(right)
        ridge, exponent = np.frexp(penalty)
        exponent = exponent - _FLOAT + 2 * system.digits[n - len(penalty) :]
        low = min(0, int(exponent[ridge != 0].min(initial=0)))
        pairs = zip(ridge * 2.0**_FLOAT, exponent, strict=True)
        whole = (int(m) << int(e) - low if m else 0 for m, e in pairs)
        self.penalty = [0] * (n - len(penalty)) + list(whole)
        self.places = -low  # of the penalty after the point
        self.point: int | None = None  # places of the solution after the point
        self.solution = [0] * n
        self.rest = [int(value) << self.places for value in right.tolist()]
        self.known, self.first = 0, 0  # places of the last step and of the first
        self.done = not any(self.rest)

    def left(self) -> list[float]:
        """Return what the solution so far leaves of the right side, about."""
        unit = 1 << self.places + (self.point or 0)
        return [value / unit for value in self.rest]

    def take(self, step: Array) -> bool:
        """Take a step's digits into the solution; False if they are no finer than the last."""
        length = self.system.step
        places = length - int(np.frexp(np.abs(step).max())[1])
        if self.point is None:
            self.first = places
            self.point = max(places, 0) + MOST + length
            self.rest = [value << self.point for value in self.rest]
        elif places < self.known + LEAST_GAIN:
            return False
        gained = places - self.first
        if gained >= MOST or (gained >= ENOUGH and self._is_certain(places)):
            self._drop(places)
            return True
        self.known = places
        taken = np.rint(np.ldexp(step, places))
        by, by_ridge = self.point - places, self.places
        product, whole = self.system.times(taken), taken.astype(np.int64).tolist()
        self.solution = [v + (x << by) for v, x in zip(self.solution, whole, strict=True)]
        self.rest = [
            r - ((m << by_ridge) + p * x << by)
            for r, m, p, x in zip(self.rest, product, self.penalty, whole, strict=True)
        ]
        for k in self.system.constant.tolist():
            self.rest[k] = 0
        self.done = not any(self.rest)
        return True

    def _error(self, places: int) -> int:
        """Return what the solution may be off by if the next step begins at these places."""
        assert self.point is not None
        return 1 << max(self.point - places + self.system.step + 1, 0)

    def _is_certain(self, places: int) -> bool:
        error, unit = self._error(places), 1 << (self.point or 0)
        return all((v - error) / unit == (v + error) / unit for v in self.solution)

    def _drop(self, places: int) -> None:
        """End, with zero where the solution is not known from it."""
        error = self._error(places)
        self.solution = [v if abs(v) > error else 0 for v in self.solution]
        self.done = True

    def rounded(self) -> list[float]:
        """Return the solution, each number rounded once."""
        unit = 1 << (self.point or 0)
        return [value / unit for value in self.solution]


def _slices(matrix: integers.Whole, width: int, count: int) -> list[Array]:
    """Return the digits of whole numbers, this many at a time, the last with the sign."""
    found = []
    for _ in range(count - 1):
        found.append((matrix & ((1 << width) - 1)).astype(np.float64))
        matrix = matrix >> width
    return [*found, matrix.astype(np.float64)]


def _constant(statistics: RidgeStatistics) -> Integers:
    """Return which features do not vary, by the rule of the centred moments, in whole numbers."""
    F, n = statistics.n_features, int(statistics.weight)
    k = np.arange(F)
    squares = statistics.gram[k * F - k * (k - 1) // 2].tolist()
    sums = statistics.feature_sum.tolist()
    share = round(1 / CONSTANT)
    varies = [share * (n * q - s * s) > n * q for q, s in zip(squares, sums, strict=True)]
    return np.flatnonzero(~np.array(varies, dtype=bool))
