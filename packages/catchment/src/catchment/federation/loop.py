"""The only round loop in the library."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import filterfalse
from operator import attrgetter
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from catchment.data.prepare import Prepare
from catchment.errors import FederationError, TooFewClientsError
from catchment.federation.algorithm import Additive, Turn, check_base
from catchment.federation.blocks import Round, reasons
from catchment.federation.client import digest_of
from catchment.federation.limits import check_total
from catchment.federation.messages import (
    Engine,
    Record,
    Refusal,
    Reply,
    Watch,
    check_client_names,
)
from catchment.federation.plan import Plan
from catchment.federation.protection import Exchange
from catchment.federation.runs.ledger import Keeper
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.wire import NOTHING, Parts

__all__ = ["Engine", "Record", "Refusal", "Reply", "Result", "Watch", "run"]

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")


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

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """The clients whose answers were not used, and why, each reason of a client once."""
        return tuple(dict.fromkeys(one for record in self.records for one in record.refused))

    @cached_property
    def result(self) -> R:
        """What was made: a model, scores, a scaler, a network, whatever the algorithm is for.

        What predicts takes raw recordings, prepared as those of the clients were.
        """
        made = self.plan.algorithm.result(self.state)
        if isinstance(made, Preparing):
            return made.prepared_by(self.plan.prepare, self.plan.channels)
        return made

    @property
    def model(self) -> Model:
        """The model that was trained; FederationError if the algorithm makes no single one."""
        found = model_of(self.result)
        if found is None:
            raise FederationError(
                f"{type(self.plan.algorithm).__name__} makes no single model but a "
                f"{type(self.result).__name__}; use .result"
            )
        return found

    @property
    def predictor(self) -> Predictor:
        """What predicts from raw recordings; FederationError if the algorithm makes no such."""
        found = predictor_of(self.result)
        if found is None:
            raise FederationError(
                f"{type(self.plan.algorithm).__name__} makes a {type(self.result).__name__}, which "
                "predicts nothing from recordings; use .result"
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


def run(
    plan: Plan[S, U, R],
    engine: Engine,
    *,
    keeper: Keeper[S] | None = None,
    watch: Watch | None = None,
    journal: Any = None,
    context: Parts = NOTHING,
    onto: S | None = None,
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
    onto
        The state of an earlier run, with which this one begins.
    """
    check_base(engine, Engine)
    algorithm = plan.algorithm
    kept = keeper.resume() if keeper else None
    begun = algorithm.start() if onto is None else onto
    state, records = kept if kept else (begun, ())
    told = digest_of(context)
    for number in range(len(records), plan.rounds):
        if algorithm.finished(state):
            break
        clients = engine.clients()
        check_client_names(clients)
        cohort = plan.cohort(clients, number)
        turn = Turn(number, cohort, plan.seed, plan=plan.fingerprint(), told=told)
        for protection in plan.protections:
            protection.before(turn)
        under_way = Round(plan, turn, engine, keeper, watch, context)
        payload = algorithm.broadcast(state, turn)
        exchange = None
        if plan.masking is None:
            total, n_used = under_way.sum(payload)
        else:
            fewest = plan.fewest(len(cohort))
            exchange = plan.masking.open(turn, min_clients=fewest, journal=journal)
            total, n_used = masked(under_way, exchange, payload)
        for k, protection in reversed(list(enumerate(plan.plain))):
            inner = partial(plan.read, protections=plan.plain[:k])
            total = protection.on_server(total, turn, inner)
        state = algorithm.server_update(state, total, turn)
        records = (*records, under_way.record(n_used, algorithm.figures(state)))
        if keeper:
            keeper.close_round(state, records[-1])
        if exchange is not None:
            exchange.publish()
        left_out = set(map(attrgetter("client"), records[-1].refused))
        engine.counted(number, [*filterfalse(left_out.__contains__, cohort)])
    return Result(state, plan, records)


def masked(under_way: Round, exchange: Exchange, payload: Parts) -> tuple[Additive, int]:
    """Return the sum of a round's masked uploads, every mask off, and how many there were."""
    try:
        for stage in exchange.stages:
            clients = exchange.asked(stage)
            letters = {client: exchange.letter(stage, client, payload) for client in clients}
            sent = under_way.send(stage, letters)
            deque(under_way.replies(sent, partial(exchange.take, stage)), maxlen=0)
            try:
                exchange.close(stage)
            finally:
                under_way.refused.extend(Refusal.of(*one) for one in exchange.left_out())
    except TooFewClientsError as error:
        raise TooFewClientsError(f"{error}{reasons(under_way.refused)}") from error
    total, n_used = exchange.result(under_way.plan.read)
    check_total(total, under_way.plan.limits, n_used)
    return total, n_used
