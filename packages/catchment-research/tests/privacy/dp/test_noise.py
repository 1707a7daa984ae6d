"""Noise as a protection of plans: ridge, averages, sequences, secure aggregation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catchment import FederatedRidge, Plan, Recording, Reservoir, federate
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.engine import LocalEngine, run_locally
from catchment.errors import BudgetError, IntegrityError, TooFewClientsError, UploadError
from catchment.features import EchoState
from catchment.federation import Cost, Engine, Reply, RoundContext, WeightedSum, run
from catchment.federation.measure import Evaluation
from catchment.federation.runs import EntryList
from catchment.privacy import (
    Budget,
    Clip,
    GaussianNoise,
    RecordLevel,
    SecureAggregation,
    epsilon_spent,
    generate_keys,
)
from catchment.privacy.dp import Clipped, Records
from catchment.readout import RidgeStatistics, accumulate
from catchment.wire import NOTHING, Message
from catchment_research.learn import GradientAveraging
from catchment_research.plasticity import FederatedPlasticity

F = EchoState.of(Reservoir(units=12, inputs=6, seed=1), pool="mean")
CLIENTS = synthetic_wearables(12, windows_per_user=24, steps=24)
PUBLIC = [accumulate(F, data) for data in synthetic_wearables(4, 9, steps=24).values()]
CLIP = Clip.from_public(PUBLIC)
RIDGE = FederatedRidge(features=F, classes=ACTIVITIES, ridge=0.0, store_per_client=False)


def noise(**settings: object) -> GaussianNoise:
    usual: dict[str, object] = {
        "epsilon": 1e7,
        "delta": 1e-5,
        "clip": CLIP,
        "min_clients": 4,
        "small_cohort": True,
    }
    return GaussianNoise(**(usual | settings))  # type: ignore[arg-type]


def test_next_to_no_noise_gives_the_readout_of_clipped_clients() -> None:
    """Against the mean moments of clients, weighted by the clip, solved by numpy."""
    result = federate(Plan(algorithm=RIDGE, protections=(noise(epsilon=1e10),)), CLIENTS)
    A, B = np.zeros((F.n_features + 1,) * 2), np.zeros((F.n_features + 1, 6))
    for data in CLIENTS.values():
        z = np.concatenate([F(s.u) for s in data])
        Z = np.column_stack([np.ones(len(z)), z])
        Y = np.array([s.y for s in data])
        share = min(1.0, CLIP.bound / CLIP.length(accumulate(F, data))) / len(z)
        A += share * Z.T @ Z
        B += share * Z.T @ Y
    expected = np.linalg.solve(A, B)
    z = np.concatenate([F(s.u) for s in CLIENTS["user-005"]])
    ours = result.model.readout(z)
    np.testing.assert_allclose(ours, np.column_stack([np.ones(len(z)), z]) @ expected, atol=5e-3)


def test_more_privacy_costs_accuracy() -> None:
    def accuracy(epsilon: float) -> float:
        plan = Plan(algorithm=RIDGE, protections=(noise(epsilon=epsilon),))
        model = federate(plan, CLIENTS).model
        assert model is not None
        score = federate(Plan(algorithm=Evaluation(model_under_test=model)), CLIENTS).state.total
        assert score is not None
        return score.value

    assert accuracy(1e7) > 0.6 > np.median([accuracy(0.01) for _ in range(5)])


def test_the_server_sees_no_statistics_of_any_client() -> None:
    result = federate(Plan(algorithm=RIDGE, protections=(noise(),)), CLIENTS)
    assert result.state.by_client == {}


def secure_plan(**settings: object) -> tuple[Plan[object, WeightedSum, object], dict[str, object]]:
    identities = generate_keys(CLIENTS)
    memories = identities.memories
    shared = noise(distributed=True, min_clients=10, **settings)
    secure = SecureAggregation(identities=identities, min_clients=10, rows_per_feature=10)
    plan = Plan(algorithm=RIDGE, protections=(shared, secure))
    return plan, memories  # type: ignore[return-value]


def test_distributed_noise_inside_secure_aggregation() -> None:
    plan, memories = secure_plan()
    engine = LocalEngine(plan, CLIENTS, 1, memories)  # type: ignore[arg-type]
    result = run(plan, engine)
    central = federate(Plan(algorithm=RIDGE, protections=(noise(),)), CLIENTS)
    assert central.model is not None
    u = CLIENTS["user-003"][0].u
    np.testing.assert_allclose(result.model.outputs(u), central.model.outputs(u), atol=0.02)


def test_shares_add_up_to_the_promised_noise() -> None:
    shared = noise(epsilon=2.0, distributed=True, min_clients=10, colluding=2)
    assert shared.share**2 * (10 - 2) == pytest.approx(shared.spread**2)
    context = RoundContext(0, ())
    zero = WeightedSum((np.zeros(4000),), 1.0)
    sent = [shared.on_client(zero, context) for _ in range(8)]
    total = sum(upload.parts().arrays[1] for upload in sent)
    assert np.std(total) == pytest.approx(shared.spread, rel=0.08)
    steps = total / shared.step
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert shared.multiplier > noise(epsilon=2.0).multiplier


def test_noise_counts_on_as_many_telling_theirs_as_secure_aggregation_does() -> None:
    """Of 40 registered clients 8 may be corrupt, and all of them in the smallest sum."""
    registered = generate_keys(f"c{k}" for k in range(40))
    shared = noise(distributed=True, min_clients=10)
    for n, colluding in ((10, 8), (12, 6), (16, 2), (30, 2)):
        secure = SecureAggregation(registered, min_clients=n)
        settled, _ = Plan(algorithm=RIDGE, protections=(shared, secure)).protections
        assert isinstance(settled, GaussianNoise)
        assert settled.n_colluding == colluding
        assert settled.share * np.sqrt(n - 8) >= settled.spread * (1 - 1e-12)
    few = SecureAggregation(registered, min_clients=10)
    with pytest.raises(ValueError, match=r"8 of the 40 .* min_clients=16, or leave out colluding"):
        Plan(algorithm=RIDGE, protections=(replace(shared, colluding=2), few))
    many = SecureAggregation(generate_keys(f"c{k}" for k in range(50)), min_clients=10)
    with pytest.raises(ValueError, match=r"10 of the 50 .* min_clients=18"):
        Plan(algorithm=RIDGE, protections=(shared, many))


def test_distributed_noise_needs_its_secure_aggregation() -> None:
    shared = noise(distributed=True, min_clients=10)
    with pytest.raises(ValueError, match="only within secure aggregation"):
        Plan(algorithm=RIDGE, protections=(shared,))
    identities = generate_keys(CLIENTS)
    with pytest.raises(ValueError, match="pass it min_clients=10"):
        Plan(
            algorithm=RIDGE,
            protections=(shared, SecureAggregation(identities=identities, min_clients=4)),
        )
    coarse = SecureAggregation(identities=identities, min_clients=10, bits=64, bound=2.0**40)
    with pytest.raises(ValueError, match="use 128 bits"):
        Plan(algorithm=RIDGE, protections=(shared, coarse))
    upload = shared.on_client(WeightedSum((np.zeros(3),), 1.0), RoundContext(0, ()))
    with pytest.raises(IntegrityError, match="without its mask"):
        shared.read_update(upload.parts(), RoundContext(0, (), client="ann"), lambda p, t: None)


def test_averages_are_protected_too() -> None:
    descent = GradientAveraging(features=F, classes=ACTIVITIES, epochs=3)
    protection = noise(clip=Clip(bound=0.5), releases=4)
    plan = Plan(algorithm=descent, protections=(protection,), rounds=4)
    result = federate(plan, CLIENTS)
    weak = federate(Plan(algorithm=descent, rounds=4), CLIENTS)
    assert weak.model is not None
    step = np.linalg.norm(result.model.readout.weights)
    assert 0 < step <= 4 * 0.5 + 1e-6
    assert all("training loss" in record.figures for record in weak.records)
    assert all(set(record.figures) == {"weight norm"} for record in result.records)
    rule = FederatedPlasticity(reservoir=F.reservoir)
    adapted = federate(
        Plan(algorithm=rule, protections=(noise(clip=Clip(bound=20.0)),)), CLIENTS
    ).state
    assert np.isfinite(adapted.gain).all()


def test_privacy_per_sequence() -> None:
    protection = noise(unit="sequence", min_clients=1, small_cohort=False)
    plan = Plan(algorithm=RecordLevel(algorithm=RIDGE), protections=(protection,))
    result = federate(plan, CLIENTS)
    n = sum(map(len, CLIENTS.values()))
    assert result.state.total is not None
    # Each sequence counts once, or less where it was clipped.
    assert 0.2 * n < result.state.total.weight < 1.01 * n
    algorithm = plan.algorithm
    state = algorithm.load_state(algorithm.save_state(result.state))
    assert algorithm.result(state) is not None


def test_units_must_fit_the_algorithm() -> None:
    with pytest.raises(ValueError, match="unit='sequence' with RecordLevel"):
        Plan(algorithm=RIDGE, protections=(noise(unit="sequence"),))
    with pytest.raises(ValueError, match="unit='sequence' with RecordLevel"):
        Plan(algorithm=RecordLevel(algorithm=RIDGE), protections=(noise(),))
    protection, context = noise(unit="sequence"), RoundContext(0, ())
    with pytest.raises(UploadError, match="needs RecordLevel"):
        protection.on_client(accumulate(F, CLIENTS["user-000"]), context)
    with pytest.raises(UploadError, match="no recordings"):
        protection.on_client(Records(lambda: iter(())), context)
    with pytest.raises(UploadError, match="ridge statistics, not 'weighted-sum'"):
        protection.on_client(Records(lambda: iter([WeightedSum((np.ones(2),), 1.0)])), context)
    with pytest.raises(UploadError, match="must not leave"):
        Records(lambda: iter(())).parts()


def test_the_ridge_must_be_a_number() -> None:
    chosen = FederatedRidge(features=F, ridge="gcv", store_per_client=False)
    with pytest.raises(ValueError, match="cannot be chosen by 'gcv'"):
        Plan(algorithm=chosen, protections=(noise(),))
    with pytest.raises(ValueError, match="cannot be chosen"):
        Plan(
            algorithm=RecordLevel(algorithm=chosen),
            protections=(noise(unit="sequence", min_clients=1),),
        )


def test_a_client_that_does_not_clip_is_refused() -> None:
    protection, context = noise(), RoundContext(0, (), client="ann")
    long = Clipped(np.full(200, 1.0), 1, {})
    with pytest.raises(UploadError, match="above the clip's bound"):
        protection.read_update(long.parts(), context, lambda p, t: None)
    with pytest.raises(IntegrityError):
        protection.read_update(NOTHING, context, lambda p, t: None)


def test_noise_grows_with_releases_and_replacement() -> None:
    one = noise(epsilon=1.0)
    assert noise(epsilon=1.0, releases=4).spread == pytest.approx(2 * one.spread)
    assert noise(epsilon=1.0, replacement=True).spread == pytest.approx(2 * one.spread)
    assert math.log2(one.step) == int(math.log2(one.step))
    assert one.spread / one.step >= 1 << 20
    with pytest.raises(UploadError, match="beyond the 1 agreed"):
        one.on_client(accumulate(F, CLIENTS["user-000"]), RoundContext(1, ()))


def test_a_budget_is_charged_before_clients_with_noise_of_their_own_are_asked(
    tmp_path: Path,
) -> None:
    budget = Budget(path=tmp_path / "b.db", epsilon=1.0, delta=1e-5)
    plan, _ = secure_plan(epsilon=3.0, budget=budget)
    asked: list[object] = []

    class Watched(Engine):
        def clients(self) -> list[str]:
            return sorted(CLIENTS)

        def ask(self, requests: object) -> Iterator[Reply]:
            asked.append(requests)
            raise AssertionError

    with pytest.raises(BudgetError):
        run(plan, Watched())
    assert asked == []
    assert budget.releases() == []


def test_noise_before_a_plain_sum_of_few_clients_is_not_released() -> None:
    plan = Plan(algorithm=RIDGE, protections=(noise(min_clients=50),))
    with pytest.raises(TooFewClientsError, match="12 clients are in the sum"):
        federate(plan, CLIENTS)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epsilon": 0.0}, "epsilon is"),
        ({"delta": 1.0}, "delta is"),
        ({"unit": "step"}, "unit is 'step'"),
        ({"releases": 0}, "releases is 0"),
        ({"ridge_factor": -1.0}, "ridge_factor"),
        ({"colluding": 4}, "pass fewer than min_clients"),
    ],
)
def test_settings_are_checked(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        noise(**wrong)


def test_noisy_statistics_cannot_be_claimed_by_a_client() -> None:
    """Only a sum that a protection made is spared the checks of bounds and classes."""
    s = accumulate(F, CLIENTS["user-000"])
    broken = RidgeStatistics(
        s.n_rows,
        s.weight,
        s.feature_sum,
        s.target_sum,
        s.gram,
        s.cross,
        3 * s.target_gram,
        s.fingerprint,
    )
    parts = broken.parts()
    claimed = Message(parts.kind, {**parts.facts, "noisy": True}, parts.arrays)
    with pytest.raises(UploadError, match="one class per row"):
        RIDGE.read_update(claimed, RoundContext(0, (), client="mallory"))
    RIDGE.read_update(claimed, RoundContext(0, ()))


def test_a_forecast_can_be_private_per_step_rows() -> None:
    reservoir = Reservoir(units=10, inputs=1, seed=2)
    steps = EchoState.of(reservoir, washout=5)
    u = np.sin(np.arange(60.0))
    data = {f"c{k}": [Recording(u[k : 50 + k], u[k + 1 : 51 + k])] for k in range(5)}
    algorithm = FederatedRidge(features=steps, ridge=0.0, store_per_client=False)
    protection = noise(clip=Clip(bound=10.0))
    model = federate(Plan(algorithm=algorithm, protections=(protection,)), data).model
    assert model is not None
    guess = model.predict(u[:50, None])
    assert np.corrcoef(guess.ravel()[-30:], u[21:51])[0, 1] > 0.9


def test_the_ledger_has_the_cost_of_uploads_with_noise_in_them_and_of_no_other() -> None:
    notes = EntryList()
    run_locally(Plan(algorithm=RIDGE, protections=(noise(epsilon=3.0),)), CLIENTS, keeper=notes)
    assert {e.epsilon for e in notes.entries if e.direction == "up"} == {None}
    notes.entries.clear()
    plan, memories = secure_plan(epsilon=2.0)
    run(plan, LocalEngine(plan, CLIENTS, 1, memories), keeper=notes)  # type: ignore[arg-type]
    masked = [e for e in notes.entries if e.purpose == "secure-upload"]
    assert len(masked) == len(CLIENTS)
    assert {e.epsilon for e in masked} == {2.0}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("distributed", [True, False])
def test_all_releases_together_cost_the_epsilon_and_no_less(whole: bool, distributed: bool) -> None:
    """By dp-accounting, of the noise of one release seven times over."""
    seven = noise(epsilon=2.0, releases=7, distributed=distributed)
    cost = seven.amount(whole=whole).cost
    spent = epsilon_spent(Cost(7 * cost.gaussian, 7 * cost.concentrated), 1e-5)
    assert 0.9 * 2.0 < spent <= 2.0 * (1 + 1e-4)
