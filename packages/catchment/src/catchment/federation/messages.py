"""The server's desk: letters go out, replies come back, and every one is entered in the ledger."""

from __future__ import annotations

import logging
import re
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from catchment.errors import CatchmentError, IntegrityError, RefusedClientsWarning, UploadError
from catchment.federation.algorithm import Additive, Turn
from catchment.federation.client import Request, Written
from catchment.federation.plan import Plan
from catchment.federation.protection import Read
from catchment.federation.runs.ledger import Entry, Keeper
from catchment.federation.sums import Tally
from catchment.parallel import available_cores, ordered_map
from catchment.wire import NOTHING, Parts, digest, measured, plain_text

if TYPE_CHECKING:
    from catchment.federation.blocks import BlockSum

MOST = 200  # characters
V = TypeVar("V")
log = logging.getLogger(__name__)
REPLY_HEADER = 1 << 18  # bytes: a client has few facts to tell, and JSON grows when it is read
LONG_LETTER = 1 << 20  # bytes: answers to such letters are mostly as long, and take long to open
Watch = Callable[[int, int, int], None]
TRAINING, EVALUATION = "training", "evaluation"
S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")


def check_client_names(names: Iterable[object]) -> None:
    """Raise ValueError for a name that cannot be printed or kept, or that leads out of a folder.

    >>> check_client_names(["ann", "ward 3/bed 2", "Zoë"])
    >>> check_client_names(["../../ann"])
    Traceback (most recent call last):
    ValueError: a client is called '../../ann'; use text of 1 to 200 printable characters that is
    no path to another folder
    """
    every = list(names)
    if _are_plain(every):
        return
    for name in every:
        if not _is_fit(name):
            shown = f"{ascii(name)[:60]}..." if len(ascii(name)) > 63 else ascii(name)
            raise ValueError(
                f"a client is called {shown}; use text of 1 to {MOST} printable characters that is "
                "no path to another folder"
            )


def _are_plain(names: list[object]) -> bool:
    """Return whether all names are fit and none is a path, by one look at all of a million."""
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) < len(names) or max(map(len, texts), default=0) > MOST:
        return False
    lines = "\n".join(["", *texts, ""])
    return (
        lines.count("\n") == len(texts) + 1
        and lines.replace("\n", "").isprintable()  # of all white space, this leaves the blank
        and not any(bad in lines for bad in ("\n\n", "\n ", " \n", "/", "\\", "\n.\n", "\n..\n"))
    )


def _is_fit(name: object) -> bool:
    return (
        isinstance(name, str)
        and 0 < len(name) <= MOST
        and name.isprintable()
        and name.strip() == name
        and not _leads_away(name)
    )


def _leads_away(name: str) -> bool:
    # Most names are no paths, and a million of them are looked at.
    parts = re.split(r"[/\\]", name) if "/" in name or "\\" in name else (name,)
    return any(part in ("", ".", "..") for part in parts)


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
    keeper: Keeper[Any] | None
    watch: Watch | None = None
    context: Parts = NOTHING
    started: float = field(default_factory=time.perf_counter)
    bytes_down: int = 0
    bytes_up: int = 0
    refused: list[Refusal] = field(default_factory=list)
    done: int = 0  # answers to the letters that are out
    after: Callable[[str], None] | None = None  # called with who answered last

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
        if self.keeper:
            self.keeper.note_all(block.entries)
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
        if self.keeper:
            self.keeper.note(Entry.of(self.turn.round, client, "down", payload, message))

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
        if self.keeper:
            self.keeper.note(Entry.of(self.turn.round, reply.client, "up", parts, reply.message))
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


Rounds = Mapping[str, Sequence[Record]]


@dataclass(frozen=True)
class LeftOut:
    """A client whose answers were not used in a stage, and why."""

    client: str
    stage: str
    code: str
    reason: str


def left_out(rounds: Rounds) -> tuple[LeftOut, ...]:
    """Return the clients that stages did without, every reason of a client in a stage once.

    Parameters
    ----------
    rounds
        By stage: the records of its rounds.
    """
    found = (
        LeftOut(refused.client, stage, refused.code, refused.reason)
        for stage, records in rounds.items()
        for record in records
        for refused in record.refused
    )
    return tuple(dict.fromkeys(found))


