from __future__ import annotations

import numpy as np
import pytest

from catchment import Array
from catchment.features.echo_state import ACTIVATIONS, Rows, kernels
from tests.features.echo_state.oracle import activate


def compiled(p: Rows, activation: str, leak: float = 1.0) -> Rows:
    """Return the compiled activation of p (8 n,), started from states of one half."""
    P = p.reshape(-1, 8).copy()
    N = len(P)
    X: Rows = np.full((N + 1, 8), 0.5, dtype=P.dtype)
    S: Rows = np.empty((N, 1, 8), dtype=P.dtype)
    code = (0,) * ACTIVATIONS.index(activation)
    flat = (X.reshape(-1), P.reshape(-1))
    kernels.activate_all(np.full(N, leak, dtype=P.dtype), code, True, X, flat, P, S, False, 0)
    np.testing.assert_array_equal(S[:, 0], X[:N])
    return X[:N].reshape(-1)


def all_magnitudes(smallest: float, largest: float) -> Array:
    rng = np.random.default_rng(0)
    exponents = rng.uniform(np.log10(smallest), np.log10(largest), 40_000)
    points = 10.0**exponents * rng.choice([-1.0, 1.0], 40_000)
    points[:8] = (0.0, 1e-300, -1e-300, 19.9, 20.1, -700.0, 0.3465735902799726, 1.0)
    return np.asarray(points, dtype=np.float64)


@pytest.mark.skipif(
    np.finfo(np.longdouble).nmant <= 52, reason="long double is no longer than double here"
)
def test_tanh_is_within_three_units_in_the_last_place() -> None:
    x = all_magnitudes(1e-300, 50.0)
    exact = np.tanh(x.astype(np.longdouble))
    error = np.abs(compiled(x, "tanh") - exact) / np.spacing(np.abs(exact.astype(np.float64)))
    assert error.max() <= 3


def test_tanh_of_single_precision_is_within_four_units_in_the_last_place() -> None:
    x = all_magnitudes(1e-30, 30.0).astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    got = compiled(x, "tanh")
    assert got.dtype == np.float32
    error = np.abs(got - exact) / np.spacing(np.abs(exact.astype(np.float32)))
    assert error.max() <= 4


def test_tanh_never_leaves_its_range_and_is_odd() -> None:
    x = all_magnitudes(1e-3, 1e300)
    y = compiled(x, "tanh")
    assert (np.abs(y) <= 1).all()
    np.testing.assert_allclose(compiled(-x, "tanh"), -y, rtol=0, atol=3e-16)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_leaks_as_in_numpy(name: str) -> None:
    p = np.random.default_rng(1).normal(0, 3, 800)
    codes = np.full(800, ACTIVATIONS.index(name), dtype=np.uint8)
    expected = 0.7 * 0.5 + 0.3 * activate(p, codes)
    np.testing.assert_allclose(compiled(p, name, leak=0.3), expected, rtol=0, atol=1e-14)


def test_tanh_for_compiled_code_refuses_python() -> None:
    with pytest.raises(TypeError, match="compiled code"):
        kernels.fast_tanh(0.5)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("kind", ["mean", "mean_std", "max"])
def test_pooling_reads_strided_blocks(kind: str) -> None:
    Z = np.random.default_rng(2).normal(size=(5, 7, 12))[:, :6, :8]
    sums = np.full((3 if kind == "mean_std" else 1, 5, 8), -np.inf if kind == "max" else 0.0)
    if kind == "mean_std":
        sums[0] = Z[:, 0]
    kernels.pool_into(kind == "max", Z, np.empty(0), sums)
    moved = Z - Z[:, :1]
    expected = {
        "mean": [Z.sum(1)],
        "mean_std": [Z[:, 0], moved.sum(1), (moved**2).sum(1)],
        "max": [Z.max(1)],
    }
    np.testing.assert_allclose(sums, expected[kind], rtol=1e-13, atol=1e-14)
