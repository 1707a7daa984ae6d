"""The compiled loop of a diagonal reservoir: every step of one recording, units side by side.

All is in fixed point. Inputs have 24 binary digits after the point and states 28, both at most 8 in
absolute value. Eigenvalues have 19 digits and input weights 18, so that a step's sum is a multiple
of 2^-47 below 32 and exact, whether or not its products are fused. What enters products and
mixtures is a state rounded to 23 digits: a product of two has 52 bits. The leaks of products and
mixed units have 16 digits. A mixture is bent by x (27 + x^2) / (27 + 9 x^2), x at most 3 in
absolute value, which is within 0.024 of tanh and takes half its time: x has 22 digits and its
square 20, so that all but the division is exact. Each rounding is by addition and subtraction of
1.5 2^(52 - digits).

States lie in a ring, real parts before imaginary ones, which is written twice, so that a unit i of
a block reads state i plus the block's shift: neighbours read neighbours, and no index is looked up.
"""

from __future__ import annotations

import numpy as np

from catchment.compiling import njit
from catchment.features.echo_state.kernels import GRID_MATH, grid_sin
from catchment.features.echo_state.weights import ROUND

LIMIT = 8.0  # largest absolute value of inputs, drives and states
INPUT_DIGITS, STATE_DIGITS, FACTOR_DIGITS, BENT_DIGITS = 24, 28, 23, 24
R_INPUT, R_STATE, R_FACTOR, R_BENT = (
    ROUND / 2**digits for digits in (INPUT_DIGITS, STATE_DIGITS, FACTOR_DIGITS, BENT_DIGITS)
)
R_BEND, R_SQUARE = ROUND / 2**22, ROUND / 2**20  # of what is bent, and of its square
TOP = 1.0 - 2.0**-BENT_DIGITS
PI = 3.141592653589793


@njit(cache=True, error_model="numpy")
def on_circle(v, out):
    """cos and sin (2, k) of pi v for v in 0..1, on a grid of 24 digits."""
    for i in range(len(v)):
        out[0, i] = grid_sin(PI * (0.5 - v[i]), R_BENT, TOP)
        out[1, i] = grid_sin(PI * v[i], R_BENT, TOP)


@njit(nogil=True, cache=True, error_model="numpy")
def round_inputs(u, out):
    """Inputs rounded and cut off."""
    for t in range(u.shape[0]):
        for c in range(u.shape[1]):
            out[t, c] = min(max(u[t, c], -LIMIT), LIMIT) + R_INPUT - R_INPUT


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def _cut(x):
    return min(max(x, -LIMIT), LIMIT)


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def _advance(drive, modes, ring):
    """Advance the rows re, im of modes, whose first two are a, b, and round them into the ring."""
    k = modes.shape[1]
    a, b, re, im = modes[0], modes[1], modes[2], modes[3]
    for i in range(k):
        x, y = re[i], im[i]
        re[i] = _cut(a[i] * x - b[i] * y + _cut(drive[i]) + R_STATE - R_STATE)
        im[i] = _cut(b[i] * x + a[i] * y + R_STATE - R_STATE)
    for i in range(k):
        ring[i] = re[i] + R_FACTOR - R_FACTOR
    for i in range(k):
        ring[k + i] = im[i] + R_FACTOR - R_FACTOR
    for i in range(2 * k):
        ring[2 * k + i] = ring[i]


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def _follow(leak, p, q):
    """q follows p: (1 - leak) q + leak p on the grid of states."""
    for i in range(len(q)):
        q[i] = (1.0 - leak[i]) * q[i] + leak[i] * p[i] + R_STATE - R_STATE


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def _products(u, ring, shifts, p):
    """Products of states and inputs, where the shift is negative, or of two states."""
    N, I = len(ring) // 2, len(u)
    for block in range(len(shifts)):
        mine = p[block * N : min(block * N + N, len(p))]
        if shifts[block] < 0:
            for c in range(I):
                for i in range(c, len(mine), I):
                    mine[i] = ring[i] * u[c] + R_STATE - R_STATE
        else:
            other = ring[shifts[block] :]
            for i in range(len(mine)):
                mine[i] = ring[i] * other[i] + R_STATE - R_STATE


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def _mixtures(ring, turns, M, p):
    """A bias and three states each, weighted, and bent."""
    N = len(ring) // 2
    for block in range(len(turns)):
        first = block * N
        mine = p[first : min(first + N, len(p))]
        one, two, three = ring[turns[block, 0] :], ring[turns[block, 1] :], ring[turns[block, 2] :]
        m1, m2, m3, bias = M[0, first:], M[1, first:], M[2, first:], M[3, first:]
        for i in range(len(mine)):
            mine[i] = m1[i] * one[i] + m2[i] * two[i] + m3[i] * three[i] + bias[i]
    for i in range(len(p)):
        x = min(max(p[i], -3.0), 3.0) + R_BEND - R_BEND
        y = x * x + R_SQUARE - R_SQUARE
        bent = x * (27.0 + y) / (27.0 + 9.0 * y) + R_BENT - R_BENT
        p[i] = min(max(bent, -TOP), TOP)


@njit(nogil=True, cache=True, fastmath=GRID_MATH, error_model="numpy")
def run(u, wanted, W, shifts, turns, M, leak, modes, ring, q, out):
    """Advance over inputs u (T, I), and put the rows of the steps that are wanted into out.

    Rows are inputs, real parts, imaginary parts, products, mixed units. `modes` (4, k) are real and
    imaginary parts of the eigenvalues and of the states; these, and the products and mixed units q,
    are advanced in place. `M` (4, Q) holds the weights of mixed units and their biases.
    """
    T, I = u.shape
    k, Q = modes.shape[1], M.shape[1]
    P = len(q) - Q
    drive, p = np.empty(k), np.empty(P + Q)
    row = 0
    for t in range(T):
        drive[:] = 0.0
        for c in range(I):
            value = u[t, c]
            for i in range(k):
                drive[i] += W[c, i] * value
        _advance(drive, modes, ring)
        if P:
            _products(u[t], ring, shifts, p[:P])
        if Q:
            _mixtures(ring, turns, M, p[P:])
        _follow(leak, p, q)
        if wanted[t]:
            out[row, :I] = u[t]
            out[row, I : I + k] = modes[2]
            out[row, I + k : I + 2 * k] = modes[3]
            out[row, I + 2 * k :] = q
            row += 1


@njit(nogil=True, cache=True, error_model="numpy")
def add_moments(z, reference, first, second):
    """Add rows z (n, F), less a reference, and their squares; one after another, nothing fused."""
    for t in range(z.shape[0]):
        for j in range(z.shape[1]):
            d = z[t, j] - reference[j]
            first[j] += d
            second[j] += d * d
