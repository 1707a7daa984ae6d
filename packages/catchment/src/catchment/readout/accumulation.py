"""From sequences to ridge statistics: one pass, and memory that does not grow with the data.

Features and targets of a block of steps lie in one matrix [Z; Y'; 1], whose product with itself
holds every moment at once: Z Z', Z Y, Y'Y, the sums and the number of rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap
from catchment.features.echo_state.advance import BLOCK_COLUMNS, Block, SideBySide, padded_lanes
from catchment.features.echo_state.batches import Batch, SegmentsError
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.union import thinned_recordings
from catchment.parallel import count_threads, ordered_map, single_blas_thread
from catchment.readout.device import (
    DEVICE_SEQUENCES,
    Devices,
    device_for,
    is_marked,
    statistics_name,
    torch_form,
)
from catchment.readout.exact_gram import (
    ExactGram,
    exact_gram,
    packed_whole,
    statistics_of,
    target_pieces,
)
from catchment.readout.exact_rows import whole_weights
from catchment.readout.gram import add_gram
from catchment.readout.grid import Grid
from catchment.readout.integers import added
from catchment.readout.packing import pack
from catchment.readout.short_sequences import is_short, short_statistics
from catchment.readout.statistics import RidgeStatistics
from catchment.readout.streamed import streamed_statistics

WINDOW_SEQUENCES = 512  # sequences looked at together, to group those of like length...
WINDOW_STEPS = 4_000_000  # ...unless they are long
FEW_UNUSED = 0.125  # share of unused columns up to which zeroing them beats leaving them out
PARTS = 2  # sums of a lone batch, which threads add to side by side...
PARTS_FROM = 4  # ...if it has this many steps per feature; a sum costs memory and one addition
BUFFERS = 4  # blocks of a lone batch under way


def accumulate(
    features: FeatureMap,
    sequences: Iterable[Recording],
    *,
    threads: int | None = None,
    classes: bool | None = None,
    device: str | None = None,
    devices: Devices = "same",
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
    classes
        Whether targets are whole numbers, as those of classes are; only asked of a map on a grid.
        If None they are if all are 0 or 1. Clients whose statistics are added in secret must agree.
    device
        "cuda", or "cuda:1", to compute on a GPU, on a grid the same to the bit; needs torch. If
        None, what the environment variable CATCHMENT_DEVICE names, else the CPU. Without a grid a
        device gives slightly other numbers: such statistics add only to others that were made on a
        device or with `devices="any"`.
    devices
        "any" for statistics without a grid that add to those of other devices, wherever these are
        made; the variable then counts for them too. On a grid it makes no difference.

    >>> from catchment import EchoState, Recording
    >>> u = np.sin(np.arange(200) / 5)
    >>> features = EchoState(30, seed=1, washout=20).build(1, per_step=True)
    >>> total = accumulate(features, [Recording(u[:-1], u[1:])])
    >>> total.n_rows, total.n_features
    (179, 31)
    """
    total: RidgeStatistics | None = None
    place = device_for(features, device, devices)
    together = WINDOW_SEQUENCES if place is None else DEVICE_SEQUENCES
    for window in in_windows(sequences, together):
        part = _window_statistics(features, window, threads, classes, place)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("no sequences were given; pass at least one with targets")
    if not is_marked(features, device, devices):
        return total
    return replace(total, fingerprint=statistics_name(total.fingerprint, any_device=True))


def accumulate_with_rows(
    features: FeatureMap,
    sequences: Iterable[Recording],
    *,
    threads: int | None = None,
    classes: bool | None = None,
) -> tuple[RidgeStatistics, Array]:
    """Return what `accumulate` does, and the feature rows (n, F) of all sequences.

    >>> from catchment import EchoState, Recording
    >>> features = EchoState(30).build(1, per_step=False)
    >>> data = [Recording(np.arange(5.0), [k]) for k in range(3)]
    >>> total, rows = accumulate_with_rows(features, data)
    >>> total == accumulate(features, data), rows.shape
    (True, (3, 62))
    """
    windows = [list(window) for window in in_windows(sequences)]
    rows = [features.rows([s.u for s in window], threads=threads) for window in windows]
    if features.per_step:
        every = chain.from_iterable(windows)
        total = accumulate(features, every, threads=threads, classes=classes)
    else:
        with single_blas_thread():
            parts = [
                _of_rows(features, *pair, grid_of(features, pair[0], classes))
                for pair in zip(windows, rows, strict=True)
            ]
        total = reduce(add, parts)
    return total, np.concatenate([z for window in rows for z in window])


