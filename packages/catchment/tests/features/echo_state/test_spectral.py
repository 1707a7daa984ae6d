"""Spectral radii against dense eigenvalues."""

from __future__ import annotations

from inspect import getmodule
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence

from catchment import single_blas_thread
from catchment.features.echo_state import SparseRows, Wiring, raw_matrix, spectral_radius


def dense_radius(W: SparseRows) -> float:
    with single_blas_thread():
        return float(np.abs(np.linalg.eigvals(W.to_dense())).max())


@given(units=st.integers(1, 40), density=st.floats(0.2, 1), seed=st.integers(0, 1000))
def test_small_matrices(units: int, density: float, seed: int) -> None:
    W = raw_matrix(Wiring(topology="random", units=units, density=density, seed=seed))
    if W.n_nonzero:
        # Nearly defective eigenvalues are only known to the root of the precision.
        assert spectral_radius(W) == pytest.approx(dense_radius(W), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "wiring",
    [
        Wiring(topology="random", units=600, density=0.01, seed=1),
        Wiring(topology="random", units=600, connections=3, seed=2),
        Wiring(topology="small_world", units=600, connections=6, rewiring=0.1),
        Wiring(topology="scale_free", units=600, connections=6),
        Wiring(topology="cycle_jumps", units=600, jump=23, jump_weight=0.5),
    ],
    ids=lambda wiring: wiring.topology,
)
def test_iteration_agrees_with_dense_eigenvalues(wiring: Wiring) -> None:
    W = raw_matrix(wiring)
    assert spectral_radius(W) == pytest.approx(dense_radius(W), rel=1e-8)


def test_twenty_thousand_units() -> None:
    # The figure is that of 10 eigenvalues in a subspace of 200; 2 in one of 40 give 1.8381.
    W = raw_matrix(Wiring(topology="random", units=20000, density=0.0005, seed=0))
    assert spectral_radius(W) == pytest.approx(1.8429514031, rel=1e-9)


def test_cycles_have_the_geometric_mean_of_their_weights() -> None:
    # Every eigenvalue has the same size, the hardest case for an iteration.
    ring = raw_matrix(Wiring(topology="ring", units=600))
    assert spectral_radius(ring) == 1.0
    assert spectral_radius(ring.times(-0.7)) == pytest.approx(0.7, rel=1e-14)
    uneven = SparseRows.from_dense(np.roll(np.diag(np.linspace(-2.0, -0.1, 9)), 1, axis=0))
    assert spectral_radius(uneven) == pytest.approx(dense_radius(uneven), rel=1e-9)


def test_eigenvalues_of_equal_size_are_solved_densely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getmodule(spectral_radius), "RESTARTS", 3)
    Q = raw_matrix(Wiring(topology="orthogonal", units=502))
    assert spectral_radius(Q) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("units", [0, 1, 30])
def test_no_nonzeros_give_zero(units: int) -> None:
    assert spectral_radius(SparseRows.from_dense(np.zeros((units, units)))) == 0.0


def test_stored_zeros_give_zero() -> None:
    assert spectral_radius(raw_matrix(Wiring(topology="ring", units=20)).times(0.0)) == 0.0


@pytest.mark.parametrize("units", [60, 2000])
def test_a_matrix_without_a_cycle_is_exactly_zero(units: int) -> None:
    # Dense eigenvalues of this one are far from zero.
    places = np.arange(units)
    W = SparseRows.from_dense(np.triu(np.ones((60, 60)), 1))
    shuffled = SparseRows.from_coordinates(
        places[:-1], places[1:], np.full(units - 1, 7.0), units, units
    )
    assert spectral_radius(W) == 0.0
    assert spectral_radius(shuffled) == 0.0


def test_parts_are_solved_apart() -> None:
    blocks = np.zeros((7, 7))
    blocks[:3, :3] = np.roll(np.eye(3), 1, axis=0) * 2.0
    blocks[3:5, 3:5] = [[0.0, 9.0], [1.0, 0.0]]
    blocks[5, 5] = -2.5
    blocks[0, 6] = 100.0
    assert spectral_radius(SparseRows.from_dense(blocks)) == pytest.approx(3.0)
    blocks[6, 6] = -4.0
    assert spectral_radius(SparseRows.from_dense(blocks)) == 4.0


def test_bad_matrices_are_refused() -> None:
    with pytest.raises(ValueError, match="2 x 3; give a square one"):
        spectral_radius(SparseRows.from_dense(np.ones((2, 3))))
    with pytest.raises(ValueError, match="not finite"):
        spectral_radius(SparseRows.from_dense(np.array([[np.nan]])))


def test_no_convergence_falls_back_to_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr("scipy.sparse.linalg.eigs", fail)
    W = raw_matrix(Wiring(topology="random", units=510, density=0.02))
    assert spectral_radius(W) == pytest.approx(dense_radius(W), rel=1e-9)
    monkeypatch.setattr(getmodule(spectral_radius), "DENSE_AT_MOST", 505)
    with pytest.raises(ArithmeticError, match="510 units did not converge; choose another seed"):
        spectral_radius(W)


def test_a_matrix_is_only_read() -> None:
    W = SparseRows(
        np.array([0, 2, 4]), np.array([0, 1, 0, 1], np.uint32), np.array([0.0, 2.0, 3.0, 0.0]), 2
    )
    arrays: list[NDArray[Any]] = [W.starts, W.columns, W.values]
    before = [array.copy() for array in arrays]
    assert spectral_radius(W) == pytest.approx(6**0.5)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
        array.setflags(write=False)
    assert spectral_radius(W) == pytest.approx(6**0.5)
