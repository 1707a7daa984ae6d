"""The compiled loops of Hydra: eight kernels of nine taps compete at every step.

Inputs, weights and responses are whole numbers of 32 bits; sums of responses have 64.
"""

from __future__ import annotations

import numpy as np

from catchment.compiling import njit
from catchment.features.random_convolutions.kernels import whole_inputs
from catchment.features.random_convolutions.vector_loops import LANES, compete

KERNELS = 8  # of a group
TAPS = 9
TILE = 512  # steps whose responses stay in the first cache


@njit(inline="always", error_model="numpy")
def _compete(y, pad, T, d, W, steps, sums, counts):
    """Add to sums (8,) the largest response of every step, to counts (8,) who has the smallest."""
    largest, winner, loser = steps
    for start in range(0, T, TILE):
        n = min(TILE, T - start)
        compete(y, pad + start - 4 * d, d, W, n, largest, winner, loser)
        for k in range(KERNELS):
            total, count = np.int64(0), np.int32(0)
            for t in range(n):
                total += largest[t] if winner[t] == k else np.int32(0)
            for t in range(n):
                count = np.int32(count + np.int32(loser[t] == k))
            sums[k] += total
            counts[k] += count


@njit(nogil=True, cache=True, error_model="numpy")
def competitions(U, scale, limit, groups, channels, W, out):
    """Put into out (n, n_groups, 2, 8) sums of largest responses, and counts of smallest ones.

    Parameters
    ----------
    U
        (n, T, I) recordings of one length.
    scale, limit
        Inputs are multiplied by `scale`, cut off at `limit` and rounded.
    groups
        (n_groups, 2) dilation, and whether the group sees first differences.
    channels
        (n_groups, c) channels whose sum a group sees.
    W
        (n_groups, 8, 9) weights.
    """
    n, T, I = U.shape
    pad = 4 * groups[:, 0].max()
    row = pad + T + pad + LANES
    X, y = np.zeros((I, row), dtype=np.int32), np.zeros(row, dtype=np.int32)
    largest, winner = np.empty(TILE, dtype=np.int32), np.empty(TILE, dtype=np.int32)
    loser = np.empty(TILE, dtype=np.int32)
    for r in range(n):
        whole_inputs(U[r], scale, limit, pad, X)
        for g in range(len(groups)):
            y[pad : pad + T] = X[channels[g, 0], pad : pad + T]
            for k in range(1, channels.shape[1]):
                c = channels[g, k]
                for t in range(pad, pad + T):
                    y[t] += X[c, t]
            length = T
            if groups[g, 1]:
                length = T - 1
                for t in range(pad, pad + T - 1):
                    y[t] = y[t + 1] - y[t]
                y[pad + T - 1] = 0
            out[r, g] = 0
            steps = (largest, winner, loser)
            _compete(y, pad, length, groups[g, 0], W[g], steps, out[r, g, 0], out[r, g, 1])
