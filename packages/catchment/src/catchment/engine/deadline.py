"""Waiting only so long: a client that has not answered by then counts as lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from catchment.federation.loop import Engine, Reply


@dataclass(frozen=True, eq=False)
class Deadline(Engine):
    """An engine around another one that gives every letter the same time to be answered.

    What comes later is never looked at. Each letter has a thread of its own while it waits, so that
    one client that hangs holds up nobody else.

    Parameters
    ----------
    engine
        Carries the letters; it is asked for one client at a time.
    seconds
        From asking to the end of waiting, by a clock that does not jump.
    """

    engine: Engine
    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"seconds is {self.seconds}; pass a time above 0")

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, letters: Mapping[str, bytes]) -> Iterator[Reply]:
        arrived: SimpleQueue[Reply | Exception] = SimpleQueue()

        def deliver(client: str, letter: bytes) -> None:
            try:
                for reply in self.engine.ask({client: letter}):
                    arrived.put(reply)
            except Exception as error:
                arrived.put(error)

        for client, letter in letters.items():
            threading.Thread(target=deliver, args=(client, letter), daemon=True).start()
        replies: dict[str, Reply] = {}
        end = time.monotonic() + self.seconds
        while len(replies) < len(letters):
            try:
                reply = arrived.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                break
            if isinstance(reply, Exception):
                raise reply
            if reply.client in letters:
                replies[reply.client] = reply
        late = f"no answer within {self.seconds:g} seconds"
        for client in letters:
            yield replies.get(client, Reply(client, None, late))
