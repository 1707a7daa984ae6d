"""What every algorithm promises, whatever it computes: one suite, run on every case."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from catchment.engine import run_locally
from catchment.errors import CatchmentError
from catchment.federation import Node, Record, Request, Result, RoundContext, describe
from catchment.federation.runs import Entry, Keeper
from catchment.testing import check_algorithm
from catchment.wire import TODAY, Message
from tests.contracts.cases import Case, cases

each_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)


def state_bytes(case: Case, state: Any) -> bytes:
    return case.plan.algorithm.save_state(state).to_bytes()


@dataclass
class Memory(Keeper[Any]):
    """A keeper that writes down nothing but the state, and may stop the run after a round."""

    algorithm: Any
    stop_after: int | None = None
    kept: tuple[bytes, tuple[Record, ...]] | None = None
    entries: list[Entry] = field(default_factory=list)

    def resume(self) -> tuple[Any, tuple[Record, ...]] | None:
        if self.kept is None:
            return None
        return self.algorithm.load_state(Message.from_bytes(self.kept[0])), self.kept[1]

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)

    def close_round(self, state: Any, record: Record) -> None:
        done = (*(self.kept[1] if self.kept else ()), record)
        self.kept = self.algorithm.save_state(state).to_bytes(), done
        if len(done) == self.stop_after:
            raise KeyboardInterrupt


@each_case
def test_an_algorithm_keeps_its_promises(case: Case) -> None:
    check_algorithm(case.plan, case.clients)


@each_case
def test_every_algorithm_declares_what_it_needs_and_has_figures_of_every_round(case: Case) -> None:
    assert case.plan.rounds >= case.plan.requirements.rounds
    records = run_locally(case.plan, case.clients, threads=1).records
    for record in (*records[case.plan.requirements.rounds - 1 :], records[-1]):
        assert record.figures
        assert all(np.isfinite(value) for value in record.figures.values())


@each_case
def test_a_client_with_broken_data_is_told_why(case: Case) -> None:
    spoilt = [replace(s, u=np.full_like(s.u, np.nan)) for s in case.clients[min(case.clients)]]
    for record in run_locally(case.plan, {**case.clients, "zz": spoilt}, threads=1).records:
        assert record.n_used == len(case.clients)
        assert [(one.code, bool(one.reason)) for one in record.refused] == [("refused", True)]


@each_case
def test_a_stopped_run_goes_on_to_the_same_end(case: Case) -> None:
    keeper = Memory(case.plan.algorithm, stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        run_locally(case.plan, case.clients, keeper=keeper)
    keeper.stop_after = None
    resumed: Result[Any, Any] = run_locally(case.plan, case.clients, keeper=keeper)
    straight: Result[Any, Any] = run_locally(case.plan, case.clients)
    assert len(resumed.records) == len(straight.records) <= case.plan.rounds
    assert state_bytes(case, resumed.state) == state_bytes(case, straight.state)


@each_case
def test_a_value_of_another_kind_is_refused(case: Case) -> None:
    context = RoundContext(0, ("a",), client="a")
    for parts in (
        Message("nothing"),
        Message("ridge-statistics", {}, (np.zeros(2),)),
        Message("score"),
    ):
        with pytest.raises((CatchmentError, ValueError)):
            case.plan.algorithm.read_update(parts, context)


@each_case
def test_a_plan_says_what_it_is(case: Case) -> None:
    described = json.loads(json.dumps(describe(case.plan)))
    (name,) = described["Plan"]["algorithm"]
    assert TODAY.get(name, name) == type(case.plan.algorithm).__name__
    assert case.plan.fingerprint() == case.plan.fingerprint()
    assert replace(case.plan, seed=8).fingerprint() != case.plan.fingerprint()


def test_every_case_has_a_name_and_a_plan_of_its_own() -> None:
    every = cases()
    assert len({case.name for case in every}) == len(every)
    assert len({case.plan.fingerprint() for case in every}) == len(every)
    assert all(len(case.clients) >= 3 for case in every)


def first_upload(case: Case) -> tuple[Message, RoundContext]:
    algorithm = case.plan.algorithm
    name = sorted(case.clients)[0]
    context = RoundContext(0, tuple(sorted(case.clients)), case.plan.seed, name)
    told = algorithm.broadcast(algorithm.start(), context)
    return algorithm.client_update(told, lambda: case.clients[name], context).parts(), context


@each_case
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(case: Case, value: float) -> None:
    parts, context = first_upload(case)
    for k, array in enumerate(parts.arrays):
        if array.dtype.kind != "f" or array.size == 0:
            continue
        spoilt = array.copy()
        spoilt.reshape(-1)[-1] = value
        arrays = (*parts.arrays[:k], spoilt, *parts.arrays[k + 1 :])
        with pytest.raises((CatchmentError, ValueError)):
            case.plan.algorithm.read_update(replace(parts, arrays=arrays), context)


def distorted(parts: Message) -> list[Message]:
    """Return uploads that are well-formed messages and wrong in one place each."""
    changes: list[Callable[[Any], Any]] = [
        lambda a: a.reshape(-1),
        lambda a: a[None],
        lambda a: a[..., :0],
        lambda a: np.zeros(()),
        lambda a: np.concatenate([a, a]) if a.ndim else a[None],
        lambda a: a.astype(np.int64),
        lambda a: a.astype(np.uint8),
    ]
    wrong = [
        replace(parts, arrays=parts.arrays[:-1]),
        replace(parts, arrays=()),
        Message(parts.kind),
    ]
    for k, array in enumerate(parts.arrays):
        for change in changes:
            arrays = (*parts.arrays[:k], change(array), *parts.arrays[k + 1 :])
            wrong.append(replace(parts, arrays=arrays))
    entries = parts.facts.get("parts")
    if isinstance(entries, list):
        wrong.append(Message(parts.kind, {"parts": []}))
        for k, entry in enumerate(entries):
            wrong.append(_relabelled(parts, entries, k, {**entry, "name": "99999999999"}))
            wrong.append(_relabelled(parts, entries, k, {**entry, "name": "x"}))
            wrong.append(_relabelled(parts, entries, k, {**entry, "facts": {}}))
            wrong.append(_relabelled(parts, entries, k, {**entry, "kind": "x"}))
            wrong.append(_relabelled(parts, entries, k, {**entry, "arrays": -1}))
    return wrong


def _relabelled(parts: Message, entries: list[Any], k: int, entry: dict[str, Any]) -> Message:
    return replace(parts, facts={**parts.facts, "parts": [*entries[:k], entry, *entries[k + 1 :]]})


@each_case
def test_a_distorted_upload_never_stops_the_server(case: Case) -> None:
    parts, context = first_upload(case)
    honest = case.plan.algorithm.read_update(parts, context)
    for wrong in distorted(parts):
        arrived = Message.from_bytes(wrong.to_bytes())
        try:
            total = honest + case.plan.algorithm.read_update(
                arrived, replace(context, client="other")
            )
        except (CatchmentError, ValueError):
            continue
        after = case.plan.algorithm.server_update(case.plan.algorithm.start(), total, context)
        assert Message.from_bytes(case.plan.algorithm.save_state(after).to_bytes()).arrays


@each_case
def test_a_distorted_letter_never_stops_a_client(case: Case) -> None:
    algorithm, name = case.plan.algorithm, sorted(case.clients)[0]
    node = Node(name, case.plan, lambda: case.clients[name])
    states = [algorithm.start(), run_locally(replace(case.plan, rounds=1), case.clients).state]
    for round_, state in enumerate(states):
        context = RoundContext(round_, (), case.plan.seed)
        told = algorithm.broadcast(state, context)
        for payload in distorted(told):
            message = Request(case.plan.fingerprint(), context, "update", payload).to_bytes()
            assert Message.from_bytes(node.answer(message)).kind != "request"
