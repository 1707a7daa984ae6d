"""Weights, leaks, inputs and starts on a grid: whole numbers times a power of two.

On a grid of b digits states and inputs are k 2^-b. A layer's weights, gain folded in, are rounded
to w binary digits after the point: as many as min(b, 20) bits hold, and few enough that the sum of
a row, sum |k_weight| 2^b bound(what it multiplies), stays below 2^53. Then every product and every
sum of a step is exact in float64, in whatever order it is done, and the drive of a unit is one
definite number. Leak rates a have min(b, 20) digits and are one step at least, so (1 - a) x + a y
is exact too before it is rounded to b digits.
"""

from __future__ import annotations

import numpy as np

from catchment.arrays import Array, Integers
from catchment.features.echo_state.weights import ACTIVATIONS, LayerWeights

LEAST_DIGITS, MOST_DIGITS = 8, 24  # of states on a grid
DEFAULT_RANGE = 8.0  # largest absolute value of an input
MOST_WEIGHT_DIGITS = 20
ROUND = 6755399441055744.0  # 1.5 2^52: adding and subtracting it rounds to whole numbers
LINEAR_BOUND = 8.0  # relu and identity have none of their own, and are cut off here
BOUNDED = tuple(ACTIVATIONS.index(name) for name in ("tanh", "sigmoid", "sin"))


def state_bounds(layer: LayerWeights) -> Array:
    """Return the largest absolute value (N,) of each unit's states on a grid."""
    return np.where(np.isin(layer.activation, BOUNDED), 1.0, LINEAR_BOUND)


def rounded(values: Array, digits: int | Integers) -> Array:
    """Return values rounded to this many binary digits after the point, ties to even.

    >>> rounded(np.array([0.3, -0.01, 0.375]), 2)
    array([0.25, 0.  , 0.5 ])
    """
    # Adding zero turns -0 into 0, so that equal numbers have equal bits.
    found: Array = np.ldexp(np.rint(np.ldexp(values, digits)), -np.asarray(digits)) + 0.0
    return found


def weight_digits(rows: Integers, values: Array, bounds: Array, bits: int) -> int:
    """Return the digits w after the point of a layer's weights.

    Parameters
    ----------
    rows
        (nnz,) unit that each weight drives.
    bounds
        (nnz,) largest absolute value of what each weight multiplies.
    bits
        Binary digits of the states.

    >>> weight_digits(np.zeros(2, int), np.array([0.4, 3.0]), np.ones(2), 15)
    13
    """
    wanted = min(bits, MOST_WEIGHT_DIGITS)
    fraction, exponent = np.frexp(np.abs(values).max(initial=0.0))
    w = wanted - max(0, int(exponent) - int(fraction == 0.5))
    while True:
        k = np.abs(np.rint(np.ldexp(values, w)))
        sums = np.bincount(rows, weights=k * bounds, minlength=1)
        if k.max(initial=0.0) < 2.0**wanted and sums.max() < 2.0 ** (53 - bits):
            return w
        w -= 1


def leak_on_grid(leak: Array, bits: int) -> Array:
    """Return leak rates (N,) with min(bits, 20) digits, one step at least.

    >>> leak_on_grid(np.array([0.3, 1e-9, 1.0]), 8)
    array([0.30078125, 0.00390625, 1.        ])
    """
    digits = min(bits, MOST_WEIGHT_DIGITS)
    return np.maximum(rounded(leak, digits), 2.0**-digits)


def inputs_on_grid(u: Array, bits: int, input_range: float) -> tuple[Array, int]:
    """Return inputs (T, I) cut off at the range and rounded, and how many values were cut off.

    >>> inputs_on_grid(np.array([[0.3, 9.0]]), 8, 8.0)
    (array([[0.30078125, 8.        ]]), 1)
    """
    from catchment.features.echo_state.kernels import round_inputs

    found = np.array(u, order="C")
    return found, int(round_inputs(found.reshape(-1), np.ldexp(ROUND, -bits), input_range))
