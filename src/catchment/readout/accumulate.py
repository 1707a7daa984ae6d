"""From sequences to ridge statistics: one pass, and memory that does not grow with the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from catchment.arrays import Array
from catchment.data.sequence import Sequence as Recorded
from catchment.parallel import ordered_map
from catchment.readout.packing import pack
from catchment.readout.statistics import RidgeStatistics
from catchment.reservoir.batches import Batch, SegmentsError
from catchment.reservoir.features import Features

WINDOW_SEQUENCES = 512  # sequences looked at together, to group those of like length...
WINDOW_STEPS = 4_000_000  # ...unless they are long


def accumulate(
    features: Features, sequences: Iterable[Recorded], *, threads: int | None = None
) -> RidgeStatistics:
    """Return the statistics of all sequences; an iterator is read as it goes.

    Rows whose target is NaN are left out. A target per sequence stands for each of its rows.

    Parameters
    ----------
    features
        Map from inputs to feature rows.
    sequences
        With targets, all of one kind and width.
    threads
        All cores if None; the result does not depend on it.

    >>> from catchment import Recipe, Reservoir, Sequence
    >>> reservoir = Reservoir.from_recipe(Recipe(units=30, inputs=1, seed=1))
    >>> u = np.sin(np.arange(200) / 5)
    >>> total = accumulate(Features(reservoir, washout=20), [Sequence(u[:-1], u[1:])])
    >>> total.n_rows, total.n_features
    (179, 31)
    """
    total: RidgeStatistics | None = None
    for window in _windows(sequences):
        part = _window_statistics(features, window, threads)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("no sequences were given; pass at least one with targets")
    return total


def _windows(sequences: Iterable[Recorded]) -> Iterator[list[Recorded]]:
    window: list[Recorded] = []
    steps = 0
    for sequence in sequences:
        window.append(sequence)
        steps += sequence.n_steps
        if len(window) == WINDOW_SEQUENCES or steps >= WINDOW_STEPS:
            yield window
            window, steps = [], 0
    if window:
        yield window


def _window_statistics(
    features: Features, window: Sequence[Recorded], threads: int | None
) -> RidgeStatistics:
    inputs = [features.checked(s.u, f"sequence {k}") for k, s in enumerate(window)]
    targets = _targets(window, per_step=features.per_step)
    batches = features.batches(inputs)
    if not features.per_step:
        z = np.empty((len(window), features.n_features))
        for batch, rows in zip(
            batches, ordered_map(features.pooled, batches, threads=threads), strict=True
        ):
            z[[lane.source for lane in batch.lanes]] = rows
        weight = np.array([s.weight for s in window])
        return RidgeStatistics.from_states(
            z,
            np.stack(targets),
            weight=None if (weight == 1).all() else weight,
            fingerprint=features.fingerprint,
        )

    def statistics(batch: Batch) -> Sums:
        try:
            return _batch_sums(features, batch, targets, window)
        except SegmentsError:
            whole = batch.in_one_piece(inputs, features.washout)
            return _batch_sums(features, whole, targets, window)

    sums = reduce(add, ordered_map(statistics, batches, threads=threads))
    return sums.statistics(features.fingerprint)


def _targets(window: Sequence[Recorded], *, per_step: bool) -> list[Array]:
    targets = []
    width = None
    for k, s in enumerate(window):
        if s.y is None:
            raise ValueError(f"sequence {k} has no targets; statistics need inputs and targets")
        if s.per_step and not per_step:
            raise ValueError(
                f"sequence {k} has a target per step, but pooled features give one row per "
                "sequence; pass pool=None or one target per sequence"
            )
        if width is not None and s.y.shape[-1] != width:
            raise ValueError(
                f"sequence {k} has {s.y.shape[-1]} target columns, the ones before it {width}"
            )
        width = s.y.shape[-1]
        targets.append(s.y)
    return targets


@dataclass(eq=False)
class Sums:
    """Full-matrix sums of one batch; packed only once, at the end."""

    n_rows: int
    G: Array  # (F, F)
    C: Array  # (F, K + 1): cross moments, and feature sums in the last column
    Y: Array  # (K + 1, K + 1): target moments, target sums, and the weight in the corner

    def __add__(self, other: Sums) -> Sums:
        """Add in place: the left side is a batch nobody else holds."""
        self.n_rows += other.n_rows
        self.G += other.G
        self.C += other.C
        self.Y += other.Y
        return self

    def statistics(self, fingerprint: str) -> RidgeStatistics:
        return RidgeStatistics(
            self.n_rows,
            float(self.Y[-1, -1]),
            self.C[:, -1].copy(),
            self.Y[:-1, -1].copy(),
            pack(self.G),
            self.C[:, :-1].copy(),
            pack(self.Y[:-1, :-1]),
            fingerprint,
        )


def _batch_sums(
    features: Features, batch: Batch, targets: Sequence[Array], window: Sequence[Recorded]
) -> Sums:
    F, K = features.n_features, targets[0].shape[-1]
    sums = Sums(0, np.zeros((F, F)), np.zeros((F, K + 1)), np.zeros((K + 1, K + 1)))
    product = np.empty((F, F))
    for block in features.blocks(batch):
        y = _block_targets(batch, block.start, block.stop, block.rows.shape[2], targets, window)
        Z = block.rows.reshape(F, -1) if block.rows.shape[2] > 1 else block.rows[:, :, 0]
        known = ~np.isnan(y[:, -1])
        n = int(known.sum())
        if n < len(known):
            Z, y = Z[:, known], y[known]
        if n == 0:
            continue
        Z = Z.astype(np.float64, copy=False)
        root = y[:, -1]
        if (root != 1).any():
            Z = Z * root
            y[:, :-1] *= root[:, None]
        sums.n_rows += n
        sums.G += np.matmul(Z, Z.T, out=product)
        sums.C += Z @ y
        sums.Y += y.T @ y
    return sums


def _block_targets(
    batch: Batch,
    start: int,
    stop: int,
    n_lanes: int,
    targets: Sequence[Array],
    window: Sequence[Recorded],
) -> Array:
    """Return targets (steps * lanes, K + 1); the last column is the root weight, NaN if unused."""
    K = targets[0].shape[-1]
    y = np.full((stop - start, n_lanes, K + 1), np.nan)
    for b, lane in enumerate(batch.lanes):
        begin, end = max(start, lane.skip), min(stop, len(lane.u))
        if begin >= end:
            continue
        target, place = targets[lane.source], y[begin - start : end - start, b]
        shift = lane.first - lane.skip
        place[:, :K] = target[shift + begin : shift + end] if target.ndim == 2 else target
        place[:, K] = np.sqrt(window[lane.source].weight)
    flat = y.reshape(-1, K + 1)
    if np.isnan(flat).any():
        flat[np.isnan(flat).any(axis=1), -1] = np.nan
    return flat
