"""The only round loop in the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from catchment.data.prepare import Prepare
from catchment.errors import CatchmentError, FederationError, TooFewClientsError
from catchment.federation.client import digest_of
from catchment.federation.messages import Engine, Post, Record, Refusal, Reply, Watch
from catchment.federation.plan import Additive, Exacting, Journal, Plan, Read, Turn
from catchment.federation.runs.ledger import Entry
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.wire import NOTHING, Parts

__all__ = ["Engine", "Keeper", "Record", "Refusal", "Reply", "Result", "Watch", "run"]

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")

BLOCK = 256  # clients summed together before their sums are; the order of sums is part of a result


@runtime_checkable
class Preparing(Protocol):
    """A result that predicts from recordings, and so must know how they are prepared."""

    def prepared_by(self, prepare: Prepare, channels: Sequence[str] | None) -> Self: ...


@runtime_checkable
class HasModel(Protocol):
    """A result that can be used as one model, such as an ensemble."""

    @property
    def model(self) -> Model: ...


@dataclass(frozen=True, eq=False)
class Result(Generic[S, R]):
    """The final state, what the algorithm makes of it, and one record per round."""

    state: S
    plan: Plan[S, Any, R]
    records: tuple[Record, ...]

    @cached_property
    def result(self) -> R:
        """What was made: a model, scores, a scaler, a network, whatever the algorithm is for.

        What predicts takes raw recordings, prepared as those of the clients were.
        """
        made = self.plan.whole.result(self.state)
        if isinstance(made, Preparing):
            return made.prepared_by(self.plan.prepare, self.plan.channels)
        return made

    @property
    def model(self) -> Model:
        """The model that was trained; FederationError if the algorithm makes no single one."""
        found = model_of(self.result)
        if found is None:
            raise FederationError(
                f"{self.plan.whole.name} makes no single model but a "
                f"{type(self.result).__name__}; use .result"
            )
        return found

    @property
    def predictor(self) -> Predictor:
        """What predicts from raw recordings; FederationError if the algorithm makes no such."""
        found = predictor_of(self.result)
        if found is None:
            raise FederationError(
                f"{self.plan.whole.name} makes a {type(self.result).__name__}, which predicts "
                "nothing from recordings; use .result"
            )
        return found


def model_of(made: object) -> Model | None:
    """Return the one model that the result of a run is or amounts to, None if it is none."""
    if isinstance(made, Model):
        return made
    return made.model if isinstance(made, HasModel) else None


def predictor_of(made: object) -> Predictor | None:
    """Return what predicts of a run's result, as it is saved and used; None if nothing does."""
    return made if isinstance(made, Predictor) else model_of(made)


class Keeper(Protocol[S]):
    """Where a run is written down, so that it can be explained and resumed."""

    def resume(self) -> tuple[S, tuple[Record, ...]] | None: ...

    def note(self, entry: Entry) -> None: ...

    def close_round(self, state: S, record: Record) -> None: ...


