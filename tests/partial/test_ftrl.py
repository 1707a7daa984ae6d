from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from catchment.arrays import Array
from catchment.federation.learn.optimisers import Arrays
from catchment.partial.ftrl import (
    FollowTheLeader,
    schedule_epsilon,
    toeplitz_root,
    tree_epsilon,
)
from catchment.privacy.dp.gaussian import gaussian_epsilon


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
        values, memory = rule.step(values, (np.ones(n),), memory)
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
    values, memory = rule.step((np.zeros(1),), (np.zeros(1),), rule.start((np.zeros(1),)))
    with pytest.raises(ValueError, match="set up for 1 rounds"):
        rule.step(values, (np.zeros(1),), memory)


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
