"""The ridge by groups of clients left out: an oracle that leaves rows out, and what is kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import catchment as ct
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.federation import Plan, Rows
from catchment.federation.learn import (
    MANY,
    N_GROUPS,
    FederatedRidge,
    RidgeState,
    group_of,
    unlearn,
    unlearn_rows,
)
from catchment.federation.runs import unlearn_from_run
from catchment.plans import parse_plan, run_plan, verify_run
from catchment.privacy import SecureAggregation, generate_keys
from catchment.readout import accumulate

FEATURES = ct.EchoState(12, washout=5, seed=3).build(1, per_step=True)


def waves(k: int) -> list[ct.Recording]:
    u = np.sin(np.arange(41) * (0.2 + k % 7 / 20) + k) + 0.1 * np.cos(np.arange(41) * k)
    return [ct.Recording(u[:-1], u[1:])]


CLIENTS = {f"sensor-{k}": waves(k) for k in range(90)}


def run(clients: Any = CLIENTS, threads: int = 1, **settings: Any) -> RidgeState:
    chosen = {"ridge": "leave-one-group-out", "store_per_client": "groups"} | settings
    algorithm = FederatedRidge(features=FEATURES, **chosen)
    return run_locally(Plan(algorithm=algorithm), clients, threads=threads).state


def test_errors_are_those_of_ridges_fitted_without_the_rows_of_each_group() -> None:
    choice = run().choice
    assert choice is not None
    assert choice.block_errors is not None
    rows = {name: Rows.of(FEATURES, data).pair for name, data in CLIENTS.items()}
    groups = sorted({group_of(name) for name in rows})
    assert len(groups) == len(choice.block_errors) > 20
    for k in range(4, len(choice.ridges), 5):
        ours, theirs = choice.block_errors[:, k, 0], []
        for group in groups:
            inside = [pair for name, pair in rows.items() if group_of(name) == group]
            others = [pair for name, pair in rows.items() if group_of(name) != group]
            z, y = (np.concatenate(part) for part in zip(*others, strict=True))
            oracle = Ridge(alpha=choice.ridges[k], solver="svd").fit(z, y)
            z, y = (np.concatenate(part) for part in zip(*inside, strict=True))
            theirs.append(float(((oracle.predict(z).reshape(y.shape) - y) ** 2).sum()))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**31), threads=st.integers(1, 3), lazy=st.booleans())
def test_order_threads_and_what_else_is_kept_do_not_show(
    seed: int, threads: int, lazy: bool
) -> None:
    names = np.random.default_rng(seed).permutation(sorted(CLIENTS))
    clients: dict[str, Any] = {str(name): CLIENTS[str(name)] for name in names}
    if lazy:
        clients = {name: partial(list, data) for name, data in clients.items()}
    kept: Any = True if seed % 2 else "groups"
    found, known = run(clients, threads, store_per_client=kept), run()
    assert found.total is not None
    assert known.total is not None
    assert found.total.digest() == known.total.digest()
    assert found.choice is not None
    assert known.choice is not None
    np.testing.assert_array_equal(found.choice.errors, known.choice.errors)
    np.testing.assert_array_equal(found.readout.weights, known.readout.weights)  # type: ignore[union-attr]


def test_what_is_kept_does_not_grow_with_the_clients() -> None:
    state = run({f"{name}-{k}": data for k in range(3) for name, data in CLIENTS.items()})
    assert state.by_client == {}
    assert len(state.by_group) == N_GROUPS
    assert sum(one.n_rows for one in state.by_group.values()) == state.total.n_rows  # type: ignore[union-attr]


def test_rounds_add_up_group_by_group() -> None:
    algorithm = FederatedRidge(
        features=FEATURES, ridge="leave-one-group-out", store_per_client="groups", increments=2
    )
    state = run_locally(Plan(algorithm=algorithm, rounds=2), CLIENTS, threads=1).state
    assert {k: one.n_rows for k, one in state.by_group.items()} == {
        k: one.n_rows for k, one in run().by_group.items()
    }


def test_above_a_thousand_clients_auto_takes_groups_and_below_clients() -> None:
    small = {f"c{k}": waves(k) for k in range(MANY + 1)}
    tiny = ct.EchoState(4, washout=5)
    many = ct.federate(tiny, small, threads=1).training.state
    assert len(many.by_group) == N_GROUPS
    assert many.by_client == {}
    assert many.choice is not None
    assert len(many.choice.block_errors) == N_GROUPS
    few = ct.federate(tiny, dict(list(small.items())[:40]), threads=1).training.state
    assert few.by_group == {}
    assert len(few.choice.block_errors) == 40
    kept = run(dict(list(small.items())[:40]), ridge="auto", store_per_client=True)
    assert kept.choice is not None
    assert kept.choice.block_errors is not None
    assert len(kept.choice.block_errors) == 40


def test_a_class_that_one_group_has_alone_is_judged_by_gcv() -> None:
    features = ct.EchoState(5).build(1, per_step=False, classes=True)

    def person(k: int) -> list[ct.Recording]:
        u = np.sin(np.arange(30) / (2 + k))
        return [ct.Recording(u, np.eye(2)[y], classes=("a", "b")) for y in {0, int(k == 3)}]

    people = {f"p{k}": person(k) for k in range(20)}
    settings: Any = {"features": features, "classes": ("a", "b"), "store_per_client": "groups"}
    auto = FederatedRidge(ridge="auto", **settings)
    state = run_locally(Plan(algorithm=auto), people, threads=1).state
    assert state.choice is not None
    assert state.choice.block_errors is None


def test_secure_aggregation_refuses_groups_and_says_what_to_do() -> None:
    secure = SecureAggregation(generate_keys(list(CLIENTS)[:3]))
    algorithm = FederatedRidge(
        features=FEATURES, ridge="leave-one-group-out", store_per_client="groups"
    )
    with pytest.raises(
        ValueError, match="it sums clients by groups of their names; pass store_per_cl"
    ):
        Plan(algorithm=algorithm, protections=(secure,))
    with pytest.raises(
        ValueError, match="ridge='leave-one-client-out', which takes a second round"
    ):
        ct.federate(
            ct.EchoState(5),
            dict(list(CLIENTS.items())[:3]),
            protections=[secure],
            ridge="leave-one-group-out",
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"ridge": "leave-one-group-out", "store_per_client": False},
            "needs store_per_client='groups', or True",
        ),
        (
            {"ridge": "leave-one-client-out", "store_per_client": "groups"},
            "needs store_per_client=True; or pass 'gcv' or a number",
        ),
        (
            {"ridge": 1.0, "store_per_client": "some"},
            "store_per_client is 'some'; give true or false, or",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FederatedRidge(features=FEATURES, **settings)


def test_one_group_cannot_be_left_out() -> None:
    with pytest.raises(
        FederationError, match="ridge='leave-one-group-out' needs 2 or more, 1 gave"
    ):
        run({"ann": waves(1)})


def test_no_client_is_forgotten_by_name_but_by_what_it_sends_again() -> None:
    algorithm = FederatedRidge(
        features=FEATURES, ridge="leave-one-group-out", store_per_client="groups"
    )
    state = run()
    with pytest.raises(FederationError, match="only the sums of groups of clients; ask sensor-3"):
        unlearn(algorithm, state, "sensor-3")
    again = accumulate(FEATURES, CLIENTS["sensor-3"])
    without = unlearn_rows(algorithm, state, "sensor-3", again).state
    never = run({name: data for name, data in CLIENTS.items() if name != "sensor-3"})
    assert without.total == never.total
    np.testing.assert_array_equal(without.choice.errors, never.choice.errors)  # type: ignore[union-attr]
    late = {"sensor-3": CLIENTS["sensor-3"]}
    back = run_locally(Plan(algorithm=algorithm), late, onto=without).state
    assert back.total == state.total
    assert back.by_group == state.by_group
    assert state.flags == ()


def test_clients_that_come_later_join_the_groups_of_an_earlier_run() -> None:
    first = {name: data for name, data in CLIENTS.items() if name < "sensor-4"}
    later = {name: data for name, data in CLIENTS.items() if name not in first}
    raw = ct.Pipeline(ct.Preprocessing(scale="none"), ct.EchoState(6, washout=5))
    earlier = ct.federate(raw, first, ridge="leave-one-group-out", threads=1)
    grown = ct.federate(raw, later, onto=earlier, threads=1).training.state
    whole = ct.federate(raw, CLIENTS, ridge="leave-one-group-out", threads=1).training.state
    assert grown.by_group == whole.by_group
    assert grown.choice is not None
    assert grown.choice.best == whole.choice.best


def test_a_kept_run_is_verified_by_its_groups(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ct.federate(
        ct.EchoState(6, washout=5), CLIENTS, ridge="leave-one-group-out", out=folder, threads=1
    )
    checks = {one.what: one for one in verify_run(folder).checks}
    n_groups = len({group_of(name) for name in CLIENTS})
    assert checks[f"{n_groups} groups of clients added up"].outcome == "ok"
    assert "only sums of groups" in checks["statistics of each client"].note


def test_a_plan_file_chooses_by_groups(tmp_path: Path) -> None:
    plan = """
[data]
source = "wearables"
users = 9
windows_per_user = 12
test = 0.3

[features]
units = 10

[learn]
ridge = "leave-one-group-out"
"""
    folder = tmp_path / "run"
    done = run_plan(parse_plan(plan), folder)
    stages = {stage.name: stage.settings["Plan"]["algorithm"] for stage in done.run.stages}
    told = stages["training"]["FederatedRidge"]
    assert (told["ridge"], told["store_per_client"]) == ("leave-one-group-out", "groups")
    with pytest.raises(FederationError, match="kept only the sums of groups of clients"):
        unlearn_from_run(folder, "user-00", done.model)
