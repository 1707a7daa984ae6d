"""What a client remembers of a secure sum: one round at a time, one letter per stage."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import final

from catchment.errors import RuleError
from catchment.federation.plan import Memory
from catchment.privacy.secure_sum.keys import Session

MOST_PAST = 16  # sets of clients remembered per kind of sum

# Held while a letter is let in, never while it is answered. Threads of one process only: a memory
# belongs to one process.
_DOOR = threading.Lock()
_answering: set[tuple[int, str]] = set()


@final
class Notebook:
    """A client's notes on one round; nothing is accepted for a round that is not the latest.

    >>> book = Notebook({}, Session("f", "p", 7))
    >>> book.enter("keys", b"letter")
    >>> book.note("keys", b"answer")
    >>> book.enter("keys", b"letter")
    b'answer'
    >>> book.enter("keys", b"another letter")
    Traceback (most recent call last):
    catchment.errors.RuleError: another letter came for 'keys' in round 7; each stage has one
    """

    def __init__(self, memory: Memory, session: Session) -> None:
        self._memory, self._session = memory, session
        self._root = f"secure-sum/{session.federation}"
        self._prefix = f"{self._root}/{session.round:020d}/"

    def enter(self, stage: str, letter: bytes) -> bytes | None:
        """Let a letter in and return the answer it got before, if it came before."""
        number = self._session.round
        content = hashlib.sha256(self._session.about(stage) + b"\0" + letter).digest()
        with _DOOR:
            latest = int(self._memory.get(f"{self._root}/latest", b"0"))
            if number < latest or (number > latest and stage != "keys"):
                raise RuleError(
                    "replay", f"round {number} is not the latest this client knows, {latest}"
                )
            if number > latest:
                self._forget_rounds()
                self._memory[f"{self._root}/latest"] = b"%d" % number
            if stage != "unmask" and f"{self._prefix}unmask/answer" in self._memory:
                raise RuleError("replay", f"round {number} is over for this client")
            known = self._memory.setdefault(f"{self._prefix}{stage}/letter", content)
            if known != content:
                raise RuleError(
                    "replay",
                    f"another letter came for {stage!r} in round {number}; each stage has one",
                )
            return self._memory.get(f"{self._prefix}{stage}/answer")

    @contextmanager
    def answering(self, stage: str, letter: bytes) -> Iterator[bytes | None]:
        """Let a letter in while it is answered, and no copy of it meanwhile.

        Two copies answered at once would draw two sets of secrets. A letter that gets no answer
        leaves no trace, or a damaged one would keep the right one out.
        """
        here = (id(self._memory), self._prefix + stage)
        with _DOOR:
            if here in _answering:
                raise RuleError("busy", f"a letter for {stage!r} is being answered; ask again")
            _answering.add(here)
        try:
            yield self.enter(stage, letter)
        except BaseException:
            with _DOOR:
                if f"{self._prefix}{stage}/answer" not in self._memory:
                    self._memory.pop(f"{self._prefix}{stage}/letter", None)
            raise
        finally:
            with _DOOR:
                _answering.discard(here)

    def note(self, stage: str, answer: bytes) -> None:
        """Remember an answer; the last stage's takes the round's secrets with it."""
        with _DOOR:
            self._memory[f"{self._prefix}{stage}/answer"] = answer
            if stage == "unmask":
                for key in [k for k in self._memory if k.startswith(self._prefix)]:
                    if not key.startswith(f"{self._prefix}unmask/"):
                        del self._memory[key]

    def release(self, survivors: Sequence[str], check: Callable[[], None]) -> None:
        """Remember a set as released, if a last check passes, before any share is given."""
        with _DOOR:
            check()
            now = sorted(survivors)
            kept = [*(names for names in self.past() if names != now), now][-MOST_PAST:]
            self._memory[self._past_key] = json.dumps(kept).encode()

    def past(self) -> list[list[str]]:
        """Return the sets of clients whose sums of the same kind were released, oldest first."""
        known: list[list[str]] = json.loads(self._memory.get(self._past_key, b"[]"))
        return known

    @property
    def _past_key(self) -> str:
        return f"{self._root}/past/{self['outline'].hex()}"

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._memory

    def __getitem__(self, name: str) -> bytes:
        try:
            return self._memory[self._prefix + name]
        except KeyError as error:
            raise RuleError(
                "order", f"this client has no {name} for round {self._session.round}"
            ) from error

    def __setitem__(self, name: str, value: bytes) -> None:
        self._memory[self._prefix + name] = value

    def _forget_rounds(self) -> None:
        for key in [k for k in self._memory if k.startswith(self._root + "/")]:
            if not key.startswith((f"{self._root}/past/", f"{self._root}/latest")):
                del self._memory[key]
