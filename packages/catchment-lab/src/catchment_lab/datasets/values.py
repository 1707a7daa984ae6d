"""What readers of public data sets return, and how it is cut into windows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment import Array, frozen
from catchment.data import Recording

Window = int | Literal["usual", "whole"]
Option = str | int | bool


@dataclass(frozen=True, eq=False)
class Segment:
    """One segment of a client's data under one label: `u` is (T, I); `test` is the publisher's.

    A series to be forecast has no label: None.
    """

    client: str
    label: int | None
    u: Array
    test: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Sequences by client, as the publisher split them if a split is known.

    `test_clients` are held out whole; `test_positions` says, for other clients, which of their
    sequences are. Both are empty where the publisher names no test part. `usual` is the window and
    the step that people use with this set, None where recordings are not cut; `options` are the
    choices with which the files were read.

    >>> one, two = Recording([0.0, 1.0]), Recording([2.0])
    >>> data = Dataset(name="toy", clients={"a": [one, two], "b": [two]}, channels=("x",),
    ...                test_clients=("b",), test_positions={"a": (1,)})
    >>> {name: len(part) for name, part in data.train.items()}
    {'a': 1}
    >>> {name: len(part) for name, part in data.test.items()}
    {'a': 1, 'b': 1}
    """

    name: str
    clients: Mapping[str, list[Recording]]
    channels: tuple[str, ...]
    classes: tuple[str, ...] = ()
    rate_hz: float | None = None
    test_clients: tuple[str, ...] = ()
    test_positions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    usual: tuple[int, int] | None = None
    options: Mapping[str, Option] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))
        object.__setattr__(self, "clients", MappingProxyType(dict(self.clients)))
        object.__setattr__(self, "test_positions", MappingProxyType(dict(self.test_positions)))

    @property
    def n_sequences(self) -> int:
        return sum(map(len, self.clients.values()))

    @property
    def train(self) -> dict[str, list[Recording]]:
        """The clients and sequences that the publisher does not hold out."""
        return self._part(test=False)

    @property
    def test(self) -> dict[str, list[Recording]]:
        """The clients and sequences that the publisher holds out."""
        return self._part(test=True)

    def _part(self, *, test: bool) -> dict[str, list[Recording]]:
        part = {}
        for name, sequences in self.clients.items():
            held_out = set(self.test_positions.get(name, ()))
            whole = name in self.test_clients
            kept = [s for i, s in enumerate(sequences) if (whole or i in held_out) == test]
            if kept:
                part[name] = kept
        return part


