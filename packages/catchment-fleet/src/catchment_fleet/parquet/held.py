"""The row groups that this process holds decoded, for the clients that come next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import final

from catchment_fleet.parquet.row_groups import Reader, RowGroup

DEFAULT_BYTES = 1 << 28

Key = tuple[str, str, int]


@final
class Held:
    """Decoded row groups up to a number of bytes; the last one is held whatever its size.

    Threads share it: two that ask for one row group at once wait for one reading.
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self.n_reads = 0
        self._held: OrderedDict[Key, RowGroup] = OrderedDict()
        self._reading: dict[Key, threading.Lock] = {}
        self._lock = threading.Lock()
        self._n_bytes = 0

    def get(self, reader: Reader, path: str, group: int) -> RowGroup:
        """Return a row group, decoded now if it is not held."""
        key = (reader.key, path, group)
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found
            one_reader = self._reading.setdefault(key, threading.Lock())
        with one_reader:
            with self._lock:
                found = self._held.get(key)
            if found is None:
                found = reader.decode(path, group)
                self._hold(key, found)
            return found

    def clear(self) -> None:
        """Forget everything, as when files have changed."""
        with self._lock:
            self._held.clear()
            self._n_bytes = 0

    def _hold(self, key: Key, found: RowGroup) -> None:
        with self._lock:
            self.n_reads += 1
            self._reading.pop(key, None)
            self._held[key] = found
            self._n_bytes += found.n_bytes
            while self._n_bytes > self.max_bytes and len(self._held) > 1:
                _, dropped = self._held.popitem(last=False)
                self._n_bytes -= dropped.n_bytes


HELD = Held()
