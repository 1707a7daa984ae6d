"""The numbers of a reservoir: random words, the weights of a layer, and spectral radius.

A counter-based generator (Philox4x64-10; Salmon et al. 2011, "Parallel random numbers: as easy as
1, 2, 3") gives raw 64-bit words, a pure function of (seed, stream, position). Everything else is
mapped from the words here, with integer operations and the five operations that IEEE 754 rounds
correctly (+, -, *, /, sqrt), one array operation at a time. There are no normals, logarithms or
factorizations: those go through libraries whose last bits differ between machines and versions.

A layer has a sparse recurrent matrix, a sparse input matrix, and per-unit values:

    x(t) = (1 - a) x(t-1) + a f( g (W_in u(t) + W x(t-1) + b) + s )

with leak a, activation f, and gain g and shift s of intrinsic plasticity (1 and 0 unless adapted).

`common_radius` is a number that every machine finds, as docs/concepts/recipes.md says. LAPACK or an
Arnoldi iteration find both eigenvectors, and the radius is their quotient y'Ax / y'x in integers
(Ostrowski 1959, "On the convergence of the Rayleigh quotient iteration"), rounded to 20 significant
bits; `spectral_radius` is the nearest float64. A matrix is first cut into the strongly
connected parts of its graph (Pearce 2016, "A space-efficient algorithm for finding strongly
connected components"), so one without a cycle has only zeros, exactly. The iteration restarts with
a quarter of what it has (Wu and Simon 2000, "Thick-restart Lanczos method") and has to find several
eigenvalues in a wide subspace: random matrices have many near the edge of a disc, and asked for one
or two it returns, without any error, one that is not the largest.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from enum import IntEnum
from fractions import Fraction
from itertools import filterfalse
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Booleans, Integers
from catchment.features.base import handed
from catchment.parallel import single_blas_thread

Words64 = NDArray[np.uint64]
Vector = NDArray[np.complex128]

ACTIVATIONS = ("tanh", "sigmoid", "relu", "sin", "identity")
LEAST_DIGITS, MOST_DIGITS = 8, 24  # of states in fixed point
DEFAULT_RANGE = 8.0  # largest absolute value of an input
MOST_WEIGHT_DIGITS = 20  # likewise
ROUND = 6755399441055744.0  # 1.5 2^52: adding and subtracting it rounds to integers
LINEAR_BOUND = 8.0  # relu and identity have none of their own, and are cut off here
BOUNDED = tuple(ACTIVATIONS.index(name) for name in ("tanh", "sigmoid", "sin"))

# The arrays of a layer as it travels.
_UNIT = ("bias", "leak", "gain", "shift", "activation")
_SPARSE = ("starts", "columns", "values")
_MATRIX = (np.int64, np.uint32, np.float64, np.int64)  # kinds of the arrays of a matrix
_KINDS = (*[np.float64] * 4, np.uint8, *_MATRIX, *_MATRIX)  # and of a layer

# How eigenvalues are found.
DENSE_UP_TO = 250  # units, without an iteration; twice as many where connections are few
FEW = 3  # connections of a unit
DENSE_AT_MOST = 4000
DENSE_FROM = 0.25  # share of non-zeros
N_EIGENVALUES = 6
SUBSPACE, LARGE_SUBSPACE, WIDE_SUBSPACE = 60, 120, 400  # of few units, of many, of hard cases
RESTARTS = 150
TOLERANCE = 1e-12
DROPPED = 0.7  # share of a vector's length below which it is made orthogonal once more
NOTHING = 1e-14  # share of it that is left by rounding alone

# How a radius is made exact.
RADIUS_BITS = 20  # significant, of a common radius
NEAR = Fraction(1, 10**9)  # share of the radius within which it is on the edge of a rounding
ACCURACY = 1e-12  # share of an eigenvalue by which its quotient may be wrong at most
ALIKE = 1e-9  # share by which eigenvalues differ that may each be the largest
CLUSTER = 1e-5  # share within which a value that is there several times is found
MOST_ALIKE = 4  # of these that are looked at: the many of a periodic matrix are of one size
MOST_EXPONENT = 100  # of the largest weight that is taken as it is
SHIFT = 1.0 + 2.0**-42  # beside the eigenvalue, where no pivot is zero
INVERSE_STEPS = 3
ENOUGH = 1e-20  # as ACCURACY, with which no more steps are made
BLOCK = 1 << 16  # entries that are integers at a time, about
VECTOR_DIGITS = 60  # binary, of the vectors in a quotient
ROOT_DIGITS = 192  # binary, of a root
LOGARITHMS = Context(prec=50)  # correctly rounded, so that every machine has the same


class Purpose(IntEnum):
    """What a stream of words is for: a new setting of one purpose leaves the draws of the rest."""

    RECURRENT_PLACES = 0
    RECURRENT_VALUES = 1
    INPUT_PLACES = 2
    INPUT_VALUES = 3
    BIAS = 4
    LEAK = 5
    ACTIVATION = 6
    PROBE = 7
    PROMPT = 8
    PROJECTION_SIGNS = 16
    PROJECTION_PLACES = 17
    CONVOLUTION_CHANNELS = 32
    CONVOLUTION_NOISE = 33
    HYDRA_KERNELS = 34
    HYDRA_CHANNELS = 35


@final
class Words:
    """The raw words of one stream, in order.

    >>> rng = Words(seed=7, layer=0, purpose=Purpose.BIAS)
    >>> rng.take(2)
    array([10178753427918985433,   385477333659443678], dtype=uint64)
    """

    def __init__(self, *, seed: int, layer: int, purpose: Purpose) -> None:
        stream = (layer << 8) | purpose
        self._bits = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64))

    def take(self, n: int) -> Words64:
        """Return the next n words (n,)."""
        return self._bits.random_raw(n).astype(np.uint64, copy=False)


def uniform(rng: Words, n: int, low: float = 0.0, high: float = 1.0) -> Array:
    """Return numbers (n,) between low and high, from the upper 53 bits of a word each.

    >>> uniform(Words(seed=7, layer=0, purpose=Purpose.BIAS), 2)
    array([0.55179133, 0.02089677])
    """
    fraction = (rng.take(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return low + (high - low) * fraction


def log_uniform(rng: Words, n: int, low: float, high: float) -> Array:
    """Return numbers (n,) between low and high whose logarithms are uniform.

    low * (high / low) ** fraction, as a product of repeated square roots of the ratio: one root
    for each bit of the fraction.

    >>> values = log_uniform(Words(seed=7, layer=0, purpose=Purpose.LEAK), 1000, 0.01, 1.0)
    >>> bool(abs(np.median(values) - 0.1) < 0.02)
    True
    """
    return _between(rng.take(n), low, high)


def geometric(n: int, low: float, high: float) -> Array:
    """Return numbers (n,) that fall from high to low, each the same fraction of the one before.

    >>> geometric(3, 0.25, 1.0)
    array([1.  , 0.5 , 0.25])
    """
    words = [((n - 1 - k) << 64) // (n - 1) for k in range(1, n)]
    return np.concatenate([[high][:n], _between(np.array(words, dtype=np.uint64), low, high)])


def _between(words: NDArray[np.uint64], low: float, high: float) -> Array:
    """Return low * (high / low) ** fraction (n,), the words being the bits of the fractions."""
    values = np.full(len(words), low)
    root = high / low
    for bit in range(63, 10, -1):
        root = math.sqrt(root)
        chosen = (words >> np.uint64(bit)) & np.uint64(1) == 1
        values = np.where(chosen, values * root, values)
    return np.asarray(np.clip(values, low, high))


def integers(rng: Words, n: int, bound: int) -> Integers:
    """Return integers (n,) from 0 to bound - 1, each exactly equally likely.

    >>> integers(Words(seed=7, layer=0, purpose=Purpose.BIAS), 5, 10)
    array([3, 8, 8, 4, 1])
    """
    # Words from the last, incomplete block of `bound` values would favor small remainders.
    last = (1 << 64) - (1 << 64) % bound - 1
    accepted = np.empty(0, dtype=np.uint64)
    while len(accepted) < n:
        words = rng.take(n - len(accepted))
        accepted = np.concatenate([accepted, words[words <= np.uint64(last)]])
    return (accepted % np.uint64(bound)).astype(np.int64)


def signs(rng: Words, n: int) -> Array:
    """Return -1 or 1 (n,), by the highest bit of a word each.

    >>> signs(Words(seed=7, layer=0, purpose=Purpose.BIAS), 4)
    array([ 1., -1.,  1.,  1.])
    """
    return np.where(rng.take(n) >> np.uint64(63) == 1, 1.0, -1.0)


def permutation(rng: Words, n: int) -> Integers:
    """Return 0 ... n - 1 in random order (n,): the order that sorts n words.

    >>> permutation(Words(seed=7, layer=0, purpose=Purpose.BIAS), 5)
    array([1, 0, 4, 3, 2])
    """
    return np.argsort(rng.take(n), kind="stable")


def distinct(rng: Words, n_rows: int, n: int, bound: int) -> Integers:
    """Return rows (n_rows, n) of n different integers below bound, ascending in each row.

    Few out of many are drawn and repeats drawn again, so memory follows n and not bound;
    otherwise the places of the n smallest of `bound` words are taken.

    >>> distinct(Words(seed=7, layer=0, purpose=Purpose.BIAS), 2, 3, 5)
    array([[0, 1, 4],
           [0, 1, 2]])
    """
    if n == bound:
        return np.tile(np.arange(bound), (n_rows, 1))
    if 4 * n > bound:
        words = rng.take(n_rows * bound).reshape(n_rows, bound)
        return np.sort(np.argsort(words, axis=1, kind="stable")[:, :n], axis=1)
    drawn = np.sort(integers(rng, n_rows * n, bound).reshape(n_rows, n), axis=1)
    while True:
        repeated: Booleans = np.zeros(drawn.shape, dtype=np.bool_)
        repeated[:, 1:] = drawn[:, 1:] == drawn[:, :-1]
        n_repeated = int(np.count_nonzero(repeated))
        if n_repeated == 0:
            return drawn
        drawn[repeated] = integers(rng, n_repeated, bound)
        drawn.sort(axis=1)


def orthogonal(rng: Words, n: int) -> Array:
    """Return an orthogonal matrix (n, n) with few or no zeros.

    A random signed permutation, whose rows are then mixed in rounds: random disjoint pairs of rows
    are rotated into each other by the cosine and sine (1 - t^2, 2t) / (1 + t^2), t uniform in
    (-1, 1). Each round doubles the number of rows that enter a row, so 2 log2(n) rounds mix all.

    >>> Q = orthogonal(Words(seed=7, layer=0, purpose=Purpose.RECURRENT_VALUES), 50)
    >>> bool(abs(Q @ Q.T - np.eye(50)).max() < 1e-14)
    True
    """
    Q = np.zeros((n, n))
    Q[np.arange(n), permutation(rng, n)] = signs(rng, n)
    half = n // 2
    for _ in range(2 * (n - 1).bit_length()):
        order = permutation(rng, n)
        first, second = order[:half], order[half : 2 * half]
        t = uniform(rng, half, -1.0, 1.0)
        norm = 1.0 + t * t
        cosine, sine = ((1.0 - t * t) / norm)[:, None], (2.0 * t / norm)[:, None]
        a, b = Q[first], Q[second]
        Q[first] = cosine * a - sine * b
        Q[second] = sine * a + cosine * b
    return Q


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A matrix (n_rows, n_columns) by its non-zeros, row after row, columns ascending.

    >>> m = SparseRows.from_dense(np.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> m.values, m.columns
    (array([2., 3.]), array([1, 0], dtype=uint32))
    >>> m.to_dense()
    array([[0., 2.],
           [3., 0.]])
    """

    starts: NDArray[np.int64]  # (n_rows + 1,)
    columns: NDArray[np.uint32]  # (nnz,)
    values: Array  # (nnz,)
    n_columns: int

    @classmethod
    def from_dense(cls, matrix: Array) -> SparseRows:
        rows, columns = np.nonzero(matrix)
        return cls.from_coordinates(rows, columns, matrix[rows, columns], *matrix.shape)

    @classmethod
    def from_coordinates(
        cls,
        rows: NDArray[np.integer],
        columns: NDArray[np.integer],
        values: Array,
        n_rows: int,
        n_columns: int,
    ) -> SparseRows:
        """Return the matrix with these entries; positions must be distinct."""
        # Numbers of 16 bits are sorted without comparing them.
        order = np.argsort(columns.astype(np.min_scalar_type(n_columns)), kind="stable")
        own = rows[order].astype(np.min_scalar_type(n_rows))
        order = order[np.argsort(own, kind="stable")]
        starts = np.zeros(n_rows + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=n_rows), out=starts[1:])
        return cls(starts, columns[order].astype(np.uint32), values[order].copy(), n_columns)

    n_nonzero: ClassVar[int] = handed("values.size")

    @property
    def n_rows(self) -> int:
        return len(self.starts) - 1

    @property
    def density(self) -> float:
        return self.n_nonzero / max(1, self.n_rows * self.n_columns)

    def rows(self) -> NDArray[np.int64]:
        """Return the row (nnz,) of each non-zero."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    def to_dense(self) -> Array:
        matrix = np.zeros((self.n_rows, self.n_columns))
        matrix[self.rows(), self.columns] = self.values
        return matrix

    def times(self, factor: float) -> SparseRows:
        return SparseRows(self.starts, self.columns, self.values * factor, self.n_columns)


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Everything that drives one layer of N units."""

    W: SparseRows  # (N, N)
    W_in: SparseRows  # (N, I)
    bias: Array  # (N,)
    leak: Array  # (N,)
    gain: Array  # (N,)
    shift: Array  # (N,)
    activation: NDArray[np.uint8]  # (N,) index into ACTIVATIONS

    def __post_init__(self) -> None:
        N = self.W.n_rows
        if self.W.n_columns != N or self.W_in.n_rows != N:
            raise ValueError(
                f"W is {self.W.n_rows} x {self.W.n_columns} and W_in has {self.W_in.n_rows} rows; "
                "W must be square and W_in must have a row per unit"
            )
        for name in ("bias", "leak", "gain", "shift", "activation"):
            if getattr(self, name).shape != (N,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, expected ({N},)")

    n_units: ClassVar[int] = handed("W.n_rows")
    n_inputs: ClassVar[int] = handed("W_in.n_columns")

    def digest(self) -> bytes:
        """Return the SHA-256 of every number, in little-endian order."""
        sha = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            parts = (
                (value.starts, value.columns, value.values, np.int64(value.n_columns))
                if isinstance(value, SparseRows)
                else (value,)
            )
            for part in parts:
                array = np.asarray(part)
                sha.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return sha.digest()


def state_bounds(activation: NDArray[np.uint8], *, in_fixed_point: bool = True) -> Array:
    """Return the largest absolute value (N,) of each unit's states; infinite if there is none."""
    return np.where(np.isin(activation, BOUNDED), 1.0, LINEAR_BOUND if in_fixed_point else np.inf)


def rounded(values: Array, digits: int | Integers) -> Array:
    """Return values rounded to this many binary digits after the point, ties to even.

    >>> rounded(np.array([0.3, -0.01, 0.375]), 2)
    array([0.25, 0.  , 0.5 ])
    """
    # Adding zero turns -0 into 0, so that equal numbers have equal bits.
    found: Array = np.ldexp(np.rint(np.ldexp(values, digits)), -np.asarray(digits)) + 0.0
    return found


def layer_arrays(layer: LayerWeights) -> tuple[NDArray[Any], ...]:
    """Return the numbers of a layer as arrays, in a fixed order; `layers_of` reads them."""
    arrays: list[NDArray[Any]] = [getattr(layer, name) for name in _UNIT]
    for matrix in (layer.W, layer.W_in):
        arrays += [getattr(matrix, name) for name in _SPARSE]
        arrays.append(np.array([matrix.n_columns], dtype=np.int64))
    return tuple(arrays)


def layers_of(arrays: Sequence[NDArray[Any]]) -> tuple[LayerWeights, ...]:
    """Return the layers whose arrays these are, after checking what the kernels trust."""
    size = len(_KINDS)
    if not arrays or len(arrays) % size:
        raise ValueError(f"{len(arrays)} arrays came, a layer has {size}")
    found = []
    for first in range(0, len(arrays), size):
        mine = arrays[first : first + size]
        for array, kind in zip(mine, _KINDS, strict=True):
            if array.dtype != kind:
                raise TypeError(f"an array has type {array.dtype}, not {np.dtype(kind)}")
        if (mine[4] >= len(ACTIVATIONS)).any():
            raise ValueError(f"activation {mine[4].max()} is unknown")
        found.append(LayerWeights(_sparse(*mine[5:9]), _sparse(*mine[9:]), *mine[:5]))
    return tuple(found)


def _sparse(
    starts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], width: NDArray[Any]
) -> SparseRows:
    """Return the matrix, after checking that every index is inside."""
    n_columns = int(width[0]) if width.shape == (1,) else -1
    inside = starts.ndim == columns.ndim == values.ndim == 1 and len(columns) == len(values)
    inside = inside and len(starts) > 0 and starts[0] == 0 and starts[-1] == len(values)
    if not (inside and (np.diff(starts) >= 0).all() and (columns < max(n_columns, 0)).all()):
        raise ValueError("a sparse matrix points outside itself")
    return SparseRows(starts, columns, values, n_columns)