def gathered(
    name: str,
    segments: Iterable[Segment],
    *,
    channels: Sequence[str],
    classes: Sequence[str] = (),
    rate_hz: float | None = None,
    usual: tuple[int, int] | None = None,
    options: Mapping[str, Option] | None = None,
    notes: tuple[str, ...] = (),
) -> Dataset:
    """Return whole recordings by client, clients in the order of their names.

    A client all of whose recordings are for test is a test client.

    >>> u = np.zeros((3, 1))
    >>> parts = [Segment("s10", 0, u, test=True), Segment("s2", 1, u), Segment("s2", 0, u)]
    >>> data = gathered("toy", parts, channels=("x",), classes=("no", "yes"))
    >>> {name: len(held) for name, held in data.clients.items()}, data.test_clients
    ({'s2': 2, 's10': 1}, ('s10',))
    """
    clients: dict[str, list[Recording]] = {}
    test: dict[str, list[int]] = {}
    for segment in segments:
        held = clients.setdefault(segment.client, [])
        if segment.test:
            test.setdefault(segment.client, []).append(len(held))
        held.append(
            Recording(segment.u)
            if segment.label is None
            else Recording.labeled(segment.u, segment.label, len(classes))
        )
    names = sorted(clients, key=_natural)
    whole = {client for client in test if len(test[client]) == len(clients[client])}
    return Dataset(
        name=name,
        clients={client: clients[client] for client in names},
        channels=tuple(channels),
        classes=tuple(classes),
        rate_hz=rate_hz,
        test_clients=tuple(client for client in names if client in whole),
        test_positions={c: tuple(test[c]) for c in names if c in test and c not in whole},
        notes=notes,
        usual=usual,
        options=options or {},
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts S2 before S10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def cut(data: Dataset, window: Window = "usual", step: int | None = None) -> Dataset:
    """Return whole recordings cut into windows; one that is shorter than a window gives none.

    Parameters
    ----------
    data
        Whole recordings, each with one label or none.
    window
        Steps per sequence; `usual` is the set's own habit, `whole` cuts nothing.
    step
        Steps from one window to the next; the window's length, or the set's habit, if not given.

    >>> segment = Segment("a", 1, np.arange(10.0)[:, None])
    >>> data = gathered("toy", [segment], channels=("x",), classes=("no", "yes"))
    >>> [s.u.ravel().tolist() for s in cut(data, 4, step=3).clients["a"]]
    [[0.0, 1.0, 2.0, 3.0], [3.0, 4.0, 5.0, 6.0], [6.0, 7.0, 8.0, 9.0]]
    """
    steps, stride = window_steps(window, step, usual=data.usual)
    if steps is None:
        return data
    clients: dict[str, list[Recording]] = {}
    test: dict[str, tuple[int, ...]] = {}
    for client, recordings in data.clients.items():
        held_out = set(data.test_positions.get(client, ()))
        pieces: list[Recording] = []
        positions: list[int] = []
        for number, recording in enumerate(recordings):
            for start in range(0, recording.n_steps - steps + 1, stride):
                if number in held_out:
                    positions.append(len(pieces))
                pieces.append(replace(recording, u=recording.u[start : start + steps]))
        if pieces:
            clients[client] = pieces
        if positions:
            test[client] = tuple(positions)
    if data.clients and not clients:
        longest = max(r.n_steps for held in data.clients.values() for r in held)
        raise ValueError(
            f"window is {steps}; the longest recording of {data.name} has {longest} steps, pass "
            f"that or less"
        )
    return replace(
        data,
        clients=clients,
        test_clients=tuple(client for client in data.test_clients if client in clients),
        test_positions=test,
        usual=None,
    )


def window_steps(
    window: Window, step: int | None, *, usual: tuple[int, int] | None
) -> tuple[int | None, int]:
    """Return the steps per window that a caller's choice means, None for whole, and the stride.

    >>> window_steps("usual", None, usual=(128, 64)), window_steps("whole", None, usual=(128, 64))
    ((128, 64), (None, 1))
    """
    if window not in ("usual", "whole") and (not isinstance(window, int) or window < 1):
        raise ValueError(f"window is {window!r}; pass a number of steps, 'usual' or 'whole'")
    steps, stride = (None, 1)
    if window == "usual" and usual is not None:
        steps, stride = usual
    elif isinstance(window, int):
        steps, stride = window, window
    if step is None:
        return steps, stride
    if steps is None or step < 1:
        raise ValueError(f"step is {step}; pass 1 or more, and a window that is a number of steps")
    return steps, step


def ahead(data: Dataset, horizon: int) -> Dataset:
    """Return series whose targets are their own values, a number of steps later.

    Parameters
    ----------
    horizon
        Steps from input to target; 0 leaves the targets out.

    >>> series = gathered("toy", [Segment("a", None, np.arange(4.0)[:, None])], channels=("x",))
    >>> ahead(series, 1).clients["a"][0].y.ravel()
    array([1., 2., 3.])
    """
    clients = {}
    for client, recordings in data.clients.items():
        shortest = min(recording.n_steps for recording in recordings)
        if not 0 <= horizon < shortest:
            raise ValueError(f"horizon is {horizon}; pass 0 to {shortest - 1}")
        clients[client] = [
            Recording(r.u[: r.n_steps - horizon], y=r.u[horizon:]) if horizon else r
            for r in recordings
        ]
    return replace(data, clients=clients)


def runs(*keys: NDArray[Any]) -> list[tuple[int, int]]:
    """Return (start, stop) of every segment over which all keys, each (T,), stay the same.

    >>> runs(np.array([1, 1, 2, 2, 2]), np.array([0, 0, 0, 0, 9]))
    [(0, 2), (2, 4), (4, 5)]
    """
    n_steps = len(keys[0])
    if n_steps == 0:
        return []
    changed = np.zeros(n_steps - 1, dtype=bool)
    for key in keys:
        changed |= key[1:] != key[:-1]
    edges = [0, *(np.flatnonzero(changed) + 1).tolist(), n_steps]
    return list(itertools.pairwise(edges))


def float_rows(value: NDArray[Any]) -> Array:
    """Return the values as read-only float64."""
    return frozen(np.asarray(value, dtype=np.float64))
