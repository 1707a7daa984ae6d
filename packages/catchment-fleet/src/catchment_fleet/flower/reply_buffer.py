"""Where answers wait that came before their turn: in memory, and beyond that in a nameless file."""

from __future__ import annotations

import tempfile
from typing import IO, final

IN_MEMORY = 1 << 26  # bytes that wait in memory; the rest of them waits on the disk


@final
class Shelf:
    """Answers by name, each put there once and taken once.

    The file has no name, so nobody else can open it and it is gone when its process ends.

    >>> with Shelf(in_memory=3) as shelf:
    ...     shelf.put("ann", b"four")
    ...     shelf.put("ben", b"two")
    ...     shelf.take("ann"), shelf.take("ben"), "ann" in shelf
    (b'four', b'two', False)
    """

    def __init__(self, *, in_memory: int = IN_MEMORY) -> None:
        self._most, self._held = in_memory, 0
        self._here: dict[str, bytes] = {}
        self._there: dict[str, tuple[int, int]] = {}
        self._file: IO[bytes] | None = None

    def put(self, name: str, content: bytes) -> None:
        """Keep an answer."""
        if self._held + len(content) <= self._most:
            self._here[name] = content
            self._held += len(content)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the shelf)
        self._there[name] = (self._file.seek(0, 2), len(content))
        self._file.write(content)

    def take(self, name: str) -> bytes:
        """Return an answer and forget it."""
        if name in self._here:
            content = self._here.pop(name)
            self._held -= len(content)
            return content
        assert self._file is not None
        start, length = self._there.pop(name)
        self._file.seek(start)
        return self._file.read(length)

    def __contains__(self, name: str) -> bool:
        return name in self._here or name in self._there

    def __enter__(self) -> Shelf:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
