"""The ledger: for every message, who sent it, what for, how large, and its hash; who keeps it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from catchment.wire import Message, digest, plain_text

if TYPE_CHECKING:
    from catchment.federation.messages import Record

S = TypeVar("S")


@dataclass(frozen=True)
class Entry:
    """One message. A message down goes to the whole cohort and has no client."""

    round: int
    client: str
    direction: Literal["down", "up"]
    purpose: str
    shapes: tuple[tuple[int, ...], ...]
    n_bytes: int
    sha256: str
    epsilon: float | None = None

    @classmethod
    def of(
        cls,
        round_: int,
        client: str,
        direction: Literal["down", "up"],
        parts: Message,
        message: bytes,
    ) -> Entry:
        match parts.facts:  # the privacy cost that it states, itself or for what is masked in it
            case {"epsilon": float(stated)} | {"outline": {"facts": {"epsilon": float(stated)}}}:
                epsilon: float | None = stated
            case _:
                epsilon = None
        about = (round_, client, direction, plain_text(parts.kind, 80))
        shapes = tuple(map(np.shape, parts.arrays))
        return cls(*about, shapes, len(message), digest(message).hex(), epsilon)


class About(NamedTuple):
    """What the messages of many clients have in common."""

    round: int
    direction: Literal["down", "up"]
    purpose: str
    shapes: tuple[tuple[int, ...], ...]
    epsilon: float | None


def _no_numbers() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Entries:
    """Messages of many clients in a few columns, which take little to send and to write down.

    Parameters
    ----------
    clients
        Of each message.
    abouts
        What messages have in common, each once.
    which
        (n,) for each message, which of these it has.
    n_bytes
        (n,) its length.
    sha256
        32 bytes for each message.

    >>> one = Entry(0, "ann", "up", "sum", ((2,),), 64, "00" * 32)
    >>> list(Entries.of([one])) == [one]
    True
    """

    clients: tuple[str, ...] = ()
    abouts: tuple[About, ...] = ()
    which: NDArray[np.int64] = field(default_factory=_no_numbers)
    n_bytes: NDArray[np.int64] = field(default_factory=_no_numbers)
    sha256: bytes = b""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Entries:
        """Return messages as columns."""
        every, which = list(entries), []
        known: dict[tuple[About, str], int] = {}
        for one in every:
            about = About(one.round, one.direction, one.purpose, one.shapes, one.epsilon)
            # By its words, too: 0.0 and -0.0 are one to a dictionary.
            which.append(known.setdefault((about, repr(about.epsilon)), len(known)))
        return cls(
            tuple(entry.client for entry in every),
            tuple(about for about, _ in known),
            np.array(which, np.int64),
            np.array([entry.n_bytes for entry in every], np.int64),
            bytes.fromhex("".join(entry.sha256 for entry in every)),
        )

    @classmethod
    def joined(cls, several: Iterable[Entries]) -> Entries:
        """Return all messages of several, in their order."""
        return cls.of(chain.from_iterable(several))

    def __len__(self) -> int:
        return len(self.clients)

    def __iter__(self) -> Iterator[Entry]:
        digits, n_bytes = self.sha256.hex(), self.n_bytes.tolist()
        for at, (client, k) in enumerate(zip(self.clients, self.which.tolist(), strict=True)):
            about = self.abouts[k]
            head = (about.round, client, about.direction, about.purpose, about.shapes)
            yield Entry(*head, n_bytes[at], digits[64 * at : 64 * at + 64], about.epsilon)


class Keeper(Generic[S]):
    """Where a run is written down, so that it can be explained and resumed; by default nowhere."""

    keep_every: float = math.inf  # seconds between two times that a round under way is kept

    def resume(self) -> tuple[S, tuple[Record, ...]] | None:
        """Return the state and the records with which a run goes on, None if it begins."""
        return None

    def note(self, entry: Entry) -> None:
        """Write down a message."""

    def note_all(self, entries: Entries) -> None:
        """Write down the messages of many clients."""
        for entry in entries:
            self.note(entry)

    def begun(self, round_: int) -> Message | None:
        """Return what was kept of a round that is not over."""
        return None

    def keep_begun(self, round_: int, parts: Message) -> None:
        """Keep the part of a round that is done, with the ledger of it, in place of what was."""

    def close_round(self, state: S, record: Record) -> None:
        """Keep the state after a round."""


class EntryList(Keeper[Any]):
    """A keeper of the messages alone, in a list."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)
