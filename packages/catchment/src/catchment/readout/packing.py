"""Symmetric matrices as their upper triangle, row after row: half the memory and half the bytes.

Read column after column, the same numbers are LAPACK's packed lower triangle, so LAPACK converts
them and the Cholesky solver works on the lower triangle without a mirrored copy.

Z Z' is added to a running sum one triangle only, in place, and without the interpreter's lock:
numpy's Z @ Z.T copies the triangle to the other one and returns a new matrix that must be added,
which for blocks that fit the cache costs more than a tenth of the product. So dsyrk is called where
scipy keeps it for compiled code.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cython_blas, lapack

from catchment.arrays import Array

if TYPE_CHECKING:
    from ctypes import _CFunctionType


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


def add_gram(total: Array, Z: Array) -> None:
    """Add Z Z', for Z (n, m), to the upper triangle of total (n, n), in place.

    What lies below the diagonal has no meaning afterwards. Fastest if the numbers of Z are
    neighbours along one of its axes; it need not be contiguous.

    >>> total = np.zeros((2, 2))
    >>> add_gram(total, np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> np.triu(total)
    array([[ 5., 11.],
           [ 0., 25.]])
    """
    n, m = Z.shape
    if n == 0 or m == 0:
        return
    syrk = _syrk()
    if syrk is None:
        total += Z @ Z.T
        return
    if Z.itemsize not in Z.strides:
        Z = np.ascontiguousarray(Z)
    # BLAS counts columns first: to it our rows are columns, and our upper triangle is the lower.
    by_rows = Z.strides[1] == Z.itemsize
    apart = max(Z.strides[0 if by_rows else 1] // Z.itemsize, m if by_rows else n)
    rows, columns, stride = (ctypes.byref(ctypes.c_int(size)) for size in (n, m, apart))
    one, way = ctypes.byref(ctypes.c_double(1.0)), b"T" if by_rows else b"N"
    Z_, total_ = Z.ctypes.data, total.ctypes.data
    syrk(b"L", way, rows, columns, one, Z_, stride, one, total_, rows)


@cache
def _syrk() -> _CFunctionType | None:
    """Return BLAS's dsyrk, or None where scipy was built with integers other than C's int."""
    capsule = cython_blas.__pyx_capi__["dsyrk"]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = name_of(capsule)
    if not signature.startswith(b"void (char *, char *, int *, int *, "):
        return None
    text, pointer = ctypes.c_char_p, ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(None, text, text, *(8 * [pointer]))
    return prototype(pointer_of(capsule, signature))