def spectral_radius(W: SparseRows) -> float:
    """Return the largest absolute eigenvalue of a square matrix.

    >>> spectral_radius(SparseRows.from_dense(np.array([[0.0, 2.0], [0.0, -2.0]])))
    2.0
    >>> spectral_radius(SparseRows.from_dense(np.array([[0.0, 2.0], [0.0, 0.0]])))
    0.0
    """
    return float(max(_radii(W)))


def common_radius(W: SparseRows) -> tuple[float, bool]:
    """Return the radius with 20 significant bits, the same on every machine, or with 21 and True.

    >>> common_radius(SparseRows.from_dense(np.array([[0.0, 2.0], [1.0, 0.0]])))
    (1.4142131805419922, False)
    """
    return rounded_radius(max(_radii(W)))


def rounded_radius(radius: Fraction) -> tuple[float, bool]:
    """Return a radius with 20 significant bits, or on the edge of a rounding with 21 and True.

    >>> rounded_radius(Fraction(1, 3)), rounded_radius(1 + Fraction(1, 2**20))
    ((0.33333349227905273, False), (1.0000009536743164, True))
    """
    unit = Fraction(2) ** (math.frexp(float(radius))[1] - RADIUS_BITS)
    middle = (math.floor(radius / unit) + Fraction(1, 2)) * unit
    if radius > 0 and abs(radius - middle) < NEAR * radius:
        return float(middle), True
    return float(round(radius / unit) * unit), False


