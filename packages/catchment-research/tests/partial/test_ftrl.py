from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from catchment import Array
from catchment.privacy.dp import gaussian_epsilon
from catchment_research.learn import Arrays
from catchment_research.partial import (
    FollowTheLeader,
    schedule_epsilon,
    toeplitz_root,
    tree_epsilon,
)


def test_accounting_gives_the_five_epsilons_in_print() -> None:
    printed = {1.13: 18.71, 2.33: 7.83, 4.03: 4.19, 6.21: 2.60, 8.83: 1.77}
    for noise, epsilon in printed.items():
        assert tree_epsilon(noise, 1600, 1e-6) == pytest.approx(epsilon, abs=0.006)


def test_the_toeplitz_root_squares_to_prefix_sums() -> None:
    n = 12
    c = toeplitz_root(n)
    C = np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    np.testing.assert_allclose(C @ C, np.tril(np.ones((n, n))), atol=1e-12)


def _positions(rule: FollowTheLeader, rounds: int, n: int = 4000) -> Array:
    values: Arrays = (np.zeros(n),)
    memory, path = rule.start(values), []
    for _ in range(rounds):
        total = np.full(n, float(rule.clients))  # every client moves by one
        values, memory = rule.step_by_sum(values, (total,), memory)
        path.append(values[0])
    return np.array(path)


def test_without_noise_it_is_momentum() -> None:
    rule = FollowTheLeader(
        noise_multiplier=0.0, clip=1.0, clients=1, rounds=5, learning_rate=0.5, momentum=0.5
    )
    x = v = 0.0
    for got in _positions(rule, 5, n=1)[:, 0]:
        v = 0.5 * v + 1.0
        x += 0.5 * v
        assert got == pytest.approx(x)


@pytest.mark.parametrize("restart", [None, 4])
def test_tree_noise_has_as_many_nodes_as_the_step_has_binary_ones(restart: int | None) -> None:
    rule = FollowTheLeader(
        noise_multiplier=2.0,
        clip=3.0,
        clients=6,
        rounds=11,
        momentum=0.0,
        restart_every=restart,
    )
    path = _positions(rule, 11)
    for t in range(1, 12):
        full, rest = (0, t) if restart is None else divmod(t, restart)
        nodes = full * (1 if restart else 0) + rest.bit_count()
        assert (path[t - 1] - t).var() == pytest.approx(nodes * 1.0, rel=0.12)


def _nodes_of(t: int, restart: int) -> list[tuple[int, int]]:
    """Return the segments (first, last) that cover rounds 1..t: whole trees, then a binary sum."""
    nodes, first = [], 1
    while first <= t:
        end = min(t, (first - 1) // restart * restart + restart)  # of the tree that it is in
        length = 1 << ((end - first + 1).bit_length() - 1)
        nodes.append((first, first + length - 1))
        first += length
    return nodes


def _tree(rounds: int, restart: int) -> Array:
    """Return which node (a column) is in the noise of which prefix sum (a row)."""
    prefixes = [_nodes_of(t, restart) for t in range(1, rounds + 1)]
    every = sorted({node for nodes in prefixes for node in nodes})
    return np.array([[float(node in nodes) for node in every] for nodes in prefixes])


@pytest.mark.parametrize("restart", [None, 3, 4, 6])
def test_prefix_sums_share_the_noise_of_the_nodes_they_share_and_no_other(
    restart: int | None,
) -> None:
    rounds, n = 13, 40_000
    rule = FollowTheLeader(
        noise_multiplier=2.0, clip=3.0, clients=6, rounds=rounds, momentum=0, restart_every=restart
    )
    path = _positions(rule, rounds, n)
    noise = path - np.arange(1.0, rounds + 1)[:, None]
    B = _tree(rounds, restart or rounds + 1)
    expected = B @ B.T  # a node's noise has variance 1
    found = noise @ noise.T / n
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / n)
    assert np.abs((found - expected) / error).max() < 7


def test_toeplitz_noises_have_the_covariance_of_the_matrix() -> None:
    rounds, n = 9, 40_000
    rule = FollowTheLeader(
        noise_multiplier=1.0, clip=1.0, clients=1, rounds=rounds, momentum=0, mechanism="toeplitz"
    )
    noise = _positions(rule, rounds, n) - np.arange(1.0, rounds + 1)[:, None]
    c = toeplitz_root(rounds)
    C = np.array([[c[i - j] if i >= j else 0.0 for j in range(rounds)] for i in range(rounds)])
    expected = (c**2).sum() * C @ C.T
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / n)
    assert np.abs((noise @ noise.T / n - expected) / error).max() < 7


def _gaussian_delta(moved: float, epsilon: float) -> float:
    """Return the delta of normal noise of variance 1 on what one client moves so far."""
    a, b = moved / 2 - epsilon / moved, -moved / 2 - epsilon / moved
    return float(norm.cdf(a) - np.exp(epsilon) * norm.cdf(b))


