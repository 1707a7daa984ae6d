from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import Array
from catchment.readout import Gram

pytestmark = pytest.mark.processor


def layouts(Z: Array) -> list[Array]:
    """Return the same matrix in several memory orders."""
    n, m = Z.shape
    padded, spread = np.empty((n, m + 3)), np.empty((2 * n, 3 * m))
    padded[:, :m], spread[::2, ::3] = Z, Z
    return [Z, np.asfortranarray(Z), padded[:, :m], padded.T[:m].T, spread[::2, ::3], Z[::-1][::-1]]


def summed(*blocks: Array) -> Array:
    """Return the upper triangle of the sum over blocks."""
    total = Gram(len(blocks[0]))
    for Z in blocks:
        total.add(Z)
    return np.triu(total.result())


@given(n=st.integers(1, 60), m=st.integers(1, 300), seed=st.integers(0, 99))
def test_adds_the_upper_triangle_in_any_memory_order(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    start, Z = rng.normal(size=(n, 5)), rng.normal(size=(n, m))
    expected = np.triu(np.einsum("ik,jk->ij", start, start) + np.einsum("ik,jk->ij", Z, Z))
    found = [summed(start, layout) for layout in layouts(Z)]
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-13 * (5 + m))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@given(n=st.integers(1, 60), m=st.integers(1, 3000), seed=st.integers(0, 99))
def test_sums_of_integers_are_exact(n: int, m: int, seed: int) -> None:
    Z = np.random.default_rng(seed).integers(-(2**20), 2**20, (n, m))
    np.testing.assert_array_equal(summed(Z.astype(np.float64)), np.triu(Z @ Z.T))


def test_numbers_that_lie_backward_or_are_of_another_kind_are_copied() -> None:
    Z = np.random.default_rng(0).integers(-9, 9, (33, 300)).astype(np.float64)
    rows, columns = Z[::-1].copy()[::-1], Z[:, ::-1].copy()[:, ::-1]
    packed = np.frombuffer(b" " + Z.tobytes(), dtype=np.uint8)[1:].view(np.float64)
    others: list[Any] = [rows, columns, packed.reshape(Z.shape)]
    for other in [*others, Z.astype(np.float32), Z.astype(">f8")]:
        np.testing.assert_array_equal(summed(other), np.triu(Z @ Z.T))


def test_rows_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match="34 rows came for a sum of 33"):
        Gram(33).add(np.ones((34, 2)))


def test_nothing_adds_nothing() -> None:
    np.testing.assert_array_equal(
        summed(np.ones((3, 2)), np.empty((3, 0))), np.triu([[2.0] * 3] * 3)
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_row_and_column(value: float) -> None:
    Z = np.ones((40, 130))
    Z[7, 5] = value
    found, away = summed(Z), np.arange(40) != 7
    assert not np.isfinite(found[7, 7:]).any()
    assert not np.isfinite(found[:8, 7]).any()
    np.testing.assert_array_equal(found[np.ix_(away, away)], np.triu(np.full((39, 39), 130.0)))
