"""The client's half of a turn: a message comes in, a message goes out."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from catchment.data.clients import LazyClients
from catchment.data.preprocessing import RAW
from catchment.errors import CatchmentError, IntegrityError
from catchment.federation.algorithm import Data, Ledger, Memory, RoundContext, Upload
from catchment.federation.checks import claimed
from catchment.federation.messages import Reply
from catchment.federation.plan import Plan
from catchment.wire import NOTHING, Message, digest, join, plain_text, serialize, split

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")
log = logging.getLogger(__name__)

# What a client answers with its reason: whatever is wrong with its data is its own affair.
REFUSED = Exception
# Errors that say themselves what is wrong; others are named, so that their cause can be found.
SAYING = (CatchmentError, ValueError, ArithmeticError, OSError)
LETTER_HEADER = 1 << 20  # bytes: JSON grows when it is read, and what is long travels as arrays


@dataclass(frozen=True, eq=False)
class Request:
    """What the server asks of a client at one stage of a round.

    `stage_inputs` is what the client must know to make the plan that is run, such as the maps that
    were built and the scale that was fitted before; nothing where it has the plan already.
    """

    plan: str
    context: RoundContext
    stage: str
    payload: Message
    stage_inputs: Message = NOTHING

    def to_bytes(self) -> bytes:
        about = Message(
            "turn",
            {
                "plan": self.plan,
                "round": self.context.round,
                "seed": self.context.seed,
                "stage": self.stage,
            },
        )
        named = {"turn": about, "payload": self.payload}
        if self.stage_inputs is not NOTHING:
            named["context"] = self.stage_inputs
        return join("request", named).to_bytes()

    @classmethod
    def from_bytes(
        cls, message: bytes, client: str, agreed: Plan[Any, Any, Any] | None = None
    ) -> Request:
        """Return the request as a client reads it; IntegrityError if it is malformed.

        Parameters
        ----------
        agreed
            What the client agreed to: a request that is not one of it, in plan, seed or round, is
            refused, too.
        """
        named = split(Message.from_bytes(message, header_limit=LETTER_HEADER), "request")
        stage_inputs = named.pop("context", NOTHING)
        if named.keys() != {"turn", "payload"}:
            raise IntegrityError("the request lacks its turn or its payload")
        facts = named["turn"].facts
        round_, seed = facts.get("round"), facts.get("seed")
        if type(round_) is not int or type(seed) is not int:
            raise IntegrityError("the request names no round")
        plan = str(facts.get("plan"))
        if agreed is not None and plan != agreed.fingerprint():
            raise IntegrityError("the server runs another plan than this client agreed to")
        if agreed is not None and (seed != agreed.seed or not 0 <= round_ < agreed.rounds):
            raise IntegrityError(
                f"the server names round {round_} and seed {seed}; the plan has {agreed.rounds} "
                f"rounds and seed {agreed.seed}"
            )
        told = "" if stage_inputs is NOTHING else digest_of(stage_inputs)
        context = RoundContext(round_, (), seed, client, plan, told=told)
        return cls(plan, context, str(facts.get("stage")), named["payload"], stage_inputs)


def digest_of(stage_inputs: Message) -> str:
    """Return the SHA-256 of what travels beside a request, the same on both sides."""
    return digest(stage_inputs.to_bytes()).hex()


def refusal(error: Exception) -> bytes:
    """Return the message with which a client says why it does not answer.

    >>> dict(Message.from_bytes(refusal(ValueError("no data"))).facts)
    {'code': 'refused', 'reason': 'no data'}
    >>> dict(Message.from_bytes(refusal(KeyError("y"))).facts)
    {'code': 'refused', 'reason': "KeyError: 'y'"}
    """
    said = str(error) if isinstance(error, SAYING) else f"{type(error).__name__}: {error}"
    about = {"reason": plain_text(said), "code": plain_text(getattr(error, "code", "refused"), 40)}
    return Message("refusal", about).to_bytes()


class Elsewhere(ABC):
    """Data that are not in this process: whoever holds them, such as a device, makes the upload."""

    @abstractmethod
    def upload(
        self, plan: Plan[Any, Any, Any], received: Message, context: RoundContext, memory: Memory
    ) -> Upload:
        """Return what the algorithm's `client_update` would, made where the data are."""

    @abstractmethod
    def vault(self, plan: Plan[Any, Any, Any], memory: Memory) -> Any:
        """Return who keeps the client's secrets of secure aggregation, None if its memory does."""

    @abstractmethod
    def counted(self, plan: Plan[Any, Any, Any], round_: int, memory: Memory) -> None:
        """Take note that the upload of a round is in its sum, and tell whoever holds the data."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the data are, such as a host and port: two clients of one place are one."""

    @abstractmethod
    def within(self, workflow: Any, *, of_plan_file: bool = True) -> Elsewhere:
        """Return the same as one of a workflow: what was made for another is refused."""

    @abstractmethod
    def hello(self) -> Any:
        """Return what it says of its data: `channels`, `per_step`, `outputs` and `classes`."""


