"""A client's memory on the disk: what a secure sum must not forget when the client restarts."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import final

from catchment.errors import IntegrityError
from catchment.files import replace_file


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
