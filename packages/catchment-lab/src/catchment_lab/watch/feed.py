"""One reader of a run's folder for however many browsers look at it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import final

from catchment_lab.watch.state import FAILED, FINISHED, WAITING, Snapshot, look, signature

EVERY = 0.5  # seconds between looks whether files have changed
ANYWAY = 2.0  # seconds after which a run is read again although none has: its process may be gone
REMOVED = "The run ended before its training and left nothing behind; its terminal says why."


@final
class Feed:
    """Reads a run's folder in a thread of its own and hands on what is new.

    Parameters
    ----------
    folder
        Of a run.
    every
        Seconds between two looks.

    >>> with Feed(Path("no/such/run")) as feed:
    ...     number, snapshot = feed.after(0, seconds=5.0)
    >>> number, snapshot.state
    (1, 'waiting')
    """

    def __init__(self, folder: Path, *, every: float = EVERY) -> None:
        self._folder, self._every = folder, every
        self._changed = threading.Condition()
        self._number, self._snapshot = 1, look(folder)
        self._begun = self._snapshot.state != WAITING
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watch", daemon=True)

    @property
    def latest(self) -> Snapshot:
        return self._snapshot

    @property
    def is_over(self) -> bool:
        """Whether nobody reads any more."""
        return self._over.is_set()

    def after(self, number: int, *, seconds: float) -> tuple[int, Snapshot]:
        """Return the first snapshot after one, with its number, or that one again after a time."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number or self.is_over, seconds)
            return self._number, self._snapshot

    def _follow(self) -> None:
        before, read = signature(self._folder), time.monotonic()
        while not self._over.wait(self._every):
            found = signature(self._folder)
            stale = time.monotonic() - read >= ANYWAY and self._snapshot.state != FINISHED
            if found != before or stale:
                before, read = found, time.monotonic()
                self._take(self._look())

    def _look(self) -> Snapshot:
        found = look(self._folder) if not self._folder.is_file() else self._snapshot
        if found.state == WAITING and self._begun:
            return Snapshot(found.folder, FAILED, REMOVED, found.at)
        return found

    def _take(self, found: Snapshot) -> None:
        self._begun = self._begun or found.state != WAITING
        with self._changed:
            if _same(found, self._snapshot):
                return
            self._number, self._snapshot = self._number + 1, found
            self._changed.notify_all()

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()


def _same(one: Snapshot, other: Snapshot) -> bool:
    """Return whether two snapshots differ by no more than when they were taken."""
    return replace(one, at=0.0) == replace(other, at=0.0)