def in_windows(
    sequences: Iterable[Recording], together: int = WINDOW_SEQUENCES
) -> Iterator[list[Recording]]:
    """Yield sequences that are looked at together, as they come."""
    window: list[Recording] = []
    steps = 0
    for sequence in sequences:
        window.append(sequence)
        steps += sequence.n_steps
        if len(window) == together or steps >= WINDOW_STEPS:
            yield window
            window, steps = [], 0
    if window:
        yield window


def grid_of(features: FeatureMap, window: Sequence[Recording], classes: bool | None) -> Grid | None:
    """Return the grid of the statistics of some sequences, None if there is none.

    Parameters
    ----------
    classes
        Whether targets are whole; if None they are if all are 0 or 1.
    """
    if features.grid is None:
        return None
    if classes is None:
        given = [s.y for s in window if s.y is not None]
        known = [y if y.ndim == 1 else y.reshape(-1) for y in given]
        # Numbers show in the first; one look at all others is quicker than one at each.
        classes = not known or (_are_classes(known[0]) and _are_classes(np.concatenate(known)))
    return Grid.of(features, classes=classes)


def _are_classes(y: Array) -> bool:
    """Whether all targets are 0, 1 or missing."""
    return bool(((y == 0) | (y == 1) | np.isnan(y)).all())


def _window_statistics(
    features: FeatureMap,
    window: Sequence[Recording],
    threads: int | None,
    classes: bool | None,
    place: str | None,
) -> RidgeStatistics:
    inner, some = thinned_recordings(features, window)
    if inner is not features:
        part = _window_statistics(inner, some, threads, classes, place)
        return replace(part, fingerprint=features.fingerprint)
    grid = grid_of(features, window, classes)
    if place is not None:
        targets = recording_targets(window, per_step=features.per_step)
        made: RidgeStatistics = torch_form().statistics_on(
            place, features, window, targets, grid, threads=threads
        )
        return made
    if features.streams:
        return streamed_statistics(
            features, window, recording_targets(window, per_step=True), grid, threads=threads
        )
    if not isinstance(features, EchoStateMap):
        return _row_statistics(features, window, threads, grid)
    if grid is None or not features.per_step:
        return _echo_state_statistics(features, window, threads, grid)
    # Whole numbers of another weight are multiplied by it once they are summed.
    groups = whole_weights(np.array([s.weight for s in window]))
    parts = []
    for weight in groups:
        alike = [s for s in window if s.weight == weight] if groups[1:] else window
        parts.append(_echo_state_statistics(features, alike, threads, grid).scaled(weight))
    return reduce(add, parts)


