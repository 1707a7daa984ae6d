"""Activations as nodes.

In fixed point they are the very operations of `catchment.features.echo_state.kernels`. There every
product is exact and every rounding written down, so the same operations in the same order give the
same numbers in any runtime that follows IEEE 754. What float32 cannot hold is left to the runtime's
own functions.
"""

from __future__ import annotations

import numpy as np

from catchment.features.echo_state import ACTIVATIONS, LINEAR_BOUND, ROUND
from catchment.features.echo_state import kernels as exact
from catchment_edge.onnx.values import INT64, Value

MOST_DOUBLINGS = 32  # 2^k below is of k = round(20 log2 e) = 29 at most


def rounded(x: Value, rounder: float) -> Value:
    """Return numbers rounded by adding and subtracting, as every grid here does."""
    return x + rounder - rounder


def copied_sign(size: Value, x: Value) -> Value:
    """Return sizes with the signs of x."""
    return size.builder.where(x < 0.0, -size, size)


def growth(y: Value) -> Value:
    """Return e^y - 1 for y in 0..20 with 26 binary digits after the point."""
    k = y * exact.LOG2E + ROUND - ROUND
    r = y - k * exact.LN2
    p = exact.C4 * r + (exact.C3 + exact.R27) - exact.R27
    for c in (exact.C2, exact.C1, exact.C0, 0.0):
        p = p * r + (c + exact.R27) - exact.R27
    p = p * r + (r + exact.R27) - exact.R27
    powers = y.builder.constant(np.ldexp(1.0, np.arange(MOST_DOUBLINGS)))
    scale = powers.take(k.cast(INT64), axis=0)
    return scale * p + (scale - 1.0)


def grid_tanh(x: Value, G: float, top: float) -> Value:
    """Return tanh on the grid of rounder G, at most `top` in absolute value."""
    e = growth(rounded((x + x).size(), exact.R26).at_most(exact.LARGEST))
    return copied_sign(rounded(e / (e + 2.0), G).at_most(top), x)


def grid_sigmoid(x: Value, G: float, top: float) -> Value:
    """Return the logistic function on the grid."""
    e = growth(rounded(x.size(), exact.R26).at_most(exact.LARGEST))
    upper = rounded((e + 1.0) / (e + 2.0), G).at_most(top)
    return x.builder.where(x < 0.0, 1.0 - upper, upper)


def grid_sin(x: Value, G: float, top: float) -> Value:
    """Return sin on the grid; arguments beyond 64 count as 64."""
    a = x.size().at_most(exact.FARTHEST)
    k = rounded(a, exact.R26) * exact.OVER_PI + ROUND - ROUND
    r = rounded(a - k * exact.PI, exact.R25)
    z = rounded(r * r, exact.R24)
    p = exact.S4 * z + (exact.S3 + exact.R36) - exact.R36
    p = p * z + (exact.S2 + exact.R30) - exact.R30
    p = p * z + (exact.S1 + exact.R30) - exact.R30
    p = p * z + (exact.S0 + exact.R29) - exact.R29
    p = p * z + exact.R27 - exact.R27
    p = p * r + (r + exact.R27) - exact.R27
    p = rounded(p, G).clip(-top, top)
    odd = k - 2.0 * (k * 0.5).floor()
    return copied_sign(p * (1.0 - 2.0 * odd), x)


def grid_linear(x: Value, G: float) -> Value:
    """Return x on the grid, cut off."""
    return rounded(x, G).clip(-LINEAR_BOUND, LINEAR_BOUND)


def activated(name: str, p: Value, grid: tuple[()] | tuple[float, float]) -> Value:
    """Return an activation of pre-activations, on the grid of a rounder and a top if given."""
    if not grid:
        plain = {"tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "sin": "Sin"}
        return p if name == "identity" else p.apply(plain[name])
    G, top = grid
    match name:
        case "tanh":
            return grid_tanh(p, G, top)
        case "sigmoid":
            return grid_sigmoid(p, G, top)
        case "sin":
            return grid_sin(p, G, top)
        case "relu":
            return grid_linear(p.at_least(0.0), G)
    return grid_linear(p, G)


def mixed(codes: np.ndarray, p: Value, grid: tuple[()] | tuple[float, float]) -> Value:
    """Return the activations of units (.., N), each of its own kind.

    Parameters
    ----------
    codes
        (N,) places in ACTIVATIONS.
    """
    kinds = sorted(set(codes.tolist()))
    if len(kinds) == 1:
        return activated(ACTIVATIONS[kinds[0]], p, grid)
    # Each kind is computed for its own units; the last step puts them back into their order.
    places = [np.flatnonzero(codes == kind) for kind in kinds]
    parts = [
        activated(ACTIVATIONS[kind], p.take(where, axis=-1), grid)
        for kind, where in zip(kinds, places, strict=True)
    ]
    order = np.argsort(np.concatenate(places), kind="stable")
    return p.builder.concat(parts, axis=-1).take(order, axis=-1)
