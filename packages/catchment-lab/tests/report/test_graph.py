"""Layouts and values behind the pictures, against networkx and numpy."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from catchment.features.echo_state import LayerWeights, SparseRows
from catchment_lab.plots import Layout, arrowheads, eigenvalues, graph_of, shown_units


def layer(W: np.ndarray, leak: np.ndarray | float = 1.0) -> LayerWeights:
    N = len(W)
    one, zero = np.ones(N), np.zeros(N)
    rows = SparseRows.from_dense(W)
    return LayerWeights(rows, rows, zero, leak * one, one, zero, np.zeros(N, np.uint8))


def random_matrix(N: int, density: float) -> np.ndarray:
    rng = np.random.default_rng(N)
    W: np.ndarray = rng.uniform(-1, 1, (N, N)) * (rng.random((N, N)) < density)
    return W


def test_connections_are_those_of_networkx() -> None:
    W = random_matrix(25, 0.2)
    g = graph_of(layer(W), layout="circular", max_units=150)
    # W[i, j] weighs the way from unit j to unit i.
    theirs = networkx.from_numpy_array(W.T, create_using=networkx.DiGraph)
    loops = sorted(networkx.nodes_with_selfloops(theirs))
    edges = {(j, i): w for j, i, w in theirs.edges(data="weight") if i != j}
    ours = zip(g.sources.tolist(), g.targets.tolist(), strict=True)
    assert dict(zip(ours, g.weights.tolist(), strict=True)) == edges
    assert g.loops.tolist() == loops
    assert (np.diff(np.abs(g.weights)) >= 0).all()
    assert g.note == ""


@pytest.mark.parametrize("layout", ["spring", "circular"])
def test_positions_fill_the_unit_disc_and_repeat(layout: Layout) -> None:
    W = random_matrix(60, 0.05)
    g = graph_of(layer(W), layout=layout, max_units=150)
    radius = np.linalg.norm(g.positions, axis=1)
    assert np.isclose(radius.max(), 1.0)
    assert np.isfinite(g.positions).all()
    distances = np.linalg.norm(g.positions[:, None] - g.positions, axis=2)
    assert distances[~np.eye(60, dtype=bool)].min() > 1e-3
    again = graph_of(layer(W), layout=layout, max_units=150)
    assert np.array_equal(g.positions, again.positions)


def test_spring_brings_connected_units_closer() -> None:
    blocks = np.kron(np.eye(2), np.ones((10, 10)))
    order = np.random.default_rng(0).permutation(20)
    W = blocks[np.ix_(order, order)]
    g = graph_of(layer(W), layout="spring", max_units=150)
    distances = np.linalg.norm(g.positions[:, None] - g.positions, axis=2)
    inside, across = (W == 1) & ~np.eye(20, dtype=bool), W == 0
    assert distances[inside].mean() < 0.5 * distances[across].mean()


def test_strongest_connections_are_kept() -> None:
    W = random_matrix(80, 1.0)
    g = graph_of(layer(W), layout="circular", max_units=80)
    off = np.abs(W[~np.eye(80, dtype=bool)])
    assert len(g.weights) == 3000
    np.testing.assert_array_equal(np.sort(np.abs(g.weights)), np.sort(off)[-3000:])
    assert "strongest 3000 of 6320 connections" in g.note


def test_arrowheads_point_to_the_target() -> None:
    g = graph_of(layer(random_matrix(12, 0.2)), layout="spring", max_units=150)
    heads = arrowheads(g, size=0.01)
    tip, base = heads[:, 0], heads[:, 1:].mean(axis=1)
    way = g.positions[g.targets] - g.positions[g.sources]
    assert (((tip - base) * way).sum(axis=1) > 0).all()


def test_eigenvalues_are_numpys() -> None:
    W, leak = random_matrix(20, 0.5), np.linspace(0.1, 1, 20)
    theirs = np.linalg.eigvals((np.eye(20).T * (1 - leak)).T + (W.T * leak).T)
    real, imaginary = eigenvalues(layer(W, leak), leaky=True)
    np.testing.assert_allclose(
        np.sort_complex(real + 1j * imaginary), np.sort_complex(theirs), atol=1e-12
    )


def test_huge_spectrum_is_refused() -> None:
    wide = SparseRows(np.zeros(4002, np.int64), np.zeros(0, np.uint32), np.zeros(0), 4001)
    one, zero = np.ones(4001), np.zeros(4001)
    big = LayerWeights(wide, wide, zero, one, one, zero, np.zeros(4001, np.uint8))
    with pytest.raises(ValueError, match="4001 units"):
        eigenvalues(big, leaky=False)


def test_shown_units_never_repeat() -> None:
    assert shown_units(3, 10) == [0, 1, 2]
    assert shown_units(1, 1) == [0]
