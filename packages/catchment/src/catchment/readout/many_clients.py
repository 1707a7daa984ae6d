"""Statistics of many small clients, for less than each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np

from catchment.data.recording import Recording
from catchment.features.base import FeatureMap
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.union import thinned_recordings
from catchment.parallel import single_blas_thread
from catchment.readout.accumulation import accumulate, grid_of, recording_targets
from catchment.readout.device import Devices, device_for, is_marked, statistics_name, torch_form
from catchment.readout.exact_rows import whole_weights
from catchment.readout.grid import Grid
from catchment.readout.short_sequences import is_short, short_statistics, targets
from catchment.readout.statistics import RidgeStatistics

TOGETHER_STEPS = 1 << 20  # of clients that are worked on together on a device, about
SMALL_STEPS = 1 << 14  # of a client that waits for others; its sums then stay within int64


def accumulate_each(
    features: FeatureMap,
    groups: Iterable[Iterable[Recording]],
    *,
    classes: bool | None = None,
    device: str | None = None,
    devices: Devices = "same",
) -> list[RidgeStatistics]:
    """Return the statistics of each group of sequences, bit for bit what `accumulate` returns.

    Groups are read one after another; only single short sequences wait for others.

    Parameters
    ----------
    classes, device, devices
        As for `accumulate`. On a device small groups are worked on together; without a grid they
        agree with what `accumulate` returns to rounding only.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording
    >>> features = EchoState(50, seed=1, washout=20).build(1, per_step=True)
    >>> groups = [[Recording(np.sin(np.arange(200) / k), np.ones(200))] for k in range(1, 10)]
    >>> accumulate_each(features, groups)[3] == accumulate(features, groups[3])
    True
    """
    place = device_for(features, device, devices)
    if place is not None:
        return _Together(features, place, classes, device, devices).each(groups)
    if is_marked(features, device, devices):
        found_here = accumulate_each(features, groups, classes=classes)
        return [_marked(one) for one in found_here]
    if not isinstance(features, EchoStateMap):
        return [accumulate(features, group, threads=1, classes=classes) for group in groups]
    found: dict[int, RidgeStatistics] = {}
    waiting: dict[int, Recording] = {}
    with single_blas_thread():
        for k, group in enumerate(groups):
            sequences = iter(group)
            begin = list(islice(sequences, 2))
            if len(begin) == 1 and is_short(features, begin[0]):
                waiting[k] = begin[0]
            else:
                rest = chain(begin, sequences)
                found[k] = accumulate(features, rest, threads=1, classes=classes)
        for grid, numbers in _alike(features, waiting, classes):
            lanes = [waiting[k] for k in numbers]
            summed = short_statistics(features, lanes, grid)
            for k, sequence, short in zip(numbers, lanes, summed, strict=True):
                if short is None:
                    found[k] = accumulate(features, [sequence], threads=1, classes=classes)
                else:
                    found[k] = short if grid is None else short.scaled(sequence.weight)
    return [found[k] for k in sorted(found)]


def _alike(
    features: FeatureMap, waiting: Mapping[int, Recording], classes: bool | None
) -> Iterator[tuple[Grid | None, list[int]]]:
    """Yield the numbers of sequences with equally many targets, on one grid if on any."""
    alike: dict[tuple[int, Grid | None], list[int]] = {}
    for k, sequence in waiting.items():
        grid = grid_of(features, [sequence], classes)
        if grid is not None:
            whole_weights(np.array([sequence.weight]))
        alike.setdefault((targets(sequence).shape[-1], grid), []).append(k)
    for (_, grid), numbers in alike.items():
        yield grid, numbers


def _marked(statistics: RidgeStatistics) -> RidgeStatistics:
    name = statistics_name(statistics.fingerprint, any_device=True)
    return replace(statistics, fingerprint=name)


@dataclass(frozen=True, eq=False)
class _Together:
    """Groups whose statistics are made on a device, small ones side by side."""

    features: FeatureMap
    place: str
    classes: bool | None
    device: str | None
    devices: Devices

    def each(self, groups: Iterable[Iterable[Recording]]) -> list[RidgeStatistics]:
        """Return the statistics of each group, in their order."""
        found: dict[int, RidgeStatistics] = {}
        waiting: dict[int, list[Recording]] = {}
        steps = 0
        for k, group in enumerate(groups):
            begin, rest = _begin(group, SMALL_STEPS)
            small = rest is None and bool(begin)
            weighted = self.features.grid is not None and any(s.weight != 1 for s in begin)
            if not small or weighted:
                found[k] = self._alone(chain(begin, rest or ()))
                continue
            waiting[k] = begin
            steps += sum(s.n_steps for s in begin)
            if steps >= TOGETHER_STEPS:
                found |= self._side_by_side(waiting)
                waiting, steps = {}, 0
        found |= self._side_by_side(waiting)
        return [found[k] for k in sorted(found)]

    def _alone(self, group: Iterable[Recording]) -> RidgeStatistics:
        return accumulate(
            self.features,
            group,
            threads=1,
            classes=self.classes,
            device=self.device,
            devices=self.devices,
        )

    def _side_by_side(
        self, waiting: Mapping[int, Sequence[Recording]]
    ) -> dict[int, RidgeStatistics]:
        found: dict[int, RidgeStatistics] = {}
        thinned = {k: thinned_recordings(self.features, group) for k, group in waiting.items()}
        for inner, grid, numbers in self._of_one_kind(thinned):
            groups = [thinned[k][1] for k in numbers]
            made = torch_form().statistics_of_each(self.place, inner, groups, grid)
            for k, one in zip(numbers, made, strict=True):
                named = replace(one, fingerprint=self.features.fingerprint)
                found[k] = named if self.features.grid is not None else _marked(named)
        return found

    def _of_one_kind(
        self, waiting: Mapping[int, tuple[FeatureMap, Sequence[Recording]]]
    ) -> Iterator[tuple[FeatureMap, Grid | None, list[int]]]:
        """Yield the numbers of groups with equally many targets, on one grid if on any."""
        alike: dict[tuple[int, Grid | None], list[int]] = {}
        agreed: Grid | None = None
        for k, (inner, group) in waiting.items():
            width = recording_targets(group, per_step=inner.per_step)[0].shape[-1]
            if agreed is None or self.classes is None:
                agreed = grid_of(inner, group, self.classes)
            alike.setdefault((width, agreed), []).append(k)
        for (_, grid), numbers in alike.items():
            yield waiting[numbers[0]][0], grid, numbers


def _begin(
    group: Iterable[Recording], n_steps: int
) -> tuple[list[Recording], Iterator[Recording] | None]:
    """Return the first recordings of a group, up to so many steps, and the rest if there is one."""
    sequences = iter(group)
    begin: list[Recording] = []
    steps = 0
    for sequence in sequences:
        begin.append(sequence)
        steps += sequence.n_steps
        if steps > n_steps:
            return begin, sequences
    return begin, None
