"""Partial networks under the protections of every algorithm: secure aggregation and noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from torch import nn

from catchment import Plan, federate
from catchment.engine import run_locally
from catchment.errors import TooFewClientsError
from catchment.federation import Result, RoundContext, RunFolder
from catchment.privacy import Clip, GaussianNoise, SecureAggregation, epsilon_spent, generate_keys
from catchment.wire import serialize
from catchment_research import StochasticQuantization
from catchment_research.learn import Adam
from catchment_research.partial import (
    Change,
    Examples,
    FederatedTraining,
    FollowTheLeader,
    Freeze,
    LocalSteps,
    PartialNetwork,
    Schedule,
    Trained,
)


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 3))


def examples(n: int, seed: int) -> Examples:
    x = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
    return Examples(x, (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0).astype(np.int64))


NETWORK = PartialNetwork(make=small, freeze=Freeze(names=("0.weight",)), seed=4)
TRAINING = FederatedTraining(
    network=NETWORK, steps=LocalSteps(learning_rate=0.1, batch_size=8), device="cpu"
)
CLIENTS = {f"c{k}": [examples(10 + 3 * k, k)] for k in range(5)}


def secure_aggregation(public: Mapping[str, str], least: int = 3) -> SecureAggregation:
    return SecureAggregation(identities=public, min_clients=least)


def test_secure_aggregation_gives_the_clear_values_rounded_once_to_float32() -> None:
    public = generate_keys(CLIENTS)
    memories = public.memories
    secret = Plan(algorithm=TRAINING, rounds=2, protections=(secure_aggregation(public),))
    hidden = federate(secret, CLIENTS, memories=memories)
    clear = federate(Plan(algorithm=TRAINING, rounds=2), CLIENTS)
    for a, b in zip(hidden.state.values, clear.state.values, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-7, atol=1e-8)
    for one, other in zip(hidden.records, clear.records, strict=True):
        assert one.figures == pytest.approx(other.figures, rel=1e-6)
        assert "training accuracy" in one.figures


def test_secure_aggregation_costs_sixteen_bytes_a_number_and_no_more_for_the_frozen() -> None:
    public = generate_keys(CLIENTS)
    memories = public.memories
    secret = Plan(algorithm=TRAINING, protections=(secure_aggregation(public),))
    up = federate(secret, CLIENTS, memories=memories).records[0].bytes_up / len(CLIENTS)
    numbers = NETWORK.share().trainable + 4  # the weight, and three of the loss
    assert 16 * numbers < up < 16 * numbers + 3000


def test_a_weak_client_is_not_taken_into_secure_aggregation() -> None:
    public = generate_keys(CLIENTS)
    memories = public.memories
    weak = FederatedTraining(
        network=NETWORK, weak={"c0": Freeze(names=("2.weight",))}, device="cpu"
    )
    plan = Plan(algorithm=weak, protections=(secure_aggregation(public, least=5),))
    with pytest.raises(TooFewClientsError, match="differ in their facts or shapes"):
        federate(plan, CLIENTS, memories=memories)


def test_central_noise_has_the_spread_that_its_epsilon_asks_for() -> None:
    noise = GaussianNoise(
        epsilon=8.0, delta=1e-5, clip=Clip(bound=0.5), min_clients=5, small_cohort=True
    )
    plan = Plan(algorithm=TRAINING, protections=(noise,))
    # Clipping alone: what each client sent, shortened to the bound, all of equal weight.
    start = TRAINING.start()
    told = TRAINING.broadcast(start, RoundContext(0, ()))
    total = [np.zeros(v.shape) for v in start.values]
    for name, data in CLIENTS.items():
        change = TRAINING.client_update(told, partial(list, data), RoundContext(0, (), client=name))
        moved = [c.astype(np.float64) / change.weight for c in change.changes]
        length = np.sqrt(sum((m**2).sum() for m in moved))
        for t, m in zip(total, moved, strict=True):
            t += m * min(1.0, 0.5 / length)
    left = []
    for _ in range(40):
        result = federate(plan, CLIENTS)
        state = result.state
        assert set(result.records[0].figures) == {"weight norm"}
        for s, v, t in zip(start.values, state.values, total, strict=True):
            left.append((v - s - t / 5).ravel())
    noises = np.concatenate(left)
    expected = noise.multiplier * 0.5 / 5
    assert abs(noises.mean()) < 4 * expected / np.sqrt(noises.size)
    assert noises.std() == pytest.approx(expected, rel=4 / np.sqrt(2 * noises.size))


def test_the_accountant_confirms_the_epsilon_of_all_rounds() -> None:
    noise = GaussianNoise(
        epsilon=3.0, delta=1e-5, clip=Clip(bound=1.0), releases=7, min_clients=5, small_cohort=True
    )
    cost = noise.cost
    for _ in range(6):
        cost = cost + noise.cost
    assert epsilon_spent(cost, 1e-5) == pytest.approx(3.0, rel=1e-3)


def test_noise_of_the_clients_withunder_secure_aggregation() -> None:
    public = generate_keys(CLIENTS)
    memories = public.memories
    noise = GaussianNoise(
        epsilon=50.0,
        delta=1e-5,
        clip=Clip(bound=0.5),
        distributed=True,
        min_clients=5,
        small_cohort=True,
    )
    plan = Plan(algorithm=TRAINING, protections=(noise, secure_aggregation(public, least=5)))
    state = federate(plan, CLIENTS, memories=memories).state
    clear = federate(Plan(algorithm=TRAINING), CLIENTS).state
    for a, b in zip(state.values, clear.values, strict=True):
        assert a.shape == b.shape
        assert np.isfinite(a).all()
        assert np.abs(a - b).max() < 10 * noise.spread / 5 + 1.0


@pytest.mark.parametrize(
    "optimizer",
    [
        Adam(),
        FollowTheLeader(noise_multiplier=0.0, clip=1.0, clients=5, rounds=4),
    ],
)
def test_a_run_that_stopped_goes_on_to_the_same_bits(
    optimizer: Adam | FollowTheLeader, tmp_path: Path
) -> None:
    training = FederatedTraining(
        network=NETWORK,
        optimizer=optimizer,
        schedule=Schedule(cosine=4),
        clip=1.0,
        device="cpu",
    )
    plan = Plan(algorithm=training, rounds=4, client_fraction=0.6)
    at_once = federate(plan, CLIENTS)

    class StoppedError(Exception):
        pass

    def stop(round_: int, done: int, asked: int) -> None:
        if round_ == 2 and done == 1:
            raise StoppedError

    def kept(watch: object) -> Result[Trained, object]:
        with RunFolder(tmp_path / "run", resume=True) as store:
            keeper = store.keeper("train", plan)
            return run_locally(plan, CLIENTS, keeper=keeper, watch=watch)  # type: ignore[arg-type]

    with pytest.raises(StoppedError):
        kept(stop)
    resumed = kept(None)
    assert len(resumed.records) == 4
    for a, b in zip(resumed.state.values, at_once.state.values, strict=True):
        assert np.array_equal(a, b)


def changes(training: FederatedTraining) -> dict[str, Change]:
    told = training.broadcast(training.start(), RoundContext(0, tuple(CLIENTS)))
    return {
        name: training.client_update(told, partial(list, data), RoundContext(0, (), client=name))
        for name, data in CLIENTS.items()
    }


def test_clients_weigh_by_their_examples_and_under_a_clip_alike() -> None:
    """Their sizes differ, so that the two means do."""
    start = TRAINING.start().values
    sent = changes(TRAINING)
    weights = {name: float(len(data[0].x)) for name, data in CLIENTS.items()}
    assert {name: change.weight for name, change in sent.items()} == weights
    moved = federate(Plan(algorithm=TRAINING), CLIENTS).state.values
    for k, (a, b) in enumerate(zip(moved, start, strict=True)):
        total = sum(sent[name].changes[k].astype(np.float64) for name in CLIENTS)
        np.testing.assert_allclose(a - b, total / sum(weights.values()), rtol=1e-6, atol=1e-9)
    clipped = replace(TRAINING, clip=0.1)
    sent = changes(clipped)
    assert {change.weight for change in sent.values()} == {1.0}
    moved = federate(Plan(algorithm=clipped), CLIENTS).state.values
    for k, (a, b) in enumerate(zip(moved, start, strict=True)):
        mean = np.mean([sent[name].changes[k].astype(np.float64) for name in CLIENTS], axis=0)
        np.testing.assert_allclose(a - b, mean, rtol=1e-6, atol=1e-9)


def test_a_clip_leaves_short_changes_as_they_are_and_shortens_long_ones_to_it() -> None:
    free = changes(TRAINING)
    lengths = {}
    for name, change in free.items():
        moved = [c.astype(np.float64) / change.weight for c in change.changes]
        lengths[name] = np.sqrt(sum((m**2).sum() for m in moved))
    bound = float(np.median(list(lengths.values())))
    for name, change in changes(replace(TRAINING, clip=bound)).items():
        factor = min(1.0, bound / lengths[name])
        for a, b in zip(change.changes, free[name].changes, strict=True):
            expected = b.astype(np.float64) / free[name].weight * factor
            np.testing.assert_allclose(a, expected, rtol=3e-6, atol=1e-9)


def test_the_schedule_moves_the_clients_rate() -> None:
    still = FederatedTraining(network=NETWORK, schedule=Schedule(decay=1e-6, every=1), device="cpu")
    one = federate(Plan(algorithm=still, rounds=1), CLIENTS).state
    two = federate(Plan(algorithm=still, rounds=2), CLIENTS).state
    for a, b in zip(one.values, two.values, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    with pytest.raises(ValueError, match="decay is 2"):
        Schedule(decay=2.0)
    with pytest.raises(ValueError, match="every is 0"):
        Schedule(every=0)


def test_few_bits_of_a_change_learn_the_same_in_fewer_bytes() -> None:
    """With 32 bits every value is the one without rounding."""

    def run(bits: Literal[32, 8]) -> Result[Trained, object]:
        rounded = StochasticQuantization(bits=bits)
        return federate(Plan(algorithm=TRAINING, rounds=4, protections=(rounded,)), CLIENTS)

    whole = federate(Plan(algorithm=TRAINING, rounds=4), CLIENTS).state.values
    for a, b in zip(run(32).state.values, whole, strict=True):
        assert np.array_equal(a, b)
    moved = np.sqrt(
        sum(((a - b) ** 2).sum() for a, b in zip(whole, TRAINING.start().values, strict=True))
    )
    few = run(8)
    apart = np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(few.state.values, whole, strict=True)))
    assert 0 < apart < 0.02 * moved
    assert not few.records[0].refused


def test_clipped_changes_are_rounded_within_their_clip() -> None:
    rule = FollowTheLeader(noise_multiplier=0.0, clip=0.2, clients=5, rounds=3)
    training = replace(TRAINING, clip=0.2, optimizer=rule)
    with pytest.raises(ValueError, match=r"clipped at 0\.2"):
        Plan(algorithm=training, rounds=3, protections=(StochasticQuantization(bits=2),))
    rounded = StochasticQuantization(bits=2, longest=0.2)
    result = federate(Plan(algorithm=training, rounds=3, protections=(rounded,)), CLIENTS)
    assert [record.n_used for record in result.records] == [5, 5, 5]  # the server refused none
    told = training.broadcast(training.start(), RoundContext(0, ()))
    for name, data in CLIENTS.items():
        context = RoundContext(0, (), client=name)
        change = training.client_update(told, partial(list, data), context)
        moved: Any = rounded.read_update(
            serialize(rounded.on_client(change, context)), context, training.read_update
        )
        length = np.sqrt(sum(float((c.astype(np.float64) ** 2).sum()) for c in moved.changes))
        assert 0 < length <= 0.2
