"""Clients and their recordings: dealt out, split for the test, made when they are asked for, kept.

Every way to deal takes a flat list and returns client name -> list of recordings, such that each
recording lands in exactly one client and no client is empty.

There may be a million clients; a dictionary of as many sources would take more memory than their
statistics, and looking at each of them more time than reading some. `LazyClients` hold names only.
"""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, final

import numpy as np

from catchment.arrays import Integers, NonNegativeInt, PositiveFloat, check_type
from catchment.data.recording import Recording
from catchment.data.synthetic import seeded_generator

Dealt = dict[str, list[Recording]]
S = TypeVar("S")
R = TypeVar("R", covariant=True)
DEFAULT_BYTES = 1 << 30


class Clients(dict[str, list[Recording]]):
    """Client name -> recordings, and what all of them share: the classes and the channels.

    Parameters
    ----------
    held
        Recordings by client name.
    classes
        The labels in the order of the outputs; None where targets are numbers or absent.
    channels
        The names of the inputs; if not given, those of the recordings.
    columns
        How files name what is no channel ("time", "recording", "client", "target"), for models to
        keep.

    >>> people = Clients({"ann": [Recording([[0.1, 0.2]], channels=("x", "y"))], "bob": []})
    >>> people["ann"][0].u.tolist(), list(people), people.channels
    ([[0.1, 0.2]], ['ann', 'bob'], ('x', 'y'))
    """

    def __init__(
        self,
        held: Mapping[str, list[Recording]],
        classes: tuple[Any, ...] | None = None,
        channels: tuple[str, ...] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(held)
        self.classes, self.channels, self.columns = classes, channels, dict(columns or {})
        for name, recordings in held.items():
            for recording in recordings:
                if self.channels is None:
                    self.channels = recording.channels
                elif recording.channels not in (None, self.channels):
                    raise ValueError(
                        f"client {name!r} has the channels {recording.channels}, others "
                        f"{self.channels}; name the same inputs in the same order for all"
                    )

    def __repr__(self) -> str:
        return (
            f"Clients({len(self)} clients, {sum(map(len, self.values()))} recordings, "
            f"channels={self.channels}, classes={self.classes})"
        )

    def only(self, names: Iterable[str]) -> Clients:
        """Return the named clients, in the order of the names.

        >>> list(Clients({"a": [], "b": [], "c": []}).only(["c", "a"]))
        ['c', 'a']
        """
        wanted = list(names)
        for name in wanted:
            if name not in self:
                known = ", ".join(sorted(self)[:8])
                raise ValueError(f"there is no client {name!r}; the clients are {known}")
        held = {name: self[name] for name in wanted}
        return Clients(held, self.classes, self.channels, self.columns)


def contiguous(sequence: Recording, n_clients: int) -> Dealt:
    """Return clients that hold consecutive blocks of one long sequence, as equal as can be.

    Targets must be per step, or absent. Each block is a sequence of its own: a reservoir starts
    from zero at its first step.

    >>> parts = contiguous(Recording([0.0, 1.0, 2.0, 3.0, 4.0]), 2)
    >>> {name: part[0].u.ravel().tolist() for name, part in parts.items()}
    {'client-000': [0.0, 1.0, 2.0], 'client-001': [3.0, 4.0]}
    """
    _refuse(n_clients, sequence.n_steps, "steps")
    if sequence.y is not None and not sequence.per_step:
        raise ValueError(
            "the recording has one target for all its steps; only targets per step can be cut"
        )
    blocks = np.array_split(np.arange(sequence.n_steps), n_clients)
    return {
        f"client-{k:03d}": [sequence.part(int(block[0]), int(block[-1]) + 1)]
        for k, block in enumerate(blocks)
    }


def iid(sequences: Sequence[Recording], n_clients: int, *, seed: int = 0) -> Dealt:
    """Return clients of equal size (to within one) with sequences dealt at random.

    >>> data = [Recording([float(i)]) for i in range(7)]
    >>> [len(part) for part in iid(data, 3).values()]
    [3, 2, 2]
    """
    _refuse(n_clients, len(sequences))
    order = seeded_generator(seed).permutation(len(sequences))
    return _dealt(sequences, np.array_split(order, n_clients))


def label_skew(
    sequences: Sequence[Recording], n_clients: int, *, alpha: float = 0.5, seed: int = 0
) -> Dealt:
    """Return clients whose shares of each class are drawn from a Dirichlet distribution.

    A sequence's class is the largest entry of its target; with a target per step, of the mean of
    its targets. A client left empty by the draw takes a sequence from the largest client.

    Parameters
    ----------
    alpha
        Concentration: 0.1 gives most of a class to few clients, 100 nearly equal shares.

    >>> data = [Recording.labeled([0.0], label=i % 2, classes=2) for i in range(40)]
    >>> sum(len(part) for part in label_skew(data, 4, alpha=0.3).values())
    40
    """
    _refuse(n_clients, len(sequences))
    check_type(alpha, PositiveFloat, "alpha")
    labels = np.array([_label(sequence) for sequence in sequences])
    rng = seeded_generator(seed)
    groups: list[list[int]] = [[] for _ in range(n_clients)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        sizes = _sizes(rng, alpha, n_clients, len(members))
        for group, part in zip(groups, np.split(members, np.cumsum(sizes)[:-1]), strict=True):
            group.extend(part.tolist())
    for group in groups:
        if not group:
            group.append(max(groups, key=len).pop())
    return _dealt(sequences, groups)


def cohorts(
    names: Iterable[str],
    *,
    validation: float = 0.2,
    test: float = 0.2,
    seed: int | None = 0,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return client names split into training, validation and test, whole clients at a time.

    Parameters
    ----------
    names
        Client names, each once; a mapping of clients will do.
    validation, test
        An integer is a number of clients. A float below 1 is a share, rounded, but at least one
        client unless it is 0.
    seed
        Names the shuffle; None keeps the order given, training first.

    >>> cohorts(["a", "b", "c", "d", "e"], validation=1, test=0.4, seed=None)
    (('a', 'b'), ('c',), ('d', 'e'))
    """
    every = tuple(names)
    if len(set(every)) != len(every):
        raise ValueError("a client name occurs twice; client names must differ")
    n_validation = _how_many(validation, len(every), "validation")
    n_test = _how_many(test, len(every), "test")
    n_train = len(every) - n_validation - n_test
    if n_train < 1:
        raise ValueError(
            f"{n_validation} validation and {n_test} test clients leave none of {len(every)} "
            "for training; ask for fewer"
        )
    if seed is not None:
        every = tuple(every[i] for i in seeded_generator(seed).permutation(len(every)))
    last = n_train + n_validation
    return every[:n_train], every[n_train:last], every[last:]


def split(
    clients: Mapping[str, list[Recording]],
    test: float = 0.25,
    *,
    validation: float | None = None,
    seed: int | None = 0,
) -> tuple[Clients, ...]:
    """Return training and test clients; with `validation`, training, validation and test clients.

    Whole clients go one way, so that a score on the test clients is one on people never seen.
    Within each part the clients keep the order in which they came.

    Parameters
    ----------
    clients
        Client name -> recordings.
    test, validation
        An integer is a number of clients. A float below 1 is a share, rounded, but at least one
        client unless it is 0.
    seed
        Names the shuffle; None takes the last clients for the test and those before for
        validation.

    >>> people = {name: [Recording([0.0])] for name in "abcdefgh"}
    >>> train, test = split(people, test=0.25, seed=0)
    >>> len(train), len(test), sorted([*train, *test]) == sorted(people)
    (6, 2, True)
    >>> train, validation, test = split(people, test=2, validation=1, seed=None)
    >>> list(validation), list(test)
    (['f'], ['g', 'h'])
    """
    train, *between, last = cohorts(clients, validation=validation or 0, test=test, seed=seed)
    whole = clients if isinstance(clients, Clients) else Clients(clients)
    named = [train, last] if validation is None else [train, *between, last]
    return tuple(whole.only(name for name in whole if name in part) for part in map(set, named))


def _dealt(sequences: Sequence[Recording], groups: Iterable[list[int] | Integers]) -> Dealt:
    # Within a client the sequences keep their given order, which may be an order in time.
    return {
        f"client-{k:03d}": [sequences[int(i)] for i in sorted(group)]
        for k, group in enumerate(groups)
    }


def _label(sequence: Recording) -> int:
    if sequence.y is None:
        raise ValueError("a recording has no target; label skew needs a class for every recording")
    y = np.atleast_2d(sequence.y)
    known = y[~np.isnan(y).any(axis=1)]
    if y.shape[1] < 2 or len(known) == 0:
        raise ValueError(
            f"a recording has no one-hot class in its target of shape {sequence.y.shape}; "
            "make labeled recordings with Recording.labeled"
        )
    return int(known.mean(axis=0).argmax())


def _sizes(rng: np.random.Generator, alpha: float, n: int, total: int) -> Integers:
    """Return n integers that sum to the total, as near as can be to shares that are drawn."""
    shares = rng.dirichlet(np.full(n, alpha))
    # For a tiny alpha every gamma variate can round to zero; the limit gives all to one client.
    exact = (shares if np.isfinite(shares).all() else np.eye(n)[rng.integers(n)]) * total
    sizes = np.floor(exact).astype(np.int64)
    order = np.argsort(sizes - exact, kind="stable")
    sizes[order[: total - int(sizes.sum())]] += 1
    return sizes


def _how_many(amount: float, n: int, name: str) -> int:
    if isinstance(amount, int) and 0 <= amount <= n:
        return amount
    if isinstance(amount, float) and 0.0 <= amount < 1.0:
        return max(1, math.floor(amount * n + 0.5)) if amount > 0 else 0
    raise ValueError(
        f"{name} is {amount} of {n} clients; pass a number of clients or a share below 1.0"
    )


def _refuse(n_clients: int, n_items: int, items: str = "recordings") -> None:
    if not 1 <= n_clients <= n_items:
        raise ValueError(
            f"cannot make {n_clients} clients of {n_items} {items}; "
            "every client needs at least one, so ask for fewer clients"
        )


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
    if isinstance(clients, LazyClients):
        return clients.part(names)
    return {name: clients[name] for name in names}


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


def _recorded_bytes(recordings: Iterable[Recording]) -> int:
    arrays = (array for one in recordings for array in (one.u, one.y, one.times))
    return sum(array.nbytes for array in arrays if array is not None)


@final
class Cache(Generic[S]):
    """What was read, by the source it came from, up to a number of bytes.

    Where there is no room, the source that was asked for longest ago is dropped. Threads may share
    a cache: two that ask for one source at once wait for one reading. Sent to another process, it
    arrives empty.

    Parameters
    ----------
    max_bytes
        How many may be held.
    size
        Returns the bytes of what was read; those of recordings if not given.
    keep_last
        Whether the last one is held whatever its size; else it is not if it is larger than all.

    >>> cache = Cache()
    >>> [recording.n_steps for recording in cache.get("ann", lambda: [Recording([1.0, 2.0])])]
    [2]
    >>> cache.get("ann", lambda: []) == [], cache.n_bytes, cache.n_reads
    (False, 16, 1)
    """

    def __init__(
        self,
        max_bytes: int = DEFAULT_BYTES,
        size: Callable[[Any], int] = _recorded_bytes,
        *,
        keep_last: bool = False,
    ) -> None:
        check_type(max_bytes, NonNegativeInt, "max_bytes")
        self.max_bytes, self._size, self._keep_last = max_bytes, size, keep_last
        self.n_reads = 0
        self._held: OrderedDict[Hashable, Future[S]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}  # of those that are read
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Cache, keep_last=self._keep_last), (self.max_bytes, self._size)

    @property
    def n_bytes(self) -> int:
        """Bytes of what is held now."""
        return sum(self._sizes.values())

    def get(self, key: Hashable, read: Callable[[], S]) -> S:
        """Return what is held under a key; if there is nothing, read and hold it."""
        with self._lock:
            mine = key not in self._held
            found = self._held.setdefault(key, Future())
            self._held.move_to_end(key)
        if mine:
            try:
                self.n_reads += 1
                found.set_result(read())
            except BaseException as error:
                found.set_exception(error)
            self._keep(key, found)
        return found.result()

    def _keep(self, key: Hashable, found: Future[S]) -> None:
        """Count what was read, and forget what there is no room for."""
        failed = found.exception() is not None
        size = 0 if failed else self._size(found.result())
        with self._lock:
            if self._held.get(key) is not found:  # forgotten meanwhile
                return
            if failed or (size > self.max_bytes and not self._keep_last):
                del self._held[key]
                return
            self._sizes[key] = size
            for oldest in [one for one in self._held if one in self._sizes]:
                if self.n_bytes <= self.max_bytes or (self._keep_last and len(self._sizes) == 1):
                    return
                del self._held[oldest], self._sizes[oldest]

    def clear(self) -> None:
        """Forget everything, as when files have changed."""
        with self._lock:
            self._held.clear()
            self._sizes.clear()


PROCESS_CACHE: Cache[list[Recording]] = Cache()


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

    read: Callable[[], Iterable[Recording]]
    cache: Cache[list[Recording]] | None = None

    def __call__(self) -> list[Recording]:
        """Return the recordings, in a list of the caller's own."""
        cache = PROCESS_CACHE if self.cache is None else self.cache
        return list(cache.get(self.read, lambda: list(self.read())))
