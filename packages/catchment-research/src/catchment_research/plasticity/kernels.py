"""Intrinsic plasticity on a grid: the same gains and shifts on every processor, in any lanes.

A layer's weights, without gain and shift, and its states lie on a grid of b binary digits after the
point (`advance.Program`), so the drive of a unit is exact. Gains g and shifts s have 32 digits. One
step of one unit, where round_k rounds to k digits, ties to even:

    p = round_20(drive), at most 64 in absolute value
    h = round_16(g);  z = p h + round_30(p (g - h)) + round_30(s)        g p + s to 2^-30
    y = activation(z) on b digits;  x = round_b((1 - a) x + a y)

and what its lane adds to sums over lanes, which are exact in any order because of the roundings:

    tanh:     e = -2 y,     f = round_22(y round_22(y (m - y)) + y - m),  c = target variance
    sigmoid:  e = 1 - 2 y,  f = round_22(y (1 - y)),                      c = exponential mean
    printed:  e = -round_22(y (m - y)) - 1,  f = round_22(y - m),         c = target variance
    E = sum e,  F = sum f,  E' = sum round_30(p e),  F' = sum round_30(p f)
    sum p,  sum round_36(p p)                                            moments of the drive

Where one update follows a whole batch, the four sums run over its steps too: as whole numbers of
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

from catchment import njit
from catchment.features.echo_state import (
    GRID_MATH,
    RELU,
    ROUND,
    SIGMOID,
    SIN,
    TANH,
    grid_linear,
    grid_sigmoid,
    grid_sin,
    grid_tanh,
    row_product,
)
from catchment_research.plasticity.float_kernels import ADAPT, MEASURE
from catchment_research.plasticity.rule import (
    DRIVE_DIGITS,
    LARGEST_GAIN,
    LARGEST_SHIFT,
    LEAST_GAIN,
    PLASTIC_DIGITS,
    SQUARE_DIGITS,
)

LARGEST_DRIVE = 64.0
HALF_WORD = 32  # squares are summed as two halves, so that no sum of them leaves 64 bits

P16, P20, P22, P30 = (ROUND / 2**digits for digits in (16, 20, 22, 30))
P32, P36 = ROUND / 2**PLASTIC_DIGITS, ROUND / 2**SQUARE_DIGITS
DRIVES, SQUARES = 2.0**DRIVE_DIGITS, 2.0**SQUARE_DIGITS
LOW = (1 << HALF_WORD) - 1
OUTPUTS, SLOPES, PRODUCTS = 2.0**24, 2.0**22, 2.0**30  # in which a batch is summed


@njit(fastmath=GRID_MATH | {"reassoc"}, error_model="numpy")
def exact_sum(row, mask):
    """Sum of numbers that a float64 holds whatever their order, over the lanes that count."""
    total = 0.0
    for b in range(len(row)):
        total += mask[b] * row[b]
    return total


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def _outputs(code, g, s, G, top, p, y):
    """Round the drives p, cut them off, and write the outputs y of all lanes."""
    h, s30 = g + P16 - P16, s + P30 - P30
    rest = g - h
    for b in range(len(p)):
        p[b] = min(max(p[b] + P20 - P20, -LARGEST_DRIVE), LARGEST_DRIVE)
        y[b] = (p[b] * h + s30) + (p[b] * rest + P30 - P30)
    if code == TANH:
        for b in range(len(p)):
            y[b] = grid_tanh(y[b], G, top)
    elif code == SIGMOID:
        for b in range(len(p)):
            y[b] = grid_sigmoid(y[b], G, top)
    elif code == RELU:
        for b in range(len(p)):
            y[b] = grid_linear(max(y[b], 0.0), G)
    elif code == SIN:
        for b in range(len(p)):
            y[b] = grid_sin(y[b], G, top)
    else:
        for b in range(len(p)):
            y[b] = grid_linear(y[b], G)


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
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


@njit(nogil=True, cache=True, fastmath=GRID_MATH - {"contract"}, error_model="numpy")
def adapted(gain, shift, E, F, pE, pF, c, n, slowness):
    """Return gain and shift after a step of the rule; `slowness` is 1 / learning rate."""
    ds = (E - F / c) / (n * slowness)
    dg = (1.0 / gain + (pE - pF / c) / n) / slowness
    s = min(max(shift + ds, -LARGEST_SHIFT), LARGEST_SHIFT)
    g = min(max(gain + dg, LEAST_GAIN), LARGEST_GAIN)
    return g + P32 - P32, s + P32 - P32


@njit(nogil=True, cache=True, fastmath=GRID_MATH - {"contract"}, error_model="numpy")
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


@njit(nogil=True, cache=True, fastmath=GRID_MATH - {"contract"}, error_model="numpy")
def lockstep_plastic_on_grid(
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
    grid,
):
    """As `plastic_float_kernels.lockstep_plastic`, on a grid.

    `target` is mean, variance, exponential mean, 1 / learning rate (0: nothing adapts), and whether
    the equation as printed is followed; `grid` is the rounder and the largest number below 1 of the
    states; `sums` (4, N) gathers whole numbers. To MEASURE they are sums of the drive in 2^-20 and,
    in two halves, of its square in 2^-36; to DESCEND those that `adapt_units` takes.
    """
    N = len(leak)
    y, e, f, pe, pf = np.empty((5, X.shape[1]))
    mean, variance, exponential, slowness, printed = target
    G, top = grid
    for t in range(U.shape[1]):
        for j in range(U.shape[0]):
            for b in range(4 * len(width)):
                X[N + j, b] = U[j, t, b]
        for i in range(N):
            row_product(values, columns, starts[i], starts[i + 1], X, i, P, width)
        now = mask[t]
        n = exact_sum(now, now)
        for i in range(N):
            p, x, a, code = P[i], X[i], leak[i], activation[i]
            keep = 1.0 - a
            _outputs(code, gain[i], shift[i], G, top, p, y)
            for b in range(len(p)):
                x[b] = (keep * x[b] + a * y[b]) + G - G
                S[i, t, b] = x[b]
            if task == MEASURE:
                _measure(p, e, now, i, sums)
                continue
            if code > SIGMOID or n == 0.0 or not _adapts(gain[i], shift[i], slowness):
                continue
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


@njit(inline="always", fastmath=GRID_MATH - {"contract"}, error_model="numpy")
def _measure(p, work, now, i, sums):
    """Add the drives p of a unit's lanes, and their squares, to its whole sums."""
    for b in range(len(p)):
        work[b] = p[b] * p[b] + P36 - P36
    squares = int(exact_sum(work, now) * SQUARES)
    sums[0, i] += int(exact_sum(p, now) * DRIVES)
    sums[1, i] += squares & LOW
    sums[2, i] += squares >> HALF_WORD
