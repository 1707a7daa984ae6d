"""Each client's file is read once per process, not once per stage of a run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import final

from catchment.data.recording import Recording

Read = Callable[[], Iterable[Recording]]

DEFAULT_BYTES = 1 << 30


@final
class Cache:
    """Recordings by the source they came from, up to a number of bytes.

    Where there is no room, the source that was asked for longest ago is dropped; one that is larger
    than the whole is never kept. Threads may share a cache: two that ask for one source at once
    wait for one reading. Sent to another process, it arrives empty.

    >>> Cache(max_bytes=1000).n_bytes
    0
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}; pass 0 or more")
        self.max_bytes = max_bytes
        self._held: OrderedDict[Hashable, tuple[list[Recording], int]] = OrderedDict()
        self._reading: dict[Hashable, tuple[threading.Lock, int]] = {}
        self._lock = threading.Lock()
        self._n_bytes = 0

    def __reduce__(self) -> tuple[type[Cache], tuple[int]]:
        return Cache, (self.max_bytes,)

    @property
    def n_bytes(self) -> int:
        """Bytes of the recordings held now."""
        return self._n_bytes

    def get(self, key: Hashable, read: Read) -> list[Recording]:
        """Return the recordings held under a key; if there are none, read and hold them.

        >>> cache = Cache()
        >>> [recording.n_steps for recording in cache.get("ann", lambda: [Recording([1.0, 2.0])])]
        [2]
        >>> cache.get("ann", lambda: []) == []
        False
        """
        with self._lock:
            found = self._found(key)
            if found is not None:
                return found
            one_reader, waiting = self._reading.get(key, (threading.Lock(), 0))
            self._reading[key] = one_reader, waiting + 1
        try:
            with one_reader:
                with self._lock:
                    found = self._found(key)
                if found is None:
                    found = list(read())
                    self._hold(key, found)
                return list(found)
        finally:
            with self._lock:
                one_reader, waiting = self._reading.pop(key)
                if waiting > 1:
                    self._reading[key] = one_reader, waiting - 1

    def clear(self) -> None:
        """Forget everything, as when files have changed."""
        with self._lock:
            self._held.clear()
            self._n_bytes = 0

    def _found(self, key: Hashable) -> list[Recording] | None:
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return list(self._held[key][0])

    def _hold(self, key: Hashable, recordings: list[Recording]) -> None:
        size = sum(map(_n_bytes, recordings))
        if size > self.max_bytes:
            return
        with self._lock:
            self._held[key] = list(recordings), size
            self._n_bytes += size
            while self._n_bytes > self.max_bytes:
                _, (_, dropped) = self._held.popitem(last=False)
                self._n_bytes -= dropped


PROCESS_CACHE = Cache()


@dataclass(frozen=True)
class Cached:
    """A source that reads once, and hands out what it read from then on.

    Two sources that compare equal share one reading, so make `read` a frozen dataclass that names
    its file, or pass the same function. A file that changes while the process runs is not read
    again.

    Parameters
    ----------
    read
        Returns the recordings.
    cache
        Where they are kept; if not given, the one of this process, of 1 GiB.

    >>> def read():
    ...     print("reading")
    ...     return [Recording([1.0, 2.0])]
    >>> source = Cached(read, Cache())
    >>> source()[0].n_steps, source()[0].n_steps
    reading
    (2, 2)
    """

    read: Read
    cache: Cache | None = None

    def __call__(self) -> list[Recording]:
        """Return the recordings, in a list of the caller's own."""
        return (PROCESS_CACHE if self.cache is None else self.cache).get(self.read, self.read)


def _n_bytes(recording: Recording) -> int:
    arrays = (recording.u, recording.y, recording.times)
    return sum(array.nbytes for array in arrays if array is not None)
