"""Federated plasticity: one client is centralized, moments do not depend on the split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Array, Evaluation, FederatedRidge, Plan, Recording, Reservoir, federate
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.errors import TooFewClientsError, UploadError
from catchment.features import EchoState
from catchment.federation import Additive, Protection, Read, RoundContext, Upload, WeightedSum
from catchment.privacy import SecureAggregation, generate_keys
from catchment.wire import Message
from catchment_research.learn import Momentum
from catchment_research.plasticity import (
    FederatedPlasticity,
    IntrinsicPlasticity,
    MomentPlasticity,
    Plasticity,
    matched,
    plasticity_of,
)
from reproductions.people import scale_each

pytestmark = pytest.mark.processor

RESERVOIR = Reservoir(units=25, inputs=2, input_scaling=1.0, seed=3)
DEEP = Reservoir(units=(15, 10), inputs=2, input_scaling=1.0, seed=4)
RULE = IntrinsicPlasticity(target_std=0.3, learning_rate=2e-3, epochs=2, batch=4)


def sequences(n: int, seed: int = 0, steps: int = 40) -> list[Recording]:
    rng = np.random.default_rng(seed)
    return [Recording(rng.uniform(-1, 1, (steps + k % 3, 2))) for k in range(n)]


@pytest.mark.parametrize("reservoir", [RESERVOIR, DEEP])
@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_one_client_is_centralized_training(reservoir: Reservoir, weighting: Any) -> None:
    data = sequences(6)
    algorithm = FederatedPlasticity(reservoir=reservoir, rule=RULE, weighting=weighting)
    state = federate(Plan(algorithm=algorithm, rounds=2), {"only": data}).state
    twice = replace(RULE, epochs=2 * RULE.epochs).adapt(reservoir, [s.u for s in data])
    np.testing.assert_allclose(state.gain, plasticity_of(twice)[0], rtol=1e-12)
    np.testing.assert_allclose(state.shift, plasticity_of(twice)[1], rtol=1e-10, atol=1e-13)
    assert algorithm.result(state).n_units == reservoir.n_units


@pytest.mark.parametrize("equation", ["corrected", "printed"])
def test_one_client_of_many_sequences_updates_once_a_batch(equation: Any) -> None:
    data = sequences(40, steps=10)
    rule = replace(RULE, updates="batch", batch=100, equation=equation, learning_rate=0.05)
    algorithm = FederatedPlasticity(reservoir=RESERVOIR, rule=rule)
    state = federate(Plan(algorithm=algorithm, rounds=2), {"only": data}).state
    twice = replace(rule, epochs=2 * rule.epochs).adapt(RESERVOIR, [s.u for s in data])
    np.testing.assert_allclose(state.gain, plasticity_of(twice)[0], rtol=1e-12)
    np.testing.assert_allclose(state.shift, plasticity_of(twice)[1], rtol=1e-10, atol=1e-13)


def test_plans_from_before_there_were_readings_keep_their_fingerprint() -> None:
    # As it was prepared then, with a scale that is found otherwise today.
    recipe = Reservoir(
        units=5,
        inputs=1,
        seed=1,
        scale=(float.fromhex("0x1.2942099ba49b9p-1"),),
        known_fingerprint="0dd8e6a170100b909ef2126d54ab2e985c42fef66a3add78cba8283087462caf",
    )
    reservoir = recipe
    plain = FederatedPlasticity(reservoir=reservoir)
    found = {
        Plan(algorithm=replace(plain, rule=replace(plain.rule, **given)), rounds=2).fingerprint()  # type: ignore[arg-type]
        for given in ({}, {"updates": "batch"}, {"equation": "printed"}, {"gains": "any"})
    }
    assert len(found) == 4
    assert "918323198f53d4cc29cfd51dc964240db430ab17bc2cecc60740ce741f391837" in found


@pytest.mark.parametrize("n_clients", [2, 5])
def test_identical_clients_are_one(n_clients: int) -> None:
    data = sequences(3)
    plan = Plan(algorithm=FederatedPlasticity(reservoir=RESERVOIR, rule=RULE), rounds=3)
    one = federate(plan, {"only": data}).state
    many = federate(plan, {f"client-{k}": data for k in range(n_clients)}).state
    np.testing.assert_allclose(many.gain, one.gain, rtol=1e-12)
    np.testing.assert_allclose(many.shift, one.shift, rtol=1e-10, atol=1e-13)


def test_a_round_is_the_mean_weighted_by_sequences() -> None:
    clients = {"a": sequences(1, seed=1), "b": sequences(4, seed=2)}
    adapted = {
        name: plasticity_of(RULE.adapt(RESERVOIR, [s.u for s in data]))
        for name, data in clients.items()
    }
    for weighting, weights in (("samples", (0.2, 0.8)), ("uniform", (0.5, 0.5))):
        algorithm = FederatedPlasticity(
            reservoir=RESERVOIR,
            rule=RULE,
            weighting=weighting,  # type: ignore[arg-type]
        )
        state = federate(Plan(algorithm=algorithm), clients).state
        gain = weights[0] * adapted["a"][0] + weights[1] * adapted["b"][0]
        np.testing.assert_allclose(state.gain, gain, rtol=1e-12)


def test_momentum_goes_on_after_the_mean() -> None:
    clients = {"a": sequences(2, seed=1), "b": sequences(2, seed=2)}
    plain = FederatedPlasticity(reservoir=RESERVOIR, rule=RULE)
    moved = replace(plain, optimizer=Momentum(momentum=0.5))
    first = federate(Plan(algorithm=plain), clients).state
    after_first = replace(plain, reservoir=plain.result(first))
    second = federate(Plan(algorithm=after_first), clients).state
    state = federate(Plan(algorithm=moved, rounds=2), clients).state
    expected = second.gain + 0.5 * (first.gain - 1.0)
    np.testing.assert_allclose(state.gain, expected, rtol=1e-12)
    kept = moved.load_state(moved.save_state(state))
    assert all((a == b).all() for a, b in zip(kept.memory, state.memory, strict=True))


def test_two_numbers_per_unit_travel_each_way() -> None:
    algorithm = FederatedPlasticity(reservoir=RESERVOIR, rule=RULE)
    down = algorithm.broadcast(algorithm.start(), RoundContext(0, ("a",)))
    assert sum(array.size for array in down.arrays) == 2 * RESERVOIR.n_units
    up = algorithm.client_update(down, lambda: sequences(2), RoundContext(0, ("a",))).parts()
    assert sum(array.size for array in up.arrays) == 2 * RESERVOIR.n_units + 2


@dataclass(frozen=True)
class Doubled(Protection):
    """A protection that sends twice the sums and halves what they add up to."""

    def on_client(self, upload: Upload, context: RoundContext) -> Upload:
        parts = upload.parts()
        numbers, *arrays = parts.arrays
        twice = (numbers * [2.0, 1.0], *(2 * array for array in arrays))  # of one client still
        return Sent(Message(parts.kind, parts.facts, twice))

    def on_server(self, total: Additive, context: RoundContext, inner: Read) -> Additive:
        assert isinstance(total, WeightedSum)
        halves = tuple(array / 2 for array in total.arrays)
        return WeightedSum(halves, total.weight / 2, total.n_clients)


@dataclass(frozen=True)
class Sent:
    content: Message

    def parts(self) -> Message:
        return self.content


@pytest.mark.parametrize("kind", [FederatedPlasticity, MomentPlasticity])
def test_protections_compose(kind: type[FederatedPlasticity] | type[MomentPlasticity]) -> None:
    clients = {"a": sequences(2, seed=1), "b": sequences(3, seed=2)}
    algorithm: Any = kind(reservoir=RESERVOIR, rule=RULE)
    plain = federate(Plan(algorithm=algorithm, rounds=2), clients).state
    hidden = federate(Plan(algorithm=algorithm, rounds=2, protections=(Doubled(),)), clients).state
    np.testing.assert_allclose(hidden.gain, plain.gain, rtol=1e-13)
    np.testing.assert_allclose(hidden.shift, plain.shift, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", [FederatedPlasticity, MomentPlasticity])
def test_secure_aggregation_gives_the_same(
    kind: type[FederatedPlasticity] | type[MomentPlasticity],
) -> None:
    clients = {name: sequences(2 + k, seed=k) for k, name in enumerate("abcd")}
    identities = generate_keys(clients)
    memories = identities.memories
    secure = SecureAggregation(identities=identities, min_clients=3)
    algorithm: Any = kind(reservoir=RESERVOIR, rule=RULE)
    plain = federate(Plan(algorithm=algorithm, rounds=2), clients).state
    plan = Plan(algorithm=algorithm, rounds=2, protections=(secure,))
    hidden = federate(plan, clients, memories=memories).state
    np.testing.assert_allclose(hidden.gain, plain.gain, rtol=1e-12)
    np.testing.assert_allclose(hidden.shift, plain.shift, rtol=1e-11, atol=1e-14)


def test_threads_and_order_do_not_change_a_bit() -> None:
    clients = {name: sequences(2, seed=k) for k, name in enumerate("abc")}
    plan = Plan(algorithm=FederatedPlasticity(reservoir=RESERVOIR, rule=RULE), rounds=2)
    one = federate(plan, clients, threads=1).state
    other = federate(plan, dict(reversed(clients.items())), threads=3).state
    assert (one.gain == other.gain).all()
    assert (one.shift == other.shift).all()


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 11), max_size=4, unique=True), deep=st.booleans())
def test_moments_do_not_depend_on_the_split(cuts: list[int], deep: bool) -> None:
    data = sequences(12, steps=20)
    reservoir = DEEP if deep else RESERVOIR
    plan = Plan(algorithm=MomentPlasticity(reservoir=reservoir, rule=RULE), rounds=3)
    edges = [0, *sorted(cuts), len(data)]
    parts = {f"c{k}": data[a:b] for k, (a, b) in enumerate(pairwise(edges))}
    pooled, split = federate(plan, {"all": data}).state, federate(plan, parts).state
    np.testing.assert_allclose(split.gain, pooled.gain, rtol=1e-10)
    np.testing.assert_allclose(split.shift, pooled.shift, rtol=1e-9, atol=1e-11)


def test_moments_bring_outputs_to_the_target_from_any_start() -> None:
    data = sequences(12, steps=200)
    rule = IntrinsicPlasticity(target_mean=0.1, target_std=0.3, washout=20)
    for scaling in (0.3, 3.0):
        recipe = Reservoir(units=40, inputs=2, input_scaling=scaling, leak_rate=1.0, seed=1)
        algorithm = MomentPlasticity(reservoir=recipe, rule=rule)
        state = federate(Plan(algorithm=algorithm, rounds=15), {"a": data[:5], "b": data[5:]}).state
        # With leak rate 1 a state is the output itself.
        y = np.concatenate([x[20:] for x in algorithm.result(state).run([s.u for s in data])])
        np.testing.assert_allclose(y.mean(axis=0), 0.1, atol=0.03)
        np.testing.assert_allclose(y.std(axis=0), 0.3, atol=0.05)


def test_damping_goes_part_of_the_way() -> None:
    clients = {"a": sequences(4)}
    full = federate(Plan(algorithm=MomentPlasticity(reservoir=RESERVOIR, damping=1)), clients).state
    half = federate(
        Plan(algorithm=MomentPlasticity(reservoir=RESERVOIR, damping=0.5)), clients
    ).state
    np.testing.assert_allclose(half.gain, 0.5 + 0.5 * full.gain, rtol=1e-12)


def aimed(mean: Array, spread: Array, target: float, std: float) -> tuple[Array, Array]:
    """Return the gains and shifts by which drives of these moments give outputs of these."""
    rule = replace(RULE, target_mean=target, target_std=std)
    return matched(mean, spread, *MomentPlasticity(reservoir=RESERVOIR, rule=rule).standard())


def test_a_unit_without_drive_keeps_its_gain() -> None:
    gain, shift = aimed(np.array([0.0, 0.7]), np.array([0.0, 0.0]), 0.2, 0.3)
    assert (gain == 1).all()
    np.testing.assert_allclose(np.tanh(gain * np.array([0.0, 0.7]) + shift), 0.2, rtol=1e-12)


@settings(max_examples=25)
@given(st.floats(-0.6, 0.6), st.floats(0.02, 0.7), st.floats(-2, 2), st.floats(0.1, 4))
def test_matched_moments_are_the_target_by_simulation(
    mean: float, std: float, drive: float, spread: float
) -> None:
    gain, shift = aimed(np.array([drive]), np.array([spread]), mean, std)
    p = drive + spread * np.random.default_rng(0).standard_normal(200_000)
    y = np.tanh(gain * p + shift)
    assert abs(y.mean() - mean) < 0.01
    assert abs(y.std() - std) < 0.01


def test_it_serves_an_exact_ridge_in_a_second_plan() -> None:
    users = scale_each(synthetic_wearables(n_users=6, windows_per_user=30, steps=60))
    test = {"user-005": users.pop("user-005")}
    reservoir = Reservoir(units=30, inputs=6, seed=1)
    algorithm = FederatedPlasticity(reservoir=reservoir, rule=IntrinsicPlasticity(target_std=0.4))
    adapted = federate(Plan(algorithm=algorithm, rounds=2), users).result
    features = EchoState.of(adapted, input=False, pool="mean")
    model = federate(
        Plan(algorithm=FederatedRidge(features=features, classes=ACTIVITIES)), users
    ).model
    assert model is not None
    score = federate(Plan(algorithm=Evaluation(model_under_test=model)), test).state.total
    assert score is not None
    assert score.value > 2 / len(ACTIVITIES)


def test_a_diverging_client_is_refused_with_its_reason() -> None:
    wild = replace(RULE, target_std=0.005, learning_rate=10.0)
    plan = Plan(algorithm=FederatedPlasticity(reservoir=RESERVOIR, rule=wild))
    with pytest.raises(TooFewClientsError, match="diverged"):
        federate(plan, {"a": sequences(4)})


@pytest.mark.parametrize("kind", [FederatedPlasticity, MomentPlasticity])
def test_wrong_shapes_and_numbers_are_refused(kind: Any) -> None:
    algorithm = kind(reservoir=RESERVOIR)
    context = RoundContext(0, ("a",), client="a")
    good = algorithm.client_update(
        algorithm.broadcast(algorithm.start(), context), lambda: sequences(2), context
    )
    assert algorithm.read_update(good.parts(), context).n_clients == 1
    short = WeightedSum((good.arrays[0][:3], *good.arrays[1:]), good.weight)
    with pytest.raises(UploadError, match="25"):
        algorithm.read_update(short.parts(), context)
    bad = WeightedSum((np.full(25, np.nan), *good.arrays[1:]), good.weight)
    with pytest.raises(UploadError, match="finite"):
        algorithm.read_update(bad.parts(), context)
    few = Plasticity(np.ones(3), np.ones(3)).parts()
    with pytest.raises(UploadError, match="for 25 units"):
        algorithm.client_update(few, lambda: sequences(2), context)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="damping is 0"):
        MomentPlasticity(reservoir=RESERVOIR, damping=0)
    sigmoid = Reservoir(units=5, activation="sigmoid")
    with pytest.raises(ValueError, match="tanh"):
        MomentPlasticity(reservoir=sigmoid)
    with pytest.raises(ValueError, match="no output of tanh"):
        aimed(np.zeros(1), np.ones(1), 0.5, 0.9)
