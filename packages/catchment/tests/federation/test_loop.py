"""The round loop against engines that lose, double, damage and forge replies.

Whatever one client does, the round is that of the others, byte for byte, and the record says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from catchment.data import Recording, contiguous, narma
from catchment.engine import LocalEngine, run_locally
from catchment.errors import TooFewClientsError
from catchment.features import EchoState, Reservoir
from catchment.federation import BLOCK, Engine, Limits, Plan, Record, Reply, Result, run
from catchment.federation.learn import FederatedRidge
from catchment.federation.runs import Entry, Keeper
from catchment.readout import RidgeStatistics, accumulate
from catchment.wire import Message

FEATURES = EchoState.of(Reservoir(units=10, inputs=1, seed=1), washout=5)
OTHER = EchoState.of(Reservoir(units=10, inputs=1, seed=2), washout=5)
RIDGE = FederatedRidge(features=FEATURES, ridge=1e-3)
PLAN: Plan[Any, Any, Any] = Plan(algorithm=RIDGE)
CLIENTS = contiguous(narma(300, seed=4), 5)
CULPRIT = "client-002"
HONEST = {name: data for name, data in CLIENTS.items() if name != CULPRIT}

Tamper = Callable[[Reply], Sequence[Reply]]


@dataclass(frozen=True)
class Hostile(Engine):
    """An engine that hands the culprit's reply to a function before passing it on."""

    tamper: Tamper
    inner: LocalEngine[Any, Any, Any] = field(default_factory=lambda: LocalEngine(PLAN, CLIENTS, 1))

    def clients(self) -> Sequence[str]:
        return self.inner.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.inner.ask(requests):
            yield from self.tamper(reply) if reply.client == CULPRIT else [reply]


def state_bytes(result: Result[Any, Any]) -> bytes:
    return RIDGE.save_state(result.state).to_bytes()


def statistics(features: EchoState = FEATURES, **changes: Any) -> RidgeStatistics:
    honest = accumulate(features, CLIENTS[CULPRIT])
    return replace(honest, **changes)


def sends(value: RidgeStatistics) -> Tamper:
    return lambda reply: [Reply(CULPRIT, value.parts().to_bytes())]


def damaged(reply: Reply) -> Sequence[Reply]:
    assert reply.message is not None
    body = bytearray(reply.message)
    body[-3] ^= 4
    return [Reply(CULPRIT, bytes(body))]


def forged_counts(reply: Reply) -> Sequence[Reply]:
    parts = statistics().parts()
    counts = np.array([-4.0, -4.0])
    return [Reply(CULPRIT, replace(parts, arrays=(counts, *parts.arrays[1:])).to_bytes())]


def two_targets() -> RidgeStatistics:
    z = FEATURES(CLIENTS[CULPRIT][0].u)
    return RidgeStatistics.from_states(
        z, np.column_stack([z[:, 0], z[:, 1]]), fingerprint=FEATURES.fingerprint
    )


def three_features() -> RidgeStatistics:
    z = FEATURES(CLIENTS[CULPRIT][0].u)[:, :3]
    return RidgeStatistics.from_states(z, z[:, :1], fingerprint=FEATURES.fingerprint)


