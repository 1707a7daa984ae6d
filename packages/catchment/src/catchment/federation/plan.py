"""What both sides of a federation agree on before it starts, and what one turn knows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from catchment.data.prepare import RAW, Prepare
from catchment.features.base import FeatureMap
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.federation.algorithm import (
    Additive,
    Algorithm,
    Completed,
    Data,
    Grouped,
    Learner,
    Needs,
    Speaking,
    Turn,
    Upload,
    as_algorithm,
    needs_of,
)
from catchment.federation.limits import Limits
from catchment.structure import Kind
from catchment.wire import Fact, Parts

__all__ = [
    "Additive",
    "Algorithm",
    "Data",
    "Exacting",
    "Exchange",
    "Grouped",
    "Identified",
    "Journal",
    "Learner",
    "Masking",
    "Memory",
    "Needs",
    "Plan",
    "Protection",
    "Read",
    "Settling",
    "Turn",
    "Upload",
    "as_algorithm",
    "describe",
    "needs_of",
]

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")


class Protection(Protocol):
    """Both halves of a change to uploads: made on the client, undone on the sum if it can be."""

    def on_client(self, upload: Upload, turn: Turn) -> Upload:
        """Return what leaves the client instead."""

    def read_update(self, parts: Parts, turn: Turn, inner: Read) -> Additive:
        """Return what came, ready to add; `inner` reads what was there before this protection."""

    def on_server(self, total: Additive, turn: Turn, inner: Read) -> Additive:
        """Return the sum as it would be without this protection, as far as it can be had."""


@runtime_checkable
class Exacting(Protocol):
    """A protection whose promise depends on the rest of the plan, or on what happened before."""

    def check(self, plan: Plan[Any, Any, Any]) -> None:
        """Raise ValueError if the plan would break what is promised."""

    def before(self, turn: Turn) -> None:
        """Raise to refuse a round before any client is asked."""


@runtime_checkable
class Settling(Protocol):
    """A protection with settings that, where they are not given, follow from the masking."""

    def beside(self, masking: Masking) -> Self:
        """Return the protection as it is with that masking."""


Read = Callable[[Parts, Turn], Additive]
Memory = MutableMapping[str, bytes]


@runtime_checkable
class Masking(Protocol):
    """A protection with messages of its own before and after the upload, such as a secure sum."""

    def exact(self, *, of_few: bool = False) -> Self:
        """Return the protection for sums of any size, which rounds nothing.

        `of_few` is for sums over few of the registered clients, as those that test a model.
        """

    def open(self, turn: Turn, *, min_clients: int, journal: Journal | None) -> Exchange:
        """Return the server's half of one round, or of the one that the journal left unfinished."""

    def on_stage(self, stage: str, received: Parts, turn: Turn, memory: Memory) -> Parts:
        """Return a client's answer to a stage; secrets stay in its memory."""

    def mask(
        self, received: Parts, upload: Callable[[Parts, Turn], Upload], turn: Turn, memory: Memory
    ) -> Upload:
        """Return the masked upload; `upload` makes it from the algorithm's own letter.

        The turn it is made with has the session and a ledger, for noise that is drawn once only.
        """


class Exchange(Protocol):
    """The server's half of a masking protocol in one round; the loop carries its letters."""

    @property
    def stages(self) -> Iterable[str]:
        """The stages in their order, to be closed one after the other."""

    def asked(self, stage: str) -> Sequence[str]:
        """Return the clients whose answers to a stage are wanted and not yet here."""

    def letter(self, stage: str, client: str, payload: Parts) -> Parts:
        """Return what a client is sent at a stage; "update" carries the algorithm's payload."""

    def take(self, stage: str, parts: Parts, turn: Turn) -> bool:
        """Note a client's answer; raise IntegrityError or UploadError if it cannot be used."""

    def close(self, stage: str) -> None:
        """End a stage for good; raise TooFewClientsError if too few answered it to go on."""

    def left_out(self) -> Sequence[tuple[str, str, str]]:
        """Return whom the protocol itself left out since the last call: name, code and reason."""

    def result(self, inner: Read) -> tuple[Additive, int]:
        """Return the sum without masks, read by `inner`, and how many clients are in it."""

    def publish(self) -> None:
        """Note that the state after the round is kept, so that the round is never run again."""


