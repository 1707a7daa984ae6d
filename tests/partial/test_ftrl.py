from __future__ import annotations

import numpy as np
import pytest

from catchment.arrays import Array
from catchment.federation.optimisers import Arrays
from catchment.partial.ftrl import FollowTheLeader, toeplitz_root, tree_epsilon


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
