"""Clients that sum plain vectors, and engines that lose, repeat and delay what they carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.engine import LocalEngine
from catchment.federation import (
    Algorithm,
    Data,
    Engine,
    Memory,
    Node,
    Plan,
    Reply,
    Request,
    Result,
    RoundContext,
    run,
)
from catchment.privacy import Journal, Policy, PrivacyLedger, SecureAggregation, generate_keys
from catchment.privacy.secure_aggregation import Ring, SecureRound
from catchment.wire import NOTHING, Message, Summable


class RefusedError(Exception):
    """A client's refusal, as a server sees it."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


# On the full graph nobody is asked for "nonces".
EVERY = ("keys", "nonces", "shares", "boxes", "update", "consistency", "unmask")
STAGES = ("keys", "shares", "boxes", "update", "consistency", "unmask")


@dataclass(frozen=True, eq=False)
class Numbers(Summable):
    """A vector that adds."""

    values: Array


@dataclass(frozen=True, kw_only=True)
class Adding(Algorithm[Numbers | None, Numbers, Numbers | None]):
    """Every client sends its inputs; the state is the sum of the last round."""

    label: str = ""

    def start(self) -> Numbers | None:
        return None

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Numbers:
        return Numbers(np.concatenate([sequence.u.ravel() for sequence in data()]))

    def server_update(
        self, state: Numbers | None, total: Numbers, context: RoundContext
    ) -> Numbers:
        return total

    def result(self, state: Numbers | None) -> Numbers | None:
        return state


AddingPlan = Plan[Numbers | None, Numbers, Any]


@dataclass(eq=False)
class Fleet:
    """Clients with vectors, identities and memories, and the plan they agreed to."""

    vectors: Mapping[str, Array]
    plan: AddingPlan
    memories: dict[str, Memory]
    policy: Policy = field(default_factory=Policy)

    @classmethod
    def of(
        cls,
        vectors: Mapping[str, Array],
        *,
        rounds: int = 1,
        policy: Policy | None = None,
        **settings: Any,
    ) -> Fleet:
        identities = generate_keys(vectors)
        memories = identities.memories
        chosen: dict[str, Any] = {"min_clients": 3} | settings
        masking = SecureAggregation(identities=identities, **chosen)
        plan: AddingPlan = Plan(algorithm=Adding(), rounds=rounds, protections=(masking,))
        return cls(vectors, plan, memories, policy or Policy())

    @classmethod
    def drawn(
        cls,
        n_clients: int,
        *,
        length: int = 3,
        seed: int = 0,
        rounds: int = 1,
        **settings: Any,
    ) -> Fleet:
        rng = np.random.default_rng(seed)
        vectors = {
            f"c{k:03d}": rng.normal(size=length) * 10.0 ** rng.integers(-6, 7, length)
            for k in range(n_clients)
        }
        return cls.of(vectors, rounds=rounds, **settings)

    @property
    def masking(self) -> SecureAggregation:
        masking = self.plan.masking
        assert isinstance(masking, SecureAggregation)
        return masking

    def engine(self, *, threads: int = 1) -> LocalEngine[Numbers | None, Numbers, Any]:
        sources = {name: [Recording(vector)] for name, vector in self.vectors.items()}
        return LocalEngine(self.plan, sources, threads, self.memories, self.policy)

    def run(
        self, engine: Engine | None = None, *, journal: Journal | None = None
    ) -> Result[Numbers | None, Any]:
        return run(self.plan, engine or self.engine(), journal=journal)

    def node(self, client: str) -> Node[Numbers | None, Numbers, Any]:
        vector, memory = self.vectors[client], self.memories[client]
        ledger = PrivacyLedger(memory, self.policy)
        return Node(client, self.plan, lambda: [Recording(vector)], memory, ledger)

    def open(self, *, journal: Journal | None = None, round_: int = 0) -> SecureRound:
        """Return the server's half of a round, to be driven by hand."""
        context = RoundContext(round_, tuple(sorted(self.vectors)), plan=self.plan.fingerprint())
        opened = self.masking.open(context, min_clients=1, journal=journal)
        assert isinstance(opened, SecureRound)
        return opened

    def ask(self, client: str, stage: str, raw_request: Message, *, round_: int = 0) -> Message:
        """Return a client's answer to a request of anybody's making; RefusedError if it refuses."""
        fingerprint = self.plan.fingerprint()
        request = Request(
            fingerprint, RoundContext(round_, (), plan=fingerprint), stage, raw_request
        )
        reply = Message.from_bytes(self.node(client).answer(request.to_bytes()))
        if reply.kind == "refusal":
            raise RefusedError(str(reply.facts["code"]), str(reply.facts["reason"]))
        return reply

    def step(
        self, exchange: SecureRound, stage: str, clients: Iterable[str] | None = None
    ) -> dict[str, Message]:
        """Run one stage as an honest server does; return the requests it sent."""
        requests = {c: exchange.request(stage, c, NOTHING) for c in exchange.asked(stage)}
        for client in requests if clients is None else clients:
            context = RoundContext(0, (), client=client)
            exchange.take(stage, self.ask(client, stage, requests[client]), context)
        exchange.close(stage)
        if stage == "keys" and not exchange.asked("nonces"):
            exchange.close("nonces")
        return requests

    def until(self, stage: str) -> SecureRound:
        """Return a round that an honest server has brought to the beginning of a stage."""
        return self.up_to(self.open(), stage)

    def up_to(self, exchange: SecureRound, stage: str) -> SecureRound:
        """Bring a round that was begun to the beginning of a stage."""
        for earlier in exchange.stages:
            if earlier == stage:
                break
            self.step(exchange, earlier)
        return exchange

    def expected(self, clients: Iterable[str], ring: Ring | None = None) -> Array:
        """Return the sum of encodings in Python's integers, rounded once."""
        fraction = (ring or self.masking.ring).fraction
        rows = [[round(Fraction(x) * 2**fraction) for x in self.vectors[c]] for c in clients]
        return np.array([sum(column) / 2**fraction for column in zip(*rows, strict=True)])


def released(result: Result[Numbers | None, Any]) -> Array:
    assert result.state is not None
    return result.state.values


def stage_of(raw_request: bytes) -> str:
    return Request.from_bytes(raw_request, "").stage


@dataclass(eq=False)
class Lossy(Engine):
    """An engine that loses requests on the way down, or answers on the way up."""

    engine: Engine
    lost: Callable[[str, str], str | None]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, raw_request in requests.items():
            stage = stage_of(raw_request)
            self.asked.append((stage, client))
            way = self.lost(stage, client)
            if way == "down":
                yield Reply(client, None, "lost")
                continue
            for reply in self.engine.ask({client: raw_request}):
                yield Reply(client, None, "lost") if way == "up" else reply


def losing(fates: Mapping[str, str]) -> Callable[[str, str], str | None]:
    """Return who is lost: each client answers nothing from the stage of its fate on."""

    def lost(stage: str, client: str) -> str | None:
        fate = fates.get(client)
        if fate is None:
            return None
        return "down" if EVERY.index(stage) >= EVERY.index(fate) else None

    return lost


@dataclass(eq=False)
class Tapped(Engine):
    """An engine that remembers the requests and answers it carried, by stage and client."""

    engine: Engine
    requests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    said: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.engine.ask(requests):
            stage = stage_of(requests[reply.client])
            self.requests[stage, reply.client] = requests[reply.client]
            if reply.message is not None:
                self.said[stage, reply.client] = reply.message
            yield reply
