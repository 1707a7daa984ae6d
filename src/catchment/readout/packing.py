"""Symmetric matrices as their upper triangle, row after row: half the memory and half the bytes."""

from __future__ import annotations

import math

import numpy as np

from catchment.arrays import Array


def packed_length(size: int) -> int:
    return size * (size + 1) // 2


def matrix_size(length: int) -> int:
    """Return n for a packed length n(n+1)/2.

    >>> matrix_size(6)
    3
    """
    size = (math.isqrt(8 * length + 1) - 1) // 2
    if packed_length(size) != length:
        raise ValueError(f"{length} is not the length of a packed triangle n(n+1)/2")
    return size


def pack(matrix: Array) -> Array:
    """Return the upper triangle (n(n+1)/2,) of a symmetric matrix (n, n).

    >>> pack(np.array([[1.0, 2.0], [2.0, 3.0]]))
    array([1., 2., 3.])
    """
    size = len(matrix)
    packed = np.empty(packed_length(size))
    start = 0
    for i in range(size):
        packed[start : start + size - i] = matrix[i, i:]
        start += size - i
    return packed


def unpack(packed: Array) -> Array:
    """Return the symmetric matrix (n, n) of a packed upper triangle."""
    size = matrix_size(len(packed))
    matrix = np.empty((size, size))
    start = 0
    for i in range(size):
        row = packed[start : start + size - i]
        matrix[i, i:] = row
        matrix[i:, i] = row
        start += size - i
    return matrix