def _radii(W: SparseRows) -> Iterator[Fraction]:
    """Yield the radius of each strongly connected part of the graph, to many digits."""
    if W.n_columns != W.n_rows:
        raise ValueError(f"the matrix is {W.n_rows} x {W.n_columns}; give a square one")
    if not np.isfinite(W.values).all():
        raise ValueError("the matrix has entries that are not finite; replace them")
    there = W.values != 0.0
    rows, columns, values = W.rows()[there], W.columns[there], W.values[there]
    part = strong_parts(np.searchsorted(rows, np.arange(W.n_rows + 1)), columns)
    sizes, inside = np.bincount(part), part[rows] == part[columns]
    # A part of one unit is its own eigenvalue.
    alone = np.abs(values[(rows == columns) & (sizes[part[rows]] == 1)])
    yield Fraction(float(alone.max(initial=0.0)))
    for label in np.flatnonzero(sizes > 1):
        mine, n = inside & (part[rows] == label), int(sizes[label])
        place = np.cumsum(part == label) - 1
        own = (place[rows[mine]], place[columns[mine]], values[mine])
        radius = _cycle_radius(own[2], n)
        if radius is None:
            # Scaled where the squares of numbers would be beyond float64.
            unit = int(np.frexp(own[2])[1].max())
            unit = unit if abs(unit) > MOST_EXPONENT else 0
            scaled = SparseRows.from_coordinates(*own[:2], np.ldexp(own[2], -unit), n, n)
            with single_blas_thread():
                radius = _exact_radius(scaled) * Fraction(2) ** unit
        yield radius


