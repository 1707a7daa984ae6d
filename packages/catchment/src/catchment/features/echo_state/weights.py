"""The numbers of a reservoir: random words, the weights of a layer, and spectral radius.

A counter-based generator (Philox4x64-10; Salmon et al. 2011, "Parallel random numbers: as easy as
1, 2, 3") gives raw 64-bit words, a pure function of (seed, stream, position). Everything else is
mapped from the words here, with integer operations and the five operations that IEEE 754 rounds
correctly (+, -, *, /, sqrt), one array operation at a time. There are no normals, logarithms or
factorizations: those go through libraries whose last bits differ between machines and versions.

A layer has a sparse recurrent matrix, a sparse input matrix, and per-unit values:

    x(t) = (1 - a) x(t-1) + a f( g (W_in u(t) + W x(t-1) + b) + s )

with leak a, activation f, and gain g and shift s of intrinsic plasticity (1 and 0 unless adapted).

`spectral_radius` is what LAPACK or ARPACK say, whose last digits differ between processors.
`common_radius` is a number that every machine finds, as docs/concepts/recipes.md says: the quotient
y'Ax / y'x of both eigenvectors in integers (Ostrowski 1959, "On the convergence of the Rayleigh
quotient iteration"), rounded to 20 significant bits. A matrix is first cut into the strongly
connected parts of its graph, so one without a cycle has only zeros, exactly. ARPACK is asked for
several eigenvalues in a wide subspace: random matrices have many near the edge of a disc, and asked
for one or two it returns, without any error, one that is not the largest.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from catchment.arrays import Array, Booleans, Integers
from catchment.features.base import handed
from catchment.parallel import single_blas_thread

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Words64 = NDArray[np.uint64]


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
    clipped: Array = np.clip(values, low, high)
    return clipped


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


ACTIVATIONS = ("tanh", "sigmoid", "relu", "sin", "identity")


LEAST_DIGITS, MOST_DIGITS = 8, 24  # of states in fixed point
DEFAULT_RANGE = 8.0  # largest absolute value of an input
MOST_WEIGHT_DIGITS = 20
ROUND = 6755399441055744.0  # 1.5 2^52: adding and subtracting it rounds to integers
LINEAR_BOUND = 8.0  # relu and identity have none of their own, and are cut off here
BOUNDED = tuple(ACTIVATIONS.index(name) for name in ("tanh", "sigmoid", "sin"))


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
        order = np.lexsort((columns, rows))
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


_UNIT = ("bias", "leak", "gain", "shift", "activation")
_SPARSE = ("starts", "columns", "values")
_MATRIX = (np.int64, np.uint32, np.float64, np.int64)  # kinds of the arrays of a matrix
_KINDS = (*[np.float64] * 4, np.uint8, *_MATRIX, *_MATRIX)  # and of a layer


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


DENSE_UP_TO = 500
DENSE_AT_MOST = 4000
N_EIGENVALUES = 6
SUBSPACE, WIDE_SUBSPACE = 120, 400
RESTARTS = 100
TOLERANCE = 1e-12

RADIUS_BITS = 20  # significant, of a common radius
NEAR = Fraction(1, 10**9)  # share of the radius within which it is on the edge of a rounding
ACCURACY = 1e-12  # share of an eigenvalue by which its quotient may be wrong at most
ALIKE = 1e-9  # share by which eigenvalues differ that may each be the largest
CLUSTER = 1e-5  # share within which a value that is there several times is found
MOST_ALIKE = 4  # of these that are looked at: the many of a periodic matrix are of one size
SHIFT = 1.0 + 2.0**-36  # beside the eigenvalue, where no pivot is zero
INVERSE_STEPS = 3
BLOCK = 1 << 16  # entries that are integers at a time
VECTOR_DIGITS = 60  # binary, of the vectors in a quotient
ROOT_DIGITS = 192  # binary, of a root
LOGARITHMS = Context(prec=50)  # correctly rounded, so that every machine has the same

Vector = NDArray[np.complex128]


def spectral_radius(W: SparseRows) -> float:
    """Return the largest absolute eigenvalue of a square matrix.

    >>> spectral_radius(SparseRows.from_dense(np.array([[0.0, 2.0], [0.0, -2.0]])))
    2.0
    >>> spectral_radius(SparseRows.from_dense(np.array([[0.0, 2.0], [0.0, 0.0]])))
    0.0
    """
    alone, parts = _parts(W)
    with single_blas_thread():
        cycles = [(part, _cycle_radius(part)) for part in parts]
        found = [np.abs(_eigen(part)[0]).max() if r is None else r for part, r in cycles]
    return float(max([alone, *found]))


def common_radius(W: SparseRows) -> tuple[float, bool]:
    """Return the radius with 20 significant bits, the same on every machine, or with 21 and True.

    >>> common_radius(SparseRows.from_dense(np.array([[0.0, 2.0], [1.0, 0.0]])))
    (1.4142131805419922, False)
    """
    alone, parts = _parts(W)
    found = [Fraction(alone)]
    with single_blas_thread():
        for part in parts:
            cycle = _cycle_radius(part)
            found.append(_exact_radius(part, *_eigen(part)) if cycle is None else cycle)
    return rounded_radius(max(found))


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


def _parts(W: SparseRows) -> tuple[float, list[csr_array]]:
    """Return the largest eigenvalue of units that are a part by themselves, and larger parts."""
    # scipy.sparse takes a third of a second to import: only who scales a matrix pays for it.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    if W.n_columns != W.n_rows:
        raise ValueError(f"the matrix is {W.n_rows} x {W.n_columns}; give a square one")
    if W.n_nonzero == 0:
        return 0.0, []
    if not np.isfinite(W.values).all():
        raise ValueError("the matrix has entries that are not finite; replace them")
    columns = W.columns.astype(np.int64)
    # A copy, because zeros are taken out in place, and a matrix may be read-only.
    held = (W.values, columns, W.starts)
    matrix = csr_array(held, shape=(W.n_rows, W.n_columns), copy=True)
    matrix.eliminate_zeros()
    _, part = connected_components(matrix, directed=True, connection="strong")  # type: ignore[arg-type]  # stubs lack csr_array
    sizes = np.bincount(part)
    # A part of one unit is its own eigenvalue.
    alone = np.abs(matrix.diagonal())[sizes[part] == 1]
    places = [np.flatnonzero(part == label) for label in np.flatnonzero(sizes > 1)]
    return float(alone.max(initial=0.0)), [matrix[units][:, units] for units in places]


def _cycle_radius(matrix: csr_array) -> Fraction | None:
    """Return the geometric mean of the weights of a cycle, or None if the matrix is none.

    An iteration cannot tell the eigenvalues of a cycle apart: all have the same size.
    """
    if matrix.nnz != matrix.shape[0]:
        return None
    weights = np.abs(matrix.data)
    if (weights == weights[0]).all():
        return Fraction(float(weights[0]))
    total = Decimal(0)
    for weight in weights.tolist():
        total = LOGARITHMS.add(total, LOGARITHMS.ln(Decimal(weight)))
    return Fraction(LOGARITHMS.exp(LOGARITHMS.divide(total, Decimal(len(weights)))))


def _eigen(matrix: csr_array) -> tuple[Vector, Vector | None]:
    """Return eigenvalues, the largest among them, and their vectors (N, n) if by an iteration."""
    N = matrix.shape[0]
    if N <= DENSE_UP_TO:
        return np.linalg.eigvals(matrix.toarray()).astype(np.complex128), None
    found = _arpack(matrix, SUBSPACE)
    if found is None and N <= DENSE_AT_MOST:
        return np.linalg.eigvals(matrix.toarray()).astype(np.complex128), None
    found = _arpack(matrix, WIDE_SUBSPACE) if found is None else found
    if found is not None:
        return found
    raise _not_converged(N)


def _not_converged(units: int) -> ArithmeticError:
    return ArithmeticError(
        f"the largest eigenvalue of a matrix of {units} units did not converge; choose another "
        "seed, or a topology whose radius is known (ring, permutation, orthogonal)"
    )


def _arpack(matrix: csr_array, subspace: int) -> tuple[Vector, Vector] | None:
    """Return eigenvalues and vectors by Arnoldi iteration from a fixed start, None if none came."""
    from scipy.sparse.linalg import ArpackError, eigs

    try:
        values, vectors = eigs(
            matrix,
            k=N_EIGENVALUES,
            ncv=subspace,
            which="LM",
            v0=_start(matrix.shape[0]),
            tol=TOLERANCE,
            maxiter=RESTARTS,
        )
    except ArpackError:
        return None
    return values, vectors


def _start(n: int) -> Array:
    return uniform(Words(seed=0, layer=0, purpose=Purpose.PROBE), n, -1.0, 1.0)


def _exact_radius(matrix: csr_array, values: Vector, vectors: Vector | None) -> Fraction:
    """Return the largest of the absolute eigenvalues that `_eigen` found, to many more digits."""
    sizes = np.abs(values)
    # Of two conjugate ones either does.
    alike = np.flatnonzero((sizes >= (1.0 - ALIKE) * sizes.max()) & (values.imag >= 0.0))
    chosen = alike[np.argsort(-sizes[alike], kind="stable")[:MOST_ALIKE]]
    if vectors is None:
        dense = matrix.toarray()
        pairs = [_both_vectors(dense, complex(values[k])) for k in chosen]
    else:
        pairs = _with_left(matrix, values[chosen], vectors[:, chosen])
    found = []
    for value, (x, y) in zip(values[chosen], pairs, strict=True):
        # One that is there several times is found as several, some root of the precision apart; but
        # they lie around it, and their mean is as good as a simple value.
        near = values[np.abs(values - value) <= CLUSTER * abs(value)]
        found.append(_quotient(matrix, x, y) or Fraction(float(abs(near.mean()))))
    return max(found)


def _both_vectors(A: Array, value: complex) -> tuple[Vector, Vector]:
    """Return the right and left eigenvectors (N,) of an eigenvalue by inverse iteration."""
    factors = lu_factor(A - value * SHIFT * np.eye(len(A)), check_finite=False)
    x = y = _start(len(A)).astype(np.complex128)
    for _ in range(INVERSE_STEPS):
        x, y = lu_solve(factors, x, check_finite=False), lu_solve(factors, y, 1, check_finite=False)
        x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    return x, y


def _with_left(matrix: csr_array, values: Vector, right: Vector) -> list[tuple[Vector, Vector]]:
    """Return right and left eigenvectors of each value, the latter by an iteration too."""
    transposed = matrix.T.tocsr()
    found = _arpack(transposed, SUBSPACE) or _arpack(transposed, WIDE_SUBSPACE)
    if found is None:
        raise _not_converged(matrix.shape[0])
    theirs = [int(np.abs(found[0] - value).argmin()) for value in values]
    return [(x, found[1][:, k]) for x, k in zip(right.T, theirs, strict=True)]


def _quotient(matrix: csr_array, x: Vector, y: Vector) -> Fraction | None:
    """Return |y'Ax / y'x|, only its root rounded, of vectors of length 1; None if it is unsure."""
    overlap = complex(y @ x)
    if overlap == 0.0:
        return None
    Ax, Ay = np.asarray(matrix @ x), np.asarray(matrix.T @ y)
    value = complex(y @ Ax) / overlap
    wrong = np.linalg.norm(Ax - value * x) * np.linalg.norm(Ay - value * y)
    # Divided by y'x once, and once more because a small one means that another value is near.
    if not wrong <= ACCURACY * abs(overlap) ** 2 * abs(value) ** 2:
        return None
    xs = [_whole(part, VECTOR_DIGITS) for part in (x.real, x.imag)]
    ys = [_whole(part, VECTOR_DIGITS) for part in (y.real, y.imag)]
    digits = 53 - int(np.frexp(matrix.data)[1].min())
    moved = [np.empty(len(x), dtype=object) for _ in xs]
    for first, last in _blocks(matrix.indptr):
        places = slice(matrix.indptr[first], matrix.indptr[last])
        a, columns = _whole(matrix.data[places], digits), matrix.indices[places]
        for part, out in zip(xs, moved, strict=True):
            # Every row has an entry, or its unit would be no part of a larger whole.
            out[first:last] = np.add.reduceat(
                a * part[columns], matrix.indptr[first:last] - places.start
            )
    squared = Fraction(_size(ys, moved), _size(ys, xs)) / 4**digits
    return Fraction(math.isqrt(math.floor(squared * 4**ROOT_DIGITS)), 2**ROOT_DIGITS)


def _whole(values: Array, digits: int) -> NDArray[np.object_]:
    """Return values times 2^digits, rounded, as integers of any size."""
    if digits > 900:  # so near to the end of float64 that larger values would be beyond it
        return np.array([round(Fraction(v) * 2**digits) for v in values.tolist()], dtype=object)
    return np.array([round(v) for v in np.ldexp(values, digits).tolist()], dtype=object)


def _size(y: list[NDArray[np.object_]], x: list[NDArray[np.object_]]) -> int:
    """Return |y'x|^2 of complex vectors of integers, as real and imaginary parts."""
    real, imaginary = y[0] @ x[0] - y[1] @ x[1], y[0] @ x[1] + y[1] @ x[0]
    return int(real * real + imaginary * imaginary)


def _blocks(starts: NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    """Yield first and last rows of blocks of some ten thousand entries."""
    first, n = 0, len(starts) - 1
    while first < n:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + BLOCK, "right")) - 1)
        yield first, last
        first = last