def devices_of(clients: Mapping[str, object]) -> dict[str, Elsewhere]:
    """Return the clients whose data are elsewhere; there are none among those read lazily.

    TypeError for what is no mapping; ValueError if two of them are one device, whose data would
    count twice.
    """
    found: dict[str, Elsewhere] = {}
    if not isinstance(clients, Mapping):
        raise TypeError(
            f"clients is a {type(clients).__name__}; pass a dict of recordings by the client's "
            'name, {"ann": [...], "bob": [...]}'
        )
    if isinstance(clients, LazyClients):
        return found
    named: dict[str, str] = {}
    for name, one in clients.items():
        if isinstance(one, Elsewhere):
            found[name] = one
            other = named.setdefault(one.place, name)
            if other != name:
                raise ValueError(
                    f"{other} and {name} are both the device at {one.place}; name it once"
                )
    return found


@dataclass(frozen=True, eq=False)
class Node(Generic[S, U, R]):
    """One client: its name, the plan it agreed to, its raw data and its secrets, which stay.

    `ledger` is its own record of what was released of its data; without one, which is for clients
    that only simulate, nothing is noted but what secure aggregation notes by itself. Of data that
    are elsewhere whoever makes the upload notes what stands for them. `telling` says what of an
    error the server is told; all of it if not given.
    """

    name: str
    plan: Plan[S, U, R]
    data: Data | Elsewhere
    memory: Memory = field(default_factory=dict)
    ledger: Ledger | None = None
    telling: Callable[[Exception], Exception] | None = None

    def prepared(self, ledger: Ledger | None) -> Data:
        """Return the client's data as the algorithm sees them, noted in a ledger as it reads."""
        preprocessing = self.plan.preprocessing
        if isinstance(self.data, Elsewhere):
            raise TypeError(f"the data of {self.name} are elsewhere, they cannot be prepared here")
        data = self.data if ledger is None else ledger.reading(self.data)
        return data if preprocessing == RAW else lambda: preprocessing.stream(data())

    def answer(self, message: bytes) -> bytes:
        """Return the reply to a request, or a refusal with its reason."""
        try:
            request = Request.from_bytes(message, self.name, self.plan)
            masking, context = self.plan.masking, replace(request.context, ledger=self.ledger)
            if masking is not None:
                if isinstance(self.data, Elsewhere):
                    context = replace(context, vault=self.data.vault(self.plan, self.memory))
                elif request.stage in ("keys", "update"):
                    self.plan.algorithm.check_turn(self.data, context)
            if request.stage != "update":
                if masking is None:
                    raise IntegrityError(f"the plan has no stage {request.stage!r}")
                made = masking.on_stage(request.stage, request.payload, context, self.memory)
            elif masking is not None:
                made = serialize(masking.mask(request.payload, self.upload, context, self.memory))
            else:
                made = serialize(self.upload(request.payload, context))
                if self.ledger is not None:
                    self.ledger.upload(context.plan, context.round, made.kind)
            return made.to_bytes()
        except REFUSED as error:
            return refusal(error if self.telling is None else self.telling(error))

    def upload(self, payload: Message, context: RoundContext) -> Upload:
        """Return the upload, made where the data are and protected, but not masked."""
        plan, algorithm = self.plan, self.plan.algorithm
        if isinstance(self.data, Elsewhere):
            made = self.data.upload(plan, payload, context, self.memory)
        elif algorithm.carries:
            here = replace(context, preprocessing=plan.preprocessing, memory=self.memory)
            made = algorithm.client_update(payload, self.data, here)
        else:
            made = algorithm.client_update(payload, self.prepared(context.ledger), context)
        return protected(plan, made, context)


def protected(plan: Plan[Any, Any, Any], upload: Upload, context: RoundContext) -> Upload:
    """Return an upload as the plan lets it leave; UploadError if it claims more than it may.

    Within secure aggregation nobody else can say whose upload breaks the plan's limits.
    """
    claimed(upload).check(plan.limits)
    for protection in plan.plain:
        upload = protection.on_client(upload, context)
    return upload


def answer_together(nodes: Sequence[Node[S, U, R]], message: bytes) -> list[Reply]:
    """Return the replies of several clients of one machine to one and the same request.

    If that fails for any of them, each answers by itself, so that only the culprit is refused.
    """
    plan = nodes[0].plan
    alone = (
        len(nodes) == 1
        or plan.masking is not None
        or plan.algorithm.carries
        or any(node.ledger is not None or isinstance(node.data, Elsewhere) for node in nodes)
    )
    if not alone:
        try:
            request = Request.from_bytes(message, "", plan)
            if request.stage == "update":
                turns = [replace(request.context, client=node.name) for node in nodes]
                pairs = list(zip([node.prepared(None) for node in nodes], turns, strict=True))
                made = []
                for upload, context in zip(
                    plan.algorithm.client_updates(request.payload, pairs), turns, strict=True
                ):
                    sent = protected(plan, upload, context)
                    parts = serialize(sent)
                    written, read = parts.to_bytes(), parts.as_read(sent)
                    made.append(Reply(context.client, written, written=(written, read)))
                return made
        except REFUSED:
            log.debug("clients answer one by one: together they cannot", exc_info=True)
    return [Reply(node.name, node.answer(message)) for node in nodes]
