from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import Array
from catchment.readout import add_gram, statistics

pytestmark = pytest.mark.processor


def layouts(Z: Array) -> list[Array]:
    """Return the same matrix in several memory orders."""
    n, m = Z.shape
    padded, spread = np.empty((n, m + 3)), np.empty((2 * n, 3 * m))
    padded[:, :m], spread[::2, ::3] = Z, Z
    return [Z, np.asfortranarray(Z), padded[:, :m], padded.T[:m].T, spread[::2, ::3], Z[::-1][::-1]]


@given(n=st.integers(1, 9), m=st.integers(1, 9), seed=st.integers(0, 99))
def test_adds_the_upper_triangle_in_any_memory_order(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, start = rng.normal(size=(n, m)), rng.normal(size=(n, n))
    expected = np.triu(start + np.einsum("ik,jk->ij", Z, Z))
    for layout in layouts(Z):
        total = start.copy()
        add_gram(total, layout)
        np.testing.assert_allclose(np.triu(total), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_nothing_adds_nothing(shape: tuple[int, int]) -> None:
    total = np.ones((shape[0], shape[0]))
    add_gram(total, np.empty(shape))
    np.testing.assert_array_equal(total, 1.0)


def test_without_a_fitting_blas_numpy_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_syrk", lambda: None)
    Z, total = np.arange(6.0).reshape(2, 3), np.ones((2, 2))
    add_gram(total, Z)
    np.testing.assert_array_equal(np.triu(total), [[6.0, 15.0], [0.0, 51.0]])


def test_this_scipy_has_it() -> None:
    assert statistics._syrk() is not None
