"""What passes between server and clients, who carries it, and what is said of who was left out."""

from __future__ import annotations

import logging
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catchment.errors import CatchmentError, RefusedClientsWarning
from catchment.wire import Message, plain_text

if TYPE_CHECKING:
    from catchment.federation.loop import BlockSum

MOST = 200  # characters
PLAIN = re.compile(rf"\w[\w.-]{{0,{MOST - 1}}}")
log = logging.getLogger(__name__)
REPLY_HEADER = 1 << 18  # bytes: a client has few facts to tell, and JSON grows when it is read
Watch = Callable[[int, int, int], None]
TRAINING, EVALUATION = "training", "evaluation"
TURN = "turn"  # code of a client that has rows for another round of the same training


def check_client_names(names: Iterable[object]) -> None:
    """Raise ValueError for a name that cannot be printed or kept, or that leads out of a folder.

    >>> check_client_names(["ann", "ward 3/bed 2", "Zoë"])
    >>> check_client_names(["../../ann"])
    Traceback (most recent call last):
    ValueError: a client is called '../../ann'; use text of 1 to 200 printable characters that is
    no path to another folder
    """
    every: list[Any] = list(names)
    # Most names are plain, and a million of them are looked at.
    if set(map(type, every)) <= {str} and all(map(PLAIN.fullmatch, every)):
        return
    for name in every:
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= MOST
            or not name.isprintable()
            or name.strip() != name
            or not {"", ".", ".."}.isdisjoint(re.split(r"[/\\]", name))
        ):
            shown = f"{ascii(name)[:60]}..." if len(ascii(name)) > 63 else ascii(name)
            raise ValueError(
                f"a client is called {shown}; use text of 1 to {MOST} printable characters that is "
                "no path to another folder"
            )


@dataclass(frozen=True)
class Reply:
    """A client's answer as bytes, or the reason why there is none.

    Where it was written in this process, `written` may hold these very bytes, and what is read of
    them.
    """

    client: str
    message: bytes | None
    error: str = ""
    written: tuple[bytes, Message | None] | None = field(default=None, repr=False, compare=False)


class Engine(ABC):
    """Carries messages to clients and back; knows nothing of what they mean."""

    @property
    def has_data(self) -> bool:
        """Whether all data lie where the server is, so that a client's size is not its claim."""
        return False

    @abstractmethod
    def clients(self) -> Sequence[str]:
        """Return the names of the clients that can be asked."""

    @abstractmethod
    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        """Yield the clients' replies to their requests, in the order of the requests."""

    def sums(
        self, message: bytes, blocks: Sequence[tuple[str, ...]]
    ) -> Iterator[BlockSum | None] | None:
        """Yield the sum of each block of clients, in their order, or of several if sums are exact.

        It is for engines that add the answers of whole blocks where the clients are; None if all
        are to be asked one by one. A sum that is None says it of its block: the answers do not all
        add to each other, or it is not worth while.
        """
        return None

    def raise_fault(self, n_asked: int) -> None:  # noqa: B027
        """Raise the fault of a program that all clients of this process met, if there is one."""

    def counted(self, round_: int, clients: Sequence[str]) -> None:  # noqa: B027
        """Take note of who is in the sum of a round whose state is kept."""


@dataclass(frozen=True)
class Refusal:
    """A client whose answer was not used, and why; of which stage where several are told."""

    client: str
    code: str
    reason: str
    stage: str = ""

    @classmethod
    def of(cls, client: str, code: object, reason: object) -> Refusal:
        """Return it in words that are safe to print and to keep, whoever chose them.

        >>> Refusal.of("ann", "rows", "too few\\x1b[2J")
        Refusal(client='ann', code='rows', reason='too few?[2J', stage='')
        """
        return cls(plain_text(client, 200), plain_text(code, 40), plain_text(reason))

    @classmethod
    def because(cls, client: str, error: Exception) -> Refusal:
        """Return the refusal of a client whose answer raised an error, whatever error it was."""
        if isinstance(error, CatchmentError | ValueError):
            return cls.of(client, getattr(error, "code", "malformed"), error)
        log.warning("an answer of %s raised %s", plain_text(client, 200), type(error).__name__)
        return cls.of(client, "malformed", f"{type(error).__name__}: {error}")


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