def _echo_state_statistics(
    features: EchoStateMap,
    window: Sequence[Recording],
    threads: int | None,
    grid: Grid | None,
) -> RidgeStatistics:
    """Return the statistics of an echo state map; on a grid weights per step are left out."""
    n_threads = count_threads(threads)
    if len(window) == 1 and is_short(features, window[0]):
        (short,) = short_statistics(features, window, grid)
        if short is not None:
            return short
    inputs = features.checked_all([s.u for s in window])
    targets = recording_targets(window, per_step=features.per_step)
    batches = features.batches(inputs)
    if not features.per_step:
        # One thread of BLAS for the small product too: to wake the others takes longer.
        with single_blas_thread():
            return _pooled_statistics(features, window, targets, batches, threads, grid)
    alone = len(batches) == 1
    n_steps = sum(len(u) for u in inputs)
    helped = n_threads > 1 and alone and n_steps > 2 * BUFFERS * BLOCK_COLUMNS
    several = alone and n_steps >= PARTS_FROM * features.n_features
    if grid is None:
        places: tuple[int, ...] = (0,)
        roots = np.sqrt([s.weight for s in window])
    else:
        targets, places = target_pieces(targets, grid)
        roots, several = np.ones(len(window)), several and helped
    job = _Job(features, targets, roots, grid, places, PARTS if several else 1, helped)

    def moments(batch: Batch) -> Moments:
        try:
            return job.moments(batch)
        except SegmentsError:
            return job.moments(batch.in_one_piece(inputs, features.washout))

    if alone:
        with single_blas_thread():
            total = moments(batches[0])
    else:
        total = reduce(add, ordered_map(moments, batches, threads=threads))
    return job.statistics(total)


def _row_statistics(
    features: FeatureMap, window: Sequence[Recording], threads: int | None, grid: Grid | None
) -> RidgeStatistics:
    """Return the statistics of rows that a map gives all at once."""
    rows = features.rows([s.u for s in window], threads=threads)
    with single_blas_thread():
        return _of_rows(features, window, rows, grid)


def _of_rows(
    features: FeatureMap, window: Sequence[Recording], rows: Sequence[Array], grid: Grid | None
) -> RidgeStatistics:
    targets = recording_targets(window, per_step=features.per_step)
    y = [
        y[features.washout :] if y.ndim == 2 else np.broadcast_to(y, (len(z), len(y)))
        for z, y in zip(rows, targets, strict=True)
    ]
    weight = np.repeat([s.weight for s in window], [len(z) for z in rows])
    return RidgeStatistics.from_states(
        np.concatenate(rows),
        np.concatenate(y),
        weight=None if (weight == 1).all() else weight,
        fingerprint=features.fingerprint,
        grid=grid,
    )


def _pooled_statistics(
    features: EchoStateMap,
    window: Sequence[Recording],
    targets: Sequence[Array],
    batches: Sequence[Batch],
    threads: int | None,
    grid: Grid | None,
) -> RidgeStatistics:
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
        grid=grid,
    )


def recording_targets(window: Sequence[Recording], *, per_step: bool) -> list[Array]:
    """Return the targets of recordings, all of one width; ValueError if they do not fit."""
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
class Moments:
    """The upper triangle of [Z; Y'; 1] [Z; Y'; 1]' (F + K + 1, F + K + 1) over some rows.

    On a grid its numbers are integers, and the rows of Y' are pieces of the targets.
    """

    n_rows: int
    product: NDArray[Any]

    def __add__(self, other: Moments) -> Moments:
        """Add in place where it can be: the left side is a batch nobody else holds."""
        self.n_rows += other.n_rows
        if self.product.dtype == np.float64:
            self.product += other.product
        else:
            self.product = added(self.product, other.product)
        return self

    def statistics(self, n_features: int, fingerprint: str) -> RidgeStatistics:
        F, M = n_features, self.product
        return RidgeStatistics(
            self.n_rows,
            float(M[-1, -1]),
            M[:F, -1].copy(),
            M[F:-1, -1].copy(),
            pack(M[:F, :F]),
            M[:F, F:-1].copy(),
            pack(M[F:-1, F:-1]),
            fingerprint,
        )


class _FloatGram:
    """A running sum of Z Z' in float64."""

    def __init__(self, size: int) -> None:
        self.product = np.zeros((size, size))

    def add(self, Z: Array) -> None:
        add_gram(self.product, Z)

    def result(self) -> Array:
        return self.product


