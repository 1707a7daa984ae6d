"""The trained model goes back to the clients, and is then tested where it is kept.

The delivery is a stage like any other: its bytes are in the ledger, and every client answers with
the SHA-256 of what it keeps. The evaluation that follows sends no model; a client takes the one it
was given, prepares its recordings as that says, and refuses if it is not the one to be tested.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Protocol

import numpy as np

from catchment.errors import IntegrityError, UploadError
from catchment.federation.algorithm import Algorithm, Data, Requirements, RoundContext
from catchment.readout.predictor import Predictor
from catchment.wire import GATHERED, Fact, Kind, Message, Structure, Summable

MODEL_FILE = "model-file"


class Place(Protocol):
    """Where a client keeps the model that it was given."""

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        """Keep the content of a model's file, and which plan and run it is from."""

    def model(self, sha256: str) -> Predictor:
        """Return the model that is kept; IntegrityError if it is not the one of this SHA-256."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """The model of one process, which is server and clients at once.

    >>> InMemory(b"").model("0" * 64)
    Traceback (most recent call last):
    catchment.errors.IntegrityError: this client has not been given the model that is to be tested
    """

    content: bytes
    opened: Predictor | None = None

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        """Do nothing: what came is what is here."""

    def model(self, sha256: str) -> Predictor:
        if self.opened is None or sha256_of(self.content) != sha256:
            raise not_given()
        return self.opened


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal.

    >>> sha256_of(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def not_given() -> IntegrityError:
    """Return the error of a client that does not have the model it is asked about."""
    return IntegrityError("this client has not been given the model that is to be tested")


@dataclass(frozen=True, eq=False)
class Receipt(Structure):
    """What a client answers to a delivery."""

    KIND: ClassVar[Kind] = Kind(
        "receipt",
        "the SHA-256 of the model that the client was sent and keeps",
        ("that the client has the model; nothing of its data",),
    )

    sha256: str


@dataclass(frozen=True, eq=False)
class Receipts(Summable):
    """Which client keeps what."""

    by_client: Annotated[Mapping[str, Receipt], GATHERED] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivery(Algorithm[Receipts, Receipts, tuple[str, ...]]):
    """One round in which every client is sent the model and says that it keeps it.

    Parameters
    ----------
    sha256
        Of the model's file.
    place
        Where a client keeps it.
    content
        The file; only the server has it before the round.
    about
        Which plan and which run it is from.
    """

    sha256: str
    place: Place
    content: bytes = b""
    about: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, place: InMemory, **about: str) -> Delivery:
        """Return the delivery of the model that a server has."""
        model = place.content
        return cls(sha256=sha256_of(model), place=place, content=model, about=about)

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            each_client="each client says for itself what it keeps; send it in the clear"
        )

    def identity(self) -> str:
        return self.sha256

    def start(self) -> Receipts:
        return Receipts()

    def broadcast(self, state: Receipts, context: RoundContext) -> Message:
        facts: dict[str, Fact] = {**self.about}
        return Message(MODEL_FILE, facts, (np.frombuffer(self.content, dtype=np.uint8),))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Receipt:
        (array,) = received.expect(MODEL_FILE, 1).arrays
        content = array.tobytes()
        if sha256_of(content) != self.sha256:
            raise IntegrityError("the model that came is not the one that was announced")
        self.place.keep(content, {str(k): str(v) for k, v in received.facts.items()})
        return Receipt(self.sha256)

    def read_update(self, parts: Message, context: RoundContext) -> Receipts:
        receipt = Receipt.from_message(parts)
        if receipt.sha256 != self.sha256:
            raise UploadError("other-model", "it keeps another model than it was sent")
        return Receipts({context.client: receipt})

    def server_update(self, state: Receipts, total: Receipts, context: RoundContext) -> Receipts:
        return total  # whoever has the model of an earlier round need not have this one

    def result(self, state: Receipts) -> tuple[str, ...]:
        """Return the names of the clients that have the model."""
        return tuple(sorted(state.by_client))
