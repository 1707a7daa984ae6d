"""Sums from which ridge regression is solved exactly; adding two is pooling their data.

With features Z (n, F) and targets Y (n, K) the statistics are n, Z'1, Y'1, G = Z'Z, C = Z'Y and
Y'Y. The ridge solution is W = (G + ridge I)^-1 C (Bacciu et al., IJCNN 2021, eq. 3) on centered
moments, so that the intercept is not penalized. The ridge is never part of the statistics: eqs. 7,
9 and 12 of that paper add it once per client and per increment, which makes the solution depend on
how the data were cut.

Where the features lie in fixed point (`catchment.readout.fixed_point`) every sum is an integer and
exact: in which order, on how many threads and on which machine it was added does not show in it.

Symmetric matrices are kept as their upper triangle, row after row. Read column after column, the
same numbers are a lower triangle, on which the Cholesky solver works without a mirrored copy.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise, repeat, starmap
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np

from catchment.arrays import Array, Integers, frozen, refuse_nonfinite
from catchment.errors import FingerprintError, IntegrityError, UploadError
from catchment.features.base import handed
from catchment.readout import integers
from catchment.readout.fixed_point import FixedPoint
from catchment.wire import (
    LATER,
    ROWS,
    WEIGHT,
    Fact,
    Kind,
    Message,
    Shape,
    Structure,
    Summable,
    Triangle,
)

ANY_DEVICE = " any device"  # after the fingerprint of statistics that depend on it
FEW = 256  # rows of a matrix of which the places of a triangle are kept: clients are many then
# A variance below this share of the second moment is rounding left by the subtraction of the mean.
CONSTANT = 1e-12
SUMS = ("feature_sum", "target_sum", "gram", "cross", "target_gram")  # as they travel
_sums_of = attrgetter(*SUMS)
_HEAVIEST = 2**53  # whole weights up to here are exact


@dataclass(frozen=True, eq=False)
class Readout:
    """A linear map: weights (F, K) and intercept (K,); call it on features (n, F).

    >>> Readout(np.array([[2.0], [1.0]]), np.array([0.5]))(np.array([[1.0, 3.0]]))
    array([[5.5]])
    """

    weights: Array
    intercept: Array
    ridge: float = 0.0  # once an array (K,), where each output had its own

    def __post_init__(self) -> None:
        # One memory order, because the last bits of a matrix product depend on it and a reloaded
        # readout must predict the very same numbers.
        weights = np.array(self.weights, dtype=np.float64, order="C")
        intercept = np.array(self.intercept, dtype=np.float64)
        if weights.ndim != 2 or intercept.shape != weights.shape[1:]:
            raise ValueError(
                f"weights {weights.shape} and intercept {intercept.shape} do not fit; "
                "pass weights (F, K) and intercept (K,)"
            )
        object.__setattr__(self, "weights", frozen(weights))
        object.__setattr__(self, "intercept", frozen(intercept))
        ridge = np.asarray(self.ridge, dtype=np.float64)
        object.__setattr__(self, "ridge", ridge if ridge.ndim else float(ridge))

    @property
    def n_features(self) -> int:
        return len(self.weights)

    n_outputs: ClassVar[int] = handed("intercept.size")

    def __call__(self, z: Array) -> Array:
        if z.shape[-1] != len(self.weights):
            raise ValueError(
                f"features have {z.shape[-1]} columns, the readout was solved for "
                f"{len(self.weights)}; use the features it was trained on"
            )
        return np.asarray(z @ self.weights + self.intercept)

    def parts(self) -> Message:
        """Return the readout as it travels."""
        return Message(
            "readout", {}, (self.weights, self.intercept, np.atleast_1d(self.ridge).astype(float))
        )

    @classmethod
    def from_message(cls, parts: Message) -> Readout:
        """Return the readout that traveled; IntegrityError if it is malformed."""
        weights, intercept, ridge = parts.expect("readout", 3).arrays
        if ridge.shape not in ((1,), intercept.shape):
            raise IntegrityError(f"ridges came with shape {ridge.shape}")
        return cls(weights, intercept, ridge[0] if len(ridge) == 1 else cast(Any, ridge))


def same_features(one: str, other: str) -> bool:
    """Whether statistics of two fingerprints are of one map, whatever devices and rows they took.

    >>> same_features("5b3a any device", "5b3a"), same_features("5b3a", "77ef")
    (True, False)
    """
    return one.split(" ")[0] == other.split(" ")[0]


def packed_length(size: int) -> int:
    """Return the number of values in the upper triangle of an (n, n) matrix.

    >>> packed_length(3)
    6
    """
    return size * (size + 1) // 2


@lru_cache(maxsize=64)
def matrix_size(length: int) -> int:
    """Return n for a packed length n(n+1)/2.

    >>> matrix_size(6)
    3
    """
    size = (math.isqrt(8 * length + 1) - 1) // 2
    if packed_length(size) != length:
        raise ValueError(
            f"{length} is not the length n(n+1)/2 of a packed triangle; pack a square matrix first"
        )
    return size


@lru_cache(maxsize=8)
def _upper(size: int) -> Integers:  # asked for every client, of which a round may have a million
    """Return where the upper triangle of a square matrix is, its rows one after another."""
    return np.flatnonzero(np.triu(np.ones((size, size), dtype=bool)))


def pack(matrix: Array) -> Array:
    """Return the upper triangle (n(n+1)/2,) of a symmetric matrix (n, n).

    >>> pack(np.array([[1.0, 2.0], [2.0, 3.0]]))
    array([1., 2., 3.])
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"the matrix has shape {matrix.shape}; only square ones can be packed")
    n = len(matrix)
    if n <= FEW:
        return np.asarray(matrix.reshape(-1)[_upper(n)])
    packed, place = np.empty(n * (n + 1) // 2, dtype=matrix.dtype), 0
    for i, row in enumerate(matrix):
        packed[place : place + n - i] = row[i:]
        place += n - i
    return packed


def unpack_lower(packed: Array) -> Array:
    """Return a matrix (n, n), Fortran order, whose lower triangle is the packed one.

    What lies above the diagonal has no meaning.

    >>> np.tril(unpack_lower(np.array([1.0, 2.0, 3.0])))
    array([[1., 0.],
           [2., 3.]])
    """
    from catchment.readout.exact_kernels import unpack_rows

    none = np.zeros(matrix_size(len(packed)))
    return np.asarray(unpack_rows(packed, none, none)).T


def mirror_lower(lower: Array) -> Array:
    """Fill the upper triangle of (n, n) from the lower one, in place, and return the matrix.

    >>> mirror_lower(np.array([[1.0, 9.0], [2.0, 3.0]]))
    array([[1., 2.],
           [2., 3.]])
    """
    # By blocks, because a plain transposed copy of a large matrix misses the cache at every step.
    size, step = len(lower), 64
    for start in range(0, size, step):
        stop = min(start + step, size)
        square = lower[start:stop, start:stop]
        square[:] = np.tril(square) + np.tril(square, -1).T
        lower[start:stop, stop:] = lower[stop:, start:stop].T
    return lower


def unpack(packed: Array) -> Array:
    """Return the symmetric matrix (n, n) of a packed upper triangle.

    >>> unpack(np.array([1.0, 2.0, 3.0]))
    array([[1., 2.],
           [2., 3.]])
    """
    return mirror_lower(unpack_lower(packed))


def diagonal(packed: Array) -> Array:
    """Return the diagonal (n,) of a packed symmetric matrix.

    >>> diagonal(np.array([1.0, 2.0, 3.0]))
    array([1., 3.])
    """
    return packed[diagonal_places(len(packed))]


@lru_cache(maxsize=64)
def diagonal_places(length: int) -> Integers:
    """Return where the diagonal (n,) lies in a packed symmetric matrix of this length."""
    size = matrix_size(length)
    k = np.arange(size)
    return k * size - k * (k - 1) // 2


@lru_cache(maxsize=64)
def shapes_of(F: int, K: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the sums of so many features and targets, as they travel."""
    return (F,), (K,), (packed_length(F),), (F, K), (packed_length(K),)


@lru_cache(maxsize=64)
def _places_of(F: int, K: int) -> tuple[tuple[slice, tuple[int, ...]], ...]:
    """Return where each sum lies in a vector of all, and its shape."""
    shapes = shapes_of(F, K)
    ends = [0, *accumulate(map(math.prod, shapes))]
    return tuple(zip(starmap(slice, pairwise(ends)), shapes, strict=True))


@dataclass(frozen=True, eq=False)
class RidgeStatistics(Structure):
    """Additive moments of features and targets.

    They travel as half a Gram matrix, with no ridge and no names. `gram` and `target_gram` are
    packed upper triangles. `weight` is the sum of the sample weights and equals `n_rows` when none
    were given. `fingerprint` names the features: statistics of different features do not add.

    In fixed point (`fixed`) every sum is an array of integers, int64 or Python's integers where one
    does not fit, and so are `+`, `-` and `==`. What computes with them takes `floats`.

    >>> z, y = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]])
    >>> a, b = RidgeStatistics.from_states(z[:1], y[:1]), RidgeStatistics.from_states(z[1:], y[1:])
    >>> (a + b).solve(0.0).weights
    array([[2.]])
    >>> (a + b) - b == a
    True
    """

    KIND: ClassVar[Kind] = Kind(
        "ridge-statistics",
        "sums over the client's rows: how many there are, the sum of every feature and target, and "
        "the sums of their products",
        (
            "how many rows the client has, and for classes how many of each, exactly",
            "the mean state of each class; a class with one recording gives that recording's state",
            "whether a given recording is among the client's",
        ),
    )

    n_rows: Annotated[int, ROWS]
    weight: Annotated[float, WEIGHT]
    feature_sum: Annotated[Array, Shape("features")]
    target_sum: Annotated[Array, Shape("targets")]
    gram: Annotated[Array, Triangle("features")]
    cross: Annotated[Array, Shape("features", "targets")]
    target_gram: Annotated[Array, Triangle("targets")]
    fingerprint: str = ""
    fixed: Annotated[FixedPoint | None, LATER] = None

    def __post_init__(self) -> None:
        F, K = self.cross.shape
        for name, shape in zip(SUMS, shapes_of(F, K), strict=True):
            if (found := getattr(self, name).shape) != shape:
                raise ValueError(
                    f"{name} has shape {found}, expected {shape} for {F} features and {K} targets"
                )
        if self.n_rows < 0:
            raise ValueError(f"n_rows is {self.n_rows}; statistics cannot hold fewer than no rows")
        if self.fixed is None:
            return
        if self.fixed.n_features != F:
            raise ValueError(
                f"fixed point is of {self.fixed.n_features} features, the sums are of {F}"
            )
        if not (abs(self.weight) < _HEAVIEST and self.weight == int(self.weight)):
            raise ValueError(
                f"the weight is {self.weight}; in fixed point weights are integers below 2^53"
            )
        for name, values in zip(SUMS, _sums_of(self), strict=True):
            if values.dtype != np.int64:
                object.__setattr__(self, name, integers.canonical(values))

    @classmethod
    def of_vector(
        cls,
        n_rows: int,
        weight: float,
        vector: integers.Whole,
        sizes: tuple[int, ...],
        fingerprint: str,
        fixed: FixedPoint,
    ) -> RidgeStatistics:
        """Return statistics of (F, K) `sizes` whose sums lie one after another in a vector."""
        sums: dict[str, Any] = {}
        for name, (place, shape) in zip(SUMS, _places_of(*sizes), strict=True):
            sums[name] = vector[place].reshape(shape)
        found = cls(n_rows, weight, **sums, fingerprint=fingerprint, fixed=fixed)
        found.__dict__["vector"] = vector
        return found

    @cached_property
    def vector(self) -> Integers | None:
        """All sums in fixed point, one after another; None if one of them is beyond int64."""
        sums = _sums_of(self)
        whole = np.result_type(*sums) == np.int64
        return np.concatenate(list(map(np.ravel, sums))) if whole else None

    def __reduce__(self) -> Any:  # the vector alone, where there is one
        if self.vector is None:
            return super().__reduce__()
        about = self.vector, self.cross.shape, self.fingerprint, self.fixed
        return RidgeStatistics.of_vector, (self.n_rows, self.weight, *about)

    @classmethod
    def zero(
        cls, n_features: int, n_targets: int, fingerprint: str = "", fixed: FixedPoint | None = None
    ) -> RidgeStatistics:
        """Return the statistics of no data."""
        dtype = np.float64 if fixed is None else np.int64
        shapes = zip(SUMS, shapes_of(n_features, n_targets), strict=True)
        sums: dict[str, Any] = {name: np.zeros(shape, dtype) for name, shape in shapes}
        return cls(0, 0.0, **sums, fingerprint=fingerprint, fixed=fixed)

    @classmethod
    def from_states(
        cls,
        z: Array,
        y: Array,
        *,
        weight: Array | None = None,
        fingerprint: str = "",
        fixed: FixedPoint | None = None,
    ) -> RidgeStatistics:
        """Return the statistics of features (n, F) and targets (n, K).

        Parameters
        ----------
        z
            (n, F) features.
        y
            (n, K) targets. A row with a NaN target is left out, whole.
        weight
            (n,) non-negative sample weights; ones if not given. Integers in fixed point.
        fixed
            In which the features lie; the sums are then integers.
        """
        z, y = np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if z.ndim != 2 or y.ndim != 2 or len(z) != len(y):
            raise ValueError(
                f"features {z.shape} and targets {y.shape} must be matrices with equally many rows"
            )
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64)
            if weight.shape != (len(z),) or not np.isfinite(weight).all() or (weight < 0).any():
                raise ValueError(
                    f"weight has shape {weight.shape} for {len(z)} rows; "
                    "pass one finite, non-negative number per row"
                )
        known = ~np.isnan(y).any(axis=1)
        if not known.all():
            z, y = z[known], y[known]
            weight = None if weight is None else weight[known]
        refuse_nonfinite(z, "features")
        refuse_nonfinite(y, "targets")
        if fixed is not None:
            from catchment.readout.exact import exact_statistics

            return exact_statistics(z, y, fixed, weight=weight, fingerprint=fingerprint)
        w = np.ones(len(z)) if weight is None else weight
        # Roots on both sides, so that the product is symmetric and costs half.
        zr, yr = (x if weight is None else x * np.sqrt(weight)[:, None] for x in (z, y))
        return cls(
            len(z),
            float(w.sum()),
            _column_sums(z, w),
            _column_sums(y, w),
            pack(zr.T @ zr),
            zr.T @ yr,
            pack(yr.T @ yr),
            fingerprint,
        )

    @classmethod
    def from_moments(
        cls, M: Array, n_rows: int, fingerprint: str, n_features: int
    ) -> RidgeStatistics:
        """Return the statistics of rows whose [Z; Y'; 1] [Z; Y'; 1]' has this upper triangle."""
        F = n_features
        return cls(
            n_rows,
            float(M[-1, -1]),
            M[:F, -1].copy(),
            M[F:-1, -1].copy(),
            pack(M[:F, :F]),
            M[:F, F:-1].copy(),
            pack(M[F:-1, F:-1]),
            fingerprint,
        )

    n_features: ClassVar[int] = handed("feature_sum.size")
    n_targets: ClassVar[int] = handed("target_sum.size")

    @property
    def members(self) -> Mapping[int, RidgeStatistics]:
        """All that the sum is made of, by number: itself, where a `StatisticsSet` has several."""
        return {0: self}

    @property
    def is_exact(self) -> bool:
        """Whether the numbers are whole, so that sums and differences are equalities."""
        return self.fixed is not None

    @cached_property
    def floats(self) -> RidgeStatistics:
        """The same sums as float64 numbers, each rounded once; themselves if they are that.

        >>> z, fixed = np.array([[0.75]]), FixedPoint(4, ((1, 2),))
        >>> RidgeStatistics.from_states(z, np.ones((1, 1)), fixed=fixed).floats.gram
        array([0.5625])
        """
        fixed = self.fixed
        if fixed is None:
            return self
        z, y = fixed.scale, 2.0**-fixed.target_digits
        scales: tuple[float | Array, ...] = (z, y, fixed.gram_scale, z[:, None] * y, y * y)
        sums: dict[str, Any] = {}
        for name, scale in zip(SUMS, scales, strict=True):
            sums[name] = getattr(self, name).astype(np.float64) * scale
        return replace(self, fixed=None, **sums)

    def __sub__(self, other: RidgeStatistics) -> RidgeStatistics:
        """Return the statistics without the other's rows, which must be among these."""
        return self.__add__(other, -1)

    def __add__(self, other: RidgeStatistics, sign: int = 1) -> RidgeStatistics:
        """Return the sum or the difference, exact and in the finer of two units in fixed point."""
        self._refuse_mixing(other)
        n_rows, weight = self.n_rows + sign * other.n_rows, self.weight + sign * other.weight
        if n_rows < 0:
            raise ValueError(
                f"cannot take {other.n_rows} rows out of {self.n_rows}; "
                "subtract only statistics that were added"
            )
        one, two = self, other
        if self.fixed is not None and other.fixed is not None:
            digits = max(self.fixed.target_digits, other.fixed.target_digits)
            if one.fixed != two.fixed:
                one, two = self._in_units(digits), other._in_units(digits)
        elif sign < 0 and n_rows == 0:
            return RidgeStatistics.zero(self.n_features, self.n_targets, self.fingerprint)
        if one.fixed is None:
            how: Any = np.add if sign > 0 else np.subtract
            sums: Any = dict(zip(SUMS, map(how, _sums_of(one), _sums_of(two)), strict=True))
            return RidgeStatistics(n_rows, weight, **sums, fingerprint=one.fingerprint)
        vector: integers.Whole = np.empty(0, dtype=object)
        if one.vector is not None and two.vector is not None:
            vector = integers.added(one.vector, integers.multiplied(two.vector, sign))
        if vector.dtype == np.int64:
            about = one.cross.shape, one.fingerprint, one.fixed
            total = RidgeStatistics.of_vector(n_rows, weight, vector, *about)
        else:  # sums of targets may be beyond int64, and need not slow down the Gram matrix
            signed = map(integers.multiplied, _sums_of(two), repeat(sign))
            sums = dict(zip(SUMS, map(integers.added, _sums_of(one), signed), strict=True))
            total = replace(one, n_rows=n_rows, weight=weight, **sums)
        if sign < 0 and n_rows == 0 and any(values.any() for values in _sums_of(total)):
            raise ValueError(
                f"what is left of {self.n_rows} rows without {other.n_rows} is not nothing; "
                "subtract only statistics that were added"
            )
        return total

    def _in_units(self, digits: int) -> RidgeStatistics:
        """Return integers with this many digits of the targets, not fewer than there are."""
        assert self.fixed is not None
        finer = digits - self.fixed.target_digits
        if finer == 0:
            return self
        return replace(
            self,
            target_sum=integers.multiplied(self.target_sum, 1 << finer),
            cross=integers.multiplied(self.cross, 1 << finer),
            target_gram=integers.multiplied(self.target_gram, 1 << 2 * finer),
            fixed=replace(self.fixed, target_digits=digits),
        )

    def _canonical(self) -> RidgeStatistics:
        """Return the integers in the coarsest units that hold them."""
        if self.fixed is None or self.fixed.is_whole:
            return self
        digits = self.fixed.target_digits
        target_sum = integers.divided(self.target_sum, digits)
        cross = integers.divided(self.cross, digits)
        target_gram = integers.divided(self.target_gram, 2 * digits)
        if target_sum is None or cross is None or target_gram is None:
            return self
        fixed = replace(self.fixed, target_digits=0)
        return replace(
            self, target_sum=target_sum, cross=cross, target_gram=target_gram, fixed=fixed
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RidgeStatistics):
            return NotImplemented
        if self.fixed != other.fixed:
            if self.fixed is None or other.fixed is None:
                return False
            one, two = self._canonical(), other._canonical()
            return one.fixed == two.fixed and one == two
        return (
            self.fingerprint == other.fingerprint
            and self.n_rows == other.n_rows
            and self.weight == other.weight
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in SUMS)
        )

    __hash__ = None  # type: ignore[assignment]

    def digest(self) -> str:
        """Return the SHA-256 of the statistics in hexadecimal; equal ones have the same.

        In fixed point it does not depend on the machine, nor on the order in which rows were added.

        >>> fixed = FixedPoint(4, ((1, 2),))
        >>> z, y = np.array([[0.75], [1.0], [-2.0]]), np.array([[0.0], [1.0], [1.0]])
        >>> whole = RidgeStatistics.from_states(z, y, fixed=fixed)
        >>> parts = [RidgeStatistics.from_states(z[k : k + 1], y[k : k + 1], fixed=fixed)
        ...          for k in (2, 0, 1)]
        >>> (parts[0] + parts[1] + parts[2]).digest() == whole.digest()
        True
        """
        held = self._canonical()
        fixed = None if held.fixed is None else held.fixed.to_json()
        told = [held.n_rows, float(held.weight), held.fingerprint, fixed, *held.cross.shape]
        found = hashlib.sha256(json.dumps(told).encode())
        for name in SUMS:
            values = getattr(held, name)
            if values.dtype == object:  # too wide for int64
                width = 8 * -(-(integers.largest(values).bit_length() + 1) // 64)
                flat = map(int, values.ravel().tolist())
                content = b"".join(one.to_bytes(width, "little", signed=True) for one in flat)
            else:
                kind = "<f8" if fixed is None else "<i8"
                content = np.ascontiguousarray(values, dtype=kind).tobytes()
            found.update(len(content).to_bytes(8, "little"))
            found.update(content)
        return found.hexdigest()

    def scaled(self, factor: float) -> RidgeStatistics:
        """Return the statistics with every row's weight multiplied by the factor.

        In fixed point they stay integers if the factor is one, and are `floats` otherwise.
        """
        whole = self.fixed is not None and float(factor).is_integer()
        held = self if whole else self.floats
        if held is self and factor == 1:
            return self
        by: float = int(factor) if whole else factor
        times: Callable[..., Any] = integers.multiplied if whole else np.multiply
        sums: dict[str, Any] = {name: times(getattr(held, name), by) for name in SUMS}
        return replace(held, weight=held.weight * by, **sums)

    def parts(self) -> Message:
        """Return the statistics as they travel: integers as int64 limbs of 40 binary digits.

        Limbs may be added one by one, and need not carry before they are read.
        """
        if self.fixed is None:
            return super().parts()
        counts = map(self.fixed.limbs.__getitem__, SUMS)
        try:
            arrays = tuple(map(integers.to_limbs, _sums_of(self), counts))
        except (OverflowError, TypeError) as error:
            raise ValueError(
                f"sums over {self.n_rows} rows of weight {self.weight:g} do not fit the limbs of "
                f"{self.fixed.bits} bits; send fewer rows, or smaller weights"
            ) from error
        facts: dict[str, Fact] = {"fingerprint": self.fingerprint, "grid": self.fixed.to_json()}
        numbers = np.array([float(self.n_rows), float(self.weight)])
        return Message(self.KIND.name, facts, (numbers, *arrays))

    @classmethod
    def from_message(cls, parts: Message, *, trusted: bool = False) -> Self:
        """Return statistics that traveled.

        IntegrityError if they are malformed, UploadError if no data can have them.
        """
        if parts.facts.get("grid") is None:
            return super().from_message(parts, trusted=trusted)
        text = parts.facts["grid"]
        fingerprint = parts.facts.get("fingerprint", "")
        if not isinstance(text, str) or not isinstance(fingerprint, str):
            raise IntegrityError(f"grid came as {str(text)[:80]!r}, which it cannot be")
        fixed = FixedPoint.from_json(text)
        # In this process, and where a limb of each number would do, it is read as it is.
        made = parts.whole if type(parts.whole) is cls else None
        vector = made.vector if made else None
        if made and vector is not None and integers.largest(vector) <= integers.LARGEST_LIMB:
            return made
        numbers, *came = parts.expect(cls.KIND.name, 1 + len(SUMS)).arrays
        if numbers.shape != (2,):
            raise IntegrityError(f"the counts of {cls.KIND.name!r} came as {numbers.shape}")
        if numbers.dtype != np.float64:
            raise UploadError("type", f"numbers came as {numbers.dtype}; they are float64")
        n_rows, weight = numbers.tolist()
        for name, number in (("n_rows", n_rows), ("weight", weight)):
            if not (abs(number) < _HEAVIEST and number == int(number)):
                raise UploadError("count", f"{name} is {number}; in fixed point it is an integer")
        if n_rows < 0:
            raise UploadError("count", f"n_rows is {n_rows:g}; a count cannot be negative")
        sums: dict[str, integers.Whole] = {}
        shapes = shapes_of(fixed.n_features, came[1].shape[-1] if came[1].ndim else 0)
        for name, limbs, bare in zip(SUMS, came, shapes, strict=True):
            shape = (fixed.limbs[name], *bare)
            if limbs.dtype != np.int64:
                raise UploadError(
                    "type", f"{name} came as {limbs.dtype}; in fixed point it is int64"
                )
            if limbs.shape != shape:
                raise UploadError("shape", f"{name} came with shape {limbs.shape}, it is {shape}")
            if (most := integers.largest(limbs)) > integers.LARGEST_LIMB:
                raise UploadError("range", f"{name} holds {most}, more than it can be")
            sums[name] = integers.from_limbs(limbs)
        return cls(int(n_rows), weight, **sums, fingerprint=fingerprint, fixed=fixed)

    def moments(self, *, intercept: bool = True) -> tuple[Array, Array]:
        """Return the Gram matrix (F, F) and cross moments (F, K), centered if there is an
        intercept.

        A feature that does not vary has zeros there once it is centered.

        >>> z, y = np.array([[1.0], [3.0]]), np.array([[0.0], [4.0]])
        >>> RidgeStatistics.from_states(z, y).moments()
        (array([[2.]]), array([[4.]]))
        """
        lower, cross = self.lower_moments(intercept=intercept)
        return mirror_lower(lower), cross

    def lower_moments(self, *, intercept: bool = True) -> tuple[Array, Array]:
        """Return what `moments` does, with only the lower triangle of the Gram matrix filled in.

        ValueError if there are no rows.

        >>> z, y = np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([[0.0], [4.0]])
        >>> np.tril(RidgeStatistics.from_states(z, y).lower_moments()[0])
        array([[2. , 0. ],
               [1. , 0.5]])
        """
        if self.fixed is not None:
            return self.floats.lower_moments(intercept=intercept)
        if self.n_rows == 0 or self.weight <= 0:
            raise ValueError(
                f"the statistics hold {self.n_rows} rows of total weight {self.weight:g}; "
                "add data first"
            )
        if not intercept:
            return unpack_lower(self.gram), self.cross.copy()
        mean = self.feature_sum / self.weight
        from catchment.readout.exact_kernels import unpack_rows

        G = np.asarray(unpack_rows(self.gram, mean, self.feature_sum)).T
        C = self.cross - np.outer(mean, self.target_sum)
        constant = np.flatnonzero(G.diagonal() <= CONSTANT * diagonal(self.gram))
        if len(constant):
            G[constant] = 0.0
            G[:, constant] = 0.0
            C[constant] = 0.0
        return G, C

    def target_moments(self, *, intercept: bool = True) -> Array:
        """Return the second moment (K,) of each target, centered if there is an intercept.

        >>> RidgeStatistics.from_states(np.ones((2, 1)), np.array([[0.0], [4.0]])).target_moments()
        array([8.])
        """
        if self.fixed is not None:
            return self.floats.target_moments(intercept=intercept)
        q = diagonal(self.target_gram)
        if intercept and self.weight > 0:
            q -= self.target_sum**2 / self.weight
        return np.maximum(q, 0.0)

    def solve(self, ridge: float = 1e-6, *, intercept: bool = True) -> Readout:
        """Return the readout that minimizes squared error plus ridge times squared weights.

        Parameters
        ----------
        ridge
            One number.
        intercept
            Whether to fit an intercept, which is not penalized.
        """
        from catchment.readout.solve import solve_readout

        return solve_readout(self, ridge, intercept=intercept)

    def _refuse_mixing(self, other: RidgeStatistics) -> None:
        if not isinstance(other, RidgeStatistics):
            raise TypeError(f"cannot combine RidgeStatistics with {type(other).__name__}")
        if self.fingerprint != other.fingerprint:
            if same_features(self.fingerprint, other.fingerprint):
                raise FingerprintError(
                    "one of the statistics may have been computed on any device, the other was "
                    "not, and in float64 that makes a difference; make both with "
                    "deterministic=False"
                )
            raise FingerprintError(
                f"statistics of different features do not add: {self.fingerprint[:12] or 'none'} "
                f"and {other.fingerprint[:12] or 'none'}; use one recipe and one feature map"
            )
        if self.cross.shape != other.cross.shape:
            raise ValueError(
                f"statistics of {self.cross.shape} and {other.cross.shape} features and targets "
                "do not add"
            )
        if self.fixed is None and other.fixed is None:
            return
        if self.fixed is None or other.fixed is None:
            raise ValueError(
                "statistics in fixed point and statistics in float64 do not add; add the `floats` "
                "of both, or accumulate both with one map"
            )
        if self.fixed.bits != other.fixed.bits or self.fixed.runs != other.fixed.runs:
            raise ValueError(
                f"statistics of {self.fixed.bits} and {other.fixed.bits} bits with other units do "
                "not add; use one feature map"
            )


@dataclass(frozen=True, eq=False)
class StatisticsSet(Summable):
    """Statistics of several feature maps, by the number of the map; they add one by one.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> both = StatisticsSet({0: s}) + StatisticsSet({0: s})
    >>> both.members[0].n_rows
    6
    """

    KIND: ClassVar[Kind] = Kind(
        "statistics-set",
        "for each candidate or class, sums over the client's rows: how many there are, the sum of "
        "every feature and target, and the sums of their products",
        (
            "how many rows the client has, and for classes how many of each, exactly",
            "the mean state of each class, and more of it: several sets of sums tell more than one",
            "whether a given recording is among the client's",
        ),
    )

    members: Mapping[int, RidgeStatistics]

    @property
    def n_rows(self) -> int:
        return sum(one.n_rows for one in self.members.values())

    @property
    def is_exact(self) -> bool:
        """Whether all numbers are whole, so that sums and differences are equalities."""
        return all(one.is_exact for one in self.members.values())

    def digest(self) -> str:
        """Return the SHA-256 of the members' digests, in hexadecimal."""
        told = {str(k): one.digest() for k, one in self.members.items()}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def only(self, numbers: Iterable[int]) -> StatisticsSet:
        """Return the members with these numbers."""
        return StatisticsSet({k: self.members[k] for k in numbers})


def _column_sums(rows: Array, weight: Array) -> Array:
    """Return the weighted sum (n_columns,) over rows, by blocks so that rounding does not pile up.

    A centered moment is a small difference of large sums; one running sum over 20 000 equal values
    is already wrong in the twelfth digit and would give a constant feature a variance.
    """
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), 512):
        total += weight[start : start + 512] @ rows[start : start + 512]
    return total
