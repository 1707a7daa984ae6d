"""From sequences to ridge statistics: one pass, and memory that does not grow with the data.

Features and targets of a block of rows lie in one matrix [Z; Y'; 1], whose product with itself
holds every moment at once: Z Z', Z Y, Y'Y, the sums and the number of rows. How the blocks come is
the map's affair (`FeatureMap.stacked`); here they are multiplied and summed.

In fixed point a device changes the time they take and nothing else. It then belongs to the machine
and not to the plan, so a node may say it in its environment: `CATCHMENT_DEVICE=cuda`. In float64
sums depend on the order in which they are made, so a device gives slightly other numbers (1e-9
relative or closer). Such statistics say so in their fingerprint and add to their like; a plan
allows them with `deterministic=False`, and then those of all its clients say so.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from operator import add, attrgetter
from typing import Any

import numpy as np

from catchment.arrays import Array, PositiveInt, check_type
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap, Part
from catchment.parallel import count_threads, ordered_map, single_blas_thread
from catchment.plugins import plugin
from catchment.readout.exact import Gram, statistics_of, target_pieces, whole_weights
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.integers import added
from catchment.readout.statistics import ANY_DEVICE, RidgeStatistics

WINDOW_SEQUENCES = 512  # sequences looked at together, to group those of like length...
WINDOW_STEPS = 4_000_000  # ...unless they are long
PARTS = 2  # sums of a lone part, which threads add to side by side...
PARTS_FROM = 4  # ...if it has this many steps per feature; a sum costs memory and one addition
BUFFERS = 4  # blocks of a lone part under way
HELP_FROM = 4096  # steps from which helping threads gain more than they cost
TOGETHER_STEPS = 1 << 20  # of clients that are worked on together on a device, about
SMALL_STEPS = 1 << 14  # of a client that waits for others; its sums then stay within int64

VARIABLE = "CATCHMENT_DEVICE"
DEVICE_SEQUENCES = 16384  # looked at together where there is a device: a GPU wants many
GROUP = 32  # clients served together
DEVICE_GROUP = 256  # likewise on a GPU, which wants many...
GROUP_BYTES = 1 << 28  # ...unless what they send is large


def device_for(features: FeatureMap, device: str | None, deterministic: bool = True) -> str | None:
    """Return the device for the statistics of a map, None for the CPU's own kernels.

    In float64 a device that the environment names is left aside unless any may be used.

    >>> from catchment import EchoState
    >>> features = EchoState(20).build(1, per_step=True)
    >>> device_for(features, "cpu"), device_for(features, None)
    ('cpu', None)
    """
    if features.feature_bits is None and deterministic:
        return device
    return device or os.environ.get(VARIABLE) or None


def group_size(
    features: FeatureMap, n_clients: int, n_threads: int, *, deterministic: bool = True
) -> int:
    """Return how many clients to sum side by side, where that is quicker than one by one.

    >>> from catchment import EchoState
    >>> group_size(EchoState(20).build(1, per_step=True), 100, 2)
    25
    """
    if device_for(features, None, deterministic) is not None:
        fit = GROUP_BYTES // (4 * features.n_features**2)
        return max(1, min(DEVICE_GROUP, fit, n_clients))
    # Several groups per thread, or one group of large clients would keep the others waiting.
    return max(1, min(GROUP, n_clients // (2 * n_threads))) if features.per_step else 1


def statistics_name(
    features: FeatureMap, device: str | None = None, deterministic: bool = True, row_stride: int = 1
) -> str:
    """Return the fingerprint of a map's statistics: which rows, and whether a device matters.

    It does where they are float64, and any device may make them.

    >>> from catchment import EchoState
    >>> plain = EchoState(20, bits=None).build(1, per_step=True)
    >>> [statistics_name(plain, *asked)[64:] for asked in ((None, False, 8), ("cpu",), ())]
    [' row stride 8 any device', ' any device', '']
    """
    marked = features.feature_bits is None and (device is not None or not deterministic)
    stride = "" if row_stride == 1 else f" row stride {row_stride}"
    return features.fingerprint + stride + (ANY_DEVICE if marked else "")


def torch_form() -> Any:
    """Return statistics and predictions on a torch device, which catchment-gpu brings."""
    return plugin("forms", "torch", needed_for="other devices than the CPU")


def refuse_device(device: str | None, what: str) -> None:
    """Raise ValueError if a device was asked for, and what predicts has no form on one.

    >>> refuse_device(None, "a network")
    """
    if device is not None:
        raise ValueError(f"device is {device!r}, and {what} predicts on the CPU; leave it out")


def accumulate(
    features: FeatureMap,
    sequences: Iterable[Recording],
    *,
    threads: int | None = None,
    classes: bool | None = None,
    device: str | None = None,
    deterministic: bool = True,
    row_stride: int = 1,
    rows: list[Array] | None = None,
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
        Whether targets are integers, as those of classes are; only asked of a map in fixed point.
        If None they are if all are 0 or 1. Clients whose statistics are added in secret must agree.
    device
        "cuda", or "cuda:1", to compute on a GPU, in fixed point to the same bit; needs torch. If
        None, what the environment variable CATCHMENT_DEVICE names, else the CPU. In float64 a
        device gives slightly other numbers: such statistics add only to others that were made on a
        device or with `deterministic=False`.
    deterministic
        False for statistics in float64 that add to those of other devices, wherever these are
        made; the variable then counts for them too. In fixed point it makes no difference.
    row_stride
        Of the rows of a recording, counted from 1 after the washout, those count whose number is a
        multiple of it; for maps with a row per step. Statistics of other strides do not add.
    rows
        A list to which the feature rows (n, F) of each sequence are added, all of them.

    >>> from catchment import EchoState, Recording
    >>> u = np.sin(np.arange(200) / 5)
    >>> features = EchoState(30, seed=1, washout=20).build(1, per_step=True)
    >>> total = accumulate(features, [Recording(u[:-1], u[1:])])
    >>> total.n_rows, total.n_features
    (179, 31)
    >>> accumulate(features, [Recording(u[:-1], u[1:])], row_stride=8).n_rows
    22
    """
    total: RidgeStatistics | None = None
    check_type(row_stride, PositiveInt, "row_stride")
    place = device_for(features, device, deterministic)
    together = WINDOW_SEQUENCES if place is None else DEVICE_SEQUENCES
    if row_stride != 1:
        sequences = strided(features, sequences, row_stride)
    for window in in_windows(sequences, together):
        part = _window_statistics(features, window, threads, classes, place, rows)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("no recordings were given; pass at least one with targets")
    name = statistics_name(features, device, deterministic, row_stride)
    return total if name == total.fingerprint else replace(total, fingerprint=name)


