"""Factors, triangular systems and Toeplitz matrices against scipy's LAPACK."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from catchment import Array
from catchment.readout import (
    cholesky,
    cholesky_solve,
    inverse_norm,
    linear_algebra,
    solve_triangular,
    toeplitz,
)

pytestmark = pytest.mark.processor
EPS = np.finfo(np.float64).eps
MOST = 200  # rows that numpy factors here, so that smaller matrices take the other way
SIZES = st.sampled_from([1, 2, 5, 63, 64, 65, 100, 191, 200, 201, 290])


@pytest.fixture(autouse=True, scope="module")
def other_way() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_algebra, "SMALL", MOST)
        yield


def definite(n: int, condition: float, seed: int) -> Array:
    """Return a matrix (n, n), Fortran order, with eigenvalues from 1 / condition to 1."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))
    A = (Q * np.logspace(0, -np.log10(condition), n)) @ Q.T
    return np.asfortranarray((A + A.T) / 2)


@given(n=SIZES, digits=st.integers(0, 12), seed=st.integers(0, 99), by_rows=st.booleans())
def test_a_factor_is_that_of_a_matrix_off_by_rounding(
    n: int, digits: int, seed: int, by_rows: bool
) -> None:
    A = definite(n, 10.0**digits, seed)
    given_ = np.tril(A) + np.triu(np.full((n, n), np.nan), 1)  # what is above is not read
    given_ = np.asarray(given_, order="C" if by_rows else "F")
    found = cholesky(given_)
    assert n <= MOST or found is given_
    L = np.tril(found)
    np.testing.assert_allclose(L @ L.T, A, rtol=0, atol=4 * n * EPS)
    if digits < 4:
        expected = scipy.linalg.cholesky(A, lower=True)
        np.testing.assert_allclose(L, expected, rtol=0, atol=n * 10.0**digits * EPS)


@given(
    n=SIZES,
    width=st.sampled_from([1, 3, 127, 128, 129]),
    seed=st.integers(0, 99),
    transposed=st.booleans(),
    by_rows=st.booleans(),
)
def test_triangular_systems(n: int, width: int, seed: int, transposed: bool, by_rows: bool) -> None:
    rng = np.random.default_rng(seed)
    factor = np.linalg.cholesky(definite(n, 1e6, seed)) + np.triu(np.full((n, n), np.nan), 1)
    L = np.asarray(factor, dtype=np.float64, order="C" if by_rows else "F")
    B = rng.normal(size=(n, width))
    found = solve_triangular(L, B.copy(), transposed=transposed)
    expected = scipy.linalg.solve_triangular(
        np.tril(L), B, lower=True, trans="T" if transposed else "N"
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e3 * n * EPS * np.abs(expected).max())
    # Backward stable row by row, whatever the condition.
    T = np.tril(L).T if transposed else np.tril(L)
    bound = 4 * n * EPS * (np.abs(T) @ np.abs(found))
    assert (np.abs(T @ found - B) <= bound).all()


@given(n=SIZES, seed=st.integers(0, 99))
def test_solutions_from_a_factor(n: int, seed: int) -> None:
    A, B = definite(n, 1e3, seed), np.random.default_rng(seed).normal(size=(n, 3))
    kept = B.copy()
    expected = np.linalg.solve(A, B)
    for order in ("C", "F"):
        found = cholesky_solve(cholesky(A.copy(order="F")), np.asarray(B, order=order))
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=1e4 * n * EPS * np.abs(expected).max()
        )
    np.testing.assert_array_equal(B, kept)


@given(n=SIZES, digits=st.integers(0, 10), seed=st.integers(0, 99))
def test_the_norm_of_an_inverse_is_what_numpy_says(n: int, digits: int, seed: int) -> None:
    A = definite(n, 10.0**digits, seed)
    L = cholesky(A.copy(order="F"))
    exact = np.linalg.norm(np.linalg.inv(A), 2)
    assert exact / 1.5 < inverse_norm(L) < exact * (1 + 1e-4)


@pytest.mark.parametrize("n", [1, 3, 150, 200, 300])
def test_there_is_no_factor_of_what_is_not_definite(n: int) -> None:
    A = np.asfortranarray(np.eye(n))
    A[-1, -1] = -1e-3
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(A)
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(np.zeros((n, n), order="F"))


@pytest.mark.parametrize("n", [1, 3, 150, 200, 300])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_raises_or_shows_on_the_diagonal(n: int, value: float) -> None:
    for place in {0, n // 2, n - 1}:
        A = np.asfortranarray(np.eye(n))
        A[-1, place] = value
        try:
            found = cholesky(A)
        except np.linalg.LinAlgError:
            continue
        assert not np.isfinite(found.diagonal()).all()


def test_nothing() -> None:
    empty = np.empty((0, 0), order="F")
    assert cholesky(empty).shape == (0, 0)
    assert cholesky_solve(empty, np.empty((0, 2))).shape == (0, 2)
    assert cholesky_solve(np.eye(70), np.empty((70, 0))).shape == (70, 0)
    assert toeplitz(np.empty(0)).shape == (0, 0)


def test_a_zero_on_the_diagonal_shows() -> None:
    with np.errstate(all="ignore"):
        found = solve_triangular(np.diag([1.0, 0.0]), np.ones((2, 1)))
    assert not np.isfinite(found).all()


@given(st.lists(st.floats(-9, 9), max_size=9))
def test_toeplitz(column: list[float]) -> None:
    if column:
        np.testing.assert_array_equal(toeplitz(np.array(column)), scipy.linalg.toeplitz(column))
