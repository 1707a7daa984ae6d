"""Intrinsic plasticity: sequences run in lockstep while gains and shifts follow them.

`task` says what a run is for. ADAPT changes gains and shifts at every step, by the mean over the
lanes that count. MEASURE and DESCEND leave them and gather sums over steps and lanes: of the drive
and its square, or of the descent of the shift and its product with the drive, which is what one
update for a whole batch needs.

In fixed point there are the same gains and shifts on every processor, in any lanes. A layer's
weights, without gain and shift, and its states lie in fixed point of b binary digits after the
point (`Program`), so the drive of a unit is exact. Gains g and shifts s have 32 digits. One step of
one unit, where round_k rounds to k digits, ties to even:

    p = round_20(drive), at most 64 in absolute value
    h = round_16(g);  z = p h + round_30(p (g - h)) + round_30(s)        g p + s to 2^-30
    y = activation(z) on b digits;  x = round_b((1 - a) x + a y)

and what its lane adds to sums over lanes, which are exact in any order because of the roundings:

    tanh:     e = -2 y,     f = round_22(y round_22(y (m - y)) + y - m),  c = target variance
    sigmoid:  e = 1 - 2 y,  f = round_22(y (1 - y)),                      c = exponential mean
    printed:  e = -round_22(y (m - y)) - 1,  f = round_22(y - m),         c = target variance
    E = sum e,  F = sum f,  E' = sum round_30(p e),  F' = sum round_30(p f)
    sum p,  sum round_36(p p)                                            moments of the drive

Where one update follows a whole batch, the four sums run over its steps too: as integers of
2^-24, 2^-22 and 2^-30, each rounded to a float64 at the end, so that they are exact in any order
and any lanes. Then, for n lanes (or lanes and steps) that count, with one IEEE operation for each
sign below, in this order,

    s = round_32(s + (E - F / c) / (n (1 / eta)))
    g = round_32(g + (1 / g + (E' - F' / c) / n) / (1 / eta))

Every product that a sum follows is exact, so that a fused multiply-add changes nothing. Gains stay
from 2^-20 to 512 and shifts within 4096; one that reaches its end stays there, which says that the
rule diverged.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from catchment import njit
from catchment.features.echo_state import (
    DOT_MATH,
    RELU,
    ROUND,
    SAFE_MATH,
    SIGMOID,
    SIN,
    TANH,
    advance_units,
    fast_tanh,
    fixed_linear,
    fixed_sigmoid,
    fixed_sin,
    fixed_tanh,
    row_product,
)
from catchment_research.plasticity.federated import (
    ADAPT,
    DRIVE_DIGITS,
    LARGEST_GAIN,
    LARGEST_SHIFT,
    LEAST_GAIN,
    MEASURE,
    PLASTIC_DIGITS,
    SQUARE_DIGITS,
)

EXACT_MATH = SAFE_MATH - {"contract"}
LARGEST_DRIVE = 64.0
HALF_WORD = 32  # squares are summed as two halves, so that no sum of them leaves 64 bits

P16, P20, P22, P30 = (ROUND / 2**digits for digits in (16, 20, 22, 30))
P32, P36 = ROUND / 2**PLASTIC_DIGITS, ROUND / 2**SQUARE_DIGITS
DRIVES, SQUARES = 2.0**DRIVE_DIGITS, 2.0**SQUARE_DIGITS
LOW = (1 << HALF_WORD) - 1
OUTPUTS, SLOPES, PRODUCTS = 2.0**24, 2.0**22, 2.0**30  # in which a batch is summed


@njit(fastmath=SAFE_MATH | {"reassoc"}, error_model="numpy")
def exact_sum(row, mask):
    """Sum of numbers that a float64 holds whatever their order, over the lanes that count."""
    total = 0.0
    for b in range(len(row)):
        total += mask[b] * row[b]
    return total


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _outputs(code, g, s, G, top, p, y):
    """Round the drives p, cut them off, and write the outputs y of all lanes."""
    h, s30 = g + P16 - P16, s + P30 - P30
    rest = g - h
    for b in range(len(p)):
        p[b] = min(max(p[b] + P20 - P20, -LARGEST_DRIVE), LARGEST_DRIVE)
        y[b] = (p[b] * h + s30) + (p[b] * rest + P30 - P30)
    if code == TANH:
        for b in range(len(p)):
            y[b] = fixed_tanh(y[b], G, top)
    elif code == SIGMOID:
        for b in range(len(p)):
            y[b] = fixed_sigmoid(y[b], G, top)
    elif code == RELU:
        for b in range(len(p)):
            y[b] = fixed_linear(max(y[b], 0.0), G)
    elif code == SIN:
        for b in range(len(p)):
            y[b] = fixed_sin(y[b], G, top)
    else:
        for b in range(len(p)):
            y[b] = fixed_linear(y[b], G)


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _slopes(code, mean, printed, p, y, e, f, pe, pf):
    """Write what each lane adds to the four sums."""
    if code == TANH and printed:
        for b in range(len(p)):
            r = y[b] * (mean - y[b]) + P22 - P22
            e[b] = -r - 1.0
            f[b] = (y[b] - mean) + P22 - P22
    elif code == TANH:
        for b in range(len(p)):
            r = y[b] * (mean - y[b]) + P22 - P22
            e[b] = -2.0 * y[b]
            f[b] = (y[b] * r + (y[b] - mean)) + P22 - P22
    else:
        for b in range(len(p)):
            e[b] = 1.0 - 2.0 * y[b]
            f[b] = y[b] * (1.0 - y[b]) + P22 - P22
    for b in range(len(p)):
        pe[b] = p[b] * e[b] + P30 - P30
        pf[b] = p[b] * f[b] + P30 - P30


@njit(nogil=True, cache=True, fastmath=EXACT_MATH, error_model="numpy")
def adapted(gain, shift, E, F, pE, pF, c, n, slowness):
    """Return gain and shift after a step of the rule; `slowness` is 1 / learning rate."""
    ds = (E - F / c) / (n * slowness)
    dg = (1.0 / gain + (pE - pF / c) / n) / slowness
    s = min(max(shift + ds, -LARGEST_SHIFT), LARGEST_SHIFT)
    g = min(max(gain + dg, LEAST_GAIN), LARGEST_GAIN)
    return g + P32 - P32, s + P32 - P32


@njit(nogil=True, cache=True, fastmath=EXACT_MATH, error_model="numpy")
def adapt_units(activation, gain, shift, sums, n, target):
    """Change gain and shift (N,) by one update from the whole sums (4, N) of a batch."""
    slowness = target[3]
    for i in range(len(gain)):
        if activation[i] <= SIGMOID and n > 0.0 and _adapts(gain[i], shift[i], slowness):
            E, F = sums[0, i] / OUTPUTS, sums[1, i] / SLOPES
            pE, pF = sums[2, i] / PRODUCTS, sums[3, i] / PRODUCTS
            c = target[1] if activation[i] == TANH else target[2]
            gain[i], shift[i] = adapted(gain[i], shift[i], E, F, pE, pF, c, n, slowness)


@njit(inline="always", error_model="numpy")
def _adapts(gain, shift, slowness):
    """Whether a unit is still between the ends of its range, and there is a rate to move at."""
    inside = LEAST_GAIN < gain < LARGEST_GAIN and abs(shift) < LARGEST_SHIFT
    return slowness > 0.0 and inside


@njit(inline="always", fastmath=EXACT_MATH, error_model="numpy")
def _measure(p, work, now, i, sums):
    """Add the drives p of a unit's lanes, and their squares, to its whole sums."""
    for b in range(len(p)):
        work[b] = p[b] * p[b] + P36 - P36
    squares = int(exact_sum(work, now) * SQUARES)
    sums[0, i] += int(exact_sum(p, now) * DRIVES)
    sums[1, i] += squares & LOW
    sums[2, i] += squares >> HALF_WORD


