"""Standardising channels, by each client for itself or by all of them together.

What a client sends is, per channel, how many values it has, their sum and their sum of squares,
all about a public origin: `Moments`. They add, so one scaler for a federation costs one sum and is
the scaler of the pooled data. The server sees these three numbers per channel, summed over clients
under a secure sum, each client's otherwise.

Moments are exact (`catchment.data.exact_sums`): a value is rounded to 60 binary digits after the
point, and nothing after it. Mean and deviation are then rounded once, correctly. So a scaler has
the same bits in any order of rows, recordings and clients, with any number of threads, and on any
processor; and so has what it scales, by one subtraction and one division per number.

A scaler must never see test data: fit it on training clients, and apply it to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np

from catchment.arrays import Array, Integers, as_matrix, frozen, refuse_infinite
from catchment.data.exact_sums import DIGITS, ExactSums, Whole, on_digits, root
from catchment.data.recording import Recording

CONSTANT = Fraction(1, 10**12)  # a variance below this share of the mean square is none


@dataclass(frozen=True, eq=False)
class Moments:
    """Additive counts, sums and sums of squares (I,) of channels, about an origin (I,): exact.

    Sums are whole numbers of 2^-60, sums of squares of 2^-120. NaN values are not counted; others
    must be within 2^40 of the origin. A channel whose deviation is below a millionth of its size
    counts as constant; where that matters, agree on an origin near the mean.

    >>> a, b = Moments.of_array([[0.1], [2.0]]), Moments.of_array([[3.0]])
    >>> (a + b).mean, a + b == b + a, (a + b) - b == a
    (array([1.7]), True, True)
    """

    count: Integers
    total: Whole
    squares: Whole
    origin: Array

    def __post_init__(self) -> None:
        shapes = {self.count.shape, self.total.shape, self.squares.shape, self.origin.shape}
        if len(shapes) != 1 or self.count.ndim != 1:
            raise ValueError(f"moments need four vectors of one length, not shapes {shapes}")

    @classmethod
    def of_array(cls, values: Any, origin: Array | None = None) -> Moments:
        """Return the moments of rows (T, I), about an origin (I,) or zero."""
        return cls._of_arrays([values], origin)

    @classmethod
    def of(cls, sequences: Iterable[Recording], origin: Array | None = None) -> Moments:
        """Return the moments of the inputs of at least one sequence."""
        inputs = iter(sequence.u for sequence in sequences)
        first = next(inputs, None)
        if first is None:
            raise ValueError("there are no sequences; a scaler needs at least one")
        return cls._of_arrays(chain([first], inputs), origin)

    @classmethod
    def of_sums(cls, count: Integers, total: Array, squares: Array) -> Moments:
        """Return the moments, about zero, of sums and sums of squares (I,) that are known already.

        >>> Moments.of_sums(np.array([2]), np.array([4.0]), np.array([10.0])).variance
        array([1.])
        """
        zero = np.zeros(len(count))
        return cls(count, on_digits(total, DIGITS), on_digits(squares, 2 * DIGITS), zero)

    @classmethod
    def _of_arrays(cls, arrays: Iterable[Any], origin: Array | None) -> Moments:
        sums, zero = None, np.zeros(0)
        for values in arrays:
            u = as_matrix(values, "values")
            refuse_infinite(u, "values")
            if sums is None:
                zero = _checked_origin(origin, u.shape[1])
                sums = ExactSums(len(zero), zero)
            if u.shape[1] != len(zero):
                raise ValueError(
                    f"values of {len(zero)} and {u.shape[1]} channels have no common moments; use "
                    "the same channels everywhere"
                )
            sums.add(u)
        assert sums is not None
        return cls(sums.count, sums.total, sums.squares, zero)

    @property
    def mean(self) -> Array:
        """(I,) means, correctly rounded; NaN where a channel has no value."""
        return np.array([float(mean) if n else np.nan for n, mean, _ in self._ratios()])

    @property
    def variance(self) -> Array:
        """(I,) variances, divided by the count, correctly rounded; NaN where there is no value."""
        return np.array([float(spread) if n else np.nan for n, _, spread in self._ratios()])

    @property
    def deviation(self) -> Array:
        """(I,) standard deviations, correctly rounded; NaN where a channel has no value."""
        return np.array([root(spread) if n else np.nan for n, _, spread in self._ratios()])

    def _ratios(self) -> Iterator[tuple[int, Fraction, Fraction]]:
        """Yield count, mean and variance of every channel, exactly."""
        columns = (self.count, self.total, self.squares, self.origin)
        for n, total, squares, origin in zip(*(c.tolist() for c in columns), strict=True):
            mean = Fraction(total, max(n, 1) << DIGITS)
            second = Fraction(squares, max(n, 1) << (2 * DIGITS))
            spread = second - mean**2
            if spread <= CONSTANT * second:
                spread = Fraction(0)
            yield n, Fraction(origin) + mean, spread

    def __add__(self, other: Moments) -> Moments:
        self._refuse_mixing(other)
        return Moments(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            self.origin,
        )

    def __sub__(self, other: Moments) -> Moments:
        """Return the moments without the other's values, which must be among these."""
        self._refuse_mixing(other)
        count = self.count - other.count
        if (count < 0).any():
            raise ValueError("cannot take out more values than were added; subtract what was added")
        return Moments(
            count,
            self.total - other.total,
            self.squares - other.squares,
            self.origin,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("count", "total", "squares", "origin")
        )

    __hash__ = None  # type: ignore[assignment]

    def _refuse_mixing(self, other: Moments) -> None:
        if not isinstance(other, Moments):
            raise TypeError(f"cannot combine Moments with {type(other).__name__}")
        if not np.array_equal(self.origin, other.origin):
            raise ValueError(
                f"moments of {len(self.origin)} and {len(other.origin)} channels, or about "
                "different origins, do not add; use the same channels and origin everywhere"
            )


