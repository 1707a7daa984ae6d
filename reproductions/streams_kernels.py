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
        (T, I) whole numbers; zeros come before them.
    positions
        (F, 9): the three taps with weight 2 come first, the six with weight -1 after them.
    dilation, biases
        (F,) steps between taps, and what an output is compared with.
    first, channels
        Feature f adds up the channels first[f] to first[f + 1].
    rate
        Each step moves a share by 2^-rate of the way.
    out
        (T, F) shares after every step.
    """
    T, F = out.shape
    share = np.zeros(F, dtype=np.int32)
    for t in range(T):
        for f in range(F):
            total = np.int64(0)
            for j in range(9):
                s = t - (8 - positions[f, j]) * dilation[f]
                if s >= 0:
                    weight = 2 if j < 3 else -1
                    for c in range(first[f], first[f + 1]):
                        total += weight * x[s, channels[c]]
            aim = 65536 if total > biases[f] else 0
            share[f] += (aim - share[f]) >> rate
            out[t, f] = share[f]
