"""A19: increments obey the rules too, clients stay with their cohort, the ridge is added once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model

from catchment.data import Recording
from catchment.engine import LocalEngine, run_locally
from catchment.errors import TooFewClientsError
from catchment.features import EchoState, Reservoir
from catchment.federation import Limits, Memory, Plan, run
from catchment.federation.learn import FederatedRidge
from catchment.federation.measure import Evaluation
from catchment.privacy import Policy, SecureAggregation, generate_keys
from tests.security.fleet import Fleet, Lossy, losing, released

FEATURES = EchoState.of(Reservoir(units=8, inputs=1, seed=4), input=False)


def clients(n_clients: int, n_steps: int) -> dict[str, list[Recording]]:
    rng = np.random.default_rng(7)
    u = {f"c{k:03d}": rng.normal(size=(n_steps, 1)) for k in range(n_clients)}
    return {name: [Recording(x, np.roll(x, 1, axis=0))] for name, x in u.items()}


def plan_of(identities: Mapping[str, str], increments: int, **settings: Any) -> Plan[Any, Any, Any]:
    masking = SecureAggregation(identities=identities, rows_per_feature=2, **settings)
    algorithm = FederatedRidge(
        features=FEATURES, ridge=0.1, store_per_client=False, increments=increments
    )
    return Plan(algorithm=algorithm, rounds=increments, protections=(masking,))


def test_three_increments_of_four_clients_are_the_pooled_ridge() -> None:
    data = clients(4, 60)
    identities = generate_keys(data)
    memories = identities.memories
    plan = plan_of(identities, 3, min_clients=4)
    result = run(plan, LocalEngine(plan, data, 1, memories))
    z = np.vstack([FEATURES(sequences[0].u) for sequences in data.values()])
    y = np.vstack([s.y for sequences in data.values() for s in sequences if s.y is not None])
    pooled = sklearn.linear_model.Ridge(alpha=0.1, solver="svd").fit(z, y)
    assert len(result.records) == 3
    assert result.state.total.n_rows == 240
    np.testing.assert_allclose(
        result.model.readout.weights.ravel(), pooled.coef_.ravel(), rtol=1e-8
    )
    twice = sklearn.linear_model.Ridge(alpha=0.3, solver="svd").fit(z, y)
    assert np.abs(result.model.readout.weights.ravel() - twice.coef_.ravel()).max() > 1e-4


@pytest.mark.parametrize(("increments", "passes"), [(60, False), (20, False), (15, True)])
def test_increments_of_too_few_rows_are_refused(increments: int, passes: bool) -> None:
    data = clients(4, 60)  # 8 features: 4 rows of each client and increment
    identities = generate_keys(data)
    memories = identities.memories
    plan = plan_of(identities, increments, min_clients=4)
    engine = LocalEngine(plan, data, 1, memories)
    if passes:
        assert len(run(plan, engine).records) == increments
    else:
        with pytest.raises(TooFewClientsError, match="rows for 8 features, this client sends 4"):
            run(plan, engine)


def summed(fleet: Fleet, *names: str) -> Any:
    """Return the sum over some of the clients only, with the same memories."""
    engine = fleet.engine()
    fates = {c: "keys" for c in fleet.vectors if c not in names}
    return fleet.run(Lossy(engine, losing(fates)))


ALL = [f"c{k:03d}" for k in range(9)]


def test_the_same_clients_may_be_summed_again() -> None:
    fleet = Fleet.drawn(9)
    for _ in range(3):
        np.testing.assert_array_equal(released(fleet.run()), fleet.expected(fleet.vectors))


def of_nine(policy: Policy | None = None) -> Fleet:
    fleet = Fleet.drawn(9, min_share=0.4, corrupt=0.0, policy=policy)
    fleet.plan = replace(fleet.plan, limits=Limits(min_usable=0.0))
    return fleet


@pytest.mark.parametrize(
    ("first", "second", "passes"),
    [
        (ALL[:5], ALL[:4], False),  # one left
        (ALL[:4], ALL[:5], False),  # one came
        (ALL[:5], ALL[1:6], False),  # one left and one came
        (ALL[:5], ALL[:8], False),  # three came
        (ALL[:8], ALL[:5], False),
        (ALL[:4], ALL[4:8], True),  # nobody in common
        (ALL[:5], ALL[:5], True),  # the same again
    ],
)
def test_clients_are_in_sums_with_one_set_of_clients_only(
    first: list[str], second: list[str], passes: bool
) -> None:
    fleet = of_nine()
    summed(fleet, *first)
    if passes:
        np.testing.assert_array_equal(released(summed(fleet, *second)), fleet.expected(second))
    else:
        with pytest.raises(TooFewClientsError, match="over different sets can be subtracted"):
            summed(fleet, *second)


def test_a_client_lost_after_the_first_round_stops_the_second() -> None:
    fleet = Fleet.drawn(6, rounds=2)
    engine = fleet.engine()
    seen: list[str] = []

    def lost(stage: str, client: str) -> str | None:
        seen.append(stage)
        return "down" if client == "c005" and seen.count("keys") > 6 else None

    with pytest.raises(TooFewClientsError, match="can be subtracted"):
        fleet.run(Lossy(engine, lost))


def test_a_round_that_ended_after_uploads_had_left_counts() -> None:
    """None of them knows whether the others opened the sum: the same set again, or nothing."""
    fleet = Fleet.drawn(6)
    with pytest.raises(TooFewClientsError):
        fleet.run(Lossy(fleet.engine(), losing(dict.fromkeys(ALL[:5], "unmask"))))
    with pytest.raises(TooFewClientsError, match="over another set of 6 clients"):
        summed(fleet, *ALL[:5])
    np.testing.assert_array_equal(released(fleet.run()), fleet.expected(ALL[:6]))


def test_a_round_that_ended_before_any_upload_does_not_count() -> None:
    fleet = Fleet.drawn(6)
    with pytest.raises(TooFewClientsError):
        fleet.run(Lossy(fleet.engine(), losing(dict.fromkeys(ALL[:5], "update"))))
    result = summed(fleet, *ALL[:5])
    np.testing.assert_array_equal(released(result), fleet.expected(ALL[:5]))


def test_the_rule_is_the_owners_and_no_setting_of_the_plan() -> None:
    fleet = of_nine(Policy(exact="any clients"))
    summed(fleet, *ALL[:5])
    assert released(summed(fleet, *ALL[:4])).shape == (3,)
    with pytest.raises(TypeError, match="compare_cohorts"):
        SecureAggregation(identities=fleet.masking.identities, compare_cohorts=False)  # type: ignore[call-arg]


def test_sums_of_another_kind_are_compared_among_themselves() -> None:
    data = clients(5, 60)
    identities = generate_keys(data)
    memories = identities.memories
    plan = plan_of(identities, 1, min_clients=3)
    model = run_locally(plan, data, threads=1, memories=memories).model
    assert model is not None
    fewer = {name: data[name] for name in ALL[:4]}
    scored = Plan(
        algorithm=Evaluation(model_under_test=model, store_per_client=False),
        protections=(SecureAggregation(identities=identities, min_clients=3),),
    )
    known: dict[str, Memory] = memories
    assert run_locally(scored, fewer, threads=1, memories=known).state.total is not None
    with pytest.raises(TooFewClientsError, match="can be subtracted"):
        run_locally(plan, fewer, threads=1, memories=known)
