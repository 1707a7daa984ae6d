"""A13: what comes after the seal is refused unread; who does not answer in time is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from catchment.errors import TooFewClientsError, UploadError
from catchment.federation import Engine, Reply, RoundContext
from catchment.privacy import Journal
from catchment.wire import Message
from tests.security.fleet import STAGES, Fleet, released, stage_of


class Unread(Message):
    """A message that may be looked at no further than its kind."""

    def __init__(self, kind: str) -> None:
        object.__setattr__(self, "kind", kind)

    @property
    def arrays(self) -> NoReturn:
        pytest.fail("a late upload was opened")

    @property
    def facts(self) -> NoReturn:
        pytest.fail("a late upload was opened")


def late(exchange_stage: str) -> RoundContext:
    return RoundContext(0, (), client=exchange_stage)


@pytest.mark.parametrize("journalled", [False, True])
def test_a_late_upload_is_refused_and_never_opened(journalled: bool, tmp_path: Path) -> None:
    fleet = Fleet.drawn(5)
    with Journal(tmp_path / "sums") as journal:
        exchange = fleet.open(journal=journal if journalled else None)
        for stage in STAGES[:3]:
            fleet.step(exchange, stage)
        fleet.step(exchange, "update", [c for c in fleet.vectors if c != "c004"])
        for stage in ("update", "consistency", "unmask"):
            with pytest.raises(UploadError, match="a stage that is over") as caught:
                exchange.take(stage, Unread("secure-upload"), late("c004"))
            assert caught.value.code == "late"
        assert exchange.asked("update") == ()
        assert "c004" not in exchange.asked("consistency")


def test_the_journal_refuses_uploads_after_the_seal(tmp_path: Path) -> None:
    with Journal(tmp_path / "sums") as journal:
        number, _ = journal.begin("plan", 0, ["ann", "ben"])
        journal.keep(number, "ann", b"masked")
        journal.close(number, "update", ["ann"], {}, state="SEALED")
        with pytest.raises(UploadError, match="after the sum was sealed"):
            journal.keep(number, "ben", b"late")
        with pytest.raises(UploadError, match="after the sum was sealed"):
            journal.keep(number, "ann", b"masked")
        assert [c for c, _ in journal.replies(number, "update")] == ["ann"]
        assert len(list((tmp_path / "sums" / "payloads").iterdir())) == 1


@dataclass(eq=False)
class Delaying(Engine):
    """An engine that delivers one client's upload with the answers to a later stage."""

    engine: Engine
    until: str
    held: list[Reply] = field(default_factory=list)

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.engine.ask(requests):
            if stage_of(requests[reply.client]) == "update" and reply.client == "c001":
                self.held.append(reply)
            else:
                yield reply
        if requests and stage_of(next(iter(requests.values()))) == self.until:
            yield from self.held


@pytest.mark.parametrize("until", ["consistency", "unmask"])
def test_a_round_goes_on_without_the_one_that_is_late(until: str) -> None:
    fleet = Fleet.drawn(5)
    result = fleet.run(Delaying(fleet.engine(), until))
    others = [c for c in fleet.vectors if c != "c001"]
    np.testing.assert_array_equal(released(result), fleet.expected(others))
    assert [(r.client, r.code) for r in result.records[0].refused] == [("c001", "stranger")]


@dataclass(frozen=True, eq=False)
class Silent(Engine):
    """An engine that waited for some clients in vain, as those over a network say it."""

    engine: Engine
    silent: frozenset[str]
    stage: str

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, request in requests.items():
            if client in self.silent and stage_of(request) == self.stage:
                yield Reply(client, None, "no answer within 1 seconds")
            else:
                yield from self.engine.ask({client: request})


@pytest.mark.parametrize("stage", STAGES)
def test_a_round_ends_without_a_client_that_does_not_answer(stage: str) -> None:
    fleet = Fleet.drawn(5)
    engine = Silent(fleet.engine(), frozenset(["c003"]), stage)
    result = fleet.run(engine)
    sealed = [c for c in fleet.vectors if c != "c003" or STAGES.index(stage) > 3]
    np.testing.assert_array_equal(released(result), fleet.expected(sealed))
    assert "no answer within 1 seconds" in result.records[0].refused[0].reason


def test_too_many_clients_that_do_not_answer_end_the_round() -> None:
    fleet = Fleet.drawn(4)
    engine = Silent(fleet.engine(), frozenset(["c000", "c003"]), "update")
    with pytest.raises(TooFewClientsError, match="nothing was released"):
        fleet.run(engine)
