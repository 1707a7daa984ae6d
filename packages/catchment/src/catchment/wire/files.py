"""Files written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int = 0o666, lasting: bool = True) -> None:
    """Write a file whole or not at all: beside its place, to the disk, and then renamed.

    Parameters
    ----------
    mode
        Who may read and write it, less what the process's mask takes away; 0o600 for secrets.
    lasting
        Whether it is on the disk when this returns.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace_file(Path(folder) / "note", b"kept")
    ...     (Path(folder) / "note").read_bytes()
    b'kept'
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: there is no folder {path.parent}; make it first"
        )
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(draft, new, mode), "wb") as file:
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:  # nobody has heard of the draft
        raise type(error)(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
    if lasting and os.name == "posix":
        # The rename itself is only on the disk once the folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
