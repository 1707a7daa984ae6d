"""The only round loop in the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from catchment.errors import TooFewClientsError
from catchment.federation.ledger import Entry
from catchment.federation.plan import Additive, Exchange, Plan, Read, Turn
from catchment.federation.post import Engine, Post, Record, Refusal, Reply, Watch
from catchment.readout.model import Model
from catchment.wire import Parts

__all__ = ["Engine", "Keeper", "Record", "Refusal", "Reply", "Result", "Watch", "run"]

S = TypeVar("S")
U = TypeVar("U", bound=Additive)

BLOCK = 256  # clients summed together before their sums are; the order of sums is part of a result


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
    note = keeper.note if keeper else lambda entry: None
    for round_ in range(len(records), plan.rounds):
        turn = Turn(round_, plan.cohort(engine.clients(), round_), plan.seed)
        post = Post(plan.fingerprint(), turn, engine, note, watch)
        total, n_used = gather(plan, post, plan.algorithm.broadcast(state, turn))
        for protection, inner in reversed(list(zip(plan.plain, readers(plan), strict=False))):
            total = protection.on_server(total, turn, inner)
        state = plan.algorithm.server_update(state, total, turn)  # type: ignore[arg-type]
        records = (*records, post.record(n_used))
        if keeper:
            keeper.close_round(state, records[-1])
    return Result(state, plan.algorithm.model(state), records)


def gather(plan: Plan[S, U], post: Post, payload: Parts) -> tuple[Additive, int]:
    """Return the sum of one round's uploads, every mask off, and how many there were."""
    cohort = post.turn.cohort
    read = readers(plan)[-1]
    if plan.masking is None:
        sums = Sums(cohort)
        for client, update in post.ask_all(cohort, payload, read):
            sums.add(client, update)
        return sums.total(plan.min_clients, post.refused), sums.n_used
    exchange = plan.masking.open(post.turn)
    for stage in exchange.before:
        cohort = converse(post, exchange, stage, cohort)
    sums = Sums(cohort)
    letters = {client: exchange.wrap(payload, client) for client in cohort}
    for client, update in post.ask_each("update", letters, exchange.read_update):
        sums.add(client, update)
    total = sums.total(plan.min_clients, post.refused)
    cohort = exchange.seal(sums.used)
    for stage in exchange.after:
        cohort = converse(post, exchange, stage, cohort)
    return exchange.unmask(total, read), sums.n_used


def converse(post: Post, exchange: Exchange, stage: str, cohort: Sequence[str]) -> tuple[str, ...]:
    """Run one stage of a masking protocol; return the clients that are still in it."""
    letters = {client: exchange.letter(stage, client) for client in cohort}
    replies: Mapping[str, Parts] = dict(post.ask_each(stage, letters, lambda parts, turn: parts))
    return exchange.take(stage, replies)


def readers(plan: Plan[S, U]) -> list[Read]:
    """Return what reads an upload without protections, with the first, with the first two..."""
    read: list[Read] = [plan.algorithm.read_update]
    for protection in plan.plain:
        read.append(partial(protection.read_update, inner=read[-1]))
    return read


class Sums:
    """A running sum in a fixed order: clients in blocks by their place in the cohort, then blocks.

    Two levels of servers that add whole blocks give the very same bits as one.
    """

    def __init__(self, cohort: Sequence[str]) -> None:
        self.places = {client: place for place, client in enumerate(cohort)}
        self.used: list[str] = []
        self._whole: Additive | None = None
        self._block: Additive | None = None
        self._number = 0

    @property
    def n_used(self) -> int:
        return len(self.used)

    def add(self, client: str, update: Additive) -> None:
        number = self.places[client] // BLOCK
        if number != self._number:
            self._close_block()
            self._number = number
        self._block = update if self._block is None else self._block + update
        self.used.append(client)

    def total(self, min_clients: int, refused: Sequence[Refusal]) -> Additive:
        self._close_block()
        if self._whole is None or self.n_used < min_clients:
            reasons = "; ".join(f"{r.client}: {r.reason}" for r in refused[:3])
            raise TooFewClientsError(
                f"{self.n_used} clients gave a usable answer, the plan asks for {min_clients}"
                + (f" ({reasons})" if reasons else "")
            )
        return self._whole

    def _close_block(self) -> None:
        if self._block is not None:
            self._whole = self._block if self._whole is None else self._whole + self._block
            self._block = None