class Journal(Protocol):
    """What the server's half of a masking protocol writes down before it acts on it."""

    def begin(
        self, plan: str, round_: int, cohort: Sequence[str], *, after: int = 0
    ) -> tuple[int, tuple[str, ...]]:
        """Return the number and the cohort of the unfinished attempt at a round, or of a new one.

        Numbers of attempts only grow, and are above `after`.
        """

    def closed(self, attempt: int) -> Mapping[str, tuple[str, ...]]:
        """Return the stages that are over, in their order, and who went on."""

    def replies(self, attempt: int, stage: str) -> Iterator[tuple[str, bytes]]:
        """Yield the answers to a stage that are kept."""

    def keep(self, attempt: int, client: str, message: bytes) -> bool:
        """Keep an upload, on the disk when this returns; False if the same was kept before.

        UploadError if the client gave another, or if the uploads are sealed.
        """

    def close(
        self,
        attempt: int,
        stage: str,
        members: Sequence[str],
        replies: Mapping[str, bytes],
        *,
        state: str,
    ) -> None:
        """Keep the answers to a stage, that it is over, and who goes on: all or nothing."""

    def advance(self, attempt: int, state: str) -> None:
        """Note how far an attempt has come; there is no way back."""


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[S, U, R]):
    """An algorithm, how often and with whom it is run, and how its messages are protected.

    Parameters
    ----------
    algorithm
        What is learned: anything with the four methods of a `Learner`.
    rounds
        How many rounds to run, unless the algorithm says before that it is done.
    share
        Fraction of the clients asked in each round, drawn anew from the seed.
    min_clients
        Fewest answers with which a round may end.
    protections
        Applied in this order on the client, and undone in the reverse order on the server.
    limits
        How much one client may claim in a round, and how many must be usable.
    prepare
        What each client does to its raw recordings before the algorithm sees them.
    channels
        Names of the recordings' channels, for the model to know.
    n_targets
        How many targets statistics have, if that is known before any client is asked; others are
        refused then. If not given, the number that most clients send counts.
    """

    algorithm: Learner[S, U, R]
    rounds: int = 1
    share: float = 1.0
    min_clients: int = 1
    protections: tuple[Protection | Masking, ...] = ()
    seed: int = 0
    prepare: Prepare = RAW
    limits: Limits = field(default_factory=Limits)
    channels: tuple[str, ...] | None = None
    n_targets: int | None = None

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds is {self.rounds}; run at least 1")
        if not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share}; pass a fraction above 0 and at most 1")
        if self.min_clients < 1:
            raise ValueError(f"min_clients is {self.min_clients}; ask for at least 1")
        if any(isinstance(protection, Masking) for protection in self.protections[:-1]):
            raise ValueError("a secure sum must be the last of the protections")
        masking = self.masking
        if masking is not None:
            settled = (
                p.beside(masking) if isinstance(p, Settling) else p for p in self.protections
            )
            object.__setattr__(self, "protections", tuple(settled))
        unchanged = needs_of(self.algorithm).unchanged
        if unchanged and self.plain:
            raise ValueError(
                f"{type(self.algorithm).__name__} sends what {type(self.plain[0]).__name__} cannot "
                f"change: {unchanged}"
            )
        for protection in self.protections:
            if isinstance(protection, Exacting):
                protection.check(self)
        if masking is not None:
            self._refuse_hiding()

    def _refuse_hiding(self) -> None:
        """Raise ValueError if the server cannot do with the sum of the clients' messages."""
        for part in (self.algorithm, *self.plain):
            reason = needs_of(part).each_client
            if reason:
                raise ValueError(
                    f"{type(part).__name__} needs every client's message by itself, a secure sum "
                    f"shows the server nothing but their sum: {reason}"
                )

    @cached_property
    def whole(self) -> Completed[S, U, R]:
        """The algorithm with all that it left out filled in, as the loop runs it."""
        return as_algorithm(self.algorithm)

    @property
    def needs(self) -> Needs:
        """What the algorithm needs."""
        return self.whole.needs

    def messages(self) -> dict[str, Kind]:
        """Return the kinds of messages that clients may send, by name, as far as declared."""
        speaking = (p for p in self.protections if isinstance(p, Speaking))
        found = (*self.whole.messages, *(kind for part in speaking for kind in part.messages))
        return {kind.name: kind for kind in found}

    @cached_property
    def plain(self) -> tuple[Protection, ...]:
        """The protections that change an upload by themselves."""
        return tuple(p for p in self.protections if not isinstance(p, Masking))

    @cached_property
    def masking(self) -> Masking | None:
        """The protection that hides uploads in their sum, if there is one; always the last."""
        last = self.protections[-1] if self.protections else None
        return last if isinstance(last, Masking) else None

    def fewest(self, n_asked: int) -> int:
        """Return with how many usable answers a round may end at least."""
        # A product such as 0.1 * 30 is a little more than the whole number that is meant.
        return max(self.min_clients, math.ceil(self.limits.min_usable * n_asked - 1e-9))

    def cohort(self, clients: Sequence[str], round_: int) -> tuple[str, ...]:
        """Return the clients of a round, by name; the draw depends on the seed and round alone."""
        names = sorted(clients)
        if self.share == 1:
            return tuple(names)
        n = max(1, min(len(names), round(self.share * len(names))))
        rng = np.random.default_rng([self.seed, round_, 0xC0407])
        return tuple(names[k] for k in sorted(rng.choice(len(names), n, replace=False)))

    def fingerprint(self) -> str:
        """Return the SHA-256 of every setting; both sides compare it before they talk."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        # Every client compares it in every turn, and describing a plan takes longer than many do.
        return hashlib.sha256(json.dumps(describe(self), sort_keys=True).encode()).hexdigest()


@runtime_checkable
class Identified(Protocol):
    """A part of a plan that is not plain settings, such as a network's architecture."""

    def identity(self) -> str:
        """Return the same text for the same thing on every machine."""


