"""What both sides of a federation agree on before it starts, and its fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from catchment.arrays import Factor, PositiveInt, check_fields
from catchment.data.preprocessing import RAW, Preprocessing
from catchment.errors import UploadError
from catchment.features.base import FeatureMap, handed
from catchment.features.echo_state.reservoir import Reservoir
from catchment.federation.algorithm import (
    Additive,
    Algorithm,
    Requirements,
    RoundContext,
    Tally,
    not_derived,
)
from catchment.federation.checks import Limits
from catchment.federation.protection import Masking, Protection, Read
from catchment.wire import Fact, Kind, Message, measured
from catchment.wire.kept import GONE, KEPT, KEPT_SETTINGS

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[S, U, R]):
    """An algorithm, how often and with whom it is run, and how its messages are protected.

    Parameters
    ----------
    algorithm
        What is learned.
    rounds
        How many rounds to run, unless the algorithm says before that it is done.
    client_fraction
        Fraction of the clients asked in each round, drawn anew from the seed.
    min_clients
        Fewest answers with which a round may end.
    protections
        Applied in this order on the client, and undone in the reverse order on the server.
    limits
        How much one client may claim in a round, and how many must be usable.
    preprocessing
        What each client does to its raw recordings before the algorithm sees them.
    channels
        Names of the recordings' channels, for the model to know.
    n_targets
        How many targets statistics have, if that is known before any client is asked; others are
        refused then. If not given, the number that most clients send counts.
    """

    algorithm: Algorithm[S, U, R]
    rounds: PositiveInt = 1
    client_fraction: Factor = 1.0
    min_clients: PositiveInt = 1
    protections: tuple[Protection, ...] = ()
    seed: int = 0
    preprocessing: Preprocessing = RAW
    limits: Limits = field(default_factory=Limits)
    channels: tuple[str, ...] | None = None
    n_targets: int | None = None
    # The protection that hides uploads in their sum, if there is one, and those before it.
    masking: Masking | None = field(init=False, repr=False, compare=False, metadata={"local": True})
    plain: tuple[Protection, ...] = field(
        init=False, repr=False, compare=False, metadata={"local": True}
    )

    def __post_init__(self) -> None:
        for k, part in enumerate((self.algorithm, *self.protections)):
            base = Protection if k else Algorithm
            if not isinstance(part, base):
                raise not_derived(part, base)
        for k, part in enumerate(self.protections, start=1):
            if part.hides and k < len(self.protections):
                raise ValueError("secure aggregation must be the last of the protections")
        check_fields(self)
        last = self.protections[-1] if self.protections else None
        masking = last if isinstance(last, Masking) else None
        if masking is not None:
            masking = masking.beside(masking)
            others = [protection.beside(masking) for protection in self.protections[:-1]]
            object.__setattr__(self, "protections", (*others, masking))
        object.__setattr__(self, "masking", masking)
        plain = self.protections if masking is None else self.protections[:-1]
        object.__setattr__(self, "plain", plain)
        for protection in self.protections:
            protection.check(self)
        parts: tuple[Algorithm[S, U, R] | Protection, ...] = (self.algorithm, *self.plain)
        for one in parts if masking is not None else ():
            reason = one.requirements.each_client
            if reason:
                raise ValueError(
                    f"{type(one).__name__} needs every client's message by itself, secure "
                    f"aggregation shows the server nothing but their sum: {reason}"
                )

    requirements: ClassVar[Requirements] = handed("algorithm.requirements")

    def messages(self) -> dict[str, Kind]:
        """Return the kinds of messages that clients may send, by name, as far as declared."""
        found, every = {}, list(self.algorithm.messages)
        for protection in self.protections:
            every += protection.messages
        for kind in every:
            found[kind.name] = kind
        return found

    def read(
        self,
        parts: Message,
        context: RoundContext,
        protections: tuple[Protection, ...] | None = None,
    ) -> Additive:
        """Return an upload as the algorithm reads it, behind these protections; all if not given.

        UploadError if it has other targets than planned.
        """
        outer = self.plain if protections is None else protections
        inner: Read = self.algorithm.read_update
        if len(outer) > 1:
            inner = partial(self.read, protections=outer[:-1])
        update = outer[-1].read_update(parts, context, inner) if outer else inner(parts, context)
        if self.n_targets is not None:
            # Of a client's tally the parts that are kept are what the total is.
            for found in measured(update.total if isinstance(update, Tally) else update):
                came = found.sizes.get("targets", self.n_targets)
                if came != self.n_targets and not self.algorithm.requirements.other_targets:
                    raise UploadError("shape", f"{came} targets came, {self.n_targets} are planned")
        return update

    def cohort(self, clients: Sequence[str], round_: int) -> tuple[str, ...]:
        """Return the clients of a round, by name; the draw depends on the seed and round alone."""
        names = sorted(clients)
        if self.client_fraction == 1:
            return tuple(names)
        n = max(1, min(len(names), round(self.client_fraction * len(names))))
        rng = np.random.default_rng([self.seed, round_, 0xC0407])
        return tuple(names[k] for k in sorted(rng.choice(len(names), n, replace=False)))

    def fingerprint(self) -> str:
        """Return the SHA-256 of every setting; both sides compare it before they talk."""
        known: dict[str, str] = self.__dict__
        # Every client compares it in every turn, and describing a plan takes longer than many do.
        if "_fingerprint" not in known:
            told = json.dumps(describe(self), sort_keys=True)
            known["_fingerprint"] = hashlib.sha256(told.encode()).hexdigest()
        return known["_fingerprint"]


@runtime_checkable
class Identified(Protocol):
    """A part of a plan that is not plain settings, such as a network's architecture."""

    def identity(self) -> Fact:
        """Return the same text for the same thing on every machine.

        A table stands for itself, with its name; nothing where all of it is plain settings.
        """


def describe(value: object) -> Fact:
    """Return a value's settings as plain JSON; frozen parts appear by their fingerprint."""
    name = KEPT.get(type(value).__name__, type(value).__name__)
    match value:
        case str():
            return KEPT.get(value, value)
        case None | bool() | int() | float():
            return value
        # Before the protocols, against which a check takes long.
        case tuple() | list() if type(value) in (tuple, list):
            return [*map(describe, value)]
        case Identified() if (told := value.identity()) is not None:
            return told if isinstance(told, dict) else {name: told}
        case FeatureMap() if value.is_bound:
            return {"Adapted": value.fingerprint}  # by which runs are recognized
        case Reservoir() | Preprocessing():
            return {name: value.fingerprint}
        case np.ndarray():
            return {"array": hashlib.sha256(value.tobytes()).hexdigest(), "shape": value.shape}
        case tuple() | list():
            return [describe(item) for item in value]
        case Mapping():
            return {str(key): describe(item) for key, item in value.items()}
        case Path():
            return value.name
        case _ if is_dataclass(value) and not isinstance(value, type):
            inner, names = {}, KEPT_SETTINGS if isinstance(value, FeatureMap) else KEPT
            for one in fields(value):
                held = getattr(value, one.name)
                # A setting that came later and is as if it had not: older plans keep their
                # fingerprint.
                as_before = one.metadata.get("later") and held == one.default
                if not one.metadata.get("local") and not as_before:
                    inner[names.get(one.name, one.name)] = describe(held)
            return {name: {**GONE.get(name, {}), **inner}}
    raise TypeError(f"a plan cannot hold a {type(value).__name__}; use plain settings")