gram = statistics().gram
CRIMES: dict[str, tuple[Tamper, str]] = {
    "no answer": (lambda reply: [Reply(CULPRIT, None, "it is asleep")], "no-answer"),
    "damaged": (damaged, "malformed"),
    "cut short": (lambda reply: [Reply(CULPRIT, (reply.message or b"")[:50])], "malformed"),
    "empty": (lambda reply: [Reply(CULPRIT, b"")], "malformed"),
    "another kind": (lambda reply: [Reply(CULPRIT, Message("score").to_bytes())], "malformed"),
    "not a number": (
        sends(statistics(gram=np.where(gram == gram.max(), np.nan, gram))),
        "not-finite",
    ),
    "infinite": (sends(statistics(cross=statistics().cross * np.inf)), "not-finite"),
    "wrong fingerprint": (sends(statistics(OTHER)), "fingerprint"),
    "no fingerprint": (sends(statistics(fingerprint="")), "fingerprint"),
    "impossible moments": (sends(statistics(gram=-gram)), "moments"),
    "too good": (sends(statistics(cross=statistics().cross * 9)), "moments"),
    "negative weight": (sends(statistics(weight=-3.0)), "count"),
    "negative count": (forged_counts, "count"),
    "too large states": (
        sends(statistics(gram=gram * 1e6)),
        "bound",
    ),
    "another reservoir's shape": (sends(three_features()), "shape"),
    "another width": (sends(two_targets()), "does-not-add"),
    "refusal": (
        lambda reply: [
            Reply(CULPRIT, Message("refusal", {"code": "x", "reason": "no"}).to_bytes())
        ],
        "x",
    ),
}


@pytest.mark.parametrize("crime", CRIMES)
def test_a_bad_reply_has_its_code_and_leaves_the_round_as_if_it_were_absent(crime: str) -> None:
    tamper, code = CRIMES[crime]
    result = run(PLAN, Hostile(tamper))
    (record,) = result.records
    (refusal,) = record.refused
    assert (refusal.client, refusal.code) == (CULPRIT, code)
    assert refusal.reason
    assert record.n_used == 4
    assert state_bytes(result) == state_bytes(run_locally(PLAN, HONEST))


def test_a_reply_that_comes_twice_counts_once() -> None:
    result = run(PLAN, Hostile(lambda reply: [reply, reply]))
    assert result.records[0].n_used == 5
    assert result.records[0].refused == ()
    assert state_bytes(result) == state_bytes(run_locally(PLAN, CLIENTS))


def test_a_second_different_reply_is_a_conflict_and_the_first_counts() -> None:
    second = Reply(CULPRIT, statistics().scaled(2.0).parts().to_bytes())
    result = run(PLAN, Hostile(lambda reply: [reply, second]))
    assert [r.code for r in result.records[0].refused] == ["conflict"]
    assert state_bytes(result) == state_bytes(run_locally(PLAN, CLIENTS))


def test_a_stranger_is_not_let_in() -> None:
    result = run(PLAN, Hostile(lambda reply: [reply, replace(reply, client="mallory")]))
    assert [(r.client, r.code) for r in result.records[0].refused] == [("mallory", "stranger")]
    assert state_bytes(result) == state_bytes(run_locally(PLAN, CLIENTS))


def test_a_reply_that_never_comes_is_no_part_of_the_round() -> None:
    result = run(PLAN, Hostile(lambda reply: []))
    assert result.records[0].n_used == 4
    assert state_bytes(result) == state_bytes(run_locally(PLAN, HONEST))


@pytest.mark.parametrize("asked_for", [5, 9])
def test_too_few_answers_end_the_run_and_say_why(asked_for: int) -> None:
    plan = replace(PLAN, min_clients=asked_for)
    with pytest.raises(TooFewClientsError, match=r"4 clients .* asks for \d.*it is asleep"):
        run(plan, replace(Hostile(CRIMES["no answer"][0]), inner=LocalEngine(plan, CLIENTS)))


def test_nobody_at_all_is_too_few() -> None:
    silent = [Recording(np.full(40, np.nan), np.zeros(40))]
    with pytest.raises(TooFewClientsError, match="0 clients"):
        run_locally(PLAN, {"a": silent, "b": silent})


