"""Gain and shift that give a Gaussian drive outputs of given moments, the same on every machine.

Mathematical libraries differ in their last digits, so the equations are solved in decimal
arithmetic, which does not: Newton's steps from a solution known to some digits,

    mean of y = m,  mean of (y - m)^2 = v,   y = tanh(a z + c),   z standard normal,

with means by the trapezoidal rule, whose error falls exponentially with the step.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from functools import lru_cache

CONTEXT = Context(prec=34)
STEP, FARTHEST = Decimal(1) / 64, 9  # of the rule; beyond it is a mass of 2e-19
MOST_STEPS, CLOSE, UNIT = 20, Decimal("1e-26"), Decimal("1e-24")


@lru_cache(maxsize=64)
def refined(mean: float, std: float, near: tuple[float, float]) -> tuple[float, float]:
    """Return (a, c) near a solution known to some digits.

    >>> a, c = refined(0.0, 0.2, (0.2, 0.01))
    >>> round(a, 6), c
    (0.20823, 0.0)
    """
    with localcontext(CONTEXT):
        a, c = (Decimal(round(value, 6)) for value in near)
        for _ in range(MOST_STEPS):
            f, g, slopes = _gaps(a, c, Decimal(mean), Decimal(std) ** 2)
            if max(abs(f), abs(g)) < CLOSE:
                return float(a.quantize(UNIT)), float(c.quantize(UNIT)) + 0.0
            (f_a, f_c), (g_a, g_c) = slopes
            turn = f_a * g_c - f_c * g_a
            if not turn:
                break
            a, c = a - (f * g_c - g * f_c) / turn, c - (f_a * g - g_a * f) / turn
    raise ArithmeticError(f"no gain gives mean {mean} and standard deviation {std}")


Pair = tuple[Decimal, Decimal]
Gaps = tuple[Decimal, Decimal, tuple[Pair, Pair]]


def _gaps(a: Decimal, c: Decimal, m: Decimal, v: Decimal) -> Gaps:
    """Return by how much mean and variance are off, and their slopes in a and c."""
    whole = f = g = f_a = f_c = g_a = g_c = Decimal(0)
    for z, w in _nodes():
        y = hyperbolic_tangent(a * z + c)
        slope, off = w * (1 - y * y), y - m
        whole, f, g = whole + w, f + w * off, g + w * off * off
        f_a, f_c = f_a + slope * z, f_c + slope
        g_a, g_c = g_a + 2 * off * slope * z, g_c + 2 * off * slope
    slopes = (f_a / whole, f_c / whole), (g_a / whole, g_c / whole)
    return f / whole, g / whole - v, slopes


@lru_cache(maxsize=1)
def _nodes() -> list[Pair]:
    with localcontext(CONTEXT):
        nodes = [k * STEP for k in range(-FARTHEST * 64, FARTHEST * 64 + 1)]
        return [(z, (-z * z / 2).exp()) for z in nodes]


def hyperbolic_tangent(x: Decimal) -> Decimal:
    """Return tanh x in the precision of the context.

    >>> float(hyperbolic_tangent(Decimal("0.5")))
    0.46211715726000974
    """
    e = (-2 * abs(x)).exp()
    return ((1 - e) / (1 + e)).copy_sign(x)


def inverse_tangent(y: float) -> float:
    """Return artanh y, correctly rounded but in one case of 10^15.

    >>> inverse_tangent(0.5)
    0.5493061443340549
    """
    with localcontext(CONTEXT):
        x = Decimal(y)
        return float(((1 + x) / (1 - x)).ln() / 2)
