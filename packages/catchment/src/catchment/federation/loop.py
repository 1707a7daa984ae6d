"""The only round loop in the library: rounds, and a round's sum as the answers come in.

A round's sum is of those that most clients could have sent, by blocks of clients: added where the
clients are, or here, to the same bits. An engine with `sums` makes the sum of a whole block
elsewhere, by the same steps as here, or of several where sums are exact, and the loop adds these
sums. Wherever a block is not plain, its clients are asked one by one: where answers do not all add
to each other, or one would be refused or kept back for what it claims. So every number, every
refusal and every row of the ledger is that of one process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from catchment.errors import FederationError, TooFewClientsError, UploadError
from catchment.federation.algorithm import Additive, RoundContext, Tally, not_derived
from catchment.federation.checks import LIMITS, Screen, check_total, claimed
from catchment.federation.client import Request, digest_of
from catchment.federation.messages import (
    REPLY_HEADER,
    Engine,
    Record,
    Refusal,
    Watch,
    check_client_names,
)
from catchment.federation.plan import Plan
from catchment.federation.protection import Exchange
from catchment.federation.runs.ledger import Entries, Entry, EntryList, Keeper
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.wire import NOTHING, Message, measured, plus, serialize

BLOCK = 256  # clients summed together before their sums are; the order of sums is part of a result
MOST_GROUPS = 16  # sums kept side by side; more are only there where clients want to cost memory
AnyPlan = Plan[Any, Any, Any]
log = logging.getLogger(__name__)
S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")
V = TypeVar("V")


class Sums:
    """Running sums in a fixed order: clients in blocks by their place in the cohort, then blocks.

    Two levels of servers that add whole blocks give the very same bits as one.

    Answers that do not add to each other, such as statistics of one target and of three, are summed
    apart, and at the end the sum counts that most clients are in: the first answer has no more
    weight than any other. Memory holds one sum for each such group, and no answers.
    """

    def __init__(self, cohort: Sequence[str]) -> None:
        self.cohort = cohort
        self.blocks: dict[str, int] = {}  # of each client, once one is added by itself
        self.left_out: list[Refusal] = []
        self.groups: list[Group] = []

    def add(self, client: str, update: Additive) -> None:
        """Add a client's answer to those that it adds to, or else begin a sum of its own."""
        if not self.blocks:
            numbers = np.arange(len(self.cohort)) // BLOCK
            self.blocks = dict(zip(self.cohort, numbers.tolist(), strict=True))
        number = self.blocks[client]
        for group in self.groups:
            if group.takes(number, [client], update):
                break
        else:
            if len(self.groups) == MOST_GROUPS:
                smallest = min(self.groups, key=lambda group: len(group.clients))
                self.groups.remove(smallest)
                self._leave_out(smallest, f"more than {MOST_GROUPS} different messages came")
            self.groups.append(Group([client], number, None, update))
        if len(self.groups) > 1:  # the next answer is most likely of the largest group
            self.groups.sort(key=lambda group: -len(group.clients))

    def add_block(self, number: int, clients: Sequence[str], total: Additive) -> bool:
        """Add the sum of all usable answers of a block; False, and nothing is added, if it cannot.

        As if the answers came one by one, which must be so for a block of which some are added.
        """
        if self.groups:
            first = self.groups[0]
            return first.number != number and first.takes(number, clients, total)
        self.groups.append(Group([*clients], number, None, total))
        return True

    def total(self, fewest: int, refused: Sequence[Refusal] = ()) -> Additive:
        """Return the sum that most clients are in; the others are `left_out` then, with a reason.

        TooFewClientsError, with the reasons `refused` and those, if fewer than `fewest` are in it.
        """
        if len(self.groups) > 1:
            most = max(len(group.clients) for group in self.groups)
            rivals = [group for group in self.groups if len(group.clients) == most]
            # By digest where as many sent one as the other: not by who came first.
            largest = min(rivals, key=_outline) if len(rivals) > 1 else rivals[0]
            for group in self.groups:
                if group is not largest:
                    self._leave_out(group, *_difference(group, largest))
            self.groups = [largest]
        self.left_out.sort(key=lambda refusal: refusal.client)
        n_used = len(self.groups[0].clients) if self.groups else 0
        if n_used < max(fewest, 1):
            raise TooFewClientsError(
                f"{n_used} clients gave a usable answer, the plan asks for {fewest} of the "
                f"{len(self.cohort)} asked{reasons([*refused, *self.left_out])}"
            )
        return self.groups[0].total()

    def _leave_out(self, group: Group, reason: str, code: str = "does-not-add") -> None:
        self.left_out += [Refusal.of(client, code, reason) for client in group.clients]


