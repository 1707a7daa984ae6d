"""A reservoir in fixed point in Python's own integers, from the definitions and nothing compiled.

Every number is an integer with its digits after the point beside it. Written from the
docstrings of `activations`, `whole_weights` and `segments`, as slow as that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from catchment import Array
from catchment.features import Reservoir
from catchment.features.echo_state import ACTIVATIONS, LayerWeights

LINEAR = ("relu", "identity")


def near(value: Fraction) -> int:
    """Return the nearest integer, ties to even."""
    return round(value)


def to_digits(value: Fraction, digits: int) -> Fraction:
    return Fraction(near(value * 2**digits), 2**digits)


def ieee_quotient(a: Fraction, b: Fraction) -> Fraction:
    """Return a / b rounded as IEEE 754 does: Python divides integers like that."""
    top, bottom = a.numerator * b.denominator, a.denominator * b.numerator
    return Fraction(top / bottom)


def growth(y: Fraction) -> Fraction:
    """Return e^y - 1 as defined."""
    k = near(y * Fraction(3025551, 2**21))
    r = y - k * Fraction(46516320, 2**26)
    p = Fraction(187240, 2**27)
    for c in (1123252, 5592344, 22369423, 67108865, 0):
        p = to_digits(p * r + Fraction(c, 2**27), 27)
    p = to_digits(p * r + r, 27)
    scale = Fraction(2) ** k
    return scale * p + (scale - 1)


def tanh(x: Fraction, b: int) -> Fraction:
    e = growth(min(to_digits(abs(2 * x), 26), Fraction(20)))
    y = min(to_digits(ieee_quotient(e, e + 2), b), 1 - Fraction(1, 2**b))
    return y if x >= 0 else -y


def sigmoid(x: Fraction, b: int) -> Fraction:
    e = growth(min(to_digits(abs(x), 26), Fraction(20)))
    y = min(to_digits(ieee_quotient(e + 1, e + 2), b), 1 - Fraction(1, 2**b))
    return y if x >= 0 else 1 - y


def sin(x: Fraction, b: int) -> Fraction:
    a = min(abs(x), Fraction(64))
    k = near(to_digits(a, 26) * Fraction(333772, 2**20))
    r = to_digits(a - k * Fraction(3454217652358, 2**40), 25)
    z = to_digits(r * r, 24)
    p = to_digits(Fraction(-26220, 2**40) * z + Fraction(189134, 2**36), 36)
    p = to_digits(p * z + Fraction(-213039, 2**30), 30)
    p = to_digits(p * z + Fraction(8947845, 2**30), 30)
    p = to_digits(p * z + Fraction(-89478485, 2**29), 29)
    p = to_digits(to_digits(p * z, 27) * r + r, 27)
    top = 1 - Fraction(1, 2**b)
    y = min(max(to_digits(p, b), -top), top)
    y = -y if k % 2 else y
    return y if x >= 0 else -y


def linear(x: Fraction, b: int) -> Fraction:
    return min(max(to_digits(x, b), Fraction(-8)), Fraction(8))


def relu(x: Fraction, b: int) -> Fraction:
    return linear(max(x, Fraction(0)), b)


FUNCTIONS = {"tanh": tanh, "sigmoid": sigmoid, "relu": relu, "sin": sin, "identity": linear}


def whole_weights(
    layer: LayerWeights, input_bounds: Sequence[Fraction], b: int
) -> tuple[list[list[tuple[int, int]]], int]:
    """Return (column, whole weight) of each unit's row over [x; u; 1], and their digits."""
    N, I = layer.n_units, layer.n_inputs
    names = [ACTIVATIONS[code] for code in layer.activation]
    bounds = [Fraction(8 if name in LINEAR else 1) for name in names]
    bounds += [*input_bounds, Fraction(1)]
    W, W_in = layer.W.to_dense(), layer.W_in.to_dense()
    rows: list[list[tuple[int, float]]] = []
    for i in range(N):
        g = float(layer.gain[i])
        row = [(j, float(W[i, j]) * g) for j in range(N) if W[i, j] != 0]
        row += [(N + j, float(W_in[i, j]) * g) for j in range(I) if W_in[i, j] != 0]
        row.append((N + I, g * float(layer.bias[i]) + float(layer.shift[i])))
        rows.append(row)
    wanted, largest = min(b, 20), max(abs(v) for row in rows for _, v in row)
    w = wanted
    while largest > 2 ** (wanted - w):
        w -= 1
    while True:
        whole = [[(j, near(Fraction(v) * Fraction(2) ** w)) for j, v in row] for row in rows]
        sums = [sum(abs(k) * bounds[j] for j, k in row) for row in whole]
        fits = max(abs(k) for row in whole for _, k in row) < 2**wanted
        if fits and max(sums) * 2**b < 2**53:
            return whole, w
        w -= 1


def layer_states(
    layer: LayerWeights,
    us: list[list[Fraction]],
    input_bounds: Sequence[Fraction],
    b: int,
) -> list[list[Fraction]]:
    rows, w = whole_weights(layer, input_bounds, b)
    leak_digits = min(b, 20)
    leaks = [
        max(to_digits(Fraction(float(a)), leak_digits), Fraction(1, 2**leak_digits))
        for a in layer.leak
    ]
    functions = [FUNCTIONS[ACTIVATIONS[code]] for code in layer.activation]
    x, states = [Fraction(0)] * layer.n_units, []
    for u in us:
        extended = [*x, *u, Fraction(1)]
        drives = [sum((k * extended[j] for j, k in row), Fraction(0)) / 2**w for row in rows]
        x = [
            to_digits((1 - a) * old + a * f(p, b), b)
            for a, old, f, p in zip(leaks, x, functions, drives, strict=True)
        ]
        states.append(x)
    return states


def inputs(u: Array, b: int, range: float) -> list[list[Fraction]]:
    R = Fraction(range)
    return [
        [to_digits(min(max(Fraction(float(v)), -R), R), b) for v in row] for row in np.asarray(u)
    ]


def whole_states(reservoir: Reservoir, u: Array, *, cut: bool = True) -> list[list[Fraction]]:
    """Return the states of all layers, cut as the reservoir says."""
    b = reservoir.bits
    assert b is not None
    L, M = reservoir.cut if cut else (0, 0)
    T = len(u)
    if L == 0 or T <= L:
        return _from_rest(reservoir, u, b)
    found: list[list[Fraction]] = []
    for begin in range(0, T, L):
        rest = max(0, begin - M)
        found += _from_rest(reservoir, u[rest : begin + L], b)[begin - rest :]
    return found


def _from_rest(reservoir: Reservoir, u: Array, b: int) -> list[list[Fraction]]:
    below = inputs(u, b, reservoir.range)
    bounds = [Fraction(reservoir.range)] * reservoir.n_inputs
    found: list[list[Fraction]] = [[] for _ in below]
    for layer in reservoir.layers:
        below = layer_states(layer, below, bounds, b)
        found = [[*old, *new] for old, new in zip(found, below, strict=True)]
        bounds = [Fraction(8 if ACTIVATIONS[c] in LINEAR else 1) for c in layer.activation]
    return found


def as_floats(states: list[list[Fraction]]) -> Array:
    return np.array([[float(value) for value in row] for row in states])
