"""A world in which everything that can go wrong with a secure sum does, drawn from a seed.

Clients join, leave and crash in the middle of a write; letters and answers are lost, delayed into
any later stage or round, and delivered twice; the server crashes between any two answers and any
two writes, and starts again from its journal.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.security.fleet import Fleet, Numbers, stage_of

from catchment.errors import FederationError
from catchment.federation.loop import Record, Reply, run
from catchment.federation.runs.ledger import Entry
from catchment.privacy.secure_sum.server_journal import Journal
from catchment.wire import Parts


class ServerCrashError(BaseException):
    """The server is gone; nothing may catch this."""


class ClientCrashError(BaseException):
    """A client is gone in the middle of what it was doing."""


@dataclass(eq=False)
class Fragile(MutableMapping[str, bytes]):
    """A client's memory; the client crashes before one of its next writes, or not."""

    kept: dict[str, bytes]
    writes_left: int | None = None

    def __getitem__(self, name: str) -> bytes:
        return self.kept[name]

    def __setitem__(self, name: str, value: bytes) -> None:
        if self.writes_left is not None:
            if self.writes_left == 0:
                self.writes_left = None
                raise ClientCrashError
            self.writes_left -= 1
        self.kept[name] = value

    def __delitem__(self, name: str) -> None:
        del self.kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.kept))

    def __len__(self) -> int:
        return len(self.kept)


@dataclass(eq=False)
class Chaos:
    """An engine with bad luck."""

    fleet: Fleet
    rng: random.Random
    trouble: float
    present: list[str] = field(default_factory=list)
    delayed: list[Reply] = field(default_factory=list)
    unmaskings: dict[tuple[int, str], set[bytes]] = field(default_factory=dict)
    crashes: bool = False

    def happens(self) -> bool:
        return self.rng.random() < self.trouble

    def clients(self) -> Sequence[str]:
        return self.present

    def ask(self, letters: Mapping[str, bytes]) -> Iterator[Reply]:
        order = list(letters)
        self.rng.shuffle(order)
        for client in order:
            if self.crashes and self.happens():
                raise ServerCrashError
            yield from self.deliver(client, letters[client])
            if self.delayed and self.rng.random() < 0.3:
                yield self.delayed.pop(self.rng.randrange(len(self.delayed)))

    def deliver(self, client: str, letter: bytes) -> Iterator[Reply]:
        if self.happens():
            yield Reply(client, None, "the letter was lost")
            return
        reply = self.answer(client, letter)
        if reply is None or self.happens():
            yield Reply(client, None, "the answer was lost")
        elif self.happens():
            self.delayed.append(reply)
            yield Reply(client, None, "the answer is late")
        else:
            yield from [reply] * (2 if self.happens() else 1)

    def answer(self, client: str, letter: bytes) -> Reply | None:
        memory = self.fleet.memories[client]
        assert isinstance(memory, Fragile)
        memory.writes_left = self.rng.randrange(12) if self.happens() else None
        try:
            message = self.fleet.node(client).answer(letter)
            if self.happens():
                again = self.fleet.node(client).answer(letter)
                assert again == message, "one letter got two answers"
        except ClientCrashError:
            return None
        finally:
            memory.writes_left = None
        if stage_of(letter) == "unmask" and Parts.from_bytes(message).kind != "refusal":
            number = latest(memory.kept)
            self.unmaskings.setdefault((number, client), set()).add(message)
        return Reply(client, message)


def latest(memory: Mapping[str, bytes]) -> int:
    return int(memory["secure-sum/catchment/latest"])


@dataclass(eq=False)
class Book:
    """A keeper that outlives its server and checks every sum it is given."""

    fleet: Fleet
    sealed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    state: Numbers | None = None
    records: tuple[Record, ...] = ()

    def resume(self) -> tuple[Numbers | None, tuple[Record, ...]] | None:
        return (self.state, self.records) if self.records else None

    def note(self, entry: Entry) -> None:
        pass

    def close_round(self, state: Numbers | None, record: Record) -> None:
        assert state is not None
        members = self.sealed[max(self.sealed)]
        assert len(members) == record.n_used >= 3
        np.testing.assert_array_equal(state.values, self.fleet.expected(members))
        self.state, self.records = state, (*self.records, record)


@dataclass(eq=False)
class CrashingJournal:
    """A journal whose server crashes before or after a write, now and then."""

    inner: Journal
    chaos: Chaos
    sealed: dict[int, tuple[str, ...]]

    def maybe(self) -> None:
        if self.chaos.crashes and self.chaos.happens():
            raise ServerCrashError

    def begin(self, plan: str, round_: int, cohort: Sequence[str]) -> tuple[int, tuple[str, ...]]:
        self.maybe()
        begun = self.inner.begin(plan, round_, cohort)
        self.maybe()
        return begun

    def closed(self, attempt: int) -> Mapping[str, tuple[str, ...]]:
        return self.inner.closed(attempt)

    def replies(self, attempt: int, stage: str) -> Iterator[tuple[str, bytes]]:
        return self.inner.replies(attempt, stage)

    def keep(self, attempt: int, client: str, message: bytes) -> bool:
        self.maybe()
        new = self.inner.keep(attempt, client, message)
        self.maybe()
        return new

    def close(
        self,
        attempt: int,
        stage: str,
        members: Sequence[str],
        replies: Mapping[str, bytes],
        *,
        state: str,
    ) -> None:
        self.maybe()
        self.inner.close(attempt, stage, members, replies, state=state)
        if stage == "update":
            self.sealed[attempt] = tuple(members)
        self.maybe()

    def advance(self, attempt: int, state: str) -> None:
        self.maybe()
        self.inner.advance(attempt, state)
        self.maybe()


@dataclass(frozen=True)
class Ending:
    """How a seed ended: how many rounds were released, and what stopped it, if anything."""

    released: int
    aborted: bool
    crashes: int


def simulate(seed: int, folder: Path) -> Ending:
    """Run one world to its end; AssertionError if a sum is wrong or a promise broken."""
    rng = random.Random(seed)
    n_clients = rng.choice([3, 4, 4, 5])
    fleet = Fleet.drawn(
        n_clients,
        length=2,
        seed=seed,
        rounds=rng.choice([1, 2]),
        compare_cohorts=rng.random() < 0.5,
    )
    fleet.memories = {name: Fragile(dict(memory)) for name, memory in fleet.memories.items()}
    chaos = Chaos(fleet, rng, trouble=rng.choice([0.0, 0.005, 0.02, 0.06]))
    chaos.crashes = rng.random() < 0.6
    book, crashes, aborted = Book(fleet), 0, False
    while not aborted and len(book.records) < fleet.plan.rounds and crashes < 40:
        chaos.present = sorted(
            name for name in fleet.vectors if rng.random() > chaos.trouble or crashes
        )
        with Journal(folder) as journal:
            written = CrashingJournal(journal, chaos, book.sealed)
            try:
                run(fleet.plan, chaos, keeper=book, journal=written)
            except ServerCrashError:
                crashes += 1
            except FederationError:
                aborted = True
    # However often it was asked, a client gave its shares of a round for one set only.
    assert all(len(answers) == 1 for answers in chaos.unmaskings.values())
    shutil.rmtree(folder)
    return Ending(len(book.records), aborted, crashes)
