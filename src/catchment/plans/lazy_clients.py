"""Mappings of clients that hold names only: what reads a client is made when it is asked for.

A plan may have a million clients; a dictionary of as many sources would take more memory than
their statistics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import final

from catchment.engine.local import Source


@final
class Chosen(Mapping[str, Source]):
    """Some clients of a mapping, in the order of their names.

    >>> some = Chosen({"ann": [1], "bob": [2], "eve": [3]}, ["eve", "ann"])
    >>> dict(some), "bob" in some
    ({'ann': [1], 'eve': [3]}, False)
    """

    def __init__(self, clients: Mapping[str, Source], names: Iterable[str]) -> None:
        self._clients, self._names = clients, sorted(names)

    def __getitem__(self, name: str) -> Source:
        if name not in self:
            raise KeyError(name)
        return self._clients[name]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        at = bisect_left(self._names, name)
        return at < len(self._names) and self._names[at] == name

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Chosen({len(self._names)} of {len(self._clients)} clients)"


@final
class Changed(Mapping[str, Source]):
    """The clients of a mapping, each with something else in the place of its source.

    >>> dict(Changed({"ann": [1, 2]}, lambda source: source[1:]))
    {'ann': [2]}
    """

    def __init__(self, clients: Mapping[str, Source], change: Callable[[Source], Source]) -> None:
        self._clients, self._change = clients, change

    def __getitem__(self, name: str) -> Source:
        return self._change(self._clients[name])

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def __repr__(self) -> str:
        return f"Changed({self._clients!r})"