def describe(value: object) -> Fact:
    """Return a value's settings as plain JSON; frozen parts appear by their fingerprint."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        # Before the protocols, against which a check takes long.
        case tuple() | list() if type(value) in (tuple, list):
            return [describe(item) for item in value]
        case Recipe():
            return {"recipe": value.to_json()}
        case Identified():
            return {type(value).__name__: value.identity()}
        case FeatureMap() if not value.is_bound:
            return _settings(value)
        case FeatureMap():
            return {value.plan_name: value.fingerprint}
        case Reservoir() | Prepare():
            return {type(value).__name__: value.fingerprint}
        case np.ndarray():
            return {"array": hashlib.sha256(value.tobytes()).hexdigest(), "shape": value.shape}
        case tuple() | list():
            return [describe(item) for item in value]
        case Mapping():
            return {str(key): describe(item) for key, item in value.items()}
        case Path():
            return value.name
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _settings(value)
    raise TypeError(f"a plan cannot hold a {type(value).__name__}; use plain settings")


def _settings(value: Any) -> Fact:
    inner = {
        one.name: describe(getattr(value, one.name))
        for one in fields(value)
        if not one.metadata.get("local") and not _as_before(value, one)
    }
    return {type(value).__name__: inner}


def _as_before(value: Any, one: Field[Any]) -> bool:
    """Whether a setting came later and is as if it had not: older plans keep their fingerprint."""
    return bool(one.metadata.get("later")) and getattr(value, one.name) == one.default