@njit(fastmath=EXACT_MATH, error_model="numpy")
def _unit_in_fixed_point(i, a, code, p, x, now, n, gain, shift, target, task, work, sums, fixed):
    """As `_unit`, in fixed point of this rounder and largest number below 1; `sums` are integers.

    To MEASURE they are of the drive in 2^-20 and, in two halves, of its square in 2^-36; to DESCEND
    those that `adapt_units` takes.
    """
    mean, variance, exponential, slowness, printed = target
    G, top = fixed
    y, e, f, pe, pf = work[0], work[1], work[2], work[3], work[4]
    keep = 1.0 - a
    _outputs(code, gain[i], shift[i], G, top, p, y)
    for b in range(len(p)):
        x[b] = (keep * x[b] + a * y[b]) + G - G
    if task == MEASURE:
        _measure(p, e, now, i, sums)
    elif code <= SIGMOID and n > 0.0 and _adapts(gain[i], shift[i], slowness):
        _slopes(code, mean, printed, p, y, e, f, pe, pf)
        E, F = exact_sum(e, now), exact_sum(f, now)
        pE, pF = exact_sum(pe, now), exact_sum(pf, now)
        if task == ADAPT:
            c = variance if code == TANH else exponential
            gain[i], shift[i] = adapted(gain[i], shift[i], E, F, pE, pF, c, n, slowness)
        else:
            sums[0, i] += int(E * OUTPUTS)
            sums[1, i] += int(F * SLOPES)
            sums[2, i] += int(pE * PRODUCTS)
            sums[3, i] += int(pF * PRODUCTS)


