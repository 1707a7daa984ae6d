"""Server optimizers against the formulas written out, number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catchment_research.learn import Adam, Arrays, Mean, Momentum, ServerOptimizer, Yogi

CHANGES = (0.5, -0.2, 0.0, 2.0, -1.0, 0.3)


def path(rule: ServerOptimizer, changes: tuple[float, ...] = CHANGES) -> list[float]:
    values: Arrays = (np.array([1.0]), np.array([[1.0, 1.0]]))
    memory, seen = rule.start(values), []
    for change in changes:
        given = (np.array([change]), np.array([[change, -change]]))
        values, memory = rule.step(values, given, memory)
        seen.append(float(values[0][0]))
        assert values[1][0, 0] == values[0][0]
        assert values[1][0, 1] - 1.0 == pytest.approx(1.0 - values[0][0], abs=1e-12)
    return seen


def test_the_mean_goes_where_the_clients_went() -> None:
    expected = 1.0 + np.cumsum(CHANGES) * 0.5
    np.testing.assert_allclose(path(Mean(learning_rate=0.5)), expected, rtol=1e-14)


def test_momentum_is_a_sum_of_discounted_changes() -> None:
    expected, x = [], 1.0
    for t in range(len(CHANGES)):
        velocity = sum(CHANGES[s] * 0.7 ** (t - s) for s in range(t + 1))
        x += 0.3 * velocity
        expected.append(x)
    np.testing.assert_allclose(
        path(Momentum(learning_rate=0.3, momentum=0.7)), expected, rtol=1e-13
    )


def adaptive(yogi: bool) -> list[float]:
    x, m, v, seen = 1.0, 0.0, 1e-4, []
    for D in CHANGES:
        m = 0.8 * m + 0.2 * D
        if yogi:
            v = v - 0.05 * D * D * math.copysign(1.0, v - D * D) if v != D * D else v
        else:
            v = 0.95 * v + 0.05 * D * D
        x += 0.1 * m / (math.sqrt(v) + 0.01)
        seen.append(x)
    return seen


def test_adam_and_yogi_follow_their_recursions() -> None:
    adam = Adam(learning_rate=0.1, mean_decay=0.8, square_decay=0.95, tau=0.01)
    yogi = Yogi(learning_rate=0.1, mean_decay=0.8, square_decay=0.95, tau=0.01)
    np.testing.assert_allclose(path(adam), adaptive(yogi=False), rtol=1e-13)
    np.testing.assert_allclose(path(yogi), adaptive(yogi=True), rtol=1e-13)


def test_yogi_forgets_a_burst_more_slowly_than_adam() -> None:
    burst = (10.0, *([0.1] * 30))
    squares = []
    for rule in (Adam(), Yogi()):
        values: Arrays = (np.zeros(1),)
        memory = rule.start(values)
        for change in burst:
            values, memory = rule.step(values, (np.array([change]),), memory)
        squares.append(float(memory[1][0]))
    assert squares[1] > 1.3 * squares[0]


def test_without_changes_nothing_moves() -> None:
    for rule in (Mean(), Momentum(), Adam(), Yogi()):
        assert path(rule, (0.0, 0.0)) == [1.0, 1.0]


def test_memory_of_other_shapes_is_refused() -> None:
    values = (np.zeros(2),)
    for rule in (Momentum(), Adam(), Yogi()):
        with pytest.raises(ValueError, match="the optimizer remembers"):
            rule.step(values, values, ())
        with pytest.raises(ValueError, match="the optimizer remembers"):
            rule.step(values, values, rule.start((np.zeros(3),)))


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_rates_must_be_positive(value: float) -> None:
    for make in (Mean, Momentum, Adam, Yogi):
        with pytest.raises(ValueError, match="learning_rate is"):
            make(learning_rate=value)
    for adaptive_rule in (Adam, Yogi):
        with pytest.raises(ValueError, match="tau is"):
            adaptive_rule(tau=value)


@pytest.mark.parametrize("value", [-0.1, 1.0, np.nan])
def test_decays_must_be_below_one(value: float) -> None:
    with pytest.raises(ValueError, match="momentum is"):
        Momentum(momentum=value)
    for rule in (Adam, Yogi):
        with pytest.raises(ValueError, match="mean_decay is"):
            rule(mean_decay=value)
        with pytest.raises(ValueError, match="square_decay is"):
            rule(square_decay=value)
