"""Mappings of clients that hold names only: what reads a client is made when it is asked for.

There may be a million clients; a dictionary of as many sources would take more memory than their
statistics, and looking at each of them more time than reading some.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar, final

S = TypeVar("S")
R = TypeVar("R", covariant=True)


class LazyClients(Mapping[str, R]):
    """Clients that all are functions, which read their recordings when they are called."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """How files name what is no channel, for models to keep."""

    def part(self, names: Sequence[str]) -> Mapping[str, R]:
        """Return these clients in this order, as little as can be sent to another process."""
        return {name: self[name] for name in names}


def part_of(clients: Mapping[str, S], names: Sequence[str]) -> Mapping[str, S]:
    """Return some clients of a mapping in this order, as little as can be sent to another process.

    >>> part_of({"ann": [1], "bob": [2], "eve": [3]}, ["eve", "ann"])
    {'eve': [3], 'ann': [1]}
    """
    if isinstance(clients, LazyClients | Chosen):
        return clients.part(names)
    return {name: clients[name] for name in names}


@final
class Chosen(Mapping[str, S]):
    """Some clients of a mapping, in the order of their names.

    >>> some = Chosen({"ann": [1], "bob": [2], "eve": [3]}, ["eve", "ann"])
    >>> dict(some), "bob" in some
    ({'ann': [1], 'eve': [3]}, False)
    """

    def __init__(self, clients: Mapping[str, S], names: Iterable[str]) -> None:
        self._clients, self._names = clients, sorted(names)

    def __getitem__(self, name: str) -> S:
        if name not in self:
            raise KeyError(name)
        return self._clients[name]

    def part(self, names: Sequence[str]) -> Mapping[str, S]:
        """Return these clients in this order; KeyError if one is not among those chosen."""
        at = bisect_left(self._names, names[0]) if names else 0
        if self._names[at : at + len(names)] != list(names):
            for name in names:
                if name not in self:
                    raise KeyError(name)
        return part_of(self._clients, names)

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
class Changed(LazyClients[R], Generic[S, R]):
    """The clients of a mapping, each with a function in the place of its source.

    >>> from functools import partial
    >>> late = Changed({"ann": [1, 2]}, lambda source: partial(list.pop, source))
    >>> late["ann"]()
    2
    """

    def __init__(self, clients: Mapping[str, S], change: Callable[[S], R]) -> None:
        self._clients: Mapping[str, S] = clients
        self._change: Callable[[S], R] = change

    @property
    def columns(self) -> Mapping[str, str]:
        return self._clients.columns if isinstance(self._clients, LazyClients) else {}

    def part(self, names: Sequence[str]) -> Mapping[str, R]:
        return Changed(part_of(self._clients, names), self._change)

    def __getitem__(self, name: str) -> R:
        return self._change(self._clients[name])

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def __repr__(self) -> str:
        return f"Changed({self._clients!r})"
