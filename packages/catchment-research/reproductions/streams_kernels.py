"""The compiled loop of a streaming MiniRocket."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, error_model="numpy")
def forgotten_shares(x, positions, dilation, first, channels, biases, rate, out):
    """Exponential means of "the kernel's output is above its bias", in units of 2^-16.

    Parameters
    ----------
    x
        (I, T) integers, small enough for sums of 32 bits; zeros come before them.
    positions
        (F, 9): the three taps with weight 2 come first, the six with weight -1 after them.
    dilation, biases
        (F,) steps between taps, and what an output is compared with.
    first, channels
        Feature f adds up the channels first[f] to first[f + 1].
    rate
        Each step moves a share by 2^-rate of the way.
    out
        (F, T) shares after every step.
    """
    F, T = out.shape
    total = np.empty(T, dtype=np.int32)
    for f in range(F):
        total[:] = 0
        for j in range(9):
            back = (8 - positions[f, j]) * dilation[f]
            weight = np.int32(2 if j < 3 else -1)
            for c in range(first[f], first[f + 1]):
                row = x[channels[c]]
                for t in range(T - back):
                    total[t + back] += weight * row[t]
        share = 0
        for t in range(T):
            aim = 65536 if total[t] > biases[f] else 0
            share += (aim - share) >> rate
            out[f, t] = share