Rounds = Mapping[str, Sequence[Record]]  # by stage: the records of its rounds


def in_turns(records: Sequence[Record]) -> list[Record]:
    """Return records in which who sat out a round, and not all of them, counts as used.

    >>> sits = {name: Refusal(name, TURN, "no row") for name in ("ann", "bob", "cy")}
    >>> ann, bob = ((sits[name], sits["cy"]) for name in ("ann", "bob"))
    >>> made = in_turns([Record(0, 3, 1, 0.1, 0, 0, ann), Record(1, 3, 1, 0.1, 0, 0, bob)])
    >>> [(record.n_used, [one.client for one in record.refused]) for record in made]
    [(2, ['cy']), (2, ['cy'])]
    """
    sat = [{one.client for one in record.refused if one.code == TURN} for record in records]
    taken = [names - sat[0].intersection(*sat) for names in sat]
    return [
        replace(
            record,
            n_used=record.n_used + len(names),
            refused=tuple(one for one in record.refused if one.client not in names),
        )
        for record, names in zip(records, taken, strict=True)
    ]


def turns(records: Sequence[Record]) -> str:
    """Return how many were in which round where clients with and without labels take turns."""
    if not any(one.code == TURN for record in records for one in record.refused):
        return ""
    return f" ({records[0].n_used} with labels, {records[-1].n_used} with rows that lack them)"


def left_out(rounds: Rounds) -> tuple[Refusal, ...]:
    """Return the clients that stages did without, every reason of a client in a stage once."""
    found: dict[Refusal, None] = {}
    for stage, records in rounds.items():
        for record in in_turns(records):
            for one in record.refused:
                found[replace(one, stage=stage)] = None
    return tuple(found)


def headline(rounds: Rounds, *, most: int = 5) -> str:
    """Return how many clients trained, and who did not and why; nothing if nobody was left out.

    Of a training of several rounds it is the round with the fewest.

    Parameters
    ----------
    most
        Name so many clients, and say how many more there are.

    >>> from catchment.federation.messages import Refusal
    >>> why = Refusal("ann", "refused", "there is no column 'y'")
    >>> headline({"training": [Record(0, 15, 14, 0.1, 0, 0, (why,))]})
    "14 of 15 clients; ann: there is no column 'y'"
    """
    worst = fewest(rounds.get(TRAINING) or next(iter(rounds.values()), ()))
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
        + "; and of the ".join(
            f"{', '.join(stages[:-1])}{' and ' * (len(stages) > 1)}{stages[-1]}: {why}"
            for why, stages in reasons.items()
        )
        for client, reasons in sorted(found.items())
    ]


def counts(rounds: Rounds) -> str:
    """Return how many of those asked trained, and how many of those asked were tested.

    Of a training of several rounds it is the round with the fewest.

    >>> asked, tested = Record(0, 15, 14, 0.1, 0, 0), Record(0, 4, 3, 0.1, 0, 0)
    >>> counts({"training": [asked], "evaluation": [tested]})
    '14 of 15 clients trained, 3 of 4 were tested'
    """
    training, test = (fewest(rounds.get(stage, ())) for stage in (TRAINING, EVALUATION))
    words = []
    if training is not None:
        more = turns(rounds[TRAINING])
        words.append(f"{training.n_used} of {training.n_asked} clients trained{more}")
    if test is not None:
        words.append(f"{test.n_used} of {test.n_asked} were tested")
    return ", ".join(words)


def fewest(records: Sequence[Record]) -> Record | None:
    """Return the round that did without most clients."""
    return min(in_turns(records), key=lambda record: record.n_used - record.n_asked, default=None)


def warn_of(rounds: Rounds) -> None:
    """Warn with the names of the clients that a run did without, if it did without any."""
    for records in rounds.values():
        for record in records:
            if record.refused and left_out(rounds):
                warnings.warn(headline(rounds), RefusedClientsWarning, stacklevel=3)
                return
