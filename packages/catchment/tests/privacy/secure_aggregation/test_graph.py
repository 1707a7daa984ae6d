"""Neighbors and thresholds against networkx, scipy and the guide's table."""

from __future__ import annotations

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.privacy.secure_aggregation import (
    corrupt_among,
    degree,
    graph,
    neighbors,
    threshold,
    uncut,
)

# Corrupt and lost fractions; n, k, t as `degree` gives them.
TABLE = [
    (0.1, 0.1, 300, 98, 74),
    (0.1, 0.1, 1000, 138, 102),
    (0.2, 0.1, 300, 136, 108),
    (0.2, 0.1, 1000, 202, 157),
    (0.2, 0.1, 10_000, 264, 203),
    (0.4, 0.1, 1000, 400, 332),
]


@pytest.mark.parametrize(("corrupt", "lost", "n", "k", "t"), TABLE)
def test_the_table_is_met(corrupt: float, lost: float, n: int, k: int, t: int) -> None:
    assert degree(n, math.floor(corrupt * n), lost=lost) == (k, t)


@pytest.mark.parametrize(("corrupt", "lost", "n", "k", "t"), TABLE)
def test_failures_are_as_rare_as_promised(
    corrupt: float, lost: float, n: int, k: int, t: int
) -> None:
    bad, gone = math.floor(corrupt * n), math.floor(lost * n)
    # Both secrets of one client: 2 t <= k + 1 + corrupt holders.
    split = n * scipy.stats.hypergeom.sf(2 * t - k - 2, n - 1, bad, k)
    # A ring that comes apart: t <= k / 2 + 1 + corrupt ones of half a neighborhood.
    cut = 2 * n * scipy.stats.hypergeom.sf(t - k // 2 - 2, n - 1, bad, k // 2)
    live = n * scipy.stats.hypergeom.sf(k - t, n - 1, gone, k)
    assert split < 2.0**-40
    assert cut < 2.0**-40
    assert live < 2.0**-20


@pytest.mark.parametrize(("n", "bad", "draws"), [(1000, 200, 100), (300, 60, 136), (50, 10, 7)])
def test_tails_are_scipys(n: int, bad: int, draws: int) -> None:
    ours = graph._tails(n - 1, bad, draws)
    theirs = scipy.stats.hypergeom.sf(np.arange(draws + 2) - 1, n - 1, bad, draws)
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-200)


@pytest.mark.parametrize("n", [3, 10, 57, 100])
def test_everybody_up_to_a_hundred(n: int) -> None:
    k, t = degree(n, n // 5)
    assert (k, t) == (n - 1, max(math.ceil(2 * n / 3), (n + n // 5) // 2 + 1))
    assert 2 * t > k + 1 + n // 5
    assert neighbors(range(n), 1, k, b"seed") == tuple(m for m in range(n) if m != 1)


def test_above_a_hundred_it_is_sparse() -> None:
    k, t = degree(101, 20)
    assert k < 100
    assert 2 * t > k + 1 + corrupt_among(101, 20, k)
    assert threshold(101) == 68


def test_a_federation_that_no_sparse_graph_protects_is_full() -> None:
    assert degree(120, 60, lost=0.6) == (119, 91)


def test_the_guide_has_the_table() -> None:
    guide = Path(__file__).parents[5] / "docs" / "guides" / "secure-aggregation.md"
    lines = []
    for n in (10, 30, 100, 300, 1000, 3000, 10_000):
        bad = n // 5
        k, t = degree(n, bad, lost=0.1)
        lines.append(f"| {n} | {bad} | {k} | {t} | {2 * t - k - 2} |")
    assert "\n".join(lines) in guide.read_text()


@settings(max_examples=25)
@given(n=st.integers(12, 60), half=st.integers(1, 5), seed=st.binary(max_size=8))
def test_the_graph_is_regular_connected_and_mutual(n: int, half: int, seed: bytes) -> None:
    k = 2 * half
    members = np.random.default_rng(n).choice(10 * n, n, replace=False).tolist()
    near = {m: neighbors(members, m, k, seed) for m in members}
    G = nx.Graph([(m, other) for m, others in near.items() for other in others])
    assert nx.is_connected(G)
    assert set(dict(G.degree()).values()) == {k}
    assert all(m in near[other] for m in members for other in near[m])
    assert all(others == tuple(sorted(others)) for others in near.values())
    # No fewer than k losses cut it, which is the most that k neighbors can give.
    assert nx.node_connectivity(G) == k


def test_the_graph_is_drawn_anew_from_the_seed() -> None:
    one, other = (neighbors(range(200), 5, 20, seed) for seed in (b"a", b"b"))
    assert one != other
    assert one == neighbors(range(200), 5, 20, b"a")


def test_the_bound_on_falling_apart_holds_in_simulation() -> None:
    n, k, unhelpful = 30, 4, 12
    bound = graph._falls_apart(n, unhelpful, k)
    rng, apart = np.random.default_rng(0), 0
    for draw in range(300):
        near = {m: neighbors(range(n), m, k, bytes([draw % 256, draw // 256])) for m in range(n)}
        G = nx.Graph([(m, other) for m, others in near.items() for other in others])
        G.remove_nodes_from(rng.choice(n, unhelpful, replace=False).tolist())
        apart += not nx.is_connected(G)
    assert 0 < apart / 300 <= bound
    assert graph._falls_apart(30, 3, 4) == 0.0


@pytest.mark.parametrize(("n", "n_corrupt"), [(382, 0), (319, 15), (328, 65)])
def test_the_fewest_neighbors_are_taken_that_keep_a_round_alive(n: int, n_corrupt: int) -> None:
    """By scipy's hypergeometric law: of the n - 1 others a tenth is lost."""

    def fails(k: int) -> float:
        beyond = k - uncut(n, n_corrupt, k)
        return float(n * scipy.stats.hypergeom(n - 1, n // 10, k).sf(beyond))

    k, t = degree(n, n_corrupt)
    assert t == uncut(n, n_corrupt, k)
    assert fails(k) < 2.0**-20 <= fails(k - 2)


def test_where_nobody_is_lost_all_neighbors_may_be_needed() -> None:
    assert degree(200, 0, lost=0.0) == (4, 4)
