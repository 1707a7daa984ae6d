"""Cholesky factors, systems that they solve, and Toeplitz matrices: what numpy does not have.

numpy's `cholesky` returns a new matrix and works in a third one, and it has no triangular systems.
Here a factor takes the place of the matrix, `WIDTH` columns after another: what the columns before
take off comes as one product of matrices, numpy factors the square on the diagonal, and what is
below it is a triangular system. Triangular systems are solved `LEAF` rows after another, each by a
compiled pass. Diagonal blocks are never inverted: like LAPACK's, factors and solutions are those of
a matrix that is off by rounding only (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
8.1 and 10.1).
"""

from __future__ import annotations

import numpy as np

from catchment.arrays import Array

SMALL = 600  # rows that numpy factors as fast or faster
WIDTH = 96  # columns that are factored together
LEAF = 64  # rows that a compiled pass solves
POWERS = 6


@np.errstate(over="ignore", invalid="ignore")  # it shows on the diagonal
def cholesky(A: Array) -> Array:
    """Return the Cholesky factor (n, n) of the lower triangle of A, in the place of a large A.

    What lies above the diagonal is not read and has no meaning. LinAlgError if there is no factor.
    Fastest if A is in Fortran order.

    >>> A = np.array([[4.0, 9.0], [2.0, 5.0]])
    >>> np.tril(cholesky(A))
    array([[2., 0.],
           [1., 2.]])
    """
    n = len(A)
    if n <= SMALL:
        return np.asarray(np.linalg.cholesky(A), dtype=np.float64)
    for j in range(0, n, WIDTH):
        J = slice(j, j + WIDTH)
        S = np.array(A[j:, J].T, order="C")
        S -= A[J, :j] @ A[j:, :j].T
        L = np.asarray(np.linalg.cholesky(S[:, : len(S)].T), dtype=np.float64)
        A[j:, J] = solve_triangular(L, S).T
        A[J, J] = L
    return A


def solve_triangular(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Replace B (n, K), in C order, by the solution X of L X = B, or of L' X = B, and return it.

    Of L (n, n) only the lower triangle is read. Where its diagonal has a zero X is not finite.

    >>> solve_triangular(np.array([[2.0, 9.0], [1.0, 4.0]]), np.array([[4.0], [10.0]]))
    array([[2.],
           [2.]])
    """
    from catchment.readout.exact_kernels import solve_rows

    starts = range(0, len(L), LEAF)
    for j in reversed(starts) if transposed else starts:
        J, end = slice(j, j + LEAF), j + LEAF
        if transposed:
            B[J] -= L[end:, J].T @ B[end:]
        else:
            B[J] -= L[J, :j] @ B[:j]
        solve_rows(np.array(L[J, J].T if transposed else L[J, J], order="C"), B[J], transposed)
    return B


@np.errstate(over="ignore", invalid="ignore")
def cholesky_solve(L: Array, B: Array) -> Array:
    """Return the solution X (n, K) of L L' X = B.

    >>> cholesky_solve(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([[8.0], [12.0]]))
    array([[1.],
           [2.]])
    """
    X = np.array(B, dtype=np.float64, order="C")
    return solve_triangular(L, solve_triangular(L, X), transposed=True)


def inverse_norm(L: Array) -> float:
    """Return the largest eigenvalue of the inverse of L L', about: by a few powers of it.

    >>> round(inverse_norm(np.diag([2.0, 0.5])), 6)
    4.0
    """
    x = np.random.default_rng(0).normal(size=(len(L), 1))
    for _ in range(POWERS):
        x = cholesky_solve(L, x / np.linalg.norm(x))
    return float(np.linalg.norm(x))


def toeplitz(column: Array) -> Array:
    """Return the symmetric matrix (n, n) whose entries i, j are those |i - j| of a column (n,).

    >>> toeplitz(np.array([2.0, 1.0, 0.0]))
    array([[2., 1., 0.],
           [1., 2., 1.],
           [0., 1., 2.]])
    """
    k = np.arange(len(column))
    return np.asarray(column[np.abs(k[:, None] - k)])