def strong_parts(starts: Integers, columns: NDArray[np.integer]) -> Integers:
    """Return the strongly connected part (N,) that each unit of a graph is in.

    Parameters
    ----------
    starts
        (N + 1,) where the units that each unit leads to begin in `columns`.

    >>> strong_parts(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 2]))
    array([1, 1, 0])
    """
    N, ends, met = len(starts) - 1, starts.tolist(), 0
    # 0: not met yet; up to N: the first of the units met that it is known to lead to; then parts.
    label, waiting, closed = [0] * N, list[int](), N
    path: list[tuple[int, int, list[int], Iterator[int]]] = []
    for start in range(N):
        following = None if label[start] else start
        while path or following is not None:
            if following is not None:
                label[following] = met = met + 1
                led = columns[ends[following] : ends[following + 1]].tolist()
                path.append((following, met, led, iter(led)))
            unit, order, led, left = path[-1]
            following = next(filterfalse(label.__getitem__, left), None)
            if following is None:
                path.pop()
                waiting.append(unit)
                label[unit] = min(order, min(map(label.__getitem__, led), default=order))
                if label[unit] == order:
                    closed += 1
                    while waiting and label[waiting[-1]] >= order:
                        label[waiting.pop()] = closed
    return np.array(label, dtype=np.int64) - N - 1


