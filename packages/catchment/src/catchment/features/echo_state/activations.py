"""Activations on a grid: one definition, the same bits wherever there are IEEE numbers.

Every product below is of two short fixed-point numbers and exact in a float64, so a fused
multiply-add changes nothing, and every rounding is written down: adding and subtracting
1.5 2^(52 - f) rounds to a multiple of 2^-f, ties to even. The one operation that is not exact is
the division, which IEEE 754 rounds the same way everywhere. In whole numbers:

    y = |2x| rounded to 26 binary digits after the point, at most 20     (sigmoid: |x|)
    k = round(y LOG2E),  r = y - k LN2
    p = C4;  p = round27(p r + c) for c in C3, C2, C1, C0, 0;  p = round27(p r + r)
    e = 2^k p + (2^k - 1)                                                e^y - 1, exactly this
    tanh = e / (e + 2),  sigmoid = (e + 1) / (e + 2)

    sin: a = |x|, at most 64;  k = round(round26(a) OVER_PI);  r = round25(a - k PI);
    z = round24(r r);  p = round36(S4 z + S3);  p = round30(p z + S2);  p = round30(p z + S1);
    p = round29(p z + S0);  sin = (-1)^k round27(round27(p z) r + r)

each then rounded to the grid and given the sign of x. The results are odd, tanh and sigmoid are
monotone, and on every grid up to 24 digits these two are within 0.61 steps of the true value and
sin within 1.1 (0.54 up to 20 digits).

`digits` below are binary digits after the point; values on a grid of b digits stay below 1 in
absolute value by one step, so that 16-bit words hold them for b = 15.
"""

from __future__ import annotations

import math

import numpy as np

from catchment.compiling import njit
from catchment.features.echo_state.whole_weights import LEAST_DIGITS as LEAST_DIGITS
from catchment.features.echo_state.whole_weights import LINEAR_BOUND as LINEAR_BOUND
from catchment.features.echo_state.whole_weights import MOST_DIGITS as MOST_DIGITS
from catchment.features.echo_state.whole_weights import ROUND as ROUND

# 'reassoc' would cancel the roundings; contraction is harmless because the products are exact.
GRID_MATH = {"contract", "nnan", "ninf", "nsz"}

R24, R25, R26, R27 = (ROUND / 2**digits for digits in (24, 25, 26, 27))
R29, R30, R36 = (ROUND / 2**digits for digits in (29, 30, 36))
LARGEST = 20.0
LOG2E = 3025551 / 2**21
LN2 = 46516320 / 2**26
FARTHEST = 64.0  # largest argument of sin that is told from larger ones
OVER_PI, PI = 333772 / 2**20, 3454217652358 / 2**40
S0, S1, S2 = -89478485 / 2**29, 8947845 / 2**30, -213039 / 2**30
S3, S4 = 189134 / 2**36, -26220 / 2**40
C0, C1, C2, C3, C4 = (c / 2**27 for c in (67108865, 22369423, 5592344, 1123252, 187240))


def rounder(digits: int) -> float:
    """Return the number whose addition and subtraction rounds to this many binary digits.

    >>> (0.3 + rounder(2)) - rounder(2)
    0.25
    """
    return math.ldexp(ROUND, -digits)


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def growth(y):
    """e^y - 1 for y in 0..20 with 26 binary digits after the point."""
    shifted = y * LOG2E + ROUND
    k = shifted - ROUND
    r = y - k * LN2
    p = C4 * r + (C3 + R27) - R27
    p = p * r + (C2 + R27) - R27
    p = p * r + (C1 + R27) - R27
    p = p * r + (C0 + R27) - R27
    p = p * r + R27 - R27
    p = p * r + (r + R27) - R27
    bits = np.float64(shifted).view(np.int64) << np.int64(52)
    scale = np.int64(bits + np.int64(0x3FF0000000000000)).view(np.float64)
    return scale * p + (scale - 1.0)


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def size_of_tanh(x, G, top):
    """|tanh| on the grid of rounder G, at most `top`, the largest number below 1."""
    e = growth(min(abs(x + x) + R26 - R26, LARGEST))
    return min(e / (e + 2.0) + G - G, top)


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def grid_tanh(x, G, top):
    """tanh on the grid of rounder G, at most `top` in absolute value."""
    return math.copysign(size_of_tanh(x, G, top), x)


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def grid_sigmoid(x, G, top):
    """The logistic function on the grid: 1 - sigmoid(-x), exactly, and never 0 or 1."""
    e = growth(min(abs(x) + R26 - R26, LARGEST))
    upper = min((e + 1.0) / (e + 2.0) + G - G, top)
    return upper if x >= 0.0 else 1.0 - upper


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def grid_sin(x, G, top):
    """sin on the grid; arguments beyond 64 count as 64."""
    a = min(abs(x), FARTHEST)
    shifted = (a + R26 - R26) * OVER_PI + ROUND
    k = shifted - ROUND
    r = (a - k * PI) + R25 - R25
    z = r * r + R24 - R24
    p = S4 * z + (S3 + R36) - R36
    p = p * z + (S2 + R30) - R30
    p = p * z + (S1 + R30) - R30
    p = p * z + (S0 + R29) - R29
    p = p * z + R27 - R27
    p = p * r + (r + R27) - R27
    odd = np.float64(shifted).view(np.int64) & np.int64(1)
    p = min(max(p + G - G, -top), top)
    sign = 1.0 - 2.0 * odd
    return p * sign * math.copysign(1.0, x)


@njit(inline="always", fastmath=GRID_MATH, error_model="numpy")
def grid_linear(x, G):
    """x on the grid, cut off at LINEAR_BOUND."""
    return min(max(x + G - G, -LINEAR_BOUND), LINEAR_BOUND)
