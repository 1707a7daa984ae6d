"""Recurrent matrices as graphs against networkx, their known radii against dense eigenvalues."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from catchment.features import Reservoir
from catchment.features.echo_state import TOPOLOGIES, common_radius, known_radius, raw_matrix
from catchment.features.echo_state import LayerSettings as Layer


def graph(wiring: Layer) -> nx.DiGraph:
    """Return the graph with an edge from sender to receiver."""
    return nx.from_numpy_array(raw_matrix(wiring).to_dense().T, create_using=nx.DiGraph)


def small_world(units: int, connections: int, rewiring: float, seed: int = 0) -> nx.Graph:
    return graph(
        Layer(
            topology="small_world",
            units=units,
            connections=connections,
            rewiring=rewiring,
            seed=seed,
        )
    )


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("units", [4, 5, 9, 50])
def test_rows_are_sorted_and_free_of_repeats(topology: str, units: int) -> None:
    W = raw_matrix(Reservoir(units=units, topology=topology, seed=3).layer_settings[0].wiring)
    assert (W.n_rows, W.n_columns) == (units, units)
    place = W.rows() * units + W.columns
    assert (np.diff(place) > 0).all()
    assert np.isfinite(W.values).all()


@given(units=st.integers(1, 40), density=st.floats(0, 1), seed=st.integers(0, 2**64 - 1))
def test_density_gives_the_exact_number_of_nonzeros(units: int, density: float, seed: int) -> None:
    W = raw_matrix(Layer(topology="random", units=units, density=density, seed=seed))
    assert W.n_nonzero == round(density * units**2)
    assert (np.abs(W.values) <= 1.0).all()


@given(units=st.integers(1, 40), data=st.data())
def test_connections_give_each_unit_the_same_number(units: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, units))
    W = raw_matrix(Layer(topology="random", units=units, connections=k))
    assert (np.diff(W.starts) == k).all()


def test_random_graph_has_the_degrees_of_an_erdos_renyi_graph() -> None:
    ours = graph(Layer(topology="random", units=400, density=0.05, seed=1))
    theirs = nx.gnm_random_graph(400, ours.number_of_edges(), seed=1, directed=True)
    for degrees in ("in_degree", "out_degree"):
        our_spread = np.var([d for _, d in getattr(ours, degrees)()])
        their_spread = np.var([d for _, d in getattr(theirs, degrees)()])
        assert our_spread == pytest.approx(their_spread, rel=0.3)


def test_unrewired_small_world_is_the_ring_lattice_of_networkx() -> None:
    ours = small_world(30, 6, 0.0).to_undirected()
    assert nx.utils.graphs_equal(
        nx.Graph(ours.edges()), nx.Graph(nx.watts_strogatz_graph(30, 6, 0.0).edges())
    )


@given(units=st.integers(3, 30), rewiring=st.floats(0, 1), seed=st.integers(0, 50), data=st.data())
@settings(max_examples=50)
def test_small_world_keeps_its_edges_in_both_directions(
    units: int, rewiring: float, seed: int, data: st.DataObject
) -> None:
    k = 2 * data.draw(st.integers(1, (units - 1) // 2))
    ours = small_world(units, k, rewiring, seed)
    assert ours.number_of_edges() == units * k
    assert all(ours.has_edge(receiver, sender) for sender, receiver in ours.edges())
    assert nx.number_of_selfloops(ours) == 0


def test_small_world_has_high_clustering_and_short_paths() -> None:
    ours = small_world(300, 8, 0.1).to_undirected()
    theirs = nx.watts_strogatz_graph(300, 8, 0.1, seed=1)
    lattice = nx.watts_strogatz_graph(300, 8, 0.0)
    random = nx.gnm_random_graph(300, 1200, seed=1)
    assert nx.average_clustering(ours) == pytest.approx(nx.average_clustering(theirs), rel=0.15)
    assert nx.average_clustering(ours) > 5 * nx.average_clustering(random)
    path = nx.average_shortest_path_length(ours)
    assert path == pytest.approx(nx.average_shortest_path_length(theirs), rel=0.1)
    assert path < 0.4 * nx.average_shortest_path_length(lattice)


def test_fully_rewired_small_world_is_like_a_random_graph() -> None:
    ours = small_world(300, 8, 1.0).to_undirected()
    assert nx.average_clustering(ours) < 0.06


def test_scale_free_has_hubs_like_those_of_networkx() -> None:
    wiring = Layer(topology="scale_free", units=1000, connections=6, seed=2)
    ours = graph(wiring).to_undirected()
    theirs = nx.barabasi_albert_graph(1000, 3, seed=2)
    assert ours.number_of_edges() == theirs.number_of_edges()
    assert nx.is_connected(ours)
    our_degrees = np.sort([d for _, d in ours.degree()])
    their_degrees = np.sort([d for _, d in theirs.degree()])
    assert our_degrees[0] == 3
    np.testing.assert_allclose(np.median(our_degrees), np.median(their_degrees), atol=1)
    assert our_degrees[-1] > 8 * our_degrees.mean()
    assert our_degrees[-10:].mean() == pytest.approx(their_degrees[-10:].mean(), rel=0.3)


@pytest.mark.parametrize("topology", ["small_world", "scale_free"])
def test_the_two_directions_of_an_edge_have_weights_of_their_own(topology: str) -> None:
    W = raw_matrix(Reservoir(units=50, topology=topology).layer_settings[0].wiring).to_dense()
    assert ((W != 0) == (W.T != 0)).all()
    assert (W[W != 0] != W.T[W != 0]).all()
    assert W.min() < -0.9
    assert W.max() > 0.9


def test_ring_is_one_cycle_and_delay_line_one_path() -> None:
    assert nx.utils.graphs_equal(
        graph(Layer(topology="ring", units=7)), nx.cycle_graph(7, create_using=weighted())
    )
    assert nx.utils.graphs_equal(
        graph(Layer(topology="delay_line", units=7)),
        nx.path_graph(7, create_using=weighted()),
    )


def weighted() -> nx.DiGraph:
    """Return an empty graph whose new edges weigh 1, as those read from a matrix do."""

    class Weighted(nx.DiGraph):  # type: ignore[misc]
        def edge_attr_dict_factory(self) -> dict[str, float]:
            return {"weight": 1.0}

    return Weighted()


def test_permutation_has_one_nonzero_in_each_row_and_column() -> None:
    P = raw_matrix(Layer(topology="permutation", units=30, seed=5)).to_dense()
    np.testing.assert_array_equal(P @ P.T, np.eye(30))
    assert set(P.ravel()) == {0.0, 1.0}
    assert not np.array_equal(P, np.eye(30))


def test_cycle_jumps_links_both_ways_and_leaves_the_rest_a_cycle() -> None:
    W = raw_matrix(Layer(topology="cycle_jumps", units=9, jump=3, jump_weight=0.5)).to_dense()
    cycle = np.roll(np.eye(9), 1, axis=0)
    jumps = np.zeros((9, 9))
    for one, other in [(0, 3), (3, 6), (6, 0)]:
        jumps[one, other] = jumps[other, one] = 0.5
    np.testing.assert_array_equal(W, cycle + jumps)


@pytest.mark.parametrize("topology", ["ring", "delay_line", "permutation", "cycle_jumps"])
def test_random_signs_change_nothing_but_signs(topology: str) -> None:
    plain = raw_matrix(Reservoir(units=60, topology=topology).layer_settings[0].wiring)
    signed = raw_matrix(
        Reservoir(units=60, topology=topology, random_signs=True).layer_settings[0].wiring
    )
    np.testing.assert_array_equal(np.abs(signed.to_dense()), plain.to_dense())
    assert 0.2 < (signed.values < 0).mean() < 0.8


@pytest.mark.parametrize("random_signs", [False, True])
@pytest.mark.parametrize("topology", ["ring", "permutation"])
def test_known_radius_of_permutations(topology: str, random_signs: bool) -> None:
    wiring = Layer(topology=topology, units=41, random_signs=random_signs, seed=4)
    eigenvalues = np.linalg.eigvals(raw_matrix(wiring).to_dense())
    assert known_radius(wiring) == 1.0
    np.testing.assert_allclose(np.abs(eigenvalues), 1.0, rtol=1e-12)


def test_known_radius_of_orthogonal_and_delay_line() -> None:
    eigenvalues = np.linalg.eigvals(raw_matrix(Layer(topology="orthogonal", units=40)).to_dense())
    np.testing.assert_allclose(np.abs(eigenvalues), 1.0, rtol=1e-13)
    assert known_radius(Layer(topology="orthogonal", units=40)) == 1.0
    assert known_radius(Layer(topology="delay_line", units=40)) == 0.0


@given(jump=st.integers(2, 9), periods=st.integers(2, 8), weight=st.floats(0, 5))
@example(jump=2, periods=2, weight=2.2250738585e-313)  # beside it one times 2^digits is infinite
def test_radius_of_cycles_with_dividing_jumps(jump: int, periods: int, weight: float) -> None:
    wiring = Layer(topology="cycle_jumps", units=jump * periods, jump=jump, jump_weight=weight)
    dense = np.abs(np.linalg.eigvals(raw_matrix(wiring).to_dense())).max()
    assert common_radius(raw_matrix(wiring))[0] == pytest.approx(dense, rel=1e-6)


@pytest.mark.parametrize(
    "wiring",
    [
        Layer(topology="cycle_jumps", units=10, jump=3, jump_weight=0.5),
        Layer(topology="cycle_jumps", units=10, jump=5, jump_weight=-0.5),
        Layer(topology="cycle_jumps", units=10, jump=5, jump_weight=0.5, random_signs=True),
        Layer(topology="random", units=10, density=0.5),
    ],
)
def test_no_radius_is_claimed_without_a_formula(wiring: Layer) -> None:
    assert known_radius(wiring) is None


def test_unknown_topology_lists_the_known() -> None:
    with pytest.raises(ValueError, match="'star'; choose one of random, small_world"):
        raw_matrix(Layer(topology="star", units=3))
