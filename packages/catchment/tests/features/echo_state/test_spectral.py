"""Spectral radii against dense eigenvalues."""

from __future__ import annotations

import warnings
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from inspect import getmodule
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence

from catchment import single_blas_thread
from catchment.errors import FinerRadiusWarning
from catchment.features import Reservoir
from catchment.features.echo_state import (
    LayerSettings as Wiring,
)
from catchment.features.echo_state import (
    SparseRows,
    common_radius,
    raw_matrix,
    rounded_radius,
    spectral_radius,
)
from catchment.features.echo_state import weights as spectral

pytestmark = pytest.mark.processor

ON_THE_EDGE = 513  # a seed


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


def decimal_radius(W: SparseRows, digits: int = 60) -> Decimal:
    """Return the radius of a positive matrix by powers of it, in decimals."""
    with localcontext(prec=digits):
        rows = [[Decimal(value) for value in row] for row in W.to_dense().tolist()]
        x = [Decimal(1)] * len(rows)
        for _ in range(400):
            moved = [sum((a * b for a, b in zip(row, x, strict=True)), Decimal(0)) for row in rows]
            largest = max(moved)
            x = [value / largest for value in moved]
        return largest


@given(units=st.integers(2, 12), seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_the_common_radius_is_the_true_one_rounded(units: int, seed: int) -> None:
    drawn = raw_matrix(Wiring(topology="random", units=units, connections=units, seed=seed))
    W = replace(drawn, values=np.abs(drawn.values) + 0.25)
    assert common_radius(W) == rounded_radius(Fraction(decimal_radius(W)))


@given(
    wiring=st.builds(
        Wiring,
        topology=st.just("random"),
        units=st.integers(2, 60),
        density=st.floats(0.1, 1),
        seed=st.integers(0, 2**32),
    )
)
@settings(max_examples=50, deadline=None)
def test_the_common_radius_is_near_the_one_of_lapack(wiring: Wiring) -> None:
    W = raw_matrix(wiring)
    radius, finer = common_radius(W)
    mantissa = radius.hex().split("p")[0].removeprefix("0x1").removeprefix(".").rstrip("0")
    assert len(mantissa.ljust(5, "0")) <= 5 + finer  # 20 bits: one, and 19 after the point
    assert radius == pytest.approx(spectral_radius(W), rel=2.0**-20)


@pytest.mark.parametrize("units", [501, 1200])
def test_the_common_radius_by_iteration_is_that_of_dense_solvers(
    units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    W = raw_matrix(Wiring(topology="random", units=units, connections=10, seed=3))
    by_iteration = common_radius(W)
    monkeypatch.setattr(spectral, "DENSE_UP_TO", 5000)
    assert common_radius(W) == by_iteration


def test_an_eigenvalue_that_is_there_twice_is_found_to_all_digits() -> None:
    # Its eigenvectors are one, and solvers find two values some 1e-8 apart.
    wiring = Wiring(
        topology="cycle_jumps", units=8, jump=3, jump_weight=1.0, random_signs=True, seed=390117038
    )
    W = raw_matrix(wiring)
    values = np.linalg.eigvals(W.to_dense())
    near = np.abs(values - values[np.abs(values).argmax()])
    assert 1e-12 < np.sort(near)[1] < 1e-5
    assert common_radius(W) == rounded_radius(Fraction(float(abs(values[near < 1e-5].mean()))))


@given(st.integers(2**19, 2**20 - 1), st.integers(-40, 40), st.sampled_from([-1, 1]))
def test_a_radius_on_the_edge_of_a_rounding_takes_one_bit_more(
    whole: int, exponent: int, side: int
) -> None:
    unit = Fraction(2) ** exponent
    middle, nearest = (whole + Fraction(1, 2)) * unit, (whole + (side > 0)) * unit
    within, beyond = (middle * (1 + side * Fraction(k, 10**12)) for k in (999, 1001))
    assert rounded_radius(within) == (float(middle), True)
    assert rounded_radius(beyond) == (float(nearest), False)


def test_building_says_where_a_radius_lies_on_the_edge() -> None:
    wiring = Wiring(topology="random", units=6, connections=6, seed=ON_THE_EDGE)
    radius, finer = common_radius(raw_matrix(wiring))
    assert finer
    with pytest.warns(FinerRadiusWarning, match="layer 0 as drawn.*21 are kept, on every machine"):
        built = Reservoir(units=6, connections=6, seed=ON_THE_EDGE, spectral_radius=1.0).prepared()
    assert built.scale == (1.0 / radius,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = Reservoir.from_json(built.to_json())
        assert again.layers[0].W.n_nonzero == 36


def test_the_radius_of_a_cycle_comes_from_decimals() -> None:
    weights = np.linspace(0.1, 2.0, 9)
    uneven = SparseRows.from_dense(np.roll(np.diag(weights), 1, axis=0))
    with localcontext(prec=60):
        product = Decimal(1)
        for weight in weights.tolist():
            product *= Decimal(weight)
        expected = Fraction(product ** (Decimal(1) / 9))
    assert common_radius(uneven) == rounded_radius(expected)
