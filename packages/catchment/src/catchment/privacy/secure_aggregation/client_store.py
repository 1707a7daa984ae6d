"""What a client remembers of secure aggregation: one round of a plan, one request a stage.

Numbers of rounds are counted, by the server; a client takes only one above those it knows for the
plan, and none that is far above all it knows for the federation: a single number near the end of
the range would lock it out for good. Plans have notes of their own, so that two can run side by
side under one name.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, final

from catchment.errors import IntegrityError, RuleError
from catchment.federation.algorithm import Memory
from catchment.wire.messages import replace_file

if TYPE_CHECKING:
    from catchment.privacy.secure_aggregation.keys import Session

JUMP = 1 << 20  # how far a number may be above the highest that a client knows
ROOT = "secure-sum"
STAGES = ("keys", "nonces", "shares", "boxes", "update", "consistency", "unmask")

# Held while a request is let in, never while it is answered. Threads of one process only: a memory
# belongs to one process.
_DOOR = threading.Lock()
_answering: set[tuple[int, str]] = set()


@final
class Notebook:
    """A client's notes on one round; nothing is accepted for a round that is not the latest.

    >>> from catchment.privacy.secure_aggregation.keys import Session
    >>> book = Notebook({}, Session("f", "p", 7))
    >>> book.enter("keys", b"letter")
    >>> book.note("keys", b"answer")
    >>> book.enter("keys", b"letter")
    b'answer'
    >>> book.enter("keys", b"another request")
    Traceback (most recent call last):
    catchment.errors.RuleError: another request came for 'keys' in round 7; each stage has one
    """

    def __init__(self, memory: Memory, session: Session) -> None:
        self._memory, self._session = memory, session
        self._federation = f"{ROOT}/{session.federation}"
        self._root = f"{self._federation}/{session.plan}"
        self._prefix = f"{self._root}/{session.round:020d}/"

    @property
    def latest(self) -> int:
        """The number of the plan's latest round, 0 before the first."""
        return int(self._memory.get(f"{self._root}/latest", b"0"))

    def is_behind(self, request: bytes) -> bool:
        """Whether a request that begins a round comes for one that is past or under way."""
        number = self._session.round
        if number != self.latest:
            return number < self.latest
        began = self._memory.get(f"{self._prefix}keys/letter")
        went_on = any(f"{self._prefix}{stage}/letter" in self._memory for stage in STAGES[1:])
        return went_on or began != self._content("keys", request)

    def _content(self, stage: str, request: bytes) -> bytes:
        return hashlib.sha256(self._session.about(stage) + b"\0" + request).digest()

    def enter(self, stage: str, request: bytes) -> bytes | None:
        """Let a request in and return the answer it got before, if it came before."""
        number = self._session.round
        content = self._content(stage, request)
        with _DOOR:
            latest = self.latest
            if number < latest or (number > latest and stage != "keys"):
                raise RuleError(
                    "replay", f"round {number} is not the latest this client knows, {latest}"
                )
            if number > latest:
                key = f"{self._federation}/highest"
                highest = int(self._memory.get(key, b"0"))
                if number > highest + JUMP:
                    raise RuleError(
                        "number",
                        f"round {number} is more than {JUMP} above the highest this client knows, "
                        f"{highest}; a server counts its rounds from 1",
                    )
                self._memory[key] = b"%d" % max(number, highest)
                for key in [k for k in self._memory if k.startswith(self._root + "/")]:
                    if key != f"{self._root}/latest":
                        del self._memory[key]
                self._memory[f"{self._root}/latest"] = b"%d" % number
            if stage != "unmask" and f"{self._prefix}unmask/answer" in self._memory:
                raise RuleError("replay", f"round {number} is over for this client")
            known = self._memory.setdefault(f"{self._prefix}{stage}/letter", content)
            if known != content:
                raise RuleError(
                    "replay",
                    f"another request came for {stage!r} in round {number}; each stage has one",
                )
            return self._memory.get(f"{self._prefix}{stage}/answer")

    @contextmanager
    def answering(self, stage: str, request: bytes) -> Iterator[bytes | None]:
        """Let a request in while it is answered, and no copy of it meanwhile.

        Two copies answered at once would draw two sets of secrets. A request that gets no answer
        leaves no trace, or a damaged one would keep the right one out.
        """
        here = (id(self._memory), self._prefix + stage)
        with _DOOR:
            if here in _answering:
                raise RuleError("busy", f"a request for {stage!r} is being answered; ask again")
            _answering.add(here)
        try:
            yield self.enter(stage, request)
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


def forget_rounds(memory: Memory, federation: str | None = None) -> list[str]:
    """Make a client forget the rounds of a federation, or of all, and return whose it forgot.

    Its key, its releases and what it has scored stay. Without the secrets of a round that was under
    way it can answer nothing more in it.

    For a client whose server lost count, or that was driven to a number far above the others'. The
    client then takes numbers again that it has seen: call it only if no server that lies can have
    kept messages of old rounds, or together with a new identity and a new name of the federation.

    >>> names = ("secure-sum/identity", "secure-sum/f/highest", "secure-sum/g/highest")
    >>> memory = dict.fromkeys(names, b"7")
    >>> forget_rounds(memory, "f"), forget_rounds(memory)
    (['f'], ['g'])
    >>> memory
    {'secure-sum/identity': b'7'}
    """
    start = f"{ROOT}/" if federation is None else f"{ROOT}/{federation}/"
    found = [key for key in memory if key.startswith(start) and key.count("/") > 1]
    for key in found:
        del memory[key]
    return sorted({key.split("/")[1] for key in found})


@final
class FileMemory(MutableMapping[str, bytes]):
    """Entries as files of one folder, each written whole or not at all; for one process.

    The folder holds the client's private key: nobody else should be able to read it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     memory = FileMemory(Path(place) / "ann")
    ...     memory["a/b"] = b"kept"
    ...     dict(FileMemory(Path(place) / "ann"))
    {'a/b': b'kept'}
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.is_symlink():
            raise IntegrityError(f"{folder} is a link; name the memory's folder itself")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def __getitem__(self, name: str) -> bytes:
        try:
            return _split(self._path(name).read_bytes())[1]
        except FileNotFoundError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: bytes) -> None:
        known = name.encode()
        replace_file(self._path(name), struct.pack("<I", len(known)) + known + value, mode=0o600)

    def __delitem__(self, name: str) -> None:
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*.entry")):
            yield _split(path.read_bytes())[0]

    def __len__(self) -> int:
        return sum(1 for _ in self.folder.glob("*.entry"))

    def _path(self, name: str) -> Path:
        # A digest, so that no name is too long or leads out of the folder.
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()}.entry"


def _split(content: bytes) -> tuple[str, bytes]:
    start = 4 + int.from_bytes(content[:4], "little")
    return content[4:start].decode(), content[start:]
