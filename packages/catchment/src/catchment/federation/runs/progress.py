"""How far the round under way is, in a small file of the run's folder, for whoever watches the run.

What is finished is in run.sqlite; this file says what is not there yet. Nothing depends on it: it
is lost with a crash, it is gone once the run is finished, and where it cannot be written the run
goes on without it.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

from catchment.federation.runs.write import PRIVATE, PROGRESS

PAUSE = 0.5  # seconds between two writes
MOST_BYTES = 1 << 16  # no more is read of a file that is a few hundred bytes long

Watch = Callable[[str, int, int, int], None]


@dataclass(frozen=True)
class Progress:
    """Where a run is: its stage, the round, how many of the asked clients are done.

    Parameters
    ----------
    at
        When this was so, in seconds since 1970.
    ended
        Why the run ended without being finished; nothing while it goes on.

    >>> Progress("training", 3, done=5, asked=8, at=0.0).ended
    ''
    """

    stage: str = ""
    round: int = 0
    done: int = 0
    asked: int = 0
    at: float = 0.0
    ended: str = ""


@final
class Reporter:
    """Writes down how far a run is, at most twice a second, and tells whoever else wants to know.

    The last of several quick steps is written, too, a moment later: a round may then wait long for
    one client.

    Parameters
    ----------
    folder
        Of the run.
    watch
        Called with (stage, round, clients done, clients asked), every time.
    clock
        Seconds that only grow.
    """

    def __init__(
        self,
        folder: Path,
        watch: Watch | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._watch, self._clock = folder / PROGRESS, watch, clock
        self._lock = threading.Lock()
        self._last = Progress()
        self._next = float("-inf")  # when it may be written again
        self._later: threading.Timer | None = None

    def __call__(self, stage: str, round_: int, done: int, asked: int) -> None:
        if self._watch:
            self._watch(stage, round_, done, asked)
        with self._lock:
            self._last = Progress(stage, round_, done, asked, time.time())
            left = self._next - self._clock()
            if left <= 0:
                self._write_now()
            elif self._later is None:
                self._later = threading.Timer(left, self._catch_up)
                self._later.daemon = True
                self._later.start()

    def end(self, reason: str) -> None:
        """Write down that the run ended without being finished, and why."""
        with self._lock:
            self._cancel()
            self._write(replace(self._last, at=time.time(), ended=reason))

    def clear(self) -> None:
        """Remove the file: the run is finished."""
        with self._lock, suppress(OSError):
            self._cancel()
            self._path.unlink(missing_ok=True)

    def _catch_up(self) -> None:
        with self._lock:
            if self._later is not None:
                self._write_now()

    def _write_now(self) -> None:
        self._cancel()
        self._write(self._last)
        self._next = self._clock() + PAUSE

    def _cancel(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _write(self, progress: Progress) -> None:
        """Put the file in its place whole; not to the disk, since nothing depends on it."""
        draft = self._path.with_name(f".{PROGRESS}.{secrets.token_hex(8)}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(draft, flags, PRIVATE), "w", encoding="ascii") as file:
                json.dump(asdict(progress), file)
            draft.replace(self._path)
        except OSError:  # a full disk is for the run itself to complain of
            with suppress(OSError):
                draft.unlink(missing_ok=True)


@contextmanager
def reported(folder: str | Path, watch: Watch | None = None) -> Iterator[Reporter]:
    """Give what writes down how far a run in this folder is; afterwards, how it ended.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with reported(folder) as tell:
    ...         tell("training", 0, 3, 8)
    ...         found = read_progress(folder)
    ...     found.done, read_progress(folder)
    (3, None)
    """
    reporter = Reporter(Path(folder), watch)
    try:
        yield reporter
    except BaseException as error:
        said = " ".join(str(error).split())
        name = "stopped" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        reporter.end(f"{name}: {said}" if said else name)
        raise
    reporter.clear()


def read_progress(folder: str | Path) -> Progress | None:
    """Return how far a run's process says it is; None if it says nothing, or nothing readable.

    >>> read_progress("no/such/run") is None
    True
    """
    try:
        with (Path(folder) / PROGRESS).open("rb") as file:
            found = json.loads(file.read(MOST_BYTES))
        return Progress(
            str(found["stage"]),
            int(found["round"]),
            int(found["done"]),
            int(found["asked"]),
            float(found["at"]),
            str(found["ended"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_held(folder: str | Path) -> bool:
    """Return whether a process has this run's folder open for writing.

    It is asked without taking the lock: a run that begins at this moment waits for a moment.

    >>> is_held("no/such/run")
    False
    """
    path = Path(folder) / "lock"
    if not path.is_file():
        return False
    try:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as lock:
            lock.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        return "locked" in str(error)
    except sqlite3.DatabaseError:
        return False
    return False
