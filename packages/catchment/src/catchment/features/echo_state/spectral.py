"""The spectral radius of a sparse matrix: its largest absolute eigenvalue.

`spectral_radius` is what LAPACK or ARPACK say, whose last digits differ between processors.
`common_radius` is a number that every machine finds. With right and left eigenvectors x and y,
which may be wrong by d, the quotient y'Ax / y'x is wrong by about d^2 (Ostrowski 1959, "On the
convergence of the Rayleigh quotient iteration"), so of float64 vectors it has some 25 digits if it
is computed in whole numbers. It is then rounded to 20 significant bits. Where it lies within 1e-9
of the middle between two such numbers, where machines might yet disagree, that middle itself is
taken: it has 21 bits.

A matrix is first cut into the strongly connected parts of its graph, whose eigenvalues together
are its own: a matrix without a cycle has only zeros, exactly. Small parts are solved densely. Large
ones go to ARPACK, which is asked for several eigenvalues in a wide subspace: the random matrices
used here have many eigenvalues near the edge of a disc, and asked for only one or two it returns,
without any error, one that is not the largest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from catchment.arrays import Array
from catchment.features.echo_state.random_words import Purpose, Words, uniform
from catchment.features.echo_state.weights import SparseRows
from catchment.parallel import single_blas_thread

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
BLOCK = 1 << 16  # entries that are whole numbers at a time
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
        return max([alone, *(_radius(part) for part in parts)])


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


def _radius(matrix: csr_array) -> float:
    cycle = _cycle_radius(matrix)
    return float(np.abs(_eigen(matrix)[0]).max() if cycle is None else cycle)


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
    return max(
        _quotient(matrix, x, y) or _cluster_mean(values, values[k])
        for k, (x, y) in zip(chosen, pairs, strict=True)
    )


def _cluster_mean(values: Vector, value: complex) -> Fraction:
    """Return the size of the mean of the values next to one.

    One that is there several times is found as several, some root of the precision apart; but they
    lie around it, and their mean is as good as a simple value.
    """
    near = values[np.abs(values - value) <= CLUSTER * abs(value)]
    return Fraction(float(abs(near.mean())))


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
    """Return values times 2^digits, rounded, as whole numbers of any size."""
    return np.array([round(v) for v in np.ldexp(values, digits).tolist()], dtype=object)


def _size(y: list[NDArray[np.object_]], x: list[NDArray[np.object_]]) -> int:
    """Return |y'x|^2 of complex vectors of whole numbers, as real and imaginary parts."""
    real, imaginary = y[0] @ x[0] - y[1] @ x[1], y[0] @ x[1] + y[1] @ x[0]
    return int(real * real + imaginary * imaginary)


def _blocks(starts: NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    """Yield first and last rows of blocks of some ten thousand entries."""
    first, n = 0, len(starts) - 1
    while first < n:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + BLOCK, "right")) - 1)
        yield first, last
        first = last
