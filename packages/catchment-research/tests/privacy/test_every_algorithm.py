"""Every algorithm under secure aggregation: the same result, or a refusal with a reason."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.features import EchoState, Reservoir
from catchment.federation import LowRankUpload, Plan, Requirements
from catchment.federation.learn import Candidates, FederatedRidge
from catchment.privacy import Clip, GaussianNoise, RecordLevel, SecureAggregation, generate_keys
from catchment.wire import serialize
from catchment_research.learn import AlignedRidge, BalancedRidge, ReservoirEnsemble
from tests.contracts.cases import Case, cases

pytestmark = pytest.mark.slow

FEATURES = EchoState.of(Reservoir(units=4, inputs=1))
SECURE = SecureAggregation(identities={"ann": "00" * 32})
# The one ridge by clients becomes one by the sum; everything else stays as the case has it.
THIN = "rows for 18 features, this client sends 12 or more"
REFUSED = {
    "ridge-classes": THIN,
    "balanced": THIN,
    "gaussian": THIN,
    "unit": THIN,
    "selected-classes": THIN,
}
CHANGES = {"store_per_client": False, "ridge": "gcv"}


def hideable(case: Case) -> Plan[Any, Any, Any] | None:
    """Return a case's plan as it may be hidden in a sum, or None if it needs its clients."""
    algorithm: Any = case.plan.algorithm
    names = {field.name for field in fields(algorithm)}
    if "store_per_client" in names:
        by_clients = getattr(algorithm, "ridge", None) == "leave-one-client-out"
        algorithm = replace(
            algorithm, **{k: v for k, v in CHANGES.items() if k != "ridge" or by_clients}
        )
    if any(part.requirements.each_client for part in (algorithm, *case.plan.protections)):
        return None
    return replace(case.plan, algorithm=algorithm)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_sum_gives_the_same_state_or_a_reason(case: Case) -> None:
    identities = generate_keys(case.clients)
    memories = identities.memories
    masking = SecureAggregation(identities=identities, min_clients=3, rows_per_feature=2)
    plan = hideable(case)
    if plan is None:
        with pytest.raises(ValueError, match="needs every client's message by itself"):
            replace(case.plan, protections=(*case.plan.protections, masking))
        return
    hidden_plan = replace(plan, protections=(*plan.protections, masking))
    if case.name in REFUSED:
        with pytest.raises(FederationError, match=REFUSED[case.name]):
            run_locally(hidden_plan, case.clients, memories=memories)
        return
    hidden = run_locally(hidden_plan, case.clients, memories=memories)
    plain = run_locally(plan, case.clients)
    states: list[Any] = [plain.state, hidden.state]
    if case.name == "rounded":  # a sum of float32 is rounded once more, which a readout shows
        states = [state.total for state in states]
    there, here = (serialize(state).arrays for state in states)
    for array in here:
        # Among all that the plain state keeps, which may be more.
        assert any(
            array.shape == other.shape and np.allclose(array, other, rtol=1e-6, atol=1e-9)
            for other in there
        )


@pytest.mark.parametrize(
    "algorithm",
    [
        ReservoirEnsemble(features=FEATURES),
        Candidates(features=(FEATURES,)),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_algorithms_that_need_their_clients_are_refused_at_once(algorithm: Any) -> None:
    with pytest.raises(ValueError, match=f"{type(algorithm).__name__} needs every client"):
        Plan(algorithm=algorithm, protections=(SECURE,))


def test_protections_whose_messages_do_not_add_are_refused_at_once() -> None:
    ridge = FederatedRidge(features=FEATURES, ridge=1.0, store_per_client=False)
    with pytest.raises(ValueError, match="LowRankUpload needs every client"):
        Plan(algorithm=ridge, protections=(LowRankUpload(), SECURE))


NOISE = GaussianNoise(
    epsilon=1.0, delta=1e-5, clip=Clip(bound=1.0), min_clients=3, small_cohort=True
)
BY_GCV = FederatedRidge(features=FEATURES, ridge="gcv")
APART = "keeps clients apart; pass store_per_client=False"
CHOSEN = "the ridge cannot be chosen by 'gcv' under noise"


@pytest.mark.parametrize(
    "wrapped",
    [
        BY_GCV,
        AlignedRidge(ridge=BY_GCV, alpha=0.5),
        RecordLevel(algorithm=BY_GCV),
        RecordLevel(algorithm=AlignedRidge(ridge=BY_GCV, alpha=0.5)),
        RecordLevel(algorithm=RecordLevel(algorithm=BY_GCV)),
        BalancedRidge(features=FEATURES, ridge="gcv", classes=("a", "b")),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_a_wrapper_is_refused_wherever_the_bare_algorithm_is(wrapped: Any) -> None:
    unit: Any = "sequence" if wrapped.requirements.per_sequence else "client"
    with pytest.raises(ValueError, match=APART):
        Plan(algorithm=wrapped, protections=(SECURE,))
    with pytest.raises(ValueError, match=CHOSEN):
        Plan(algorithm=wrapped, protections=(replace(NOISE, unit=unit),))


def test_a_wrapper_is_allowed_wherever_the_bare_algorithm_is() -> None:
    fixed = FederatedRidge(features=FEATURES, ridge=0.1, store_per_client=False)
    for algorithm in (fixed, AlignedRidge(ridge=fixed, alpha=0.5)):
        assert Plan(algorithm=algorithm, protections=(SECURE,)).masking is SECURE
        assert Plan(algorithm=algorithm, protections=(NOISE,)).plain == (NOISE,)


def test_a_choice_by_the_data_is_refused_under_noise_whoever_makes_it() -> None:
    deciding: list[Any] = [
        Candidates(features=(FEATURES,), store_per_client=kept) for kept in (True, False)
    ]
    for algorithm in deciding:
        with pytest.raises(ValueError, match="under noise"):
            Plan(algorithm=algorithm, protections=(NOISE,))


def test_needs_add_up_to_the_stricter_of_both() -> None:
    one, other = (
        Requirements(each_client="it does", rounds=2),
        Requirements(data_choice="it does", rounds=3),
    )
    assert one | other == Requirements(each_client="it does", data_choice="it does", rounds=3)
    assert (one | Requirements(per_sequence=True)).per_sequence