@pytest.mark.parametrize("n_clients", [3, BLOCK + 3])
def test_what_does_not_add_is_its_senders_fault_wherever_it_stands(
    n_clients: int,
) -> None:
    tiny = [Recording(np.linspace(-1, 1, 8), np.linspace(0, 1, 8))]
    names = [f"{k:04d}" for k in range(n_clients)]
    plan: Plan[Any, Any, Any] = Plan(
        algorithm=replace(RIDGE, store_per_client=False), limits=Limits(over_median=100.0)
    )
    bad = names[-2]  # with more than one block, the one that opens the second

    @dataclass(frozen=True)
    class Forger(Engine):
        inner: LocalEngine[Any, Any, Any]

        def clients(self) -> Sequence[str]:
            return names

        def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
            for reply in self.inner.ask(requests):
                forged = Reply(bad, two_targets().parts().to_bytes())
                yield forged if reply.client == bad else reply

    result = run(plan, Forger(LocalEngine(plan, dict.fromkeys(names, tiny))))
    assert [(r.client, r.code) for r in result.records[0].refused] == [(bad, "does-not-add")]
    assert result.state.total.n_rows == 3 * (n_clients - 1)


def test_sums_of_many_clients_do_not_depend_on_threads_or_order() -> None:
    names = [f"{k:04d}" for k in range(BLOCK + 40)]
    rng = np.random.default_rng(0)
    clients = {name: [Recording(rng.normal(size=12), rng.normal(size=12))] for name in names}
    plan: Plan[Any, Any, Any] = Plan(algorithm=replace(RIDGE, store_per_client=False))
    backwards = dict(reversed(clients.items()))
    messages = {
        RIDGE.save_state(run_locally(plan, some, threads=threads).state).to_bytes()
        for some, threads in ((clients, 1), (clients, 4), (backwards, 2))
    }
    assert len(messages) == 1


@dataclass
class Notebook(Keeper[Any]):
    """A keeper that remembers what it was told."""

    entries: list[Entry] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)

    def close_round(self, state: Any, record: Record) -> None:
        self.records.append(record)


def test_every_message_is_in_the_ledger_with_its_true_size_and_hash() -> None:
    keeper = Notebook()
    plan = replace(PLAN, rounds=2)
    seen: dict[str, bytes] = {}

    def remember(reply: Reply) -> Sequence[Reply]:
        seen[reply.client] = reply.message or b""
        return [reply]

    result = run(plan, Hostile(remember, LocalEngine(plan, CLIENTS, 1)), keeper=keeper)
    down = [e for e in keeper.entries if e.direction == "down"]
    up = [e for e in keeper.entries if e.direction == "up"]
    assert len(down) == 2
    assert [e.client for e in up] == 2 * sorted(CLIENTS)
    assert sum(e.n_bytes for e in up) == sum(r.bytes_up for r in result.records)
    assert [5 * e.n_bytes for e in down] == [r.bytes_down for r in result.records]
    mine = next(e for e in up if e.client == CULPRIT and e.round == 1)
    assert mine.n_bytes == len(seen[CULPRIT])
    assert mine.purpose == "ridge-statistics"
    assert (66,) in mine.shapes  # the packed Gram matrix of 11 features
    assert len({e.sha256 for e in up}) == 5
    assert tuple(keeper.records) == result.records


def test_the_watcher_is_told_of_every_reply() -> None:
    calls: list[tuple[int, int, int]] = []
    run_locally(replace(PLAN, rounds=2), CLIENTS, watch=lambda *call: calls.append(call))
    assert calls == [(round_, done, 5) for round_ in (0, 1) for done in range(1, 6)]


@dataclass(frozen=True)
class Telling(Hostile):
    """An engine that writes down whom it is told of, round by round."""

    told: list[tuple[int, list[str]]] = field(default_factory=list)

    def counted(self, round_: int, clients: Sequence[str]) -> None:
        self.told.append((round_, list(clients)))


def test_who_was_counted_is_told_in_every_round_anew() -> None:
    """A client whose upload was refused keeps its rows; one that is told so gives them away."""
    plan, asked = replace(PLAN, rounds=2), []

    def tamper(reply: Reply) -> Sequence[Reply]:
        asked.append(reply)
        return damaged(reply) if len(asked) == 2 else [reply]

    engine = Telling(tamper, LocalEngine(plan, CLIENTS, 1))
    run(plan, engine)
    assert engine.told == [(0, sorted(CLIENTS)), (1, sorted(HONEST))]