def _cycle_radius(values: Array, n_units: int) -> Fraction | None:
    """Return the geometric mean of the weights of a cycle, or None if the part is none.

    An iteration cannot tell the eigenvalues of a cycle apart: all have the same size.
    """
    if len(values) != n_units:
        return None
    weights = np.abs(values)
    if (weights == weights[0]).all():
        return Fraction(float(weights[0]))
    total = Decimal(0)
    for weight in weights.tolist():
        total = LOGARITHMS.add(total, LOGARITHMS.ln(Decimal(weight)))
    return Fraction(LOGARITHMS.exp(LOGARITHMS.divide(total, Decimal(len(weights)))))


def _eigen(matrix: SparseRows) -> tuple[Vector, Vector | None]:
    """Return eigenvalues, the largest among them, and their vectors (N, n) if by an iteration."""
    N = matrix.n_rows
    found = _iterated(matrix) if DENSE_UP_TO * (1 + _few(matrix)) < N else None
    if found is None and max(DENSE_UP_TO, DENSE_AT_MOST) >= N:
        return np.linalg.eigvals(matrix.to_dense()).astype(np.complex128), None
    found = found or _iterated(matrix, wide=True)
    if found is None:
        raise _not_converged(N)
    return found


def _few(matrix: SparseRows) -> bool:
    """Whether connections are few: eigenvalues of long cycles have almost one size."""
    return matrix.n_nonzero < FEW * matrix.n_rows


