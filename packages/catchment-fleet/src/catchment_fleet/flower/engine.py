"""The engine over a network: requests go out a few hundred at a time, answers come in order."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import final

from catchment.federation import Engine, Reply
from catchment_fleet.flower.roster import Line, Order, Roll

COLLECT = 32  # tickets looked up at a time, so that few answers are in memory at once
IN_MEMORY = 1 << 26  # bytes of answers that wait in memory; more of them wait on the disk
SHORT, LONG = 0.02, 1.0  # seconds between two looks: more and more while nothing comes


@dataclass(frozen=True, eq=False)
class FlowerEngine(Engine):
    """Clients on other machines, at one stage of a run.

    Every request has the same time to be answered, from when it is sent. A client that is late or
    gone is named with the reason, and what it sends later is never looked at. The server holds few
    answers at once, however many clients there are and in whatever order they answer.

    Parameters
    ----------
    line
        The network.
    roll
        Who is there; the stages of one run share it.
    stage
        What the requests belong to, such as "training".
    fewest
        Clients without which no round begins.
    timeout
        Seconds that a client has for an answer.
    in_flight
        Letters on their way at a time; with more clients the last ones are asked later.
    clock, sleep
        For tests.
    """

    line: Line
    roll: Roll
    stage: str = "training"
    fewest: int = 1
    timeout: float = 600.0
    in_flight: int = 256
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise ValueError(f"timeout is {self.timeout}; pass a number of seconds above 0")
        if self.in_flight < 1:
            raise ValueError(f"in_flight is {self.in_flight}; pass at least 1 request")

    def at(self, stage: str, *, fewest: int = 1) -> FlowerEngine:
        """Return the engine of another stage of the same run."""
        return replace(self, stage=stage, fewest=fewest)

    def clients(self) -> Sequence[str]:
        return self.roll.present(self.stage, self.fewest)

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        self.roll.look()
        with closing(Shelf()) as shelf:
            mail = _Mail(self, requests, shelf)
            for client in requests:
                yield mail.reply(client)


@final
class Shelf:
    """Answers that came before their turn, by name: in memory, and beyond that in a nameless file.

    Nobody else can open the file, and it is gone when its process ends.

    >>> with closing(Shelf(in_memory=3)) as shelf:
    ...     shelf.put("ann", b"four")
    ...     shelf.put("ben", b"two")
    ...     shelf.take("ann"), shelf.take("ben"), "ann" in shelf
    (b'four', b'two', False)
    """

    def __init__(self, *, in_memory: int = IN_MEMORY) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=in_memory)  # noqa: SIM115 (`close`)
        self._places: dict[str, tuple[int, int]] = {}

    def put(self, name: str, content: bytes) -> None:
        """Keep an answer."""
        if not self._places:  # what was there is taken
            self._file.seek(0)
            self._file.truncate()
        self._places[name] = (self._file.seek(0, 2), len(content))
        self._file.write(content)

    def take(self, name: str) -> bytes:
        """Return an answer and forget it."""
        start, length = self._places.pop(name)
        self._file.seek(start)
        return self._file.read(length)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def close(self) -> None:
        """Forget everything."""
        self._file.close()


@final
class _Mail:
    """The requests of one `ask` that are not yet answered."""

    def __init__(self, engine: FlowerEngine, requests: Mapping[str, bytes], shelf: Shelf) -> None:
        self._engine, self._letters, self._shelf = engine, requests, shelf
        self._next = iter(requests)
        self._waiting: dict[str, tuple[str, float]] = {}
        self._errors: dict[str, str] = {}
        self._pause = SHORT

    def reply(self, client: str) -> Reply:
        """Return a client's reply as soon as it is known; meanwhile the others go on."""
        while True:
            self._send()
            if client in self._errors:
                return Reply(client, None, self._errors.pop(client))
            if client in self._shelf:
                return Reply(client, self._shelf.take(client))
            if not self._collect():
                self._engine.sleep(self._pause)
                self._pause = min(LONG, 1.5 * self._pause)

    def _send(self) -> None:
        engine = self._engine
        while (
            len(self._waiting) < engine.in_flight and (client := next(self._next, None)) is not None
        ):
            node = engine.roll.node(client)
            if node is None:
                self._errors[client] = "it is not connected"
                continue
            order = Order(engine.stage, self._letters[client])
            ticket = engine.line.send(node, order, engine.timeout)
            if ticket:
                self._waiting[ticket] = (client, engine.clock() + engine.timeout)
            else:
                self._errors[client] = "the network did not take its request"

    def _collect(self) -> bool:
        """Put answers that are here on the shelf, give up on late ones; return if any came."""
        engine, before = self._engine, len(self._waiting)
        now = engine.clock()
        tickets = list(self._waiting)
        for start in range(0, len(tickets), COLLECT):
            for answer in engine.line.collect(tickets[start : start + COLLECT]):
                client, _ = self._waiting.pop(answer.ticket)
                if answer.content is None:
                    self._errors[client] = answer.error
                else:
                    self._shelf.put(client, answer.content)
        for ticket, (client, end) in list(self._waiting.items()):
            if now >= end:
                del self._waiting[ticket]
                self._errors[client] = f"it did not answer within {engine.timeout:g} s"
        if len(self._waiting) == before:
            return False
        self._pause = SHORT
        return True
