"""Symmetric matrices as their upper triangle, row after row: half the memory and half the bytes.

Read column after column, the same numbers are LAPACK's packed lower triangle, so LAPACK converts
them and the Cholesky solver works on the lower triangle without a mirrored copy.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from catchment.arrays import Array


def packed_length(size: int) -> int:
    """Return the number of values in the upper triangle of an (n, n) matrix.

    >>> packed_length(3)
    6
    """
    return size * (size + 1) // 2


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


def pack(matrix: Array) -> Array:
    """Return the upper triangle (n(n+1)/2,) of a symmetric matrix (n, n).

    >>> pack(np.array([[1.0, 2.0], [2.0, 3.0]]))
    array([1., 2., 3.])
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"the matrix has shape {matrix.shape}; only square ones can be packed")
    if matrix.size == 0:
        return np.empty(0)
    packed: Array = lapack.dtrttp(matrix.T, uplo="L")[0]
    return packed


def unpack_lower(packed: Array) -> Array:
    """Return a matrix (n, n), Fortran order, whose lower triangle is the packed one.

    What lies above the diagonal has no meaning.

    >>> np.tril(unpack_lower(np.array([1.0, 2.0, 3.0])))
    array([[1., 0.],
           [2., 3.]])
    """
    size = matrix_size(len(packed))
    if size == 0:
        return np.empty((0, 0), order="F")
    lower: Array = lapack.dtpttr(size, packed, uplo="L")[0]
    return lower


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
