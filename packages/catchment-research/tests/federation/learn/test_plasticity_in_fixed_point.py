"""Federated plasticity in fixed point: equal to the bit where float64 is equal to rounding."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from catchment import FederatedRidge, Plan, Recording, Reservoir, evaluate, federate
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.features import EchoState
from catchment.privacy import SecureAggregation, generate_keys
from catchment_research.learn import Momentum
from catchment_research.plasticity import (
    FederatedPlasticity,
    IntrinsicPlasticity,
    MomentPlasticity,
    _standard_match,
    inverse_tangent,
    plasticity_of,
    refined,
)
from reproductions.people import scale_each

pytestmark = pytest.mark.slow

PLAIN = Reservoir(units=(15, 10), inputs=2, input_scaling=1.0, leak_rate=0.5, seed=4)
RESERVOIR = replace(PLAIN, bits=20)
RULE = IntrinsicPlasticity(target_mean=0.1, target_std=0.3, learning_rate=2e-3, batch=4)
KINDS: list[Any] = [FederatedPlasticity, MomentPlasticity]


def sequences(n: int, seed: int = 0, steps: int = 40) -> list[Recording]:
    rng = np.random.default_rng(seed)
    return [Recording(rng.uniform(-1, 1, (steps + k % 3, 2))) for k in range(n)]


def bits_of(state: Any) -> tuple[bytes, bytes]:
    return state.gain.tobytes(), state.shift.tobytes()


def test_one_client_is_centralized_training_to_the_bit() -> None:
    data = sequences(6)
    plan = Plan(algorithm=FederatedPlasticity(reservoir=RESERVOIR, rule=RULE), rounds=2)
    state = federate(plan, {"only": data}).state
    twice = replace(RULE, epochs=2).adapt(RESERVOIR, [s.u for s in data])
    assert state.gain.tolist() == plasticity_of(twice)[0].tolist()
    assert state.shift.tolist() == plasticity_of(twice)[1].tolist()
    assert plan.algorithm.result(state).bits == 20


def test_any_split_gives_the_moments_of_the_pool_to_the_bit() -> None:
    data = sequences(12, steps=20)
    plan = Plan(algorithm=MomentPlasticity(reservoir=RESERVOIR, rule=RULE), rounds=3)
    pooled = federate(plan, {"all": data}).state
    for cuts in ([5], [1, 2, 3], [4, 9], list(range(1, 12))):
        edges = [0, *cuts, len(data)]
        parts = {f"c{k}": data[a:b] for k, (a, b) in enumerate(pairwise(edges))}
        assert bits_of(federate(plan, parts).state) == bits_of(pooled)


@pytest.mark.parametrize("kind", KINDS)
def test_names_threads_and_secure_aggregation_do_not_change_a_bit(kind: Any) -> None:
    clients = {name: sequences(2 + k, seed=k) for k, name in enumerate("abcd")}
    renamed = dict(zip("wzyx", clients.values(), strict=True))
    identities = generate_keys(clients)
    secure = SecureAggregation(identities=identities, min_clients=3)
    plan = Plan(algorithm=kind(reservoir=RESERVOIR, rule=RULE), rounds=2)
    one = federate(plan, clients, threads=1).state
    other = federate(plan, renamed, threads=3).state
    hidden = federate(
        replace(plan, protections=(secure,)), clients, memories=identities.memories
    ).state
    assert bits_of(one) == bits_of(other) == bits_of(hidden)
    assert (one.gain * 2**32 == np.rint(one.gain * 2**32)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_near_the_result_in_float64(kind: Any) -> None:
    clients = {name: sequences(3, seed=k, steps=100) for k, name in enumerate("ab")}
    found = [
        federate(Plan(algorithm=kind(reservoir=reservoir, rule=RULE), rounds=3), clients).state
        for reservoir in (RESERVOIR, PLAIN)
    ]
    np.testing.assert_allclose(found[0].gain, found[1].gain, rtol=2e-5)
    np.testing.assert_allclose(found[0].shift, found[1].shift, atol=2e-5)


def test_an_optimizer_that_runs_away_stays_in_reach() -> None:
    wild = FederatedPlasticity(
        reservoir=RESERVOIR, rule=RULE, optimizer=Momentum(learning_rate=1e5)
    )
    state = federate(Plan(algorithm=wild), {"a": sequences(4)}).state
    assert (state.gain > 0).all()
    assert state.gain.max() < 512


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.2), (0.1, 0.3), (-0.6, 0.4), (0.3, 0.9)])
def test_refined_solutions_do_not_depend_on_the_start(mean: float, std: float) -> None:
    a, c = _standard_match(mean, std)
    found = refined(mean, std, (a, c))
    assert found == refined(mean, std, (a + 3e-4, c - 2e-4))
    z = np.random.default_rng(0).normal(size=10**6)
    y = np.tanh(found[0] * z + found[1])
    np.testing.assert_allclose([y.mean(), y.std()], [mean, std], atol=3e-3)
    assert inverse_tangent(mean) == pytest.approx(np.arctanh(mean), rel=1e-15)


def test_moments_that_no_gain_gives_are_an_error() -> None:
    with pytest.raises(ArithmeticError, match=r"no gain gives mean 0\.0"):
        refined(0.0, 1.2, (3.0, 0.0))


def test_accuracy_after_plasticity_is_that_of_float64() -> None:
    users = scale_each(synthetic_wearables(n_users=6, windows_per_user=30, steps=60))
    test = {"user-005": users.pop("user-005")}
    plain = Reservoir(units=30, inputs=6, seed=1)
    rule, scores = IntrinsicPlasticity(target_std=0.4), []
    for recipe in (plain, replace(plain, bits=20)):
        algorithm = FederatedPlasticity(reservoir=recipe, rule=rule)
        adapted = federate(Plan(algorithm=algorithm, rounds=2), users).result
        ridge = FederatedRidge(features=EchoState.of(adapted, pool="mean"), classes=ACTIVITIES)
        model = federate(Plan(algorithm=ridge), users).model
        score = evaluate(model, test).total
        assert score is not None
        scores.append(score.value)
    assert abs(scores[0] - scores[1]) < 0.02
    assert min(scores) > 2 / len(ACTIVITIES)