@dataclass(eq=False)
class Group:
    """The sum of answers that add to each other, and whose they are: whole blocks, and an open one.

    `ahead` is the whole with the open block, where that is known.
    """

    clients: list[str]
    number: int
    whole: Additive | None
    block: Additive | None
    ahead: Additive | None = None

    def takes(self, number: int, clients: Sequence[str], update: Additive) -> bool:
        """Add an answer, or the sum of a block, if it can be; if not, the sum stays as it is."""
        try:
            with np.errstate(over="raise"):
                if number == self.number and self.block is not None:
                    self.block, self.ahead = plus(self.block, update), None
                else:
                    whole = self.total()
                    # It raises now, while it is known whose fault it is.
                    self.ahead = plus(whole, update)
                    self.number, self.block = number, update
        except Exception:
            return False
        self.clients += clients
        return True

    def total(self) -> Additive:
        """Return the sum, in which the block that was open is closed."""
        if self.block is not None:
            if self.ahead is None:
                self.ahead = self.block if self.whole is None else plus(self.whole, self.block)
            self.whole, self.block, self.ahead = self.ahead, None, None
        assert self.whole is not None
        return self.whole


def _outline(group: Group) -> bytes:
    """Return the SHA-256 (32,) of a sum apart from its numbers: its kind, its facts, its shapes."""
    total = group.total()
    # Whose the parts are that a tally keeps says who came, not what.
    parts = serialize(total.total if isinstance(total, Tally) else total)
    told = [parts.kind, parts.facts, [*map(np.shape, parts.arrays)]]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest()


def _difference(group: Group, largest: Group) -> tuple[str, str]:
    """Return why the answers of a group do not add to those of most clients, and a code."""
    code, said = "does-not-add", "the answer does not add to those of most clients"
    try:
        plus(group.total(), largest.total())
    except Exception as error:
        code, said = getattr(error, "code", code), f"{said}: {error}"
    for came, most in zip(measured(group.total()), measured(largest.total()), strict=False):
        for name in came.sizes.keys() & most.sizes.keys():
            if came.sizes[name] != most.sizes[name]:
                return f"{came.sizes[name]} {name} came, most clients sent {most.sizes[name]}", code
    return said, code


def reasons(refused: Sequence[Refusal]) -> str:
    """Return the latest reasons why answers were not used, each once, for an error message.

    >>> reasons([Refusal("ann", "refused", "no data"), Refusal("bob", "refused", "no data")])
    ' (ann: no data)'
    """
    first = {r.reason: r.client for r in reversed(refused)}
    given = [f"{first[reason]}: {reason}" for reason in dict.fromkeys(r.reason for r in refused)]
    return f" ({'; '.join(given[-3:])})" if given else ""


@dataclass(frozen=True, eq=False)
class BlockSum:
    """The sum of a block's usable answers, and all that the server would have seen of each.

    Parameters
    ----------
    asked
        The clients of the block, or of several in a row if their sums are exact.
    clients
        Those in the sum, in their order.
    total
        The sum, None if nobody gave a usable answer.
    claims
        (n, 2) the rows and the weight that each client in the sum claims, as it may.
    entries
        The ledger's rows of all answers, by block.
    bytes_up
        Of all answers.
    refused
        Clients whose answers cannot be used, and why.
    """

    asked: tuple[str, ...]
    clients: tuple[str, ...] = ()
    total: Additive | None = None
    claims: NDArray[np.float64] = field(default_factory=partial(np.zeros, (0, 2)))
    entries: tuple[Entries, ...] = ()
    bytes_up: int = 0
    refused: tuple[Refusal, ...] = ()


def _exact_parts(update: Additive) -> Mapping[int | None, Any]:
    """Return the sums of a tally by group if their order never shows and no client's is kept."""
    exact = isinstance(update, Tally) and getattr(update.total, "is_exact", False)
    return (update.by_group or {None: update.total}) if exact and not update.by_client else {}