@dataclass(frozen=True, eq=False)
class _Job:
    """How the blocks of a window's batches are summed."""

    features: EchoStateMap
    targets: Sequence[Array]  # on a grid their pieces
    roots: Array  # of each sequence's weight
    grid: Grid | None
    places: tuple[int, ...]
    n_parts: int
    helped: bool

    def empty(self) -> _FloatGram | ExactGram:
        K = self.targets[0].shape[-1]
        if self.grid is None:
            return _FloatGram(self.features.n_features + K + 1)
        return exact_gram(self.grid, K, constant=self.features.constant)

    def statistics(self, total: Moments) -> RidgeStatistics:
        features, M, F = self.features, total.product, self.features.n_features
        if self.grid is None:
            return total.statistics(F, features.fingerprint)
        return statistics_of(
            packed_whole(M, F),
            M[:, F:],
            total.n_rows,
            self.grid,
            self.places,
            constant=features.constant,
            fingerprint=features.fingerprint,
        )

    def moments(self, batch: Batch) -> Moments:
        """Return the moments of a batch.

        Blocks go to each part of the sum in turn, whether threads help or not, so that the result
        is the same; on a grid it would be in any order.
        """
        n_rows, helped = 0, self.helped
        parts = [self.empty() for _ in range(self.n_parts)]
        columns = Columns.of(batch, self.targets, self.roots)
        pending: deque[Future[None]] = deque()
        with ExitStack() as stack:
            helpers = [stack.enter_context(ThreadPoolExecutor(1)) for _ in parts] if helped else []
            buffers = BUFFERS if helped else 1
            spare = self.targets[0].shape[-1] + 1
            blocks = self.features.blocks(
                batch, spare_rows=spare, n_buffers=buffers, rounded=self.grid is None
            )
            for number, block in enumerate(blocks):
                n, Z = columns.fill(block)
                n_rows += n
                part = number % len(parts)
                if not helped:
                    parts[part].add(Z)
                    continue
                pending.append(helpers[part].submit(parts[part].add, Z))
                if len(pending) == buffers:
                    pending.popleft().result()
            for future in pending:
                future.result()
        found = [Moments(0, part.result()) for part in parts]
        return Moments(n_rows, reduce(add, found).product)


@dataclass(frozen=True, eq=False)
class Columns:
    """The targets and weights of a batch's lanes, arranged like its blocks."""

    targets: SideBySide  # (K, steps, B), NaN where there are none
    skips: Integers  # (B,)
    roots: Array  # (B,) of the weights
    last_skip: int
    weighted: bool

    @classmethod
    def of(cls, batch: Batch, targets: Sequence[Array], root_of: Array) -> Columns:
        lanes, B = batch.lanes, padded_lanes(len(batch.lanes))
        ys, skips, roots = [], np.zeros(B, dtype=np.int64), np.ones(B)
        for b, lane in enumerate(lanes):
            y, begin = targets[lane.source], lane.first - lane.skip
            n_steps = len(lane.u)
            constant = y.ndim == 1
            ys.append(np.broadcast_to(y, (n_steps, len(y))) if constant else y[begin:][:n_steps])
            skips[b] = lane.skip
            roots[b] = root_of[lane.source]
        side = SideBySide(ys, B, BLOCK_COLUMNS // B, np.float64, fill=np.nan)
        return cls(side, skips, roots, int(skips.max()), bool((roots != 1).any()))

    def fill(self, block: Block) -> tuple[int, Array]:
        """Put targets and weights into the spare rows; return the number of rows and [Z; Y'; 1].

        Columns that do not count are zeros, or left out when they are many.
        """
        y = self.targets.block(block.start, block.stop)
        block.rows[-1 - len(y) :] = 1.0
        rows = block.rows.astype(np.float64, copy=False)
        rows[-1 - len(y) : -1] = y
        if self.weighted:
            rows *= self.roots
        Z = rows.reshape(len(rows), -1)
        if self.targets.complete and block.start >= self.last_skip:
            return Z.shape[1], Z
        known = ~np.isnan(y).any(axis=0)
        known &= np.arange(block.start, block.stop)[:, None] >= self.skips
        used = known.reshape(-1)
        n = int(np.count_nonzero(used))
        if n < (1 - FEW_UNUSED) * used.size:
            return n, Z[:, used]
        Z[:, ~used] = 0.0
        return n, Z
