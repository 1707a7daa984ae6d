"""What loaders return: sequences by client, images, or texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, frozen
from catchment.data.recording import Recording

Bytes = NDArray[np.uint8]
Window = int | Literal["usual", "whole"]


@dataclass(frozen=True, eq=False)
class Stretch:
    """One stretch of a client's data under one label: `u` is (T, I); `test` is the publisher's."""

    client: str
    label: int
    u: Array
    test: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Sequences by client, as the publisher split them if a split is known.

    `test_clients` are held out whole; `test_positions` says, for other clients, which of their
    sequences are. Both are empty where the publisher names no test part.

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

    def __post_init__(self) -> None:
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Images:
    """Images (n, height, width) grey or (n, height, width, 3) colour, bytes, with their labels.

    `train_clients` and `test_clients` name the client of each image; they are empty where there
    are no natural clients.

    >>> dot = np.zeros((2, 3, 3), dtype=np.uint8)
    >>> label = np.array([0, 1], dtype=np.uint8)
    >>> images = Images(name="toy", train=dot, train_labels=label, test=dot[:1],
    ...                 test_labels=label[:1], classes=("no", "yes"), train_clients=("a", "b"))
    >>> images.positions["b"]
    array([1])
    """

    name: str
    train: Bytes
    train_labels: Bytes
    test: Bytes
    test_labels: Bytes
    classes: tuple[str, ...]
    train_clients: tuple[str, ...] = ()
    test_clients: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for images, labels in ((self.train, self.train_labels), (self.test, self.test_labels)):
            if len(images) != len(labels):
                raise ValueError(
                    f"{self.name} has {len(images)} images and {len(labels)} labels; "
                    f"pass one label for each image"
                )
            images.flags.writeable = labels.flags.writeable = False

    @property
    def positions(self) -> dict[str, NDArray[np.int64]]:
        """Client name to the positions of its training images."""
        if not self.train_clients:
            return {}
        names, member = np.unique(np.array(self.train_clients), return_inverse=True)
        order = np.argsort(member, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(member))[:-1])
        return {str(name): part for name, part in zip(names, parts, strict=True)}


@dataclass(frozen=True)
class Text:
    """One text, with its author or its class where there is one."""

    text: str
    client: str | None = None
    label: int | None = None


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Texts for training and, where the publisher names them, for development and test.

    >>> texts = Texts(name="toy", train=(Text("to be", client="HAMLET"),))
    >>> texts.clients["HAMLET"][0].text
    'to be'
    """

    name: str
    train: tuple[Text, ...]
    test: tuple[Text, ...] = ()
    development: tuple[Text, ...] = ()
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def clients(self) -> dict[str, list[Text]]:
        """Client name to its training texts, in order of appearance."""
        clients: dict[str, list[Text]] = {}
        for text in self.train:
            if text.client is not None:
                clients.setdefault(text.client, []).append(text)
        return clients


def cut(
    recordings: Iterable[Stretch], *, n_classes: int, window: int | None, step: int | None = None
) -> tuple[dict[str, list[Recording]], dict[str, tuple[int, ...]]]:
    """Return labelled sequences by client, and the positions of those that are for test.

    Parameters
    ----------
    recordings
        Any number; one shorter than the window gives nothing.
    n_classes
        Length of the one-hot targets.
    window
        Steps per sequence; None keeps recordings whole.
    step
        Steps from one window to the next; the window's length if not given.

    >>> recording = Stretch("a", 1, np.arange(10.0)[:, None], test=True)
    >>> clients, test = cut([recording], n_classes=2, window=4, step=3)
    >>> [s.u.ravel().tolist() for s in clients["a"]], test
    ([[0.0, 1.0, 2.0, 3.0], [3.0, 4.0, 5.0, 6.0], [6.0, 7.0, 8.0, 9.0]], {'a': (0, 1, 2)})
    """
    clients: dict[str, list[Recording]] = {}
    test: dict[str, list[int]] = {}
    for recording in recordings:
        u = recording.u
        for start, stop in _bounds(len(u), window, step):
            sequences = clients.setdefault(recording.client, [])
            if recording.test:
                test.setdefault(recording.client, []).append(len(sequences))
            sequences.append(Recording.labelled(u[start:stop], recording.label, n_classes))
    return clients, {client: tuple(positions) for client, positions in test.items()}


def _bounds(n_steps: int, window: int | None, step: int | None) -> list[tuple[int, int]]:
    if window is None:
        return [(0, n_steps)] if n_steps else []
    stride = window if step is None else step
    return [(start, start + window) for start in range(0, n_steps - window + 1, stride)]


def window_steps(window: Window, step: int | None, *, usual: int | None) -> int | None:
    """Return the steps per window that a caller's choice means, None for whole recordings.

    >>> window_steps("usual", None, usual=128), window_steps("whole", None, usual=128)
    (128, None)
    """
    if window not in ("usual", "whole") and (not isinstance(window, int) or window < 1):
        raise ValueError(f"window is {window!r}; pass a number of steps, 'usual' or 'whole'")
    steps = usual if window == "usual" else None if window == "whole" else window
    if step is not None and (steps is None or step < 1):
        raise ValueError(f"step is {step}; pass 1 or more, and a window that is a number of steps")
    return steps


def runs(*keys: NDArray[Any]) -> list[tuple[int, int]]:
    """Return (start, stop) of every stretch over which all keys, each (T,), stay the same.

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


def float_rows(value: NDArray[Any], scale: float | Array | None = None) -> Array:
    """Return the values, times a scale if there is one, as read-only float64."""
    rows = np.asarray(value, dtype=np.float64)
    return frozen(rows if scale is None else rows * scale)


def names_of(value: NDArray[Any] | Sequence[object]) -> tuple[str, ...]:
    """Return an array of names as a tuple."""
    return tuple(str(item) for item in value)
