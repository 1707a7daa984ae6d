"""Standardizing channels, by each client for itself or by all of them together.

What a client sends is, per channel, how many values it has, their sum and their sum of squares:
`Moments`. They add, so one scaler for a federation costs one sum and is the scaler of the pooled
data. The server sees these three numbers per channel, summed over clients under secure
aggregation, each client's otherwise.

A scaler must never see test data: fit it on training clients, and apply it to all.

Moments are exact but for the rounding of a number to 60 binary digits after the point (ties to
even); mean and deviation are then rounded once, correctly. So a scaler has the same bits in any
order of rows, recordings and clients, with any number of threads, and on any processor; and so has
what it scales, by one subtraction and one division per number. Numbers must be below 2^40 in
absolute value. They are split into pieces of 20 binary digits,

    u = p0 2^20 + p1 + p2 2^-20 + p3 2^-40 + p4 2^-60,    |p_k| <= 2^20, whole,

so that products of two pieces, summed over up to 2^13 rows, are integers below 2^53: float64
holds them exactly whatever the order of the sum, the blocks, the vector registers or the threads.
Sums of blocks go into integers of any length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers, as_matrix, frozen, refuse_nonfinite
from catchment.data.recording import Recording
from catchment.wire import Summable

Whole = NDArray[np.object_]  # Python's integers

DIGITS = 60  # after the point
BOUND = 2.0**40
_SHIFTS = (20, 0, -20, -40, -60)
_ROWS = 2**22  # whose sums fit 64 bits
CONSTANT = Fraction(1, 10**12)  # a variance below this share of the mean square is none
MAX_MEAN = 1e12
MAX_SCALE = 1e12  # and its reciprocal is the least


def _flush(sums: Integers, products: Integers, total: Whole, squares: Whole) -> None:
    """Move the sums of pieces, which are zero then, to integers of any length."""
    for p, shift in enumerate(_SHIFTS):
        total += sums[:, p].astype(object) << (DIGITS + shift)
        for q, other in enumerate(_SHIFTS[p:], p):
            place = 2 * DIGITS + shift + other + (p != q)
            squares += products[:, p, q].astype(object) << place
    sums[:], products[:] = 0, 0


def root(value: Fraction) -> float:
    """Return the square root of a number that is not negative, correctly rounded.

    >>> root(Fraction(2)) == math.sqrt(2), root(Fraction(1, 9)), root(Fraction(0))
    (True, 0.3333333333333333, 0.0)
    """
    if not value:
        return 0.0
    top, below = value.numerator, value.denominator
    # 64 digits or more before what is cut off, and one below that says whether anything was.
    shift = max(0, 66 - (top.bit_length() - below.bit_length()) // 2)
    quotient, cut = divmod(top << (2 * shift), below)
    found = math.isqrt(quotient)
    inexact = bool(cut) or found * found != quotient
    return (2 * found + inexact) / (1 << (shift + 1))


@dataclass(frozen=True, eq=False)
class Moments(Summable):
    """Additive counts, sums and sums of squares (I,) of channels: exact.

    Sums are integers of 2^-60, sums of squares of 2^-120. NaN values are not counted; others
    must be within 2^40. A channel whose deviation is below a millionth of its size counts as
    constant.

    >>> a, b = Moments.of([[[0.1], [2.0]]]), Moments.of([[[3.0]]])
    >>> (a + b).mean, a + b == b + a, (a + b) - b == a
    (array([1.7]), True, True)
    """

    count: Integers
    total: Whole
    squares: Whole

    @classmethod
    def of(cls, sequences: Iterable[Any]) -> Moments:
        """Return the moments of the inputs of at least one sequence, or of arrays (T, I).

        >>> moments = Moments.of([np.array([[1e12], [2.0**-60], [np.nan], [-1e12]])])
        >>> moments.count, moments.total
        (array([3]), array([1], dtype=object))
        """
        from catchment.data.exact_kernels import add_rows

        inputs: list[Array] = []
        for one in sequences:
            u = one.u if isinstance(one, Recording) else as_matrix(one, "values")
            refuse_nonfinite(u, "values", missing=True)
            if inputs and u.shape[1] != inputs[0].shape[1]:
                raise ValueError(
                    f"values of {inputs[0].shape[1]} and {u.shape[1]} channels have no common "
                    "moments; use the same channels everywhere"
                )
            inputs.append(u)
        if not inputs:
            raise ValueError("there are no recordings; a scaler needs at least one")
        I, m = inputs[0].shape[1], len(_SHIFTS)
        count, sums = np.zeros(I, np.int64), np.zeros((I, m), np.int64)
        products = np.zeros((I, m, m), np.int64)
        total, squares = np.full((2, I), 0, dtype=object)
        n_rows = 0
        for u in inputs:
            for first in range(0, len(u), _ROWS):
                part = np.ascontiguousarray(u[first : first + _ROWS])
                if n_rows + len(part) > _ROWS:
                    _flush(sums, products, total, squares)
                    n_rows = 0
                done = add_rows(part, BOUND, count, sums, products)
                if done < len(part):
                    large = ~(np.abs(part) < BOUND) & ~np.isnan(part)
                    row, channel = np.argwhere(large)[0].tolist()
                    raise ValueError(
                        f"channel {channel} has {part[row, channel]:g} at row {first + row}; "
                        "numbers to be scaled must be within 2^40 (about 1.1e12), so change the "
                        "unit of the channel, or make NaN of what stands for a missing value"
                    )
                n_rows += len(part)
        _flush(sums, products, total, squares)
        return cls(count, total, squares)

    @property
    def mean(self) -> Array:
        """(I,) means, correctly rounded; NaN where a channel has no value."""
        return self._figures[0]

    @property
    def variance(self) -> Array:
        """(I,) variances, divided by the count, correctly rounded; NaN where there is no value."""
        return self._figures[1]

    @property
    def deviation(self) -> Array:
        """(I,) standard deviations, correctly rounded; NaN where a channel has no value."""
        return self._figures[2]

    @cached_property
    def _figures(self) -> tuple[Array, Array, Array]:
        """Means, variances and deviations (I,)."""
        mean, variance, deviation = np.full((3, len(self.count)), np.nan)
        for k in np.flatnonzero(self.count).tolist():
            n = int(self.count[k])
            first = Fraction(self.total[k], n << DIGITS)
            second = Fraction(self.squares[k], n << (2 * DIGITS))
            spread = second - first**2
            if spread <= CONSTANT * second:
                spread = Fraction(0)
            mean[k], variance[k], deviation[k] = float(first), float(spread), root(spread)
        return mean, variance, deviation

    def __sub__(self, other: Moments) -> Moments:
        """Return the moments without the other's values, which must be among these."""
        made = self + Moments(-other.count, -other.total, -other.squares)
        if (made.count < 0).any():
            raise ValueError("cannot take out more values than were added; subtract what was added")
        return made


