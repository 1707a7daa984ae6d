"""Files written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file whole or not at all: beside its place, to the disk, and then renamed.

    Parameters
    ----------
    mode
        Who may read and write it, less what the process's mask takes away; 0o600 for secrets.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace_file(Path(folder) / "note", b"kept")
    ...     (Path(folder) / "note").read_bytes()
    b'kept'
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(draft, new, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    if os.name == "posix":
        # The rename itself is only on the disk once the folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
