"""Spectral radii against dense eigenvalues, and those of ARPACK."""

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
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigs

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


@pytest.mark.long
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
    monkeypatch.setattr(getmodule(spectral_radius), "RESTARTS", 0)
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


def held(W: SparseRows) -> csr_array:
    parts = (W.values, W.columns.astype(np.int64), W.starts)
    return csr_array(parts, shape=(W.n_rows, W.n_columns))


def near_oracle(W: SparseRows, oracle: float, *, rel: float = 1e-9) -> None:
    """20 bits of what somebody else's solver says, whose own error is `rel`."""
    radius, _ = common_radius(W)
    assert abs(radius - oracle) <= (2.0**-20 + rel) * oracle
    assert spectral_radius(W) == pytest.approx(oracle, rel=rel)


@given(
    units=st.integers(1, 40),
    edges=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=120, unique=True),
)
def test_the_parts_of_a_graph_are_those_of_scipy(units: int, edges: list[tuple[int, int]]) -> None:
    places = np.array([(i % units, j % units) for i, j in edges], dtype=np.int64).reshape(-1, 2)
    rows, columns = np.unique(places, axis=0).T
    W = SparseRows.from_coordinates(rows, columns, np.ones(len(rows)), units, units)
    ours = spectral.strong_parts(W.starts, W.columns)
    n_parts, theirs = connected_components(held(W), directed=True, connection="strong")
    pairs = {(int(a), int(b)) for a, b in zip(ours, theirs, strict=True)}
    assert len(pairs) == n_parts == ours.max() + 1


def test_the_parts_of_a_long_path_and_of_many_units() -> None:
    line = raw_matrix(Wiring(topology="delay_line", units=20_000))
    assert len(set(spectral.strong_parts(line.starts, line.columns).tolist())) == 20_000
    W = raw_matrix(Wiring(topology="random", units=20_000, connections=2, seed=5))
    ours = spectral.strong_parts(W.starts, W.columns)
    n_parts, theirs = connected_components(held(W), directed=True, connection="strong")
    assert 1 < n_parts == ours.max() + 1
    np.testing.assert_array_equal(np.sort(np.bincount(ours)), np.sort(np.bincount(theirs)))


@pytest.mark.parametrize("seed", range(12))
def test_radii_by_iteration_are_those_of_arpack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units, connections = int(rng.integers(300, 3000)), int(rng.integers(4, 12))
    W = raw_matrix(Wiring(topology="random", units=units, connections=connections, seed=seed))
    values = eigs(held(W), k=10, ncv=160, tol=1e-13, return_eigenvectors=False)
    near_oracle(W, float(np.abs(values).max()))


@pytest.mark.parametrize("period", [2, 3, 7, 30])
def test_a_periodic_matrix_has_many_values_of_one_size(period: int) -> None:
    rng = np.random.default_rng(period)
    n = 600 // period
    # The eigenvalues are the roots of those of the product of its blocks.
    blocks = [rng.uniform(-1.0, 1.0, (n, n)) * (rng.random((n, n)) < 5 / n) for _ in range(period)]
    W = np.zeros((n * period, n * period))
    for k, block in enumerate(blocks):
        there = (k + 1) % period * n
        W[k * n : (k + 1) * n, there : there + n] = block
    product = np.linalg.multi_dot(blocks)
    oracle = float(np.abs(np.linalg.eigvals(product)).max() ** (1 / period))
    near_oracle(SparseRows.from_dense(W), oracle, rel=1e-8)


@pytest.mark.parametrize("coupling", [1e-6, 1e-12, 1e-30])
@pytest.mark.parametrize("units", [40, 400])
def test_values_that_are_there_twice_with_one_vector(units: int, coupling: float) -> None:
    # Two copies, of which one drives the other: pairs lie a root of the way back apart.
    W = raw_matrix(Wiring(topology="random", units=units, connections=6, seed=2))
    one = [np.concatenate([place, place + units]) for place in (W.rows(), W.columns.astype(int))]
    rows = np.concatenate([one[0], [0, units]])
    columns = np.concatenate([one[1], [units, 0]])
    values = np.concatenate([W.values, W.values, [1.0, coupling]])
    both = SparseRows.from_coordinates(rows, columns, values, 2 * units, 2 * units)
    radius, _ = common_radius(both)
    root = coupling**0.5
    assert radius == pytest.approx(dense_radius(W), rel=2.0**-20 + 2 * root)


@pytest.mark.parametrize("units", [60, 700])
def test_few_different_eigenvalues(units: int) -> None:
    # The iteration finds nothing new after as many steps.
    rng = np.random.default_rng(units)
    left, right = rng.standard_normal((units, 3)), rng.standard_normal((3, units))
    oracle = float(np.abs(np.linalg.eigvals(right @ left)).max())
    near_oracle(SparseRows.from_dense(left @ right), oracle)


@given(
    units=st.sampled_from([3, 30, 300]),
    exponent=st.integers(-900, 900),
    seed=st.integers(0, 50),
)
@settings(max_examples=30, deadline=None)
def test_a_power_of_two_goes_through_the_radius(units: int, exponent: int, seed: int) -> None:
    W = raw_matrix(Wiring(topology="random", units=units, connections=3, seed=seed))
    radius, finer = common_radius(W)
    moved = replace(W, values=np.ldexp(W.values, exponent))
    assert common_radius(moved) == (float(np.ldexp(radius, exponent)), finer)


def test_reducible_matrices_have_the_largest_radius_of_their_blocks() -> None:
    rng = np.random.default_rng(3)
    blocks = [
        raw_matrix(Wiring(topology="random", units=units, connections=5, seed=units)).to_dense()
        for units in (20, 280, 310)
    ]
    W = np.triu((rng.random((610, 610)) < 0.01) * 1.0, 1)
    first = 0
    for block in blocks:
        W[first : first + len(block), first : first + len(block)] = block
        first += len(block)
    order = rng.permutation(len(W))
    oracle = max(float(np.abs(np.linalg.eigvals(block)).max()) for block in blocks)
    near_oracle(SparseRows.from_dense(W[order][:, order]), oracle)


def test_a_matrix_whose_only_eigenvalue_is_zero_has_next_to_none() -> None:
    # One part, and no pivot of a factorization is other than zero.
    assert common_radius(SparseRows.from_dense(np.array([[1.0, 1.0], [-1.0, -1.0]])))[0] < 1e-6


def test_a_long_cycle_with_one_shortcut() -> None:
    # Of 275 eigenvalues of almost one size an iteration in a small subspace misses the largest.
    rng = np.random.default_rng(84)
    values, at = rng.choice([-1.0, 1.0, 0.5], 275), int(rng.integers(2, 274))
    W = np.roll(np.diag(values), 1, axis=1)
    W[0, at] = -1.0
    near_oracle(SparseRows.from_dense(W), dense_radius(SparseRows.from_dense(W)))
