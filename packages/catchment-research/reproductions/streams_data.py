"""Streams whose activity changes unannounced: pieces of one person's own recordings, spliced.

Each piece lasts 3 to 8 s and is of another activity than the one before it. In the task `gaps` the
sensor is silent for 0.5 to 3 s again and again: all channels are zero, which is their mean, and
nothing says so; the activity goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from catchment import Array, Booleans, Integers
from catchment.data import ACTIVITIES, Recording, synthetic_wearables
from reproductions.people import scale_each
from reproductions.places import load

Task = Literal["changes", "gaps"]
TASKS: tuple[Task, ...] = ("changes", "gaps")
RATE = 50  # steps a second
SHORTEST, LONGEST = 3 * RATE, 8 * RATE  # steps of an activity
FIRST, EVERY = 129, 10  # the first step that is judged, and how often one is
SETTLED = RATE * 3 // 2  # steps after a change from which a label should be right
SILENT, HEARD = (RATE // 2, 3 * RATE), (RATE, 4 * RATE)  # steps of a gap, and between gaps


@dataclass(frozen=True, eq=False)
class Stream:
    """Inputs (T, I), and for every step the activity, the steps since it began, and gaps."""

    u: Array
    label: Integers
    since: Integers
    silent: Booleans

    @property
    def judged(self) -> Integers:
        """Steps whose label counts, in training and test alike."""
        return np.arange(FIRST, len(self.u), EVERY)


People = dict[str, list[Stream]]


def motionsense(directory: Path | None = None) -> tuple[dict[str, list[Recording]], int]:
    """Return every person's whole recordings, scaled by themselves, and how many classes."""
    data = load("motionsense", directory=directory, window="whole")
    return scale_each(data.clients), len(data.classes)


def generated(n_people: int = 6, seed: int = 0) -> tuple[dict[str, list[Recording]], int]:
    """Return synthetic people's recordings, for a look at the machinery.

    >>> people, n_classes = generated(2)
    >>> len(people), n_classes
    (2, 6)
    """
    users = synthetic_wearables(n_people, seed, windows_per_user=40)
    return scale_each(users), len(ACTIVITIES)


def spliced(
    people: Mapping[str, Sequence[Recording]],
    n_classes: int,
    *,
    task: Task,
    seed: int,
    n_streams: int,
    steps: int,
) -> People:
    """Return streams of every person, drawn by the seed and the person's name.

    >>> people = spliced(*generated(2), task="changes", seed=0, n_streams=1, steps=900)
    >>> [len(streams[0].u) for streams in people.values()]
    [900, 900]
    """
    found: People = {}
    for name, recordings in sorted(people.items()):
        by_class: dict[int, list[Array]] = {}
        for r in recordings:
            assert r.y is not None
            by_class.setdefault(int(np.argmax(np.reshape(r.y, (-1, n_classes))[0])), []).append(r.u)
        word = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        rng = np.random.default_rng([seed, word, TASKS.index(task)])
        found[name] = [_stream(by_class, rng, task, steps) for _ in range(n_streams)]
    return found


def _stream(
    by_class: Mapping[int, Sequence[Array]], rng: np.random.Generator, task: Task, steps: int
) -> Stream:
    pieces, labels, since, n, last = [], [], [], 0, -1
    while n < steps:
        label = int(rng.choice([k for k in sorted(by_class) if k != last]))
        u = _piece(by_class[label], rng, int(rng.integers(SHORTEST, LONGEST + 1)))
        pieces.append(u)
        labels.append(np.full(len(u), label))
        since.append(np.arange(len(u)))
        n, last = n + len(u), label
    u = np.concatenate(pieces)[:steps]
    silent = np.zeros(steps, dtype=np.bool_)
    if task == "gaps":
        at = int(rng.integers(*HEARD))
        while at < steps:
            end = at + int(rng.integers(SILENT[0], SILENT[1] + 1))
            silent[at:end] = True
            at = end + int(rng.integers(HEARD[0], HEARD[1] + 1))
        u = np.where(silent[:, None], 0.0, u)
    return Stream(u, np.concatenate(labels)[:steps], np.concatenate(since)[:steps], silent)


def _piece(recordings: Sequence[Array], rng: np.random.Generator, length: int) -> Array:
    """Return a segment of one recording; short recordings follow one another until it is full."""
    parts, n = [], 0
    while n < length:
        u = recordings[int(rng.integers(len(recordings)))]
        start = int(rng.integers(max(1, len(u) - length + 1)))
        parts.append(u[start : start + length - n])
        n += len(parts[-1])
    return np.concatenate(parts)
