"""A world in which everything that can go wrong with secure aggregation does, drawn from a seed.

Clients join, leave and crash in the middle of a write; requests and answers are lost, delayed into
any later stage or round, and delivered twice; the server crashes between any two answers and any
two writes, and starts again from its journal. In some worlds whoever carries the requests is a
server that lies: it shows some clients other members, boxes, payloads, rounds and sets of
survivors, repeats old requests, asks those who signed another set for shares with all signatures
that there are for it, and has as many clients on its side as the plan says it may.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from catchment.errors import FederationError
from catchment.federation import Engine, Record, Reply, Request, run
from catchment.federation.runs import Keeper
from catchment.privacy import Journal, Policy
from catchment.privacy.secure_aggregation import Notebook, as_bits, from_bits, keys, rows
from catchment.wire import Message, join, split
from tests.security.fleet import Fleet, Numbers, stage_of
from tests.security.liars import consents, number


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
class Chaos(Engine):
    """An engine with bad luck."""

    fleet: Fleet
    rng: random.Random
    trouble: float
    present: list[str] = field(default_factory=list)
    delayed: list[Reply] = field(default_factory=list)
    unmaskings: dict[tuple[int, str], set[bytes]] = field(default_factory=dict)
    crashes: bool = False
    liar: Liar | None = None

    def happens(self) -> bool:
        return self.rng.random() < self.trouble

    def clients(self) -> Sequence[str]:
        return self.present

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        order = list(requests)
        self.rng.shuffle(order)
        if self.liar and order and stage_of(requests[order[0]]) == "unmask":
            self.liar.press(self, Request.from_bytes(requests[order[0]], ""))
        for client in order:
            if self.crashes and self.happens():
                raise ServerCrashError
            yield from self.deliver(client, requests[client])
            if self.delayed and self.rng.random() < 0.3:
                yield self.delayed.pop(self.rng.randrange(len(self.delayed)))

    def deliver(self, client: str, raw_request: bytes) -> Iterator[Reply]:
        if self.happens():
            yield Reply(client, None, "the request was lost")
            return
        if self.liar:
            raw_request = self.liar.twisted(client, raw_request)
        reply = self.answer(client, raw_request)
        if reply is None or self.happens():
            yield Reply(client, None, "the answer was lost")
        elif self.happens():
            self.delayed.append(reply)
            yield Reply(client, None, "the answer is late")
        else:
            yield from [reply] * (2 if self.happens() else 1)

    def answer(self, client: str, raw_request: bytes) -> Reply | None:
        memory = self.fleet.memories[client]
        assert isinstance(memory, Fragile)
        memory.writes_left = self.rng.randrange(12) if self.happens() else None
        try:
            message = self.fleet.node(client).answer(raw_request)
            if self.happens():
                again = self.fleet.node(client).answer(raw_request)
                assert again == message, "one request got two answers"
        except ClientCrashError:
            return None
        finally:
            memory.writes_left = None
        if Message.from_bytes(message).kind != "refusal":
            request = Request.from_bytes(raw_request, client)
            if request.stage == "unmask":
                self.unmaskings.setdefault((number(request.payload), client), set()).add(message)
            if self.liar:
                self.liar.heard(client, request, Message.from_bytes(message))
        return Reply(client, message)


@dataclass(eq=False)
class Liar:
    """A server that lies to some clients and writes down what it could use.

    `bad` are the clients on its side: they sign any set and give it both shares of everybody.
    """

    fleet: Fleet
    rng: random.Random
    often: float
    bad: list[str]
    old: dict[str, list[bytes]] = field(default_factory=dict)
    needed: dict[tuple[int, str], int] = field(default_factory=dict)
    present: dict[tuple[int, str], tuple[int, ...]] = field(default_factory=dict)
    signed: dict[tuple[int, str], tuple[bytes, Message]] = field(default_factory=dict)
    given: dict[tuple[int, int, str], set[str]] = field(default_factory=dict)
    lies: int = 0

    @property
    def n(self) -> int:
        return len(self.fleet.masking.names)

    def twisted(self, client: str, raw_request: bytes) -> bytes:
        """Return a letter, or what this server sends instead of it."""
        history = self.old.setdefault(client, [])
        history.append(raw_request)
        if self.rng.random() > self.often:
            return raw_request
        self.lies += 1
        if self.rng.random() < 0.2:
            return self.rng.choice(history)
        request = Request.from_bytes(raw_request, client)
        return self._other(request).to_bytes()

    def _other(self, request: Request) -> Request:
        kind, payload = self.rng.random(), request.payload
        if kind < 0.1:
            return replace(
                request, context=replace(request.context, round=request.context.round + 1)
            )
        if kind < 0.2:
            return replace(request, stage_inputs=Message("other"))
        if request.stage == "update":
            named = split(payload, "secure-update")
            if kind < 0.6:
                named["payload"] = Message("other")
            else:
                named["present"] = self._fewer(named["present"])
            return replace(request, payload=join("secure-update", named))
        if request.stage == "shares":
            bits, adverts, reveals = payload.arrays
            members = from_bits(bits, self.n)
            out = self.rng.choice(members)
            keep = [k for k, place in enumerate(members) if place != out]
            bits = as_bits([members[k] for k in keep], self.n)
            arrays = (bits, adverts[keep], reveals[keep] if len(reveals) else reveals)
            return replace(request, payload=replace(payload, arrays=arrays))
        if request.stage == "boxes" and payload.arrays[1].size:
            boxes = payload.arrays[1].copy()
            boxes[self.rng.randrange(len(boxes)), 0] ^= 1
            arrays = (payload.arrays[0], boxes, payload.arrays[2])
            return replace(request, payload=replace(payload, arrays=arrays))
        if request.stage == "consistency":
            return replace(request, payload=self._fewer(payload))
        return request

    def _fewer(self, payload: Message) -> Message:
        places = from_bits(payload.arrays[0], self.n)
        out = self.rng.choice(places)
        bits = as_bits([place for place in places if place != out], self.n)
        return replace(payload, arrays=(bits,))

    def heard(self, client: str, request: Request, answer: Message) -> None:
        stage, payload = request.stage, request.payload
        if stage == "update":
            payload = split(payload, "secure-update")["present"]
        if "round" not in payload.facts:
            return
        at = number(payload)
        if stage == "shares":
            members = from_bits(payload.arrays[0], self.n)
            self.needed[at, client] = self.fleet.masking.degree(len(members))[1]
        elif stage == "update":
            self.present[at, client] = from_bits(payload.arrays[0], self.n)
        elif stage == "consistency":
            self.signed[at, client] = (payload.arrays[0].tobytes(), answer)
        elif stage == "unmask" and (at, client) in self.present:
            shown = np.frombuffer(self.signed[at, client][0], dtype=np.uint8)
            sealed = from_bits(shown, self.n)
            for owner in self.present[at, client]:
                which = "own" if owner in sealed else "key"
                self.given.setdefault((at, owner, which), set()).add(client)

    def press(self, chaos: Chaos, request: Request) -> None:
        """Ask everybody for shares of the set it signed, with all signatures there are for it."""
        at = number(request.payload)
        places = self.fleet.masking.places
        session = keys.Session.of("catchment", at, request.context)
        for (signed_at, client), (shown, _) in list(self.signed.items()):
            if signed_at != at or client in self.bad:
                continue
            same = {
                places[other]: answer
                for (when, other), (bits, answer) in self.signed.items()
                if when == at and bits == shown and other != client and other not in self.bad
            }
            for bad in self.bad:
                memory = self.fleet.memories[bad]
                assert isinstance(memory, Fragile)
                if "update" in Notebook(memory.kept, session):
                    told = Notebook(memory.kept, session)["update"]
                    about = session.about("survivors", bad)
                    signature = keys.sign(memory, about, shown + told)
                    same[places[bad]] = Message("secure-consent", {}, (rows([signature], 64),))
            raw_request = replace(request, payload=consents(at, same))
            chaos.answer(client, raw_request.to_bytes())

    def check(self) -> None:
        """Assert that no honest client's two secrets could be put together.

        And that all honest clients that gave shares in a round gave them for one set.
        """
        for at in {at for at, _, _ in self.given}:
            holders = [some for (when, _, _), some in self.given.items() if when == at]
            giving = set().union(*holders) - set(self.bad)
            sets = {self.signed[at, client][0] for client in giving}
            assert len(sets) <= 1, "shares were given for two sets"
        for (at, client), t in self.needed.items():
            if client not in self.bad:
                owner = self.fleet.masking.places[client]
                both = [self.given.get((at, owner, which), set()) for which in ("own", "key")]
                n_shares = [len(shares | set(self.bad)) for shares in both]
                assert min(n_shares) < t, f"both secrets of {client} are open"


@dataclass(eq=False)
class Book(Keeper["Numbers | None"]):
    """A keeper that outlives its server and checks every sum it is given."""

    fleet: Fleet
    sealed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    state: Numbers | None = None
    records: tuple[Record, ...] = ()

    def resume(self) -> tuple[Numbers | None, tuple[Record, ...]] | None:
        return (self.state, self.records) if self.records else None

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

    def begin(
        self, plan: str, round_: int, cohort: Sequence[str], *, after: int = 0
    ) -> tuple[int, tuple[str, ...]]:
        self.maybe()
        begun = self.inner.begin(plan, round_, cohort, after=after)
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
    lies: int


def simulate(seed: int, folder: Path) -> Ending:
    """Run one world to its end; AssertionError if a sum is wrong or a promise broken."""
    rng = random.Random(seed)
    lying = rng.random() < 0.3
    n_clients = rng.choice([4, 5, 5, 10] if lying else [3, 4, 4, 5])
    fleet = Fleet.drawn(
        n_clients,
        length=2,
        seed=seed,
        rounds=rng.choice([1, 2]),
        policy=Policy(exact="same clients" if rng.random() < 0.25 else "any clients"),
    )
    fleet.memories = {name: Fragile(dict(memory)) for name, memory in fleet.memories.items()}
    chaos = Chaos(fleet, rng, trouble=rng.choice([0.0, 0.005, 0.02, 0.06][: 2 if lying else 4]))
    chaos.crashes = rng.random() < (0.2 if lying else 0.6)
    if lying:
        bad = rng.sample(sorted(fleet.vectors), n_clients // 5)
        chaos.liar = Liar(fleet, rng, rng.choice([0.01, 0.03, 0.2]), bad)
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
    if chaos.liar:
        chaos.liar.check()
    shutil.rmtree(folder)
    return Ending(len(book.records), aborted, crashes, chaos.liar.lies if chaos.liar else 0)
