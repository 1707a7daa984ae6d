"""Recordings of one length together, so that compiled loops are called once for many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from catchment.arrays import Array
from catchment.parallel import ordered_map

STEPS = 2**12  # of a task of one thread, unless one recording has more; its rows stay in the cache


def in_batches(
    work: Callable[[Array], Array], inputs: Sequence[Array], threads: int | None
) -> list[Array]:
    """Return the rows (1, F) of each recording (T, I), in order.

    Parameters
    ----------
    work
        Returns rows (n, F) for recordings (n, T, I).

    >>> mean = lambda u: u.mean(axis=1)
    >>> in_batches(mean, [np.array([[1.0], [3.0]]), np.array([[5.0]])], 1)
    [array([[2.]]), array([[5.]])]
    """
    rows: list[Array] = [np.empty(0)] * len(inputs)
    tasks = list(_tasks([len(u) for u in inputs]))
    found = ordered_map(
        lambda task: work(np.stack([inputs[k] for k in task])), tasks, threads=threads
    )
    for task, z in zip(tasks, found, strict=True):
        for k, row in zip(task, z, strict=True):
            rows[k] = row[None]
    return rows


def _tasks(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of recordings that have one length, few enough for a task.

    >>> list(_tasks([5, 7, 5]))
    [[0, 2], [1]]
    """
    by_length: dict[int, list[int]] = {}
    for k, length in enumerate(lengths):
        by_length.setdefault(length, []).append(k)
    for length, places in by_length.items():
        size = max(1, STEPS // length)
        for at in range(0, len(places), size):
            yield places[at : at + size]