def sum_block(
    plan: AnyPlan,
    message: bytes,
    engine: Engine,
    clients: Sequence[str],
    before: BlockSum | None = None,
) -> BlockSum | None:
    """Return the sum of a block's answers, None if not all add to each other or may be added.

    As on a client, the turn in which answers are read does not know the whole cohort.

    Parameters
    ----------
    plan
        What is run.
    message
        The request to everybody.
    engine
        Carries it to these clients.
    before
        The exact sum of the blocks before, to which this one is added.
    """
    before, ledger, summed = before or BlockSum(()), EntryList(), list[str]()
    claims: list[tuple[float, float]] = []
    asked = Round(plan, Request.from_bytes(message, "").context, engine, ledger)
    sums, exact = Sums(clients), dict(_exact_parts(before.total))
    for client, update in asked.replies(dict.fromkeys(clients, message), plan.read):
        claim, parts = claimed(update), _exact_parts(update)
        try:
            claim.check(plan.limits)
            for key, part in parts.items():
                exact[key] = plus(exact[key], part) if key in exact else part
            if not parts:
                sums.add(client, update)
        except Exception:
            return None
        if len(sums.groups) + bool(exact) > 1:
            return None
        summed.append(client)
        claims.append((claim.rows, claim.weight))
    total = sums.total(1) if sums.groups else None
    if exact:
        groups = {key: part for key, part in exact.items() if key is not None}
        total = Tally(reduce(plus, exact.values()), {}, groups)
    return BlockSum(
        asked=(*before.asked, *clients),
        clients=(*before.clients, *summed),
        total=total,
        claims=np.concatenate([before.claims, np.array(claims).reshape(-1, 2)]),
        entries=(*before.entries, Entries.of(ledger.entries)),
        bytes_up=before.bytes_up + asked.bytes_up,
        refused=(*before.refused, *asked.refused),
    )


def sum_blocks(
    plan: AnyPlan, message: bytes, engine: Engine, blocks: Iterable[Sequence[str]]
) -> list[BlockSum | None]:
    """Return the sums of blocks, as of `sum_block`; exact ones that follow each other are one.

    Where clients are compared each block has its own, so that few are asked one by one for one.
    """
    found: list[BlockSum | None] = []
    for clients in blocks:
        last = found[-1] if found and plan.limits == LIMITS else None
        onto = last if last is not None and _exact_parts(last.total) else None
        one = sum_block(plan, message, engine, clients, onto)
        if onto is not None and one is not None:
            found.pop()
        found.append(one)
    return found