@njit(fastmath=DOT_MATH, error_model="numpy")
def _sum(row):
    total = 0.0
    for b in range(len(row)):
        total += row[b]
    return total


@njit(inline="always", fastmath=SAFE_MATH, error_model="numpy")
def _descent(code, a, g, s, p, x, mask, target, y, d):
    """Advance one unit in all lanes; leave its outputs in y and the descent of its shift in d."""
    keep = 1.0 - a
    mean, variance, exponential, _, printed = target
    rate = 1.0 / exponential
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


@njit(fastmath=SAFE_MATH, error_model="numpy")
def _float_unit(i, a, code, p, x, now, n, gain, shift, target, task, work, sums, fixed):
    """As `_unit`, in float64; two sums, of the drive and its square or of the descent."""
    y, d, products, eta = work[0], work[1], work[2], target[3]
    _descent(code, a, gain[i], shift[i], p, x, now, target, y, d)
    if task == MEASURE:
        for b in range(len(p)):
            d[b] = now[b] * p[b]
    elif code > SIGMOID:
        return
    for b in range(len(p)):
        products[b] = d[b] * p[b]
    if task != ADAPT:
        sums[0, i] += _sum(d)
        sums[1, i] += _sum(products)
    elif n > 0.0:
        shift[i] += eta * _sum(d) / n
        gain[i] += eta * (1.0 / gain[i] + _sum(products) / n)


def _unit(i, a, code, p, x, now, n, gain, shift, target, task, work, sums, fixed):
    """Advance one unit in all lanes and do its part of the task; for compiled code only."""
    raise TypeError("_unit is for compiled code")


@overload(_unit, jit_options={"error_model": "numpy"})
def _unit_of(i, a, code, p, x, now, n, gain, shift, target, task, work, sums, fixed):
    chosen = (
        _unit_in_fixed_point if isinstance(fixed, types.BaseTuple) and len(fixed) else _float_unit
    )

    def unit(i, a, code, p, x, now, n, gain, shift, target, task, work, sums, fixed):
        chosen(i, a, code, p, x, now, n, gain, shift, target, task, work, sums, fixed)

    return unit


@njit(nogil=True, cache=True, fastmath=EXACT_MATH, error_model="numpy")
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
    fixed,
):
    """As `kernels.lockstep`, with gain and shift (N,) that are not folded into the values.

    `mask` is (T, B), ones and zeros; `target` is mean, variance, exponential mean, learning rate
    (in fixed point its inverse, 0: nothing adapts), and whether the equation as printed is
    followed; `fixed` is the rounder and the largest number below 1 of states in fixed point, or
    empty.
    """
    N = len(leak)
    work = np.empty((5, X.shape[1]))
    for t in range(U.shape[1]):
        for j in range(U.shape[0]):
            for b in range(1 << len(width)):
                X[N + j, b] = U[j, t, b]
        for i in range(N):
            row_product(values, columns, starts[i], starts[i + 1], X, i, P, width)
        now = mask[t]
        n = exact_sum(now, now)
        for i in range(N):
            p, x, a, code = P[i], X[i], leak[i], activation[i]
            _unit(i, a, code, p, x, now, n, gain, shift, target, task, work, sums, fixed)
            for b in range(len(p)):
                S[i, t, b] = x[b]
