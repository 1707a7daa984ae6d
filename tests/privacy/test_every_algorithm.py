"""Every algorithm under a secure sum: the same result from the sum, or a refusal with a reason."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from tests.contracts.cases import Case, cases

from catchment.engine.local import run_locally
from catchment.errors import FederationError
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.federation.compression import FactorUpload
from catchment.federation.learn.candidates import Candidates
from catchment.federation.learn.ensemble import ReservoirEnsemble
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.measure.baselines import LocalReadouts
from catchment.federation.plan import Plan
from catchment.privacy.secure_sum.keys import make_identities
from catchment.privacy.secure_sum.protection import SecureSum

pytestmark = pytest.mark.slow

FEATURES = EchoStateMap(Reservoir.from_recipe(Recipe(units=4, inputs=1)))
SECURE = SecureSum(identities={"ann": "00" * 32})
# The one ridge by clients becomes one by the sum; everything else stays as the case has it.
THIN = "rows for 18 features, this client sends 12 or more"
REFUSED = {
    "ridge-classes": THIN,
    "balanced": THIN,
    "selected-classes": THIN,
    "aligned": "kept apart; pass ridge='gcv'",
}
CHANGES = {"keep_clients": False, "ridge": "gcv"}


def hideable(case: Case) -> Plan[Any, Any, Any] | None:
    """Return a case's plan as it may be hidden in a sum, or None if it needs its clients."""
    algorithm: Any = case.plan.algorithm
    names = {field.name for field in fields(algorithm)}
    if "keep_clients" in names:
        by_clients = getattr(algorithm, "ridge", None) == "clients"
        algorithm = replace(
            algorithm, **{k: v for k, v in CHANGES.items() if k != "ridge" or by_clients}
        )
    if any(getattr(p, "needs_clients", False) for p in (algorithm, *case.plan.protections)):
        return None
    return replace(case.plan, algorithm=algorithm)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_sum_gives_the_same_state_or_a_reason(case: Case) -> None:
    identities, memories = make_identities(case.clients)
    masking = SecureSum(identities=identities, min_clients=3, rows_per_feature=2)
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
    there = plan.whole.save_state(plain.state).arrays
    for array in plan.whole.save_state(hidden.state).arrays:
        # Among all that the plain state keeps, which may be more.
        assert any(
            array.shape == other.shape and np.allclose(array, other, rtol=1e-6, atol=1e-9)
            for other in there
        )


@pytest.mark.parametrize(
    "algorithm",
    [
        LocalReadouts(features=FEATURES),
        ReservoirEnsemble(features=FEATURES),
        Candidates(features=(FEATURES,)),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_algorithms_that_need_their_clients_are_refused_at_once(algorithm: Any) -> None:
    with pytest.raises(ValueError, match=f"{type(algorithm).__name__} needs every client"):
        Plan(algorithm=algorithm, protections=(SECURE,))


def test_protections_whose_messages_do_not_add_are_refused_at_once() -> None:
    ridge = FederatedRidge(features=FEATURES, ridge=1.0, keep_clients=False)
    with pytest.raises(ValueError, match="FactorUpload needs every client"):
        Plan(algorithm=ridge, protections=(FactorUpload(), SECURE))
