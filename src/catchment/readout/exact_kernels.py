"""Rows on a grid as whole numbers, and sums of them as integers, compiled.

Every number here is whole and below 2^53, so sums may be taken in any order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ANY_ORDER = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=ANY_ORDER)
def whole_rows(Z, scale, most, chunk, K, energies):
    """Fill K (n, m) with Z times the scale of each row, rounded, at most `most`.

    energies (chunks, n) get the sums of squares over every `chunk` columns.
    """
    n, m = Z.shape
    for i in range(n):
        factor, limit = scale[i], most[i]
        for c in range(energies.shape[0]):
            total = 0.0
            for j in range(c * chunk, min(m, (c + 1) * chunk)):
                k = min(max(np.rint(Z[i, j] * factor), -limit), limit)
                K[i, j] = k
                total += k * k
            energies[c, i] = total


@njit(nogil=True, cache=True)
def whole_columns(Z, scale, most, chunk, K, energies):
    """Do what `whole_rows` does, for Z (m, n) and K (m, n) whose columns have the scales."""
    m, n = Z.shape
    for c in range(energies.shape[0]):
        energies[c] = 0.0
        for j in range(c * chunk, min(m, (c + 1) * chunk)):
            for i in range(n):
                k = min(max(np.rint(Z[j, i] * scale[i]), -most[i]), most[i])
                K[j, i] = k
                energies[c, i] += k * k


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