def accumulate_each(
    features: FeatureMap,
    groups: Iterable[Iterable[Recording]],
    *,
    classes: bool | None = None,
    device: str | None = None,
    deterministic: bool = True,
    row_stride: int = 1,
) -> list[RidgeStatistics]:
    """Return the statistics of each group of sequences, bit for bit what `accumulate` returns.

    Groups are read one after another; only single short sequences wait for others.

    Parameters
    ----------
    classes, device, deterministic, row_stride
        As for `accumulate`. On a device small groups are worked on together; in float64 they
        agree with what `accumulate` returns to rounding only.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording
    >>> features = EchoState(50, seed=1, washout=20).build(1, per_step=True)
    >>> groups = [[Recording(np.sin(np.arange(200) / k), np.ones(200))] for k in range(1, 10)]
    >>> accumulate_each(features, groups)[3] == accumulate(features, groups[3])
    True
    """
    check_type(row_stride, PositiveInt, "row_stride")
    place, steps = device_for(features, device, deterministic), 0
    how: Any = {"classes": classes, "device": device, "deterministic": deterministic}
    found: dict[int, RidgeStatistics] = {}
    waiting: dict[int, list[Recording]] = {}

    with single_blas_thread():
        for k, group in enumerate(groups):
            sequences = iter(group if row_stride == 1 else strided(features, group, row_stride))
            begin, size = list[Recording](), 0
            most = 2 if place is None else SMALL_STEPS
            while size <= SMALL_STEPS and len(begin) < most:
                if (one := next(sequences, None)) is None:
                    break
                begin.append(one)
                size += one.n_steps
            waits = len(begin) == 1 and _is_short(features, begin[0])
            if place is not None:
                whole = features.feature_bits is not None
                waits = 0 < size <= SMALL_STEPS and not any(whole and s.weight != 1 for s in begin)
            if not waits:
                found[k] = accumulate(features, chain(begin, sequences), threads=1, **how)
                continue
            waiting[k], steps = begin, steps + size
            if place is not None and steps >= TOGETHER_STEPS:
                found |= _side_by_side(features, waiting, classes, place)
                waiting, steps = {}, 0
        found |= _side_by_side(features, waiting, classes, place)
    made, name = [], statistics_name(features, device, deterministic, row_stride)
    for k in sorted(found):
        own = found[k]
        made.append(own if name == own.fingerprint else replace(own, fingerprint=name))
    return made


