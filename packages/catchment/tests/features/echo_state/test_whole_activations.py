"""Activations in fixed point against integers, and against the functions that they stand for."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from catchment import Array
from catchment.features.echo_state import ACTIVATIONS, kernels, rounder
from tests.features.echo_state import whole_oracle as oracle

EDGES = (0.0, 0.25, 1.0, 8.0, 9.999, 10.0, 10.5, 20.0, 31.4, 63.99, 64.0, 64.5, 300.0)
STEPS = {"tanh": 0.61, "sigmoid": 0.61, "sin": 1.1, "relu": 0.5, "identity": 0.5}


def compiled(p: Array, name: str, bits: int) -> Array:
    """Return the compiled activation of p (8 n,) without a leak."""
    P = p.reshape(-1, 8).copy()
    N = len(P)
    X, S = np.zeros((N + 1, 8)), np.empty((N, 1, 8))
    code = (0,) * ACTIVATIONS.index(name)
    grid = (rounder(bits), 1 - 0.5**bits)
    flat = (X.reshape(-1), P.reshape(-1))
    kernels.activate_all(np.ones(N), code, True, X, flat, P, S, False, 0, grid)
    return X[:N].reshape(-1)


def arguments(bits: int) -> Array:
    """Return drives: sums of products of numbers with 20 and with `bits` digits."""
    rng = np.random.default_rng(bits)
    sizes = rng.choice([0.01, 0.3, 1.0, 3.0, 12.0, 80.0], 400)
    digits = min(bits, 20) + bits
    p = np.ldexp(np.rint(np.ldexp(rng.normal(size=400) * sizes, digits)), -digits)
    tiny = np.ldexp(np.arange(-20.0, 20.0), -bits - 1)
    found = np.concatenate([p, tiny, np.ldexp(np.arange(-4.0, 4.0), -digits), EDGES])
    return np.concatenate([found, -found[: -len(EDGES)], -np.array(EDGES)[1:-1]])


def derivative_free(x: float, name: str) -> Decimal:
    """Return the true value to 30 digits."""
    with localcontext() as context:
        context.prec = 40
        X = Decimal(x)
        if name == "tanh":
            e = (2 * X).exp()
            return (e - 1) / (e + 1)
        if name == "sigmoid":
            return 1 / (1 + (-X).exp())
        if name == "sin":
            total = term = X
            for n in range(2, 240, 2):
                term = -term * X * X / (n * (n + 1))
                total += term
            return total
        return max(X, Decimal(0)) if name == "relu" else X


@pytest.mark.parametrize("bits", [8, 15, 20, 24])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_compiled_function_is_the_definition_in_whole_numbers(name: str, bits: int) -> None:
    p = arguments(bits)
    p = np.concatenate([p[:400:4], p[400:484]])
    expected = [float(oracle.FUNCTIONS[name](Fraction(float(x)), bits)) for x in p]
    np.testing.assert_array_equal(compiled(p, name, bits), expected)


@pytest.mark.parametrize("bits", [15, 20, 24])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_it_is_near_the_function_and_inside_its_range(name: str, bits: int) -> None:
    p = arguments(bits)[::7]
    p = p[np.abs(p) <= (40.0 if name == "sin" else 7.5)]
    p = np.resize(p, 8 * math.ceil(len(p) / 8))
    y = compiled(p, name, bits)
    step = Decimal(2) ** -bits
    allowed = Decimal(STEPS[name]) * step
    for x, found in zip(p, y, strict=True):
        error = abs(Decimal(float(found)) - derivative_free(float(x), name))
        # The largest number below 1 stands for all above it.
        assert error <= allowed or abs(found) == 1 - 2.0**-bits, (x, found)


@pytest.mark.parametrize("bits", [15, 24])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "sin", "identity"])
def test_it_is_odd_about_its_middle(name: str, bits: int) -> None:
    p = arguments(bits)
    middle = 0.5 if name == "sigmoid" else 0.0
    up, down = compiled(p, name, bits) - middle, compiled(-p, name, bits) - middle
    inside = p != 0.0  # sigmoid(0) is on the side of sigmoid(+0)
    np.testing.assert_array_equal(up[inside], -down[inside])


@pytest.mark.parametrize("bits", [12, 20, 24])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "relu", "identity"])
def test_it_never_falls_where_the_function_rises(name: str, bits: int) -> None:
    rng = np.random.default_rng(1)
    steps = rng.integers(0, 3, 80_000) * 2.0 ** -rng.choice([bits, bits + 4, 12], 80_000)
    p = np.sort(np.concatenate([np.cumsum(steps) % 12 - 6, np.linspace(-30, 30, 8_000)]))
    assert (np.diff(compiled(p, name, bits)) >= 0).all()


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "sin"])
def test_fifteen_bits_fit_sixteen_bit_words(name: str) -> None:
    whole = compiled(arguments(15), name, 15) * 2**15
    np.testing.assert_array_equal(whole.astype(np.int16), whole)


def test_the_function_for_compiled_code_refuses_python() -> None:
    with pytest.raises(TypeError, match="compiled code"):
        kernels.advance_units(0, 1.0, (), None, None, 0)  # type: ignore[no-untyped-call]