MAX_MEAN = 1e12
MAX_SCALE = 1e12  # and its reciprocal is the least


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
        known, deviation = moments.count > 0, moments.deviation
        return cls(np.where(known, moments.mean, 0.0), np.where(deviation > 0, deviation, 1.0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scaler):
            return NotImplemented
        return np.array_equal(self.mean, other.mean) and np.array_equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash((tuple(self.mean.tolist()), tuple(self.scale.tolist())))

    def __call__(self, u: Any) -> Array:
        """Return rows (T, I) scaled."""
        scaled: Array = (self._checked(u) - self.mean) / self.scale
        return scaled

    def undo(self, u: Any) -> Array:
        """Return scaled rows (T, I) in the original units."""
        original: Array = self._checked(u) * self.scale + self.mean
        return original

    def apply(self, sequences: Iterable[Recording]) -> list[Recording]:
        """Return the sequences with scaled inputs; targets stay as they are."""
        return [replace(sequence, u=self(sequence.u)) for sequence in sequences]

    def _checked(self, u: Any) -> Array:
        rows = as_matrix(u, "inputs")
        if rows.shape[1] != len(self.mean):
            raise ValueError(
                f"inputs have {rows.shape[1]} channels, the scaler was fitted on {len(self.mean)}; "
                "pass the same channels"
            )
        return rows


def federated_scaler(clients: Mapping[str, Iterable[Recording]]) -> Scaler:
    """Return one scaler from the sum of all clients' moments. Pass training clients only.

    >>> a, b = [Recording(np.array([0.0, 2.0]))], [Recording(np.array([4.0]))]
    >>> federated_scaler({"a": a, "b": b}).mean
    array([2.])
    """
    if not clients:
        raise ValueError("there are no clients; a scaler needs at least one")
    return Scaler.from_moments(reduce(add, map(Moments.of, clients.values())))


def scale_each(clients: Mapping[str, Iterable[Recording]]) -> dict[str, list[Recording]]:
    """Return every client's sequences scaled by that client's own moments.

    A client that tests is scaled by its own inputs, never by another's, and no target is used.

    >>> scaled = scale_each({"a": [Recording(np.array([1.0, 3.0]))]})
    >>> scaled["a"][0].u.ravel()
    array([-1.,  1.])
    """
    scaled = {}
    for name, sequences in clients.items():
        own = list(sequences)
        scaled[name] = Scaler.fit(own).apply(own)
    return scaled


def _checked_origin(origin: Array | None, n_channels: int) -> Array:
    zero = np.zeros(n_channels) if origin is None else np.asarray(origin, dtype=np.float64)
    if zero.shape != (n_channels,) or not np.isfinite(zero).all():
        raise ValueError(
            f"origin has shape {zero.shape}; pass one finite number for each of {n_channels} "
            "channels"
        )
    return zero


def variance(count: Integers, total: Array, squares: Array) -> Array:
    """Return variances (I,) from counts, sums and sums of squares; NaN where there is no value.

    What is within rounding of zero is zero, so that a constant is known as one.

    >>> variance(np.array([3]), np.array([0.3]), np.array([0.03]))
    array([0.])
    """
    n = np.where(count > 0, count, np.nan)
    second = squares / n
    spread: Array = second - (total / n) ** 2
    return np.where(spread <= 1e-12 * second, 0.0, spread)