@dataclass(frozen=True, eq=False)
class Scaler:
    """An affine map per channel: (u - mean) / scale.

    Means are within 1e12 of zero and scales between 1e-12 and 1e12. The bounds are public: a
    channel outside them is in a unit that nobody meant, whoever sent its moments.

    >>> scaler = Scaler.fit([Recording(np.array([[0.0, 7.0], [2.0, 7.0]]))])
    >>> scaler.mean, scaler.scale
    (array([1., 7.]), array([1., 1.]))
    >>> scaler(np.array([[2.0, 7.0]]))
    array([[1., 0.]])
    """

    mean: Array  # (I,)
    scale: Array  # (I,)

    def __post_init__(self) -> None:
        mean, scale = np.asarray(self.mean, dtype=float), np.asarray(self.scale, dtype=float)
        if mean.ndim != 1 or mean.shape != scale.shape:
            raise ValueError(
                f"mean has shape {mean.shape} and scale {scale.shape}; pass vectors of one length"
            )
        # NaN compares as false, so these refuse it too.
        inside = (np.abs(mean) <= MAX_MEAN) & (scale >= 1 / MAX_SCALE) & (scale <= MAX_SCALE)
        if not inside.all():
            channel = int(np.flatnonzero(~inside)[0])
            raise ValueError(
                f"channel {channel} has mean {mean[channel]} and scale {scale[channel]}; means "
                f"must be within {MAX_MEAN:g} of zero and scales positive, from "
                f"{1 / MAX_SCALE:g} to {MAX_SCALE:g}: change the unit of the channel"
            )
        object.__setattr__(self, "mean", frozen(mean.view()))
        object.__setattr__(self, "scale", frozen(scale.view()))

    @classmethod
    def fit(cls, sequences: Iterable[Recording]) -> Scaler:
        """Return the scaler of the inputs; NaN values do not count. Pass training data only."""
        return cls.from_moments(Moments.of(sequences))

    @classmethod
    def from_moments(cls, moments: Moments) -> Scaler:
        """Return the scaler that gives the data of the moments mean 0 and standard deviation 1.

        A constant channel has scale 1, a channel without any value also mean 0.
        """
        mean, _, deviation = moments._figures
        known = moments.count > 0
        return cls(np.where(known, mean, 0.0), np.where(deviation > 0, deviation, 1.0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scaler):
            return NotImplemented
        return np.array_equal(self.mean, other.mean) and np.array_equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash((tuple(self.mean.tolist()), tuple(self.scale.tolist())))

    def __call__(self, u: Any) -> Array:
        """Return rows (T, I) scaled."""
        rows = as_matrix(u, "inputs")
        if rows.shape[1] != len(self.mean):
            raise ValueError(
                f"inputs have {rows.shape[1]} channels, the scaler was fitted on {len(self.mean)}; "
                "pass the same channels"
            )
        return (rows - self.mean) / self.scale

    def undo(self, u: Array) -> Array:
        """Return scaled rows (T, I) in the original units."""
        return u * self.scale + self.mean

    def apply(self, sequences: Iterable[Recording]) -> list[Recording]:
        """Return the sequences with scaled inputs; targets stay as they are."""
        return [replace(sequence, u=self(sequence.u)) for sequence in sequences]
