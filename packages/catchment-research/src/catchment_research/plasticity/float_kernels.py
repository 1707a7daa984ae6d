"""Intrinsic plasticity in float64: sequences run in lockstep while gains and shifts follow them.

`task` says what a run is for. ADAPT changes gains and shifts at every step, by the mean over the
lanes that count. MEASURE and DESCEND leave them and gather sums (2, N) over steps and lanes: of the
drive and its square, or of the descent of the shift and its product with the drive, which is what
one update for a whole batch needs.
"""

from __future__ import annotations

import numpy as np

from catchment import njit
from catchment.features.echo_state import (
    DOT_MATH,
    SAFE_MATH,
    SIGMOID,
    TANH,
    advance_units,
    fast_tanh,
    row_product,
)

ADAPT, MEASURE, DESCEND = range(3)


@njit(fastmath=DOT_MATH, error_model="numpy")
def _sum(row):
    total = 0.0
    for b in range(len(row)):
        total += row[b]
    return total


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _plastic_row(code, a, g, s, p, x, mask, target, y, d):
    """Advance one unit in all lanes; leave its outputs in y and the descent of its shift in d."""
    keep = 1.0 - a
    mean, variance, rate, _, printed = target
    if code == TANH:
        for b in range(len(x)):
            y[b] = fast_tanh(g * p[b] + s)
            x[b] = keep * x[b] + a * y[b]
        if printed:
            for b in range(len(x)):
                slope = y[b] / variance + 1.0 - y[b] * y[b] + mean * y[b]
                d[b] = -mask[b] * (slope - mean / variance)
        else:
            for b in range(len(x)):
                slope = y[b] * (2.0 * variance + 1.0 - y[b] * y[b] + mean * y[b]) - mean
                d[b] = -mask[b] * slope / variance
    elif code == SIGMOID:
        for b in range(len(x)):
            y[b] = 0.5 + 0.5 * fast_tanh(0.5 * (g * p[b] + s))
            d[b] = mask[b] * (1.0 - (2.0 + rate) * y[b] + rate * y[b] * y[b])
            x[b] = keep * x[b] + a * y[b]
    else:
        for b in range(len(x)):
            y[b] = g * p[b] + s
        advance_units(code, a, (), y, x, len(x))


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def lockstep_plastic(
    starts,
    columns,
    values,
    leak,
    activation,
    U,
    X,
    P,
    S,
    width,
    mask,
    gain,
    shift,
    target,
    task,
    sums,
):
    """As `kernels.lockstep`, with gain and shift (N,) that are not folded into the values.

    `mask` is (T, B), ones and zeros; `target` is mean, variance, 1 / exponential mean, learning
    rate, and whether the equation as printed is followed.
    """
    N = len(leak)
    y, d, work = np.empty((3, X.shape[1]))
    eta = target[3]
    for t in range(U.shape[1]):
        for j in range(U.shape[0]):
            for b in range(4 * len(width)):
                X[N + j, b] = U[j, t, b]
        for i in range(N):
            row_product(values, columns, starts[i], starts[i + 1], X, i, P, width)
        n = _sum(mask[t])
        for i in range(N):
            p, x = P[i], X[i]
            _plastic_row(activation[i], leak[i], gain[i], shift[i], p, x, mask[t], target, y, d)
            for b in range(len(p)):
                S[i, t, b] = x[b]
            if task == MEASURE:
                for b in range(len(p)):
                    d[b] = mask[t, b] * p[b]
            elif activation[i] > SIGMOID:
                continue
            for b in range(len(p)):
                work[b] = d[b] * p[b]
            if task != ADAPT:
                sums[0, i] += _sum(d)
                sums[1, i] += _sum(work)
            elif n > 0.0:
                shift[i] += eta * _sum(d) / n
                gain[i] += eta * (1.0 / gain[i] + _sum(work) / n)
