"""Clients of one process: lazy, side by side, and with no effect on the result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import federate
from catchment.data import Recording
from catchment.engine import LocalEngine, data_of, run_locally
from catchment.features import EchoState, Pipeline, Reservoir
from catchment.federation import Plan, Request, RoundContext, messages_of, read_run
from catchment.federation.learn import FederatedRidge, ReadoutAveraging
from catchment.plans import parse_plan, run_plan
from catchment.privacy import SecureAggregation, generate_keys
from catchment.wire import NOTHING, Message

FEATURES = EchoState.of(Reservoir(units=6, inputs=1, seed=1), washout=2)
RIDGE = FederatedRidge(features=FEATURES, ridge=0.1, store_per_client=False)
KEYS = generate_keys([f"{k:03d}" for k in range(10)])
PLAN: Plan[Any, Any, Any] = Plan(algorithm=RIDGE)


def series(k: int, n: int = 40) -> list[Recording]:
    rng = np.random.default_rng(k)
    return [Recording(rng.normal(size=n), rng.normal(size=n))]


def many(n: int) -> dict[str, list[Recording]]:
    return {f"{k:03d}": series(k) for k in range(n)}


def state_bytes(clients: Any, plan: Plan[Any, Any, Any] = PLAN, **options: Any) -> bytes:
    return RIDGE.save_state(run_locally(plan, clients, **options).state).to_bytes()


def test_lazy_clients_give_the_same_bytes_as_lists() -> None:
    def lazy(k: int) -> Callable[[], Iterator[Recording]]:
        return lambda: iter(series(k))

    assert state_bytes({f"{k:03d}": lazy(k) for k in range(9)}) == state_bytes(many(9))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_does_not_show(threads: int) -> None:
    assert state_bytes(many(40), threads=threads) == state_bytes(many(40), threads=3)


def test_only_the_clients_being_served_are_in_memory() -> None:
    lock, alive, most = threading.Lock(), 0, 0

    class Tracked(list[Recording]):
        def __init__(self, k: int) -> None:
            nonlocal alive, most
            super().__init__(series(k))
            with lock:
                alive += 1
                most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            with lock:
                alive -= 1

    plan: Plan[Any, Any, Any] = Plan(algorithm=ReadoutAveraging(features=FEATURES, ridge=0.1))
    clients = {f"{k:03d}": (lambda k=k: Tracked(k)) for k in range(60)}
    run_locally(plan, clients, threads=2)
    assert most <= 8


def test_a_client_that_cannot_be_made_is_left_out() -> None:
    def missing() -> list[Recording]:
        raise FileNotFoundError("client-x.parquet is gone")

    result = run_locally(PLAN, {**many(5), "zzz": missing})
    (refusal,) = result.records[0].refused
    assert (refusal.client, refusal.reason) == ("zzz", "client-x.parquet is gone")
    assert RIDGE.save_state(result.state).to_bytes() == state_bytes(many(5))


def test_replies_come_in_the_order_of_the_letters() -> None:
    engine = LocalEngine(PLAN, many(20), threads=4)
    message = Request(PLAN.fingerprint(), RoundContext(0, ()), "update", NOTHING).to_bytes()
    names = sorted(many(20), reverse=True)
    replies = list(engine.ask(dict.fromkeys(names, message)))
    assert [reply.client for reply in replies] == names
    kinds = {Message.from_bytes(reply.message or b"").kind for reply in replies}
    assert kinds == {"ridge-statistics"}
    assert engine.clients() == sorted(many(20))


def test_no_clients_are_named_as_the_mistake() -> None:
    with pytest.raises(ValueError, match="there are no clients"):
        run_locally(PLAN, {})


def test_threads_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="threads is 0"):
        run_locally(PLAN, many(2), threads=0)


@pytest.mark.parametrize("columns", ["auto", "echo_state"])
def test_what_clients_are_sent_has_the_bytes_of_the_run_of_a_plan(
    columns: str, tmp_path: Path
) -> None:
    text = f"""[data]
    source = "wearables"
    users = 4
    test = 0.25
    [features]
    map = "{columns}"
    [run]
    baselines = []
    """
    file = parse_plan(text)
    planned = run_plan(file, tmp_path / "plan", threads=1).run.rounds
    held = file.load_data()
    made = Pipeline(file.workflow(held.about).preprocessing, columns)
    plain, run = (
        federate(made, held.train, deliver=deliver, out=tmp_path / str(deliver), threads=1)
        for deliver in (False, True)
    )
    for stage in ("scaling", "training"):
        for mine, theirs in zip(run.stages[stage], planned[stage], strict=True):
            assert (mine.bytes_down, mine.bytes_up) == (theirs.bytes_down, theirs.bytes_up)
    (mine,), (theirs,) = run.stages["delivery"], planned["delivery"]
    assert (
        mine.bytes_up / 3 == theirs.bytes_up / 4
    )  # in a plan the client that is tested has it, too
    # A plan says which run a model is of, and the model of which columns.
    assert 0 < theirs.bytes_down / 4 - mine.bytes_down / 3 < 400
    content = (tmp_path / "True" / "model.safetensors").read_bytes()
    assert mine.bytes_down > 3 * len(content)
    assert content == (tmp_path / "False" / "model.safetensors").read_bytes()
    assert "delivery" not in plain.stages
    assert read_run(tmp_path / "True").rounds["delivery"] == (mine,)
    given = {one.client for one in messages_of(tmp_path / "True") if one.stage == "delivery"}
    assert given == set(held.train)


def test_many_clients_and_those_who_hide_are_sent_the_model() -> None:
    for n, how in ((300, {"workers": 2}), (10, {"protections": (SecureAggregation(KEYS),)})):
        (sent,) = federate(FEATURES, many(n), deliver=True, **how).stages["delivery"]
        assert (sent.n_used, sent.refused) == (n, ())


def test_two_plans_one_after_the_other_are_two_runs() -> None:
    first = run_locally(PLAN, many(3))
    second = run_locally(replace(PLAN, seed=1), many(3))
    assert first.state.total == second.state.total


def test_data_is_a_function_either_way() -> None:
    data = series(1)
    assert list(data_of(data)()) == data == list(data_of(data)())
    assert data_of(lambda: data)() is data