@dataclass(eq=False)
class Round:
    """One round under way: its requests, the answers to them, and their sum.

    Parameters
    ----------
    plan, turn, engine
        What is run, which round it is, and who carries its requests.
    keeper
        Writes down the messages.
    watch
        Called with (round, clients done, clients asked) as replies come in.
    context
        What clients must know to make the plan for themselves.
    """

    plan: AnyPlan
    context: RoundContext
    engine: Engine
    keeper: Keeper[Any] = field(default_factory=Keeper)
    watch: Watch | None = None
    stage_inputs: Message = NOTHING
    started: float = field(default_factory=time.perf_counter)
    bytes_down: int = 0
    bytes_up: int = 0
    refused: list[Refusal] = field(default_factory=list)
    done: int = 0  # answers to the requests that are out
    message: bytes = b""  # the request to everybody
    sums: Sums = field(init=False)
    screen: Screen = field(init=False)

    def _refuse(self, client: str, error: Exception) -> None:
        self.refused.append(Refusal.because(client, error))

    def send(
        self, stage: str, requests: Mapping[str, Message], copies: int = 1
    ) -> dict[str, bytes]:
        """Return requests as they are sent, all of them noted; "" is everybody."""
        messages, last = {}, (NOTHING, b"")
        for client, payload in requests.items():
            # Written once where all clients get one and the same request.
            if payload is not last[0] or not last[1]:
                request = Request(
                    self.context.plan, self.context, stage, payload, self.stage_inputs
                )
                last = payload, request.to_bytes()
            messages[client] = last[1]
            self.bytes_down += len(last[1]) * copies
            self.keeper.note(Entry.of(self.context.round, client, "down", payload, last[1]))
        self.done = 0
        return messages

    def sum(self, payload: Message, fewest: int) -> tuple[Additive, int]:
        """Return the sum of the answers to one request to everybody, and how many are in it."""
        cohort, limits = self.context.cohort, self.plan.limits
        counted = limits is LIMITS and self.engine.has_data  # here, by whoever sums: no claims
        self.sums = Sums(cohort)
        self.screen = Screen(limits, 0 if counted else len(cohort), self._refuse)
        self.message = self.send("update", {"": payload}, len(cohort))[""]
        blocks = [cohort[begin : begin + BLOCK] for begin in range(0, len(cohort), BLOCK)]
        sums = self.engine.sums(self.message, blocks)
        left = [cohort] if sums is None else self._add_blocks(sums)
        for clients in left:
            requests = dict.fromkeys(clients, self.message)
            for client, update in self.replies(requests, self.plan.read):
                if counted:  # by the client, too, in `protected`
                    self.sums.add(client, update)
                    continue
                for name, passed in self.screen.take(client, update, claimed(update)):
                    self.sums.add(name, passed)
        for client, update in () if counted else self.screen.rest():
            self.sums.add(client, update)
        try:
            total = self.sums.total(fewest, self.refused)
        except TooFewClientsError:
            self.engine.raise_fault(len(cohort))
            raise
        self.refused.extend(self.sums.left_out)
        return total, len(self.sums.groups[0].clients)

    def _add_blocks(self, sums: Iterable[BlockSum | None]) -> Iterator[Sequence[str]]:
        """Add blocks as a whole where that gives the same; yield clients to ask one by one."""
        cohort, done = self.context.cohort, 0
        for block in sums:
            clients = cohort[done : done + BLOCK] if block is None else block.asked
            number, done = done // BLOCK, done + len(clients)
            if block is None or not self._takes(number, block):
                yield clients
                continue
            self.bytes_up += block.bytes_up
            self.refused.extend(block.refused)
            for entries in block.entries:
                self.keeper.note_all(entries)
            if self.watch:
                self._tell(self.watch, len(block.asked), len(cohort))
        if done < len(cohort):
            yield cohort[done:]

    def _takes(self, number: int, block: BlockSum) -> bool:
        if block.total is None:
            return True
        before = self.screen.mark()
        if not self.screen.pass_together(block.clients, block.claims):
            return False
        if self.sums.add_block(number, block.clients, block.total):
            return True
        self.screen.go_back(before)
        return False

    def replies(
        self, requests: Mapping[str, bytes], read: Callable[[Message, RoundContext], V]
    ) -> Iterator[tuple[str, V]]:
        """Yield each client's first answer; one that cannot be used is noted with its reason."""
        seen: dict[str, str] = {}
        n_asked = len(self.context.cohort) if self.message else len(requests)
        own = self.engine.has_data
        for reply in self.engine.ask(requests):
            value: V | None = None
            try:
                if reply.client not in requests:
                    raise UploadError("stranger", f"{reply.client} was not asked")
                if reply.message is None:
                    raise UploadError("no-answer", reply.error or "the client did not answer")
                written, parts = reply.written or (b"", None)
                # Somebody may have put other bytes in their place on the way.
                if parts is None or written is not reply.message:
                    parts = Message.from_bytes(reply.message, header_limit=REPLY_HEADER)
                self.bytes_up += len(reply.message)
                entry = Entry.of(self.context.round, reply.client, "up", parts, reply.message)
                self.keeper.note(entry)
                again = reply.client in seen
                if seen.setdefault(reply.client, entry.sha256) != entry.sha256:
                    words = f"{reply.client} sent two different answers in a round"
                    raise UploadError("conflict", words)
                if parts.kind == "refusal" and not again:
                    raise UploadError(str(parts.facts.get("code")), str(parts.facts.get("reason")))
                if not again:
                    value = read(parts, replace(self.context, client=reply.client, own=own))
            except Exception as error:  # one client's answer never ends the run of the others
                self._refuse(reply.client, error)
            if value is not None:
                yield reply.client, value
            if self.watch:
                self._tell(self.watch, 1, n_asked)

    def _tell(self, watch: Watch, n: int, n_asked: int) -> None:
        self.done += n
        watch(self.context.round, self.done, n_asked)


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
        prepared_by: Any = getattr(made, "prepared_by", None)
        return prepared_by(self.plan.preprocessing, self.plan.channels) if prepared_by else made

    @property
    def model(self) -> Model:
        """The model that was trained; FederationError if the algorithm makes no single one."""
        made = self.result
        found = made if isinstance(made, Model) else model_of(made)
        if found is None:
            raise FederationError(
                f"{type(self.plan.algorithm).__name__} makes no single model but a "
                f"{type(made).__name__}; use .result"
            )
        return found

    @property
    def predictor(self) -> Predictor:
        """What predicts from raw recordings; FederationError if the algorithm makes no such."""
        made = self.result
        found = made if isinstance(made, Predictor) else model_of(made)
        if found is None:
            raise FederationError(
                f"{type(self.plan.algorithm).__name__} makes a {type(made).__name__}, which "
                "predicts nothing from recordings; use .result"
            )
        return found


