"""The compiled loops of MiniRocket: dilated kernels of nine taps, compared with biases and counted.

Inputs are whole numbers of 32 bits. A kernel has three weights 2 and six weights -1, so its output
is 3 (x_a + x_b + x_c) minus the sum of all nine taps. A kernel on several channels adds their
outputs, which is the output on the sum of the channels: that is formed first. Kernels on the same
channels with the same dilation share the nine-tap sum, and those that also share two of their three
positions share the sum up to there; what is left is an addition and a comparison a step, in
registers. Sums wrap at 2^32, which only the last one must not reach.
"""

from __future__ import annotations

import numpy as np

from catchment.compiling import njit
from catchment.features.random_convolutions.vector_loops import (
    LANES,
    add_row,
    add_rows,
    count_alone,
    count_pair,
    count_two,
    minus_nine,
    with_pair,
)

TILE = 1536  # steps whose sums stay in the first cache
SHARED = 3  # kernels from which on a nine-tap sum of their own pays
ROUND = 1.5 * 2.0**52  # adding and subtracting it rounds to a whole number, ties to even


@njit(inline="always", error_model="numpy")
def whole_inputs(u, scale, limit, pad, X):
    """Put u (T, I), rounded to whole numbers, into the middle of X (I, pad + T + pad)."""
    T, I = u.shape
    for i in range(I):
        for t in range(T):
            x = min(max(u[t, i] * scale, -limit), limit)
            X[i, pad + t] = np.int32((x + ROUND) - ROUND)


@njit(nogil=True, cache=True, error_model="numpy")
def counts_above(U, scale, limit, pad, groups, channels, features, out):
    """Put into out (n, F) how many outputs of each kernel are above each of its biases.

    Parameters
    ----------
    U
        (n, T, I) recordings of one length.
    scale, limit
        Inputs are multiplied by `scale`, cut off at `limit` and rounded.
    pad
        Zeros on either side, four times the longest dilation.
    groups
        (n_groups + 1, 3) dilation, first of `channels`, first feature: those that share the two.
    features
        (F, 2) number of the kernel and whether it is padded; (F,) biases; (F,) columns in `out`;
        (84, 9) positions of all kernels with the weight 2, then with -1. Features that share the
        first two positions and the padding are neighbours.
    """
    n, T, I = U.shape
    row = pad + T + pad + LANES
    X = np.zeros((I, row), dtype=np.int32)
    together, triple = np.zeros(row, dtype=np.int32), np.zeros(row, dtype=np.int32)
    sums = np.empty(TILE + LANES, dtype=np.int32)
    pair = np.empty(TILE + LANES, dtype=np.int32)
    for r in range(n):
        whole_inputs(U[r], scale, limit, pad, X)
        out[r, :] = 0
        for g in range(len(groups) - 1):
            first, last = groups[g, 1], groups[g + 1, 1]
            if last - first == 1:
                y = X[channels[first]]
            else:
                y = together
                add_rows(X, channels[first] * row, channels[first + 1] * row, pad, T, y)
                for k in range(first + 2, last):
                    add_row(X, channels[k] * row, pad, T, y)
            where = (pad, T, groups[g, 0], groups[g, 2], groups[g + 1, 2])
            if where[4] - where[3] < SHARED:
                _count_alone(y, where, features, out[r])
            else:
                for t in range(pad, pad + T):
                    triple[t] = np.int32(3 * y[t])
                _count_shared(y, triple, where, features, sums, pair, out[r])


@njit(inline="always", error_model="numpy")
def _count_alone(y, where, features, out):
    """Count for kernels that share nothing."""
    pad, T, d, begin, end = where
    kinds, biases, places, positions = features
    for f in range(begin, end):
        skip = 0 if kinds[f, 1] else 4 * d
        at, n = pad + skip - 4 * d, T - 2 * skip
        out[places[f]] += count_alone(y, at, d, positions[kinds[f, 0]], n, biases[f])


@njit(inline="always", error_model="numpy")
def _count_shared(y, triple, where, features, sums, pair, out):
    """Count for kernels on the same channels with the same dilation; `triple` is 3 y."""
    pad, T, d, begin, end = where
    kinds, biases, places, positions = features
    for start in range(0, T, TILE):
        n = min(TILE, T - start)
        base = pad + start - 4 * d  # the first tap of the tile's first step
        minus_nine(y, base, d, n, sums)
        known, f = -1, begin
        while f < end:
            k = kinds[f, 0]
            shares = 9 * positions[k, 0] + positions[k, 1]
            if shares != known:
                at_a, at_b = base + positions[k, 0] * d, base + positions[k, 1] * d
                with_pair(sums, triple, at_a, at_b, n, pair)
                known = shares
            skip, stop = 0, n
            if kinds[f, 1] == 0:
                skip, stop = max(0, 4 * d - start), min(n, T - 4 * d - start)
            at_c = base + skip + positions[k, 2] * d
            two = False
            if f + 1 < end and kinds[f, 1] == kinds[f + 1, 1]:
                k = kinds[f + 1, 0]
                two = 9 * positions[k, 0] + positions[k, 1] == known
            if skip < stop:
                if two:
                    at_d = base + skip + positions[k, 2] * d
                    limits = (biases[f], biases[f + 1])
                    found = count_two(pair, skip, triple, at_c, at_d, stop - skip, limits)
                    out[places[f]] += found & 0xFFFFFFFF
                    out[places[f + 1]] += found >> 32
                else:
                    out[places[f]] += count_pair(pair, skip, triple, at_c, stop - skip, biases[f])
            f += 2 if two else 1


@njit(nogil=True, cache=True, error_model="numpy")
def outputs(X, which, kernels, dilations, first_channel, channels, out):
    """Put the outputs (F, T) of kernels on recordings X (m, I, T), padded with zeros, into out.

    `which` names the recording of each, `kernels` (F, 9) its positions as in `counts_above`, and
    its channels are channels[first_channel[f] : first_channel[f + 1]].
    """
    T = X.shape[2]
    y = np.empty(T, dtype=np.int32)
    for f in range(len(out)):
        y[:] = 0
        for k in range(first_channel[f], first_channel[f + 1]):
            y += X[which[f], channels[k]]
        z = out[f]
        z[:] = 0
        for g in range(9):
            weight = np.int32(2 if g < 3 else -1)
            shift = (kernels[f, g] - 4) * dilations[f]
            low, high = max(0, -shift), min(T, T - shift)
            if low < high:
                z[low:high] += weight * y[low + shift : high + shift]