def _side_by_side(
    features: FeatureMap, waiting: Mapping[int, list[Recording]], classes: bool | None, place: Any
) -> dict[int, RidgeStatistics]:
    """Return the statistics of small groups by their numbers."""
    found: dict[int, RidgeStatistics] = {}
    # Those with equally many targets, in the same units, are summed together.
    alike: dict[tuple[int, FixedPoint | None], list[int]] = {}
    agreed: FixedPoint | None = None
    for k, group in waiting.items():
        width = recording_targets(group, per_step=features.per_step)[0].shape[-1]
        if agreed is None or classes is None:
            agreed = FixedPoint.of(features, classes=classes, among=group)
        alike.setdefault((width, agreed), []).append(k)
    for (_, fixed), numbers in alike.items():
        held = [waiting[k] for k in numbers]
        if place is None:
            made = _each_short(features, [one for (one,) in held], fixed)
        else:
            made = torch_form().statistics_of_each(place, features, held, fixed)
        found.update(zip(numbers, made, strict=True))
    return found


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


def strided(
    features: FeatureMap, sequences: Iterable[Recording], row_stride: int
) -> Iterable[Recording]:
    """Return recordings that have targets only where a row counts."""
    if not features.per_step:
        raise ValueError(
            f"row_stride is {row_stride}, and this map has a row per recording; leave it out, or "
            "use a map with a row per step"
        )

    def with_gaps(one: Recording) -> Recording:
        if one.y is None:
            return one
        number = np.arange(1, one.n_steps + 1) - features.washout
        y = np.broadcast_to(one.y, (one.n_steps, one.y.shape[-1])).copy()
        y[(number < 1) | (number % row_stride != 0)] = np.nan
        return replace(one, y=y, per_step=True)

    return map(with_gaps, sequences)


def recording_targets(window: Sequence[Recording], *, per_step: bool) -> list[Array]:
    """Return the targets of recordings, all of one width; ValueError if they do not fit."""
    targets = []
    width = None
    for k, s in enumerate(window):
        if s.y is None:
            raise ValueError(f"recording {k} has no targets; statistics need inputs and targets")
        if s.per_step and not per_step:
            raise ValueError(
                f"recording {k} has a target per step, but pooled features give one row per "
                "recording; pass pool=None or one target per recording"
            )
        if width is not None and s.y.shape[-1] != width:
            raise ValueError(
                f"recording {k} has {s.y.shape[-1]} target columns, the ones before it {width}"
            )
        width = s.y.shape[-1]
        targets.append(s.y)
    return targets


def _window_statistics(
    features: FeatureMap,
    window: Sequence[Recording],
    threads: int | None,
    classes: bool | None,
    place: str | None,
    rows: list[Array] | None,
) -> RidgeStatistics:
    """Return the statistics of some sequences; their feature rows are added to `rows`."""
    n_threads = count_threads(threads)
    fixed = FixedPoint.of(features, classes=classes, among=window)
    if rows is not None or not (place or features.per_step):
        made_rows = features.rows(list(map(attrgetter("u"), window)), threads=threads)
        if rows is not None:
            rows += made_rows
    if place is not None:
        targets = recording_targets(window, per_step=features.per_step)
        made: RidgeStatistics = torch_form().statistics_on(
            place, features, window, targets, fixed, threads=threads
        )
        return made
    if not features.per_step:
        weight = np.array(list(map(attrgetter("weight"), window)))
        targets = recording_targets(window, per_step=False)
        # One thread of BLAS for the small product too: to wake the others takes longer.
        with single_blas_thread():
            return RidgeStatistics.from_states(
                np.concatenate(made_rows),
                np.stack(targets),
                weight=None if (weight == 1).all() else weight,
                fingerprint=features.fingerprint,
                fixed=fixed,
            )
    if len(window) == 1 and _is_short(features, window[0]):
        with single_blas_thread():
            return _each_short(features, window, fixed)[0]
    if fixed is None:
        return _step_statistics(features, window, n_threads, None)
    # Integers of another weight are multiplied by it once they are summed.
    groups = whole_weights(np.array([s.weight for s in window]))
    found = []
    for value in groups:
        alike = [s for s in window if s.weight == value] if groups[1:] else window
        found.append(_step_statistics(features, alike, n_threads, fixed).scaled(value))
    return reduce(add, found)