def model_of(made: object) -> Model | None:
    """Return the one model that the result of a run is or amounts to, None if it is none."""
    return made if isinstance(made, Model) else getattr(made, "model", None)


def run(
    plan: Plan[S, U, R],
    engine: Engine,
    *,
    keeper: Keeper[S] | None = None,
    watch: Watch | None = None,
    journal: Any = None,
    stage_inputs: Message = NOTHING,
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
        The state of an earlier run, with which this one begins, or goes on.
    """
    if not isinstance(engine, Engine):
        raise not_derived(engine, Engine)
    algorithm, keeper = plan.algorithm, keeper or Keeper[S]()
    state, records = keeper.resume() or (algorithm.start() if onto is None else onto, ())
    state = state if onto is None else onto
    told = "" if stage_inputs is NOTHING else digest_of(stage_inputs)
    for number in range(len(records), plan.rounds):
        if algorithm.finished(state):
            break
        clients = engine.clients()
        check_client_names(clients)
        cohort = plan.cohort(clients, number)
        context = RoundContext(number, cohort, plan.seed, plan=plan.fingerprint(), told=told)
        for protection in plan.protections:
            protection.before(context)
        under_way = Round(plan, context, engine, keeper, watch, stage_inputs)
        payload = algorithm.broadcast(state, context)
        fewest = max(plan.min_clients, plan.limits.fewest(len(cohort)))
        exchange: Exchange | None = None
        if plan.masking is None:
            total, n_used = under_way.sum(payload, fewest)
        else:
            exchange = plan.masking.open(context, min_clients=fewest, journal=journal)
            total, n_used = masked(under_way, exchange, payload)
        for k, protection in reversed(list(enumerate(plan.plain))):
            inner = partial(plan.read, protections=plan.plain[:k])
            total = protection.on_server(total, context, inner)
        state = algorithm.server_update(state, total, context)
        figures = algorithm.figures(state)
        numbers = dict(zip(figures, map(float, figures.values()), strict=True))
        seconds, refused = time.perf_counter() - under_way.started, tuple(under_way.refused)
        sent = (under_way.bytes_down, under_way.bytes_up)
        record = Record(number, len(cohort), n_used, seconds, *sent, refused, numbers)
        records = (*records, record)
        keeper.close_round(state, record)
        if exchange is not None:
            exchange.publish()
        if not engine.has_data:
            engine.counted(number, sorted(set(cohort) - {one.client for one in refused}))
    return Result(state, plan, records)


def masked(under_way: Round, exchange: Exchange, payload: Message) -> tuple[Additive, int]:
    """Return the sum of a round's masked uploads, every mask off, and how many there were."""
    try:
        for stage in exchange.stages:
            clients = exchange.asked(stage)
            requests = {client: exchange.request(stage, client, payload) for client in clients}
            sent = under_way.send(stage, requests)
            deque(under_way.replies(sent, partial(exchange.take, stage)), maxlen=0)
            try:
                exchange.close(stage)
            finally:
                under_way.refused.extend(Refusal.of(*one) for one in exchange.left_out())
    except TooFewClientsError as error:
        raise TooFewClientsError(f"{error}{reasons(under_way.refused)}") from error
    except FederationError as error:
        for one in under_way.refused:
            error.add_note(f"{one.client} was left out: {one.reason}")
        raise
    total, n_used = exchange.result(under_way.plan.read)
    check_total(total, under_way.plan.limits, n_used)
    return total, n_used
