"""The server's desk: letters go out, replies come back, and every one is entered in the ledger."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from catchment.errors import CatchmentError, IntegrityError, UploadError
from catchment.federation.algorithm import Turn
from catchment.federation.client import Request, Written
from catchment.federation.runs.ledger import Entries, Entry
from catchment.parallel import available_cores, ordered_map
from catchment.wire import NOTHING, Parts, digest, plain_text

if TYPE_CHECKING:
    from catchment.federation.blocks import BlockSum

V = TypeVar("V")
log = logging.getLogger(__name__)
REPLY_HEADER = 1 << 18  # bytes: a client has few facts to tell, and JSON grows when it is read
LONG_LETTER = 1 << 20  # bytes: answers to such letters are mostly as long, and take long to open
Watch = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Reply:
    """A client's answer as bytes, or the reason why there is none.

    Where it was written in this process, `written` may say what is read of these very bytes.
    """

    client: str
    message: bytes | None
    error: str = ""
    written: Written | None = field(default=None, repr=False, compare=False)


class Engine(ABC):
    """Carries messages to clients and back; knows nothing of what they mean."""

    @abstractmethod
    def clients(self) -> Sequence[str]:
        """Return the names of the clients that can be asked."""

    @abstractmethod
    def ask(self, letters: Mapping[str, bytes]) -> Iterator[Reply]:
        """Yield the clients' replies to their letters, in the order of the letters."""

    def sums(
        self, message: bytes, blocks: Sequence[tuple[str, ...]], first: int
    ) -> Iterator[BlockSum | None] | None:
        """Yield the sum of each block of clients from number `first` on, in their order.

        It is for engines that add the answers of whole blocks where the clients are; None if all
        are to be asked one by one. A sum that is None says it of its block: the answers do not all
        add to each other, or it is not worth while.
        """
        return None

    def counted(self, round_: int, clients: Sequence[str]) -> None:  # noqa: B027
        """Take note of who is in the sum of a round whose state is kept."""


