"""The only round loop in the library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from catchment.errors import IntegrityError, TooFewClientsError, UploadError
from catchment.federation.ledger import Entry
from catchment.federation.node import Request
from catchment.federation.plan import Additive, Plan, Read, Turn
from catchment.readout.model import Model
from catchment.wire import Parts, digest

S = TypeVar("S")
U = TypeVar("U", bound=Additive)

BLOCK = 256  # clients summed together before their sums are; the order of sums is part of a result


@dataclass(frozen=True)
class Reply:
    """A client's answer as bytes, or the reason why there is none."""

    client: str
    message: bytes | None
    error: str = ""


class Engine(Protocol):
    """Carries messages to clients and back; knows nothing of what they mean."""

    def clients(self) -> Sequence[str]:
        """Return the names of the clients that can be asked."""

    def ask(self, letters: Mapping[str, bytes]) -> Iterator[Reply]:
        """Yield the clients' replies to their letters, in the order of the letters."""


@dataclass(frozen=True)
class Refusal:
    """A client whose answer was not used, and why."""

    client: str
    code: str
    reason: str


@dataclass(frozen=True)
class Record:
    """What is known of one round when it is over."""

    round: int
    n_asked: int
    n_used: int
    seconds: float
    bytes_down: int
    bytes_up: int
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True, eq=False)
class Result(Generic[S]):
    """The final state and model, and one record per round."""

    state: S
    model: Model | None
    records: tuple[Record, ...]


class Keeper(Protocol[S]):
    """Where a run is written down, so that it can be explained and resumed."""

    def resume(self) -> tuple[S, tuple[Record, ...]] | None: ...

    def note(self, entry: Entry) -> None: ...

    def close_round(self, state: S, record: Record) -> None: ...


Watch = Callable[[int, int, int], None]


def run(
    plan: Plan[S, U],
    engine: Engine,
    *,
    keeper: Keeper[S] | None = None,
    watch: Watch | None = None,
) -> Result[S]:
    """Return the result of a plan's rounds; with a keeper, go on where the last run stopped.

    Parameters
    ----------
    plan
        What is run.
    engine
        Carries the messages.
    keeper
        Writes down every message and the state after every round.
    watch
        Called with (round, clients done, clients asked) as replies come in.
    """
    kept = keeper.resume() if keeper else None
    state, records = kept if kept else (plan.algorithm.start(), ())
    for round_ in range(len(records), plan.rounds):
        turn = Turn(round_, plan.cohort(engine.clients(), round_), plan.seed)
        gathered = Gathered(keeper.note if keeper else lambda entry: None)
        gather(plan, engine, state, turn, gathered, watch)
        total = gathered.sum(plan.min_clients)
        for protection, inner in reversed(list(zip(plan.protections, readers(plan), strict=False))):
            total = protection.on_server(total, turn, inner)
        state = plan.algorithm.server_update(state, total, turn)  # type: ignore[arg-type]
        records = (*records, gathered.record(turn))
        if keeper:
            keeper.close_round(state, records[-1])
    return Result(state, plan.algorithm.model(state), records)


@dataclass
class Gathered:
    """The replies of one round, summed as they come."""

    note: Callable[[Entry], None]
    started: float = field(default_factory=time.perf_counter)
    n_used: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    refused: list[Refusal] = field(default_factory=list)
    seen: dict[str, bytes] = field(default_factory=dict)
    _total: Additive | None = None
    _block: Additive | None = None
    _block_number: int = 0

    def add(self, update: Additive, place: int) -> None:
        """Add the update of the client at this place of the cohort."""
        if place // BLOCK != self._block_number:
            self._close_block()
            self._block_number = place // BLOCK
        self._block = update if self._block is None else self._block + update
        self.n_used += 1

    def sum(self, min_clients: int) -> Additive:
        self._close_block()
        if self._total is None or self.n_used < min_clients:
            reasons = "; ".join(f"{r.client}: {r.reason}" for r in self.refused[:3])
            raise TooFewClientsError(
                f"{self.n_used} clients gave a usable answer, the plan asks for {min_clients}"
                + (f" ({reasons})" if reasons else "")
            )
        return self._total

    def record(self, turn: Turn) -> Record:
        return Record(
            turn.round,
            len(turn.cohort),
            self.n_used,
            time.perf_counter() - self.started,
            self.bytes_down,
            self.bytes_up,
            tuple(self.refused),
        )

    def _close_block(self) -> None:
        if self._block is not None:
            self._total = self._block if self._total is None else self._total + self._block
            self._block = None


def gather(
    plan: Plan[S, U],
    engine: Engine,
    state: S,
    turn: Turn,
    gathered: Gathered,
    watch: Watch | None = None,
) -> None:
    """Ask the cohort and sum the replies; a bad reply is left out, with its reason."""
    payload = plan.algorithm.broadcast(state, turn)
    message = Request(plan.fingerprint(), turn, payload).to_bytes()
    gathered.bytes_down = len(message) * len(turn.cohort)
    gathered.note(Entry.of(turn.round, "", "down", payload, message))
    read = readers(plan)[-1]
    places = {client: place for place, client in enumerate(turn.cohort)}
    letters = dict.fromkeys(turn.cohort, message)
    for done, reply in enumerate(engine.ask(letters), start=1):
        try:
            if reply.client not in places:
                raise UploadError("stranger", f"{reply.client} was not asked in this round")
            update = accept(reply, gathered, turn, read)
        except (IntegrityError, UploadError, ValueError) as error:
            code = getattr(error, "code", "malformed")
            gathered.refused.append(Refusal(reply.client, code, str(error)))
        else:
            if update is not None:
                gathered.add(update, places[reply.client])
        if watch:
            watch(turn.round, done, len(turn.cohort))


def readers(plan: Plan[S, U]) -> list[Read]:
    """Return what reads an upload without protections, with the first, with the first two..."""
    read: list[Read] = [plan.algorithm.read_update]
    for protection in plan.protections:
        read.append(partial(protection.read_update, inner=read[-1]))
    return read


def accept(reply: Reply, gathered: Gathered, turn: Turn, read: Read) -> Additive | None:
    """Return a reply's update, or None if the same one came before; raise if it cannot be used."""
    if reply.message is None:
        raise UploadError("no-answer", reply.error or "the client did not answer")
    parts = Parts.from_bytes(reply.message)
    gathered.bytes_up += len(reply.message)
    gathered.note(Entry.of(turn.round, reply.client, "up", parts, reply.message))
    first = gathered.seen.get(reply.client)
    if first is not None:
        if first != digest(reply.message):
            raise UploadError("conflict", f"{reply.client} sent two different answers in a round")
        return None
    gathered.seen[reply.client] = digest(reply.message)
    if parts.kind == "refusal":
        raise UploadError(str(parts.facts.get("code")), str(parts.facts.get("reason")))
    return read(parts, turn.at(reply.client))