def _not_converged(units: int) -> ArithmeticError:
    return ArithmeticError(
        f"the largest eigenvalue of a matrix of {units} units did not converge; choose another "
        "seed, or a topology whose radius is known (ring, permutation, orthogonal)"
    )


def _iterated(
    matrix: SparseRows, near: Vector | None = None, *, wide: bool = False
) -> tuple[Vector, Vector] | None:
    """Return the largest eigenvalues and their vectors (N, n), None if they do not converge.

    By Arnoldi iteration from a fixed start. Of an orthonormal basis, rows V (m + 1, N), it knows
    A V' = V' H but for the last row of H (m + 1, m), which tells how wrong an eigenvalue of H is.

    Parameters
    ----------
    near
        The values that are wanted, if they are not the largest.
    """
    n, times = matrix.n_rows, _times(matrix)
    m = LARGE_SUBSPACE if _few(matrix) else min(SUBSPACE + n // 100, LARGE_SUBSPACE)
    m = WIDE_SUBSPACE if wide else m
    V, H, first = np.empty((m + 1, n)), np.zeros((m + 1, m)), 0
    V[0] = _start(n) / np.linalg.norm(_start(n))
    for _ in range(RESTARTS):
        for j in range(first, m):
            a = times(V[j])
            H[: j + 1, j], H[j + 1, j] = _beside(V[: j + 1], a)
            if H[j + 1, j] == 0.0:  # nothing new comes from this start: another one's turn
                a = np.roll(_start(n), j + 1)
                _beside(V[: j + 1], a)
            V[j + 1] = a / np.linalg.norm(a)
        values, Y = np.linalg.eig(H[:-1])
        Y, order = Y.astype(np.complex128), np.argsort(-np.abs(values), kind="stable")
        wanted, far = order[:N_EIGENVALUES], np.zeros(1, dtype=np.bool_)
        if near is not None:
            wanted = np.abs(values - near[:, None]).argmin(axis=1)
            far = np.abs(values[wanted] - near) > CLUSTER * np.abs(near)
        wrong = np.abs(H[-1] @ Y[:, wanted]) > TOLERANCE * np.abs(values[wanted])
        if not (wrong | far).any():
            x, y = (V[:-1].T @ part[:, wanted] for part in (Y.real, Y.imag))
            return values[wanted].astype(np.complex128), x + 1j * y
        # The real and imaginary parts of one of each conjugate pair.
        chosen = order[: m // 4]
        chosen = chosen[values[chosen].imag >= 0.0]
        paired = chosen[values[chosen].imag > 0.0]
        Q = np.linalg.qr(np.hstack([Y.real[:, chosen], Y.imag[:, paired]]))[0]
        first = Q.shape[1]
        V[:first], V[first] = Q.T @ V[:-1], V[-1]
        kept, last = Q.T @ H[:-1] @ Q, H[-1] @ Q
        H[:] = 0.0
        H[:first, :first], H[first, :first] = kept, last
    return None


def _beside(V: Array, a: Array) -> tuple[Array, float]:
    """Take what lies along the rows of V off a, in place; return it (m,) and the length left."""
    size, along = float(np.linalg.norm(a)), np.zeros(len(V))
    left, before = size, math.inf
    while left < DROPPED * before:
        part = V @ a
        a -= part @ V
        along += part
        before, left = left, float(np.linalg.norm(a))
        if left <= NOTHING * size:
            return along, 0.0
    return along, left


def _times(matrix: SparseRows) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return what multiplies vectors (N,) by a matrix that has an entry in each row."""
    values, columns, starts = matrix.values, matrix.columns.astype(np.intp), matrix.starts[:-1]
    if matrix.density >= DENSE_FROM and len(starts) <= DENSE_AT_MOST:
        return matrix.to_dense().__matmul__
    return lambda x: np.add.reduceat(x.take(columns) * values, starts)


def _start(n: int) -> Array:
    return uniform(Words(seed=0, layer=0, purpose=Purpose.PROBE), n, -1.0, 1.0)


def _exact_radius(matrix: SparseRows) -> Fraction:
    """Return the largest absolute eigenvalue, to many more digits than `_eigen` finds."""
    values, vectors = _eigen(matrix)
    sizes = np.abs(values)
    # Of two conjugate ones either does.
    alike = np.flatnonzero((sizes >= (1.0 - ALIKE) * sizes.max()) & (values.imag >= 0.0))
    chosen = alike[np.argsort(-sizes[alike], kind="stable")[:MOST_ALIKE]]
    N, found = matrix.n_rows, list[Fraction]()
    transposed = SparseRows.from_coordinates(matrix.columns, matrix.rows(), matrix.values, N, N)
    if vectors is None:
        pairs = [_both_vectors(matrix, transposed, complex(values[k])) for k in chosen]
    else:
        near = values[chosen]
        left = _iterated(transposed, near) or _iterated(transposed, near, wide=True)
        if left is None:
            raise _not_converged(N)
        pairs = list(zip(vectors[:, chosen].T, left[1].T, strict=True))
    for value, (x, y) in zip(values[chosen], pairs, strict=True):
        # One that is there several times is found as several, some root of the precision apart; but
        # they lie around it, and their mean is as good as a simple value.
        around = values[np.abs(values - value) <= CLUSTER * abs(value)]
        sure = _doubt(matrix, transposed, x, y) <= ACCURACY
        found.append(_quotient(matrix, x, y) if sure else Fraction(float(abs(around.mean()))))
    return max(found)


def _both_vectors(
    matrix: SparseRows, transposed: SparseRows, value: complex
) -> tuple[Vector, Vector]:
    """Return the right and left eigenvectors (N,) of an eigenvalue by inverse iteration."""
    N = matrix.n_rows
    A = matrix.to_dense().astype(np.complex128)
    A[np.diag_indices(N)] -= value * SHIFT
    x, y = np.tile(_start(N).astype(np.complex128), (2, 1))
    with suppress(np.linalg.LinAlgError):
        for _ in range(INVERSE_STEPS):
            x[:], y[:] = np.linalg.solve(A, x), np.linalg.solve(A.T, y)
            x /= np.linalg.norm(x)
            y /= np.linalg.norm(y)
            if _doubt(matrix, transposed, x, y) <= ENOUGH:
                break
    return x, y


def _doubt(matrix: SparseRows, transposed: SparseRows, x: Vector, y: Vector) -> float:
    """Return the share by which y'Ax / y'x may be wrong, of vectors of length 1."""
    Ax, Ay = _times(matrix)(x), _times(transposed)(y)
    overlap, moved = complex(y @ x), complex(y @ Ax)
    if overlap == 0.0 or moved == 0.0:
        return math.inf
    value = moved / overlap
    wrong = [float(np.linalg.norm(part)) for part in (Ax - value * x, Ay - value * y)]
    # Divided by y'x once, and once more because a small one means that another value is near.
    return wrong[0] / abs(moved) * (wrong[1] / abs(moved))


def _quotient(matrix: SparseRows, x: Vector, y: Vector) -> Fraction:
    """Return |y'Ax / y'x|, only its root rounded."""
    xs = [_whole(part, VECTOR_DIGITS) for part in (x.real, x.imag)]
    ys = [_whole(part, VECTOR_DIGITS) for part in (y.real, y.imag)]
    digits = 53 - int(np.frexp(matrix.values)[1].min())
    moved = [np.empty(len(x), dtype=object) for _ in xs]
    n_rows = max(1, BLOCK * matrix.n_rows // matrix.n_nonzero)
    for first in range(0, matrix.n_rows, n_rows):
        last = min(first + n_rows, matrix.n_rows)
        places = slice(matrix.starts[first], matrix.starts[last])
        a, columns = _whole(matrix.values[places], digits), matrix.columns[places]
        for part, out in zip(xs, moved, strict=True):
            # Every row has an entry, or its unit would be no part of a larger whole.
            out[first:last] = np.add.reduceat(
                a * part[columns], matrix.starts[first:last] - places.start
            )
    squared = Fraction(_size(ys, moved), _size(ys, xs)) / 4**digits
    return Fraction(math.isqrt(math.floor(squared * 4**ROOT_DIGITS)), 2**ROOT_DIGITS)


def _whole(values: Array, digits: int) -> NDArray[np.object_]:
    """Return values times 2^digits, rounded, as integers of any size."""
    if digits > 900:  # so near to the end of float64 that larger values would be beyond it
        return np.array([round(Fraction(v) * 2**digits) for v in values.tolist()], dtype=object)
    return np.array(list(map(int, np.rint(np.ldexp(values, digits)).tolist())), dtype=object)


def _size(y: list[NDArray[np.object_]], x: list[NDArray[np.object_]]) -> int:
    """Return |y'x|^2 of complex vectors of integers, as real and imaginary parts."""
    real, imaginary = y[0] @ x[0] - y[1] @ x[1], y[0] @ x[1] + y[1] @ x[0]
    return int(real * real + imaginary * imaginary)
