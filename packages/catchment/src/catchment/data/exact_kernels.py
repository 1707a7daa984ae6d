"""The compiled inner loop of exact sums: numbers split into pieces, and products of pieces added.

Splitting rounds by adding and subtracting large constants, so it has no fast-math flag. The sums
are of integers that float64 holds exactly, so they may be reordered, and are, which is what
makes them vectorize.
"""

from __future__ import annotations

import numpy as np
from numba import types

from catchment.compiling import njit

PIECES = 5
CHUNK = 256  # rows whose pieces stay in the first cache
ROUND, UP, DOWN = 1.5 * 2.0**52, 2.0**20, 2.0**-20

_ROWS = types.Array(types.float64, 2, "C", readonly=True)
_SUMS, _PRODUCTS = types.int64[:, ::1], types.int64[:, :, ::1]
_SIGNATURE = types.int64(_ROWS, types.float64, types.int64[::1], _SUMS, _PRODUCTS)


@njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def _sum(x, n):
    total = 0.0
    for b in range(n):
        total += x[b]
    return total


@njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def _dot(x, y, n):
    total = 0.0
    for b in range(n):
        total += x[b] * y[b]
    return total


@njit(error_model="numpy")
def _split(rest, piece, n, grain):
    """Move the whole multiples of the grain from the rest to the piece, where they are counted."""
    rounder, unit = ROUND * grain, 1.0 / grain
    for b in range(n):
        part = (rest[b] + rounder) - rounder
        piece[b] = part * unit
        rest[b] -= part


@njit([_SIGNATURE], cache=True, nogil=True, error_model="numpy")
def add_rows(u, bound, count, sums, products):
    """Add rows u (T, I); return T, or where a chunk with a bad number begins.

    `sums` (I, 5) gathers the sums of the pieces and `products` (I, 5, 5) those of their products,
    the upper triangle. A number is bad if it is neither NaN nor below the bound; the sums mean
    nothing then.
    """
    T, I = u.shape
    rest, pieces = np.empty(CHUNK), np.empty((PIECES, CHUNK))
    for first in range(0, T, CHUNK):
        n = min(CHUNK, T - first)
        for i in range(I):
            for b in range(n):
                rest[b] = u[first + b, i]
            count[i] += n
            # The sum of squares is no less than the largest square, and quicker to find.
            energy = _dot(rest, rest, n)
            if energy != energy:
                missing = 0
                for b in range(n):
                    missing += rest[b] != rest[b]
                    rest[b] = rest[b] if rest[b] == rest[b] else 0.0
                count[i] -= missing
                energy = _dot(rest, rest, n)
            if not energy < bound * bound and not np.abs(rest[:n]).max() < bound:
                return first
            # Pieces above the largest number are zero, and those below the last digit of all.
            p, grain = 0, UP
            while p < PIECES - 1 and energy < 0.25 * grain * grain:
                p, grain = p + 1, grain * DOWN
            begin = p
            while p < PIECES and energy > 0.0:
                _split(rest, pieces[p], n, grain)
                sums[i, p] += int(_sum(pieces[p], n))
                for q in range(begin, p + 1):
                    products[i, q, p] += int(_dot(pieces[q], pieces[p], n))
                energy = _dot(rest, rest, n)
                p, grain = p + 1, grain * DOWN
    return T
