"""A1: a plain upload gives the recording away; on a network it must be asked for, and thick."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment import FederatedRidge, Plan, Recording, Reservoir, federate
from catchment.cli import app
from catchment.errors import RefusedClientsWarning, TooFewClientsError
from catchment.features import EchoState
from catchment.federation import Node, Request, RoundContext, Tally
from catchment.federation.learn import RidgeState
from catchment.privacy import PlainRules, PlainStatisticsWarning, SecureAggregation, networked
from catchment.readout import Model, RidgeStatistics
from catchment.wire import NOTHING, Message
from catchment_lab.audit import Drive, Walk, place_of, targets_of

ROOT = Path(__file__).parents[4]


def recording(n_steps: int, n_inputs: int, seed: int) -> Recording:
    rng = np.random.default_rng(seed)
    u = np.cumsum(rng.normal(size=(n_steps, n_inputs)), axis=0) * 0.2
    return Recording(u, rng.normal(size=(n_steps, 1)))


def features(n_inputs: int, *, leak_rate: float = 1.0, washout: int = 0) -> EchoState:
    recipe = Reservoir(units=100, inputs=n_inputs, leak_rate=leak_rate, seed=7)
    return EchoState.of(recipe, input=False, washout=washout)


def ridge_plan(F: EchoState) -> Plan[RidgeState, Tally[RidgeStatistics], Model]:
    return Plan(algorithm=FederatedRidge(features=F, ridge=1e-3))


def uploaded(
    plan: Plan[RidgeState, Tally[RidgeStatistics], Model], data: list[Recording]
) -> RidgeStatistics:
    """Return what the server makes of the bytes that a client really answers."""
    request = Request(plan.fingerprint(), RoundContext(0, ("ann",)), "update", NOTHING)
    reply = Node("ann", plan, lambda: data).answer(request.to_bytes())
    return RidgeStatistics.from_message(Message.from_bytes(reply))


@pytest.mark.parametrize(("n_inputs", "leak_rate"), [(1, 1.0), (3, 1.0), (3, 0.3), (8, 1.0)])
def test_the_server_rebuilds_inputs_and_targets(n_inputs: int, leak_rate: float) -> None:
    F = features(n_inputs, leak_rate=leak_rate)
    data = recording(30, n_inputs, seed=n_inputs)
    sent = uploaded(ridge_plan(F), [data])
    (found,) = Walk(Drive(F), sent).sequences(longest=40)
    error = np.sqrt(np.mean((found - data.u) ** 2) / data.u.var())
    assert found.shape == (30, n_inputs)
    assert error < 1e-6
    assert data.y is not None
    np.testing.assert_allclose(targets_of(found, Drive(F), sent), data.y, atol=1e-4)


def test_a_washout_does_not_hide_the_rest() -> None:
    F, data = features(1, washout=30), recording(70, 1, seed=4)
    found = Walk(Drive(F), uploaded(ridge_plan(F), [data]), guesses=12).fragments(longest=40)
    known = np.zeros(70, dtype=bool)
    for segment in found:
        place, error = place_of(segment, data.u)
        assert error < 1e-6
        known[place : place + len(segment)] = True
    assert known.sum() >= 20
    assert not known[:30].any()


def test_enough_rows_leave_no_null_space() -> None:
    F, data = features(1), recording(600, 1, seed=5)
    walk = Walk(Drive(F), uploaded(ridge_plan(F), [data]))
    assert not walk.exact
    assert walk.fragments(longest=40) == []


def test_a_network_refuses_plain_statistics_unless_asked() -> None:
    plan = ridge_plan(features(1))
    with pytest.raises(ValueError, match=r"not anonymous.*allow_plain_statistics=True"):
        networked(plan)
    with pytest.warns(PlainStatisticsWarning, match="rebuild its inputs"):
        allowed = networked(plan, allow_plain_statistics=True)
    assert isinstance(allowed.protections[0], PlainRules)
    assert allowed.fingerprint() != plan.fingerprint()


def test_thin_statistics_are_refused_even_then() -> None:
    F = features(1)
    with pytest.warns(PlainStatisticsWarning):
        plan = networked(ridge_plan(F), allow_plain_statistics=True, rows_per_feature=5)
    thick = {name: [recording(500, 1, seed)] for seed, name in enumerate("abc")}
    thin = {"d": [recording(499, 1, 9)]}
    with pytest.warns(RefusedClientsWarning, match="3 of 4 clients; d: so few rows for 100"):
        result = federate(plan, thick | thin)
    assert [(r.client, r.code) for r in result.refused] == [("d", "rows")]
    assert result.state.total is not None
    assert result.state.total.n_rows == 1500
    with pytest.raises(TooFewClientsError, match="few rows for 100 features"):
        federate(plan, thin)
    with pytest.raises(ValueError, match="rows_per_feature is 4"):
        PlainRules(rows_per_feature=4)


def test_secure_aggregation_passes() -> None:
    algorithm = FederatedRidge(features=features(1), ridge=1e-3, store_per_client=False)
    secure = SecureAggregation(identities={"ann": "00" * 32})
    plan = Plan(algorithm=algorithm, protections=(secure,))
    assert networked(plan) is plan


def test_the_documentation_says_so() -> None:
    text = " ".join((ROOT / "docs" / "privacy.md").read_text(encoding="utf-8").split())
    assert re.search(r"[Ss]tatistics are not anonymous", text)
    assert "fewer rows than features" in text


def test_the_command_line_says_so() -> None:
    done = CliRunner().invoke(app, ["audit"])
    assert done.exit_code == 1
    assert "LEAK the inputs that a client recorded: 30 of 30 steps" in done.output