def run(
    plan: Plan[S, U, R],
    engine: Engine,
    *,
    keeper: Keeper[S] | None = None,
    watch: Watch | None = None,
    journal: Journal | None = None,
    context: Parts = NOTHING,
) -> Result[S, R]:
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
    journal
        Writes down the steps of a masked round, so that one cut short goes on in its middle.
    context
        What clients must know to make the plan for themselves; it travels with every request.
    """
    algorithm = plan.whole
    kept = keeper.resume() if keeper else None
    state, records = kept if kept else (algorithm.start(), ())
    note = keeper.note if keeper else None
    for round_ in range(len(records), plan.rounds):
        cohort = plan.cohort(engine.clients(), round_)
        turn = Turn(
            round_, cohort, plan.seed, plan=plan.fingerprint(), told=digest_of(context)
        )
        for exacting in plan.protections:
            if isinstance(exacting, Exacting):
                exacting.before(turn)
        post = Post(plan.fingerprint(), turn, engine, note, watch, context)
        total, n_used, publish = gather(plan, post, algorithm.broadcast(state, turn), journal)
        for protection, inner in reversed(list(zip(plan.plain, readers(plan), strict=False))):
            total = protection.on_server(total, turn, inner)
        state = algorithm.server_update(state, total, turn)
        records = (*records, replace(post.record(n_used), figures=algorithm.figures(state)))
        if keeper:
            keeper.close_round(state, records[-1])
        publish()
    return Result(state, plan, records)


def gather(
    plan: Plan[S, U, R], post: Post, payload: Parts, journal: Journal | None = None
) -> tuple[Additive, int, Callable[[], None]]:
    """Return the sum of a round's uploads, every mask off, how many there were, and a last step.

    The last step is for when the state after the round is kept.
    """
    cohort = post.turn.cohort
    read = readers(plan)[-1]
    if plan.masking is None:
        sums = Sums(cohort)
        for client, update in post.ask_all(cohort, payload, read):
            try:
                sums.add(client, update)
            except (CatchmentError, ValueError) as error:
                code = getattr(error, "code", "does-not-add")
                post.refused.append(Refusal(client, code, str(error)))
        return sums.total(plan.min_clients, post.refused), sums.n_used, lambda: None
    exchange = plan.masking.open(post.turn, min_clients=plan.min_clients, journal=journal)
    try:
        for stage in exchange.stages:
            clients = exchange.asked(stage)
            letters = {client: exchange.letter(stage, client, payload) for client in clients}
            for _ in post.ask_each(stage, letters, partial(exchange.take, stage)):
                pass
            try:
                exchange.close(stage)
            finally:
                post.refused.extend(Refusal(*one) for one in exchange.left_out())
    except TooFewClientsError as error:
        raise TooFewClientsError(f"{error}{reasons(post.refused)}") from error
    total, n_used = exchange.result(read)
    return total, n_used, exchange.publish


def reasons(refused: Sequence[Refusal]) -> str:
    """Return the latest reasons why answers were not used, each once, for an error message."""
    first = {r.reason: r.client for r in reversed(refused)}
    given = [f"{first[reason]}: {reason}" for reason in dict.fromkeys(r.reason for r in refused)]
    return f" ({'; '.join(given[-3:])})" if given else ""


def readers(plan: Plan[S, U, R]) -> list[Read]:
    """Return what reads an upload without protections, with the first, with the first two..."""
    read: list[Read] = [plan.whole.read_update]
    for protection in plan.plain:
        read.append(partial(protection.read_update, inner=read[-1]))
    return read


class Sums:
    """A running sum in a fixed order: clients in blocks by their place in the cohort, then blocks.

    Two levels of servers that add whole blocks give the very same bits as one.
    """

    def __init__(self, cohort: Sequence[str]) -> None:
        # The clients of a block share one number: a hundred thousand of them would be megabytes.
        self.blocks = {
            client: number
            for number in range(-(-len(cohort) // BLOCK))
            for client in cohort[number * BLOCK : (number + 1) * BLOCK]
        }
        self.used: list[str] = []
        self._whole: Additive | None = None
        self._block: Additive | None = None
        self._number = 0

    @property
    def n_used(self) -> int:
        return len(self.used)

    def add(self, client: str, update: Additive) -> None:
        number = self.blocks[client]
        if number != self._number:
            self._close_block()
            self._number = number
        if self._block is None and self._whole is not None:
            self._whole + update  # raises now, while it is known whose fault it is
        self._block = update if self._block is None else self._block + update
        self.used.append(client)

    def total(self, min_clients: int, refused: Sequence[Refusal]) -> Additive:
        self._close_block()
        if self._whole is None or self.n_used < min_clients:
            raise TooFewClientsError(
                f"{self.n_used} clients gave a usable answer, the plan asks for {min_clients}"
                f"{reasons(refused)}"
            )
        return self._whole

    def _close_block(self) -> None:
        if self._block is not None:
            self._whole = self._block if self._whole is None else self._whole + self._block
            self._block = None
