"""Statistics of maps that give their rows a few at once: memory does not grow with a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

import numpy as np

from catchment.arrays import Array, Booleans
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap
from catchment.parallel import ordered_map, single_blas_thread
from catchment.readout.grid import Grid
from catchment.readout.statistics import RidgeStatistics

TOGETHER = 1 << 25  # bytes of rows that are multiplied together; short recordings share them


def streamed_statistics(
    features: FeatureMap,
    window: Sequence[Recording],
    targets: Sequence[Array],
    grid: Grid | None,
    *,
    threads: int | None = None,
) -> RidgeStatistics:
    """Return the statistics of recordings with targets (T, K) or (K,).

    Rows of steps without a target are not asked for.

    Parameters
    ----------
    threads
        Recordings are worked on side by side; the result does not depend on it.

    >>> from catchment import DiagonalReservoir
    >>> features = DiagonalReservoir(8).build(1, per_step=True)
    >>> y = np.array([[1.0], [np.nan], [2.0]])
    >>> data = [Recording([1.0, 2.0, 3.0], y)]
    >>> streamed_statistics(features, data, [y], None).n_rows
    2
    """
    n_rows = max(1, TOGETHER // (8 * features.n_features))
    groups = list(_groups(window, targets, n_rows))

    def work(group: list[tuple[Recording, Array]]) -> RidgeStatistics:
        if len(group) > 1:
            return _together(features, group, grid, n_rows)
        parts = [_of(features, *part, grid) for part in row_blocks(features, *group[0], n_rows)]
        return reduce(add, parts)

    with single_blas_thread():
        return reduce(add, ordered_map(work, groups, threads=threads))


Part = tuple[Array, Array, Array]  # rows (n, F), targets (n, K), weights (n,)


def _groups(
    window: Sequence[Recording], targets: Sequence[Array], n_rows: int
) -> Iterator[list[tuple[Recording, Array]]]:
    """Yield neighbouring recordings that together have at most so many steps, or one long one."""
    group: list[tuple[Recording, Array]] = []
    steps = 0
    for one in zip(window, targets, strict=True):
        if group and steps + one[0].n_steps > n_rows:
            yield group
            group, steps = [], 0
        group.append(one)
        steps += one[0].n_steps
    yield group


def row_blocks(features: FeatureMap, recording: Recording, y: Array, n_rows: int) -> Iterator[Part]:
    """Yield the rows of a recording that have targets, at least one block."""
    y = np.broadcast_to(y, (recording.n_steps, y.shape[-1]))
    wanted: Booleans = np.logical_not(np.isnan(y).any(axis=1))
    wanted[: features.washout] = False
    done, known = 0, y[wanted]
    for z in features.row_blocks(recording.u, wanted, n_rows):
        yield z, known[done : done + len(z)], np.full(len(z), recording.weight)
        done += len(z)
    if not done:
        yield np.empty((0, features.n_features)), known, np.empty(0)


def _together(
    features: FeatureMap, group: list[tuple[Recording, Array]], grid: Grid | None, n_rows: int
) -> RidgeStatistics:
    parts = [part for one in group for part in row_blocks(features, *one, n_rows)]
    z, y, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _of(features, z, y, weight, grid)


def _of(
    features: FeatureMap, z: Array, y: Array, weight: Array, grid: Grid | None
) -> RidgeStatistics:
    return RidgeStatistics.from_states(
        z,
        y,
        weight=None if (weight == 1).all() else weight,
        fingerprint=features.fingerprint,
        grid=grid,
    )