@pytest.mark.parametrize(
    ("mechanism", "restart"),
    [("toeplitz", None), ("tree", None), ("tree", 3), ("tree", 4), ("tree", 5), ("tree", 6)],
)
def test_a_schedules_epsilon_is_that_of_all_released_sums_together(
    mechanism: Literal["tree", "toeplitz"], restart: int | None
) -> None:
    """The released sums are one Gaussian of known covariance; what moves them is counted."""
    rounds, clients, delta = 13, 4, 1e-4
    rule = FollowTheLeader(
        noise_multiplier=1.7,
        clip=0.3,
        clients=clients,
        rounds=rounds,
        mechanism=mechanism,
        restart_every=restart,
    )
    rng = np.random.default_rng(3)
    cohorts = [[f"{k}" for k in rng.choice(9, clients, replace=False)] for _ in range(rounds)]
    sensitivity = rule.clip / clients
    if mechanism == "tree":
        B = _tree(rounds, restart or rounds + 1) * 1.7 * sensitivity
    else:
        c = toeplitz_root(rounds)
        C = np.array([[c[i - j] if i >= j else 0.0 for j in range(rounds)] for i in range(rounds)])
        B = C * 1.7 * sensitivity * np.linalg.norm(c)
    covariance = B @ B.T
    lengths = []
    for client in {name for cohort in cohorts for name in cohort}:
        prefix = np.cumsum([sensitivity * (client in cohort) for cohort in cohorts])
        lengths.append(np.sqrt(prefix @ np.linalg.solve(covariance, prefix)))
    worst = max(lengths)
    oracle = brentq(lambda e: _gaussian_delta(worst, e) - delta, 1e-3, 100, xtol=1e-10)
    assert schedule_epsilon(rule, cohorts, delta) == pytest.approx(oracle, rel=1e-6)


def test_toeplitz_noise_has_the_variance_of_its_rows() -> None:
    rule = FollowTheLeader(
        noise_multiplier=1.0, clip=1.0, clients=1, rounds=9, momentum=0.0, mechanism="toeplitz"
    )
    path, c = _positions(rule, 9), toeplitz_root(9)
    for t in (1, 4, 9):
        expected = (c[:t] ** 2).sum() * (c**2).sum()
        assert (path[t - 1] - t).var() == pytest.approx(expected, rel=0.12)


def test_toeplitz_sums_are_less_noisy_than_a_trees_at_equal_privacy() -> None:
    n, c = 1600, toeplitz_root(1600)
    toeplitz = np.sqrt((c**2).sum() * np.mean(np.cumsum(c**2)))
    tree = np.sqrt(11 * np.mean([t.bit_count() for t in range(1, n + 1)]))
    assert tree / toeplitz > 2.2


def test_more_rounds_than_planned_are_refused() -> None:
    rule = FollowTheLeader(noise_multiplier=1.0, clip=1.0, clients=1, rounds=1)
    values, memory = rule.step_by_sum((np.zeros(1),), (np.zeros(1),), rule.start((np.zeros(1),)))
    with pytest.raises(ValueError, match="set up for 1 rounds"):
        rule.step_by_sum(values, (np.zeros(1),), memory)


@pytest.mark.parametrize("mechanism", ["tree", "toeplitz"])
def test_once_each_a_schedule_is_no_worse_than_the_bound_for_one_participation(
    mechanism: Literal["tree", "toeplitz"],
) -> None:
    rule = FollowTheLeader(
        noise_multiplier=2.0, clip=1.0, clients=2, rounds=64, mechanism=mechanism
    )
    cohorts = [[f"{k}", f"x{k}"] for k in range(64)]
    once = schedule_epsilon(rule, cohorts, 1e-5)
    levels = 7 if mechanism == "tree" else 1
    assert once == pytest.approx(gaussian_epsilon(2.0 / np.sqrt(levels), 1e-5), rel=1e-9)
    assert mechanism == "toeplitz" or once < tree_epsilon(2.0, 64, 1e-5)
    again = schedule_epsilon(rule, [*cohorts[:-1], ["0", "x63"]], 1e-5)
    assert again > once


def test_a_schedules_sensitivity_is_that_of_the_worst_changes() -> None:
    rule = FollowTheLeader(noise_multiplier=1.0, clip=1.0, clients=1, rounds=6, restart_every=4)
    cohorts = [["a"], ["b"], ["a"], ["c"], ["a"], ["d"]]
    # Nodes of "a": 1, 1-2, 1-4 and 3 of the first tree, 5 and 5-6 of the second.
    moved = np.sqrt(1 + 1 + 2**2 + 1 + 1 + 1)
    expected = gaussian_epsilon(1 / moved, 1e-5)
    assert schedule_epsilon(rule, cohorts, 1e-5) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="7 cohorts"):
        schedule_epsilon(rule, [["a"]] * 7, 1e-5)
    silent = FollowTheLeader(noise_multiplier=0.0, clip=1.0, clients=1, rounds=6)
    assert schedule_epsilon(silent, cohorts, 1e-5) == np.inf


def test_a_bound_of_zero_is_refused() -> None:
    with pytest.raises(ValueError):
        FollowTheLeader(noise_multiplier=1.0, clip=0.0, clients=5, rounds=4, learning_rate=0.1)
