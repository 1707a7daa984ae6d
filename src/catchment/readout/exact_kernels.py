"""Rows on a grid as whole numbers, and sums of them as integers, compiled.

Every number here is whole and below 2^53, so sums may be taken in any order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ANY_ORDER = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=ANY_ORDER)
def whole_rows(z, apart, scale, most, chunk, k, k_apart, m, energies):
    """Fill k with m columns of z times the scale (n,) of each row, rounded, at most `most` (n,).

    Both are flat, with rows so far apart: the compiler then knows that numbers are neighbours.
    energies (chunks, n) get the sums of squares over every `chunk` columns.
    """
    for i in range(len(scale)):
        factor, limit, here, there = scale[i], most[i], i * apart, i * k_apart
        for c in range(energies.shape[0]):
            total = 0.0
            for j in range(c * chunk, min(m, (c + 1) * chunk)):
                value = min(max(np.rint(z[here + j] * factor), -limit), limit)
                k[there + j] = value
                total += value * value
            energies[c, i] = total


@njit(nogil=True, cache=True)
def whole_columns(z, apart, scale, most, chunk, k, k_apart, m, energies):
    """Do what `whole_rows` does for m rows of z, whose columns have the scales (n,)."""
    n = len(scale)
    for c in range(energies.shape[0]):
        line = energies[c]
        line[:] = 0.0
        for j in range(c * chunk, min(m, (c + 1) * chunk)):
            here, there = j * apart, j * k_apart
            for i in range(n):
                value = min(max(np.rint(z[here + i] * scale[i]), -most[i]), most[i])
                k[there + i] = value
                line[i] += value * value


@njit(nogil=True, cache=True)
def add_whole(sums, total):
    """Add the upper triangle of whole numbers in float32 or float64 to integers (n, n)."""
    for i in range(len(sums)):
        for j in range(i, len(sums)):
            total[i, j] += np.int64(sums[i, j])


@njit(nogil=True, cache=True)
def packed_upper(matrix, packed):
    """Fill packed with the upper triangle of the first rows and columns of an integer matrix."""
    n = int((np.sqrt(8.0 * len(packed) + 1.0) - 1.0) / 2.0 + 0.5)
    place = 0
    for i in range(n):
        for j in range(i, n):
            packed[place] = matrix[i, j]
            place += 1
