"""Plans whose clients compute on devices of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

from catchment import EchoState, Recording
from catchment.engine import run_locally
from catchment.errors import UploadError
from catchment.features import FeatureMap
from catchment.federation import Plan, RoundContext, describe, read_run
from catchment.federation.learn import FederatedRidge, automatic_ridge, unlearn
from catchment.plans import parse_plan, run_plan, verify_run
from catchment.readout import VARIABLE, Model
from catchment.wire import NOTHING
from tests.features.echo_state.devices import one_thread  # noqa: F401  # a fixture


def clients(n: int = 9) -> dict[str, list[Recording]]:
    rng = np.random.default_rng(1)
    found = {}
    for k in range(n):
        u = rng.normal(size=(40 + k, 2))
        found[f"c{k}"] = [Recording(u, np.cumsum(u, axis=0))]
    return found


def map_of(grid: int | None) -> FeatureMap:
    return EchoState(15, bits=grid, washout=3).build(2, per_step=True)


def plan(features: FeatureMap, **settings: object) -> Plan:  # type: ignore[type-arg]
    return Plan(algorithm=FederatedRidge(features=features, ridge=1e-3, **settings))  # type: ignore[arg-type]


def test_in_fixed_point_the_device_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(map_of(20))
    here = run_locally(made, clients())
    monkeypatch.setenv(VARIABLE, "cpu")
    there = run_locally(made, clients())
    assert here.state.total.digest() == there.state.total.digest()
    assert {k: s.digest() for k, s in here.state.by_client.items()} == {
        k: s.digest() for k, s in there.state.by_client.items()
    }


@pytest.mark.parametrize("increments", [1, 2])
def test_any_device_gives_one_model(increments: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ridge = FederatedRidge(
        features=map_of(None), ridge=1e-3, deterministic=False, increments=increments
    )
    made = Plan(algorithm=ridge, rounds=increments)
    here = run_locally(made, clients())
    monkeypatch.setenv(VARIABLE, "cpu")
    there = run_locally(made, clients())
    for found in (here, there):
        assert found.state.total is not None
        assert found.state.total.fingerprint == ridge.statistics_name
        assert isinstance(found.model, Model)
    np.testing.assert_allclose(
        here.model.readout.weights, there.model.readout.weights, rtol=1e-7, atol=1e-9
    )


def test_the_plan_says_so_and_older_plans_keep_their_fingerprint() -> None:
    features = map_of(None)
    same, marked = plan(features), plan(features, deterministic=False)
    assert "deterministic" not in str(describe(same))
    assert "'deterministic': False" in str(describe(marked))
    assert same.fingerprint() == plan(features, deterministic=True).fingerprint()
    assert same.fingerprint() != marked.fingerprint()


def test_statistics_of_two_kinds_do_not_meet() -> None:
    features, data = map_of(None), clients(2)
    context = RoundContext(0, ("c0",), client="c0")
    marked = FederatedRidge(features=features, ridge=1e-3, deterministic=False)
    plain = FederatedRidge(features=features, ridge=1e-3)
    sent = {one: one.client_update(NOTHING, lambda: data["c0"], context) for one in (marked, plain)}
    assert marked.read_update(sent[marked].parts(), context).total == sent[marked]
    for receiver, sender in ((marked, plain), (plain, marked)):
        with pytest.raises(UploadError, match="deterministic=False on both sides"):
            receiver.read_update(sent[sender].parts(), context)


def test_a_client_leaves_and_another_joins() -> None:
    features, data = map_of(None), clients()
    ridge = FederatedRidge(features=features, ridge=1e-3, deterministic=False)
    state = run_locally(Plan(algorithm=ridge), data).state
    rest = unlearn(ridge, state, "c3").state
    assert rest.total is not None
    assert state.total is not None
    assert rest.total.n_rows < state.total.n_rows
    late = {"c9": clients(10)["c9"]}
    assert "c9" in run_locally(Plan(algorithm=ridge), late, onto=state).state.by_client


def test_settings_that_cannot_be() -> None:
    features = map_of(None)
    with pytest.raises(ValueError, match="clients that carry their state use one device"):
        FederatedRidge(features=features, deterministic=False, increments="new")
    with pytest.raises(ValueError, match="only with deterministic=True"):
        automatic_ridge(features, ridge="leave-one-client-out", hidden=True, deterministic=False)


def test_many_are_served_together_where_a_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "cuda")
    pooled = EchoState(15).build(2, per_step=False, classes=True)
    assert FederatedRidge(features=pooled).group_size(1000, 2) == 256
    assert FederatedRidge(features=pooled).group_size(20, 2) == 20
    large = EchoState(2000, connections=2).build(2, per_step=True)
    assert FederatedRidge(features=large).group_size(1000, 2) == 16
    assert FederatedRidge(features=map_of(None)).group_size(1000, 2) == 32
    assert FederatedRidge(features=map_of(None), deterministic=False).group_size(1000, 2) == 256
    rounds = FederatedRidge(features=pooled, increments=2)
    assert rounds.group_size(1000, 2) == 1


PLAN = """
[data]
source = "wearables"
users = 4
windows_per_user = 12
[features]
units = 10
bits = "none"
[learn]
algorithm = "ridge"
ridge = 1.0
deterministic = false
"""


def test_a_plan_file_allows_any_device_and_its_run_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "cpu")
    run_plan(parse_plan(PLAN), tmp_path / "run")
    kept = read_run(tmp_path / "run")
    assert '"deterministic": false' in json.dumps([stage.settings for stage in kept.stages])
    found = verify_run(tmp_path / "run")
    assert found.agrees, found.text()
