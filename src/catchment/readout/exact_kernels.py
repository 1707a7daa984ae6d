"""Rows on a grid as whole numbers, and sums of them as integers, compiled.

Every number here is whole and below 2^53, so sums may be taken in any order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ANY_ORDER = {"reassoc", "contract", "nsz"}
# Added and taken away again it rounds what is below 2^51 to whole numbers, ties to even. It is
# faster than a call of rint, but nothing near it may be compiled to add in any order.
ROUND = 1.5 * 2.0**52


@njit(nogil=True, cache=True, fastmath=ANY_ORDER)
def sum_of_squares(k):
    total = 0.0
    for j in range(len(k)):
        value = np.float64(k[j])
        total += value * value
    return total


@njit(nogil=True, cache=True)
def whole_rows(z, apart, scale, most, chunk, k, k_apart, m, energies):
    """Fill k with m columns of z times the scale (n,) of each row, rounded, at most `most` (n,).

    Both are flat, with rows so far apart: the compiler then knows that numbers are neighbours.
    energies (chunks, n) get the sums of squares over every `chunk` columns.
    """
    for i in range(len(scale)):
        factor, limit = scale[i], most[i]
        here, there = z[i * apart : i * apart + m], k[i * k_apart : i * k_apart + m]
        for j in range(m):
            value = (here[j] * factor + ROUND) - ROUND
            value = value if value < limit else limit
            there[j] = value if value > -limit else -limit
        for c in range(energies.shape[0]):
            energies[c, i] = sum_of_squares(there[c * chunk : (c + 1) * chunk])


@njit(nogil=True, cache=True)
def round_rows(z, apart, scale, most, chunk, m, energies):
    """Do what `whole_rows` does, in place."""
    for i in range(len(scale)):
        factor, limit, here = scale[i], most[i], z[i * apart : i * apart + m]
        for j in range(m):
            value = (here[j] * factor + ROUND) - ROUND
            value = value if value < limit else limit
            here[j] = value if value > -limit else -limit
        for c in range(energies.shape[0]):
            energies[c, i] = sum_of_squares(here[c * chunk : (c + 1) * chunk])


@njit(nogil=True, cache=True)
def round_columns(z, apart, scale, most, chunk, m, energies):
    """Do what `whole_columns` does, in place."""
    n = len(scale)
    for c in range(energies.shape[0]):
        line = energies[c]
        line[:] = 0.0
        for j in range(c * chunk, min(m, (c + 1) * chunk)):
            here = z[j * apart : j * apart + n]
            for i in range(n):
                value = (here[i] * scale[i] + ROUND) - ROUND
                value = value if value < most[i] else most[i]
                value = value if value > -most[i] else -most[i]
                here[i] = value
                line[i] += value * value


@njit(nogil=True, cache=True)
def whole_columns(z, apart, scale, most, chunk, k, k_apart, m, energies):
    """Do what `whole_rows` does for m rows of z, whose columns have the scales (n,)."""
    n = len(scale)
    for c in range(energies.shape[0]):
        line = energies[c]
        line[:] = 0.0
        for j in range(c * chunk, min(m, (c + 1) * chunk)):
            here, there = z[j * apart : j * apart + n], k[j * k_apart : j * k_apart + n]
            for i in range(n):
                value = (here[i] * scale[i] + ROUND) - ROUND
                value = value if value < most[i] else most[i]
                value = value if value > -most[i] else -most[i]
                there[i] = value
                line[i] += value * value


@njit(nogil=True, cache=True)
def count_fitting(energies, first, energy, limit):
    """Return how many chunks from `first` on fit before a sum of squares reaches the limit.

    Their squares (chunks, n) are added to energy (n,).
    """
    for c in range(first, len(energies)):
        for i in range(len(energy)):
            if energy[i] + energies[c, i] >= limit:
                return c - first
        for i in range(len(energy)):
            energy[i] += energies[c, i]
    return len(energies) - first


@njit(nogil=True, cache=True)
def empty_single(sums, total):
    """Add the upper triangle of float32 sums (n, n) to a total (n, n) in float64."""
    for i in range(len(sums)):
        here, there = sums[i, i:], total[i, i:]
        for j in range(len(here)):
            there[j] += here[j]


@njit(nogil=True, cache=True)
def empty_double(sums, total, unit):
    """Move what is a multiple of a unit from the upper triangle of sums to a total counted in it.

    What stays is at most half a unit; both are whole numbers in float64.
    """
    inverse = 1.0 / unit
    for i in range(len(sums)):
        here, there = sums[i, i:], total[i, i:]
        for j in range(len(here)):
            moved = (here[j] * inverse + ROUND) - ROUND
            there[j] += moved
            here[j] -= moved * unit


@njit(nogil=True, cache=True)
def packed_upper(matrix, packed):
    """Fill packed with the upper triangle of the first rows and columns of an integer matrix."""
    n = int((np.sqrt(8.0 * len(packed) + 1.0) - 1.0) / 2.0 + 0.5)
    place = 0
    for i in range(n):
        for j in range(i, n):
            packed[place] = matrix[i, j]
            place += 1
