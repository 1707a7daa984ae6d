"""Ridge systems solved by products alone, against scipy's direct solution."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve

from catchment import Array
from catchment_research.learn import Krylov


def exact(A: Array, B: Array, ridge: float) -> Array:
    return np.asarray(solve(A + ridge * np.eye(len(A)), B, assume_a="pos"))


def system(seed: int, n: int, F: int, K: int, decay: float) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, F)) * np.arange(1.0, F + 1) ** -decay
    return z.T @ z, z.T @ rng.normal(size=(n, K))


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.5, 1.5]),
)
def test_solutions_are_as_near_as_promised_for_every_ridge_and_every_number_of_products(
    seed: int, n: int, F: int, K: int, decay: float
) -> None:
    A, B = system(seed, n, F, K, decay)
    ridges = np.array([1e-3, 0.1, 10.0]) * max(float(np.trace(A)) / F, 1e-9)
    known, n_products = Krylov.of(B), 0
    while not known.is_exhausted:
        known = known.after(A @ known.directions)
        n_products += 1
        doubts, found = known.doubts(ridges), known.solutions(ridges)
        for ridge, doubt, W in zip(ridges, doubts, found, strict=True):
            true = exact(A, B, float(ridge))
            off = np.linalg.norm(W - true, axis=0)
            assert (off <= (1.01 * doubt + 1e-9) * np.linalg.norm(true, axis=0) * 2 + 1e-12).all()
    assert n_products <= F
    for ridge, W in zip(ridges, known.solutions(ridges), strict=True):
        true = exact(A, B, float(ridge))
        np.testing.assert_allclose(W, true, atol=1e-9 * float(np.abs(true).max()) + 1e-12)


def test_outputs_share_their_directions_so_that_several_take_fewer_rounds_than_one() -> None:
    A, B = system(1, 400, 120, 6, 0.5)
    taken = []
    for columns in (B[:, :1], B):
        known = Krylov.of(columns)
        while known.doubts(np.array([0.1])).max() > 1e-10:
            known = known.after(A @ known.directions)
        taken.append(known.basis.shape[1] / columns.shape[1])
    assert taken[1] < 0.6 * taken[0]


def test_outputs_that_repeat_each_other_or_do_not_vary_cost_no_direction() -> None:
    A, B = system(2, 60, 20, 2, 0.5)
    known = Krylov.of(np.column_stack([B, B[:, 0] - 3 * B[:, 1], np.zeros(20)]))
    assert known.directions.shape == (20, 2)
    while not known.is_exhausted:
        known = known.after(A @ known.directions)
    W = known.solutions(np.array([0.5]))[0]
    np.testing.assert_allclose(W[:, 2], W[:, 0] - 3 * W[:, 1], atol=1e-10)
    assert not W[:, 3].any()


def test_directions_stay_orthonormal() -> None:
    A, B = system(3, 300, 80, 1, 2.0)
    known = Krylov.of(B)
    for _ in range(40):
        known = known.after(A @ known.directions)
    V = known.basis
    assert np.abs(V.T @ V - np.eye(V.shape[1])).max() < 1e-12