def _step_statistics(
    features: FeatureMap, window: Sequence[Recording], n_threads: int, fixed: FixedPoint | None
) -> RidgeStatistics:
    """Return the statistics of a row per step; in fixed point weights are left out."""
    sums, inputs = _Sums.of(features, window, fixed), [s.u for s in window]
    how: Any = {"threads": n_threads, "rounded": fixed is None}
    parts = features.stacked(inputs, sums.targets, sums.roots, **how)
    if fixed is not None:
        # Integers come to the same in any order: a sum for each thread is enough.
        parts = [partial(_in_turn, parts[k::n_threads]) for k in range(min(n_threads, len(parts)))]
    if parts[1:]:
        every = ordered_map(partial(_moments, sums), parts, threads=n_threads)
        return sums.statistics(*reduce(_plus, every))
    n_steps = sum(s.n_steps for s in window)
    helped = n_threads > 1 and n_steps > HELP_FROM
    several = n_steps >= PARTS_FROM * features.n_features and (fixed is None or helped)
    with single_blas_thread():
        return sums.statistics(*_moments(sums, parts[0], PARTS if several else 1, helped=helped))


def _in_turn(parts: Sequence[Part], n_buffers: int) -> Iterator[tuple[int, Array] | None]:
    return chain.from_iterable(part(n_buffers) for part in parts)


def _is_short(features: FeatureMap, sequence: Recording) -> bool:
    y = sequence.y
    return y is not None and features.is_short(sequence.n_steps, y.shape[-1])


def _each_short(
    features: FeatureMap, sequences: Sequence[Recording], fixed: FixedPoint | None
) -> list[RidgeStatistics]:
    """Return the statistics of short sequences with equally many targets, each by itself."""
    if fixed is not None:
        whole_weights(np.array([s.weight for s in sequences]))
    sums, inputs = _Sums.of(features, sequences, fixed), [s.u for s in sequences]
    found, total = {}, sums.empty()
    for k, Z in features.stacked_each(inputs, sums.targets, sums.roots):
        total.clear()
        total.add(Z)
        made = sums.statistics(Z.shape[1], total.result())
        found[k] = made if fixed is None else made.scaled(sequences[k].weight)
    return [found[k] for k in range(len(sequences))]


# Rows, and the upper triangle of [Z; Y'; 1] [Z; Y'; 1]' (F + K + 1, F + K + 1) over them. In fixed
# point its numbers are integers, and the rows of Y' are pieces of the targets.
Moments = tuple[int, Array]


def _plus(one: Moments, other: Moments) -> Moments:
    (n, product), (more, new) = one, other
    return n + more, product + new if product.dtype == np.float64 else added(product, new)


@dataclass(frozen=True, eq=False)
class _Sums:
    """How blocks of rows of a map, with the targets of some recordings, are summed."""

    features: FeatureMap
    fixed: FixedPoint | None
    targets: list[Array]
    places: tuple[int, ...]  # of their pieces
    roots: Array  # of the recordings' weights, ones in fixed point

    @classmethod
    def of(
        cls, features: FeatureMap, window: Sequence[Recording], fixed: FixedPoint | None
    ) -> _Sums:
        targets = recording_targets(window, per_step=True)
        if fixed is None:
            return cls(features, None, targets, (0,), np.sqrt([s.weight for s in window]))
        return cls(features, fixed, *target_pieces(targets, fixed), np.ones(len(window)))

    def empty(self) -> Gram:
        """Return a new sum, to which the products of blocks are added."""
        n = self.features.n_features + self.targets[0].shape[-1] + 1
        return Gram(n, self.fixed, constant=self.features.constant)

    def statistics(self, n_rows: int, M: Array) -> RidgeStatistics:
        """Return the statistics of so many rows, from the upper triangle of all products."""
        one = self.features
        if self.fixed is None:
            return RidgeStatistics.from_moments(M, n_rows, one.fingerprint, one.n_features)
        return statistics_of(M, n_rows, self.fixed, self.places, one.constant, one.fingerprint)


def _moments(sums: _Sums, part: Part, n_sums: int = 1, *, helped: bool = False) -> Moments:
    """Return the moments of all blocks of a part.

    Blocks go to each of some sums in turn, whether threads help or not, so that the result is the
    same; in fixed point it would be in any order.
    """
    n_rows, number, buffers = 0, 0, BUFFERS if helped else 1
    totals = [sums.empty() for _ in range(n_sums)]
    pending: deque[Future[None]] = deque()
    with ExitStack() as stack:
        helpers = [stack.enter_context(ThreadPoolExecutor(1)) for _ in totals if helped]
        for block in part(buffers):
            if block is None:
                while pending:
                    pending.popleft().result()
                n_rows, number, totals = 0, 0, [sums.empty() for _ in range(n_sums)]
                continue
            n_rows, which, number = n_rows + block[0], number % n_sums, number + 1
            if not helped:
                totals[which].add(block[1])
                continue
            pending.append(helpers[which].submit(totals[which].add, block[1]))
            if len(pending) == buffers:
                pending.popleft().result()
        for future in pending:
            future.result()
    return n_rows, reduce(_plus, [(0, total.result()) for total in totals])[1]