def headline(rounds: Rounds, *, most: int = 5) -> str:
    """Return how many clients trained, and who did not and why; nothing if nobody was left out.

    Of a training of several rounds it is the round with the fewest.

    Parameters
    ----------
    rounds
        By stage: the records of its rounds.
    most
        Name so many clients, and say how many more there are.

    >>> from catchment.federation.messages import Refusal
    >>> why = Refusal("ann", "refused", "there is no column 'y'")
    >>> headline({"training": [Record(0, 15, 14, 0.1, 0, 0, (why,))]})
    "14 of 15 clients; ann: there is no column 'y'"
    """
    training = rounds.get(TRAINING) or next(iter(rounds.values()), ())
    worst = _worst(training)
    if worst is None:
        return ""
    named: dict[str, str] = {}
    for one in sorted(left_out(rounds), key=lambda one: one.stage != TRAINING):
        where = "" if one.stage == TRAINING else f" ({one.stage})"
        named.setdefault(one.client, f"{one.client}{where}: {one.reason}")
    silent = worst.n_asked - worst.n_used - len({refused.client for refused in worst.refused})
    if not named and silent <= 0:
        return ""
    words = [f"{worst.n_used} of {worst.n_asked} clients", *list(named.values())[:most]]
    if len(named) > most:
        words.append(f"and {len(named) - most} more")
    if silent > 0:
        words.append(f"{silent} did not answer to the end")
    return "; ".join(words)


def left_out_lines(rounds: Rounds) -> list[str]:
    """Return a line for every client that was left out: of which stages, and why.

    Parameters
    ----------
    rounds
        By stage: the records of its rounds.

    >>> from catchment.federation.messages import Refusal
    >>> why = Refusal("ann", "refused", "there is no column 'y'")
    >>> record = Record(0, 15, 14, 0.1, 0, 0, (why,))
    >>> left_out_lines({"training": [record], "evaluation": [record]})
    ["ann was left out of the training and evaluation: there is no column 'y'"]
    """
    found: dict[str, dict[str, list[str]]] = {}
    for one in left_out(rounds):
        found.setdefault(one.client, {}).setdefault(one.reason, []).append(one.stage)
    return [
        f"{client} was left out of the "
        + "; and of the ".join(f"{_listed(stages)}: {why}" for why, stages in reasons.items())
        for client, reasons in sorted(found.items())
    ]


def counts(rounds: Rounds) -> str:
    """Return how many of those asked trained, and how many of those asked were tested.

    Of a training of several rounds it is the round with the fewest.

    Parameters
    ----------
    rounds
        By stage: the records of its rounds.

    >>> asked, tested = Record(0, 15, 14, 0.1, 0, 0), Record(0, 4, 3, 0.1, 0, 0)
    >>> counts({"training": [asked], "evaluation": [tested]})
    '14 of 15 clients trained, 3 of 4 were tested'
    """
    training, test = (_worst(rounds.get(stage, ())) for stage in (TRAINING, EVALUATION))
    words = []
    if training is not None:
        words.append(f"{training.n_used} of {training.n_asked} clients trained")
    if test is not None:
        words.append(f"{test.n_used} of {test.n_asked} were tested")
    return ", ".join(words)


def _worst(records: Sequence[Record]) -> Record | None:
    return min(records, key=lambda record: record.n_used - record.n_asked, default=None)


def _listed(stages: Sequence[str]) -> str:
    *first, last = stages
    return f"{', '.join(first)} and {last}" if first else last


def warn_of(rounds: Rounds) -> None:
    """Warn with the names of the clients that a run did without, if it did without any."""
    if left_out(rounds):
        warnings.warn(headline(rounds), RefusedClientsWarning, stacklevel=3)


def readers(plan: Plan[S, U, R]) -> list[Read]:
    """Return what reads an upload without protections, with the first, with the first two..."""
    read: list[Read] = [partial(_planned, plan)]
    for protection in plan.plain:
        read.append(partial(protection.read_update, inner=read[-1]))
    return read


def _planned(plan: Plan[S, U, R], parts: Parts, turn: Turn) -> Additive:
    """Return an upload as the algorithm reads it; UploadError if it has other targets."""
    update: Additive = plan.algorithm.read_update(parts, turn)
    if plan.n_targets is not None and not plan.needs.other_targets:
        # Of a client's tally the parts that are kept are what the total is.
        for found in measured(update.total if isinstance(update, Tally) else update):
            came = found.sizes.get("targets", plan.n_targets)
            if came != plan.n_targets:
                raise UploadError("shape", f"{came} targets came, {plan.n_targets} are planned")
    return update