@dataclass(frozen=True)
class Refusal:
    """A client whose answer was not used, and why."""

    client: str
    code: str
    reason: str

    @classmethod
    def of(cls, client: str, code: object, reason: object) -> Refusal:
        """Return it in words that are safe to print and to keep, whoever chose them.

        >>> Refusal.of("ann", "rows", "too few\\x1b[2J")
        Refusal(client='ann', code='rows', reason='too few?[2J')
        """
        return cls(plain_text(client, 200), plain_text(code, 40), plain_text(reason))

    @classmethod
    def because(cls, client: str, error: Exception, code: str = "malformed") -> Refusal:
        """Return the refusal of a client whose answer raised an error, whatever error it was."""
        if isinstance(error, CatchmentError | ValueError):
            return cls.of(client, getattr(error, "code", code), error)
        log.warning("an answer of %s raised %s", plain_text(client, 200), type(error).__name__)
        return cls.of(client, code, f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Record:
    """What is known of one round when it is over.

    `figures` are what the algorithm says of the state after it: a loss, a score, the ridge.
    """

    round: int
    n_asked: int
    n_used: int
    seconds: float
    bytes_down: int
    bytes_up: int
    refused: tuple[Refusal, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(eq=False)
class Post:
    """One round's correspondence."""

    plan: str
    turn: Turn
    engine: Engine
    note: Callable[[Entry], None] | None
    watch: Watch | None = None
    context: Parts = NOTHING
    started: float = field(default_factory=time.perf_counter)
    bytes_down: int = 0
    bytes_up: int = 0
    refused: list[Refusal] = field(default_factory=list)
    done: int = 0  # answers to the letters that are out
    after: Callable[[str], None] | None = None  # called with who answered last
    note_all: Callable[[Entries], None] | None = None  # notes many at once, where that is quicker

    def letter(self, payload: Parts) -> bytes:
        """Return the one letter to everybody, which counts as sent."""
        message = self._request("update", payload)
        self._sent("", payload, message, len(self.turn.cohort))
        return message

    def ask_all(
        self, clients: Sequence[str], message: bytes, read: Callable[[Parts, Turn], V]
    ) -> Iterator[tuple[str, V]]:
        """Yield what each of some clients answers to the letter to everybody."""
        return self._replies(dict.fromkeys(clients, message), read, len(self.turn.cohort))

    def take(self, block: BlockSum) -> None:
        """Note what came from a block of clients that were asked and added elsewhere."""
        self.bytes_up += block.bytes_up
        self.refused.extend(block.refused)
        if self.note_all:
            self.note_all(block.entries)
        elif self.note:
            for entry in block.entries:
                self.note(entry)
        self._progress(block.asked[-1], len(block.asked), len(self.turn.cohort))

    def ask_each(
        self, stage: str, letters: Mapping[str, Parts], read: Callable[[Parts, Turn], V]
    ) -> Iterator[tuple[str, V]]:
        """Yield what each client answers to a letter of its own."""
        messages, last = {}, (NOTHING, b"")
        for client, payload in letters.items():
            # Written once where all clients get one and the same letter.
            if payload is not last[0] or not last[1]:
                last = payload, self._request(stage, payload)
            messages[client] = last[1]
            self._sent(client, payload, messages[client], 1)
        self.done = 0
        yield from self._replies(messages, read, len(messages))

    def refuse(self, client: str, error: UploadError) -> None:
        """Note that a client's answer is not used."""
        self.refused.append(Refusal.because(client, error))

    def record(self, n_used: int) -> Record:
        return Record(
            self.turn.round,
            len(self.turn.cohort),
            n_used,
            time.perf_counter() - self.started,
            self.bytes_down,
            self.bytes_up,
            tuple(self.refused),
        )

    def _request(self, stage: str, payload: Parts) -> bytes:
        return Request(self.plan, self.turn, stage, payload, self.context).to_bytes()

    def _sent(self, client: str, payload: Parts, message: bytes, copies: int) -> None:
        self.bytes_down += len(message) * copies
        if self.note:
            self.note(Entry.of(self.turn.round, client, "down", payload, message))

    def _replies(
        self, letters: Mapping[str, bytes], read: Callable[[Parts, Turn], V], n_asked: int
    ) -> Iterator[tuple[str, V]]:
        """Yield each client's first answer; one that cannot be used is noted with its reason."""
        seen: dict[str, bytes] = {}
        long = any(len(letter) > LONG_LETTER for letter in letters.values())
        threads = min(4, available_cores()) if long else 1
        opened = ordered_map(_opened, self.engine.ask(letters), threads=threads)
        for reply, content in opened:
            try:
                if reply.client not in letters:
                    raise UploadError("stranger", f"{reply.client} was not asked")
                parts = self._entered(reply, content, seen)
                value = None if parts is None else read(parts, self.turn.at(reply.client))
            except Exception as error:  # one client's answer never ends the run of the others
                self.refused.append(Refusal.because(reply.client, error))
            else:
                if value is not None:
                    yield reply.client, value
            self._progress(reply.client, 1, n_asked)

    def _progress(self, last: str, n: int, n_asked: int) -> None:
        self.done += n
        if self.watch:
            self.watch(self.turn.round, self.done, n_asked)
        if self.after:
            self.after(last)

    def _entered(
        self, reply: Reply, parts: Parts | str | None, seen: dict[str, bytes]
    ) -> Parts | None:
        """Return a reply's content, or None if the same came before; raise if it has none."""
        if reply.message is None or parts is None:
            raise UploadError("no-answer", reply.error or "the client did not answer")
        if isinstance(parts, str):
            raise IntegrityError(parts)
        self.bytes_up += len(reply.message)
        if self.note:
            self.note(Entry.of(self.turn.round, reply.client, "up", parts, reply.message))
        before = seen.setdefault(reply.client, b"")
        seen[reply.client] = before or digest(reply.message)
        if before and before != digest(reply.message):
            raise UploadError("conflict", f"{reply.client} sent two different answers in a round")
        if before:
            return None
        if parts.kind == "refusal":
            raise UploadError(str(parts.facts.get("code")), str(parts.facts.get("reason")))
        return parts


def _opened(reply: Reply) -> tuple[Reply, Parts | str | None]:
    """Return a reply with its content, or with what is wrong with it."""
    if reply.message is None:
        return reply, None
    written = reply.written
    # Somebody may have put other bytes in their place on the way.
    if written is not None and written.content is not None and written.message is reply.message:
        return reply, written.content
    try:
        return reply, Parts.from_bytes(reply.message, header_limit=REPLY_HEADER)
    except Exception as error:
        # Its words alone: the error itself would keep the message in memory.
        return reply, Refusal.because(reply.client, error).reason
