"""A8: the same upload again has no effect, another is a conflict, an old one is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from catchment.errors import IntegrityError, UploadError
from catchment.federation import Engine, Reply, RoundContext
from catchment.privacy import Journal
from catchment.wire import NOTHING, Message
from tests.security.fleet import STAGES, Fleet, Numbers, RefusedError, released


@dataclass(eq=False)
class Echoing(Engine):
    """An engine that delivers every answer several times."""

    engine: Engine
    times: int

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.engine.ask(requests):
            yield from [reply] * self.times


def at(client: str) -> RoundContext:
    return RoundContext(0, (), client=client)


@pytest.mark.parametrize("journalled", [False, True])
def test_every_answer_twice_gives_the_same_sum(journalled: bool, tmp_path: Path) -> None:
    fleet = Fleet.drawn(5)
    if journalled:
        with Journal(tmp_path / "sums") as journal:
            result = fleet.run(Echoing(fleet.engine(), 2), journal=journal)
    else:
        result = fleet.run(Echoing(fleet.engine(), 2))
    np.testing.assert_array_equal(released(result), fleet.expected(fleet.vectors))
    assert result.records[0].refused == ()


@pytest.mark.parametrize("journalled", [False, True])
def test_fifty_at_once_count_once(journalled: bool, tmp_path: Path) -> None:
    fleet = Fleet.drawn(4)
    with Journal(tmp_path / "sums") as journal:
        exchange = fleet.open(journal=journal if journalled else None)
        for stage in STAGES[:3]:
            fleet.step(exchange, stage)
        uploads = {
            c: fleet.ask(c, "update", exchange.request("update", c, NOTHING)) for c in fleet.vectors
        }
        start = threading.Barrier(50)

        def send(_: int) -> bool:
            start.wait()
            return exchange.take("update", uploads["c001"], at("c001"))

        with ThreadPoolExecutor(50) as pool:
            new = list(pool.map(send, range(50)))
        assert sum(new) == 1
        for client in ("c000", "c002", "c003"):
            assert exchange.take("update", uploads[client], at(client))
        exchange.close("update")
        for stage in STAGES[4:]:
            fleet.step(exchange, stage)
        total, n_used = exchange.result(lambda parts, context: Numbers(parts.arrays[0]))
    assert n_used == 4
    assert isinstance(total, Numbers)
    np.testing.assert_array_equal(total.values, fleet.expected(fleet.vectors))


@pytest.mark.parametrize("stage", STAGES)
def test_a_letter_delivered_twenty_times_at_once_has_one_answer(stage: str) -> None:
    fleet = Fleet.drawn(4)
    exchange = fleet.until(stage)
    request = exchange.request(stage, "c001", NOTHING)
    start = threading.Barrier(20)

    def deliver(_: int) -> bytes:
        start.wait()
        try:
            return fleet.ask("c001", stage, request).to_bytes()
        except RefusedError as refusal:
            return refusal.code.encode()

    with ThreadPoolExecutor(20) as pool:
        answers = set(pool.map(deliver, range(20))) - {b"busy"}
    assert len(answers) == 1
    # What was answered is what the client acts on: the round ends in the exact sum.
    exchange.take(stage, Message.from_bytes(answers.pop()), at("c001"))
    fleet.step(exchange, stage, [c for c in fleet.vectors if c != "c001"])
    for later in STAGES[STAGES.index(stage) + 1 :]:
        fleet.step(exchange, later)
    total, _ = exchange.result(lambda parts, context: Numbers(parts.arrays[0]))
    assert isinstance(total, Numbers)
    np.testing.assert_array_equal(total.values, fleet.expected(fleet.vectors))


def test_fifty_journal_writers_keep_one(tmp_path: Path) -> None:
    with Journal(tmp_path / "sums") as journal:
        number, _ = journal.begin("plan", 0, ["ann"])
        start = threading.Barrier(50)

        def send(_: int) -> bool:
            start.wait()
            return journal.keep(number, "ann", b"masked" * 100)

        with ThreadPoolExecutor(50) as pool:
            assert sum(pool.map(send, range(50))) == 1
        assert [client for client, _ in journal.replies(number, "update")] == ["ann"]


@pytest.mark.parametrize("journalled", [False, True])
def test_other_bytes_for_the_same_client_and_round_are_a_conflict(
    journalled: bool, tmp_path: Path
) -> None:
    fleet = Fleet.drawn(4)
    with Journal(tmp_path / "sums") as journal:
        exchange = fleet.open(journal=journal if journalled else None)
        for stage in STAGES[:3]:
            fleet.step(exchange, stage)
        request = exchange.request("update", "c000", NOTHING)
        first = fleet.ask("c000", "update", request)
        assert exchange.take("update", first, at("c000"))
        # A client restored from an old copy of its memory signs other numbers for the same round.
        memory = fleet.memories["c000"]
        for key in [k for k in memory if "/update/" in k or k.startswith("releases/")]:
            del memory[key]
        fleet.vectors = {**fleet.vectors, "c000": fleet.vectors["c000"] * 2}
        second = fleet.ask("c000", "update", request)
        with pytest.raises(UploadError, match="two different uploads") as caught:
            exchange.take("update", second, at("c000"))
        assert caught.value.code == "conflict"
        assert not exchange.take("update", first, at("c000"))


def test_the_journal_itself_tells_conflicts(tmp_path: Path) -> None:
    with Journal(tmp_path / "sums") as journal:
        number, _ = journal.begin("plan", 0, ["ann"])
        journal.keep(number, "ann", b"one")
        with pytest.raises(UploadError, match="two different uploads"):
            journal.keep(number, "ann", b"two")
        assert list(journal.replies(number, "update")) == [("ann", b"one")]


def test_an_old_rounds_upload_is_refused_in_a_new_round() -> None:
    fleet = Fleet.drawn(4)
    old = fleet.until("update")
    upload = fleet.ask("c000", "update", old.request("update", "c000", NOTHING))
    new = fleet.until("update")
    with pytest.raises(UploadError, match="upload of another round") as caught:
        new.take("update", upload, at("c000"))
    assert caught.value.code == "round"
    # Nor does it help to write the new round's number on it: the signature covers that.
    number = new.request("keys", "c000", NOTHING).facts["round"]
    relabelled = Message(upload.kind, {**upload.facts, "round": number}, upload.arrays)
    with pytest.raises(UploadError, match="did not sign") as caught:
        new.take("update", relabelled, at("c000"))
    assert caught.value.code == "signature"


def test_one_clients_upload_does_not_count_for_another() -> None:
    fleet = Fleet.drawn(4)
    exchange = fleet.until("update")
    upload = fleet.ask("c000", "update", exchange.request("update", "c000", NOTHING))
    with pytest.raises(UploadError, match="c001 did not sign"):
        exchange.take("update", upload, at("c001"))


@pytest.mark.parametrize("stage", ["keys", "shares", "consistency", "unmask"])
def test_two_answers_to_any_stage_are_a_conflict(stage: str) -> None:
    fleet = Fleet.drawn(4)
    exchange = fleet.until(stage)
    request = exchange.request(stage, "c000", NOTHING)
    answer = fleet.ask("c000", stage, request)
    assert exchange.take(stage, answer, at("c000"))
    assert not exchange.take(stage, Message.from_bytes(answer.to_bytes()), at("c000"))
    arrays = [array.copy() for array in answer.arrays]
    arrays[-1][0, 0] ^= 1
    with pytest.raises((UploadError, IntegrityError), match=r"two answers|did not sign"):
        exchange.take(stage, Message(answer.kind, answer.facts, tuple(arrays)), at("c000"))
