"""Compiled rows of monomials and of random features, in fixed point."""

from __future__ import annotations

import numpy as np

from catchment.compiling import njit
from catchment.features.echo_state.kernels import GRID_MATH, grid_sin
from catchment.features.echo_state.weights import ROUND

DELAY_DIGITS = 22  # of inputs; their products have 50 bits
R_DELAY = ROUND / 2**DELAY_DIGITS
SINE_DIGITS = 24
R_SINE, TOP = ROUND / 2**SINE_DIGITS, 1.0 - 2.0**-SINE_DIGITS
TURN = 26353589 / 2**22  # 2 pi to 22 binary digits


@njit(nogil=True, cache=True, fastmath=GRID_MATH, error_model="numpy")
def monomials(u, wanted, delays, stride, order, limit, out):
    """Monomials of delayed inputs u (T, I), of the steps that are wanted, into rows of out.

    A row is 1, the delayed inputs, their products in pairs, and with order 3 in triples.
    """
    T, I = u.shape
    n = delays * I
    x = np.empty(n)
    row = 0
    for t in range(T):
        if not wanted[t]:
            continue
        z = out[row]
        row += 1
        for d in range(delays):
            for c in range(I):
                past = u[t - d * stride, c] if t >= d * stride else 0.0
                x[d * I + c] = min(max(past, -limit), limit) + R_DELAY - R_DELAY
        z[0] = 1.0
        z[1 : n + 1] = x
        place = n + 1
        if order > 1:
            for i in range(n):
                for j in range(i, n):
                    z[place + j - i] = x[i] * x[j]
                place += n - i
        if order > 2:
            for i in range(n):
                for j in range(i, n):
                    pair = x[i] * x[j] + R_DELAY - R_DELAY
                    for k in range(j, n):
                        z[place + k - j] = pair * x[k]
                    place += n - j


@njit(nogil=True, cache=True, fastmath=GRID_MATH, error_model="numpy")
def cosines(turns):
    """cos of so many turns (n, F), in place; they have 28 binary digits after the point."""
    for t in range(turns.shape[0]):
        for j in range(turns.shape[1]):
            v = turns[t, j] + 0.25
            v = v - (v + ROUND - ROUND)
            turns[t, j] = grid_sin(v * TURN, R_SINE, TOP)
