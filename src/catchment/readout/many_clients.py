"""Statistics of many clients with one short sequence each, for less than each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

import numpy as np

from catchment.data.recording import Recording
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.feature_map import FeatureMap
from catchment.parallel import single_blas_thread
from catchment.readout.accumulation import accumulate, grid_of
from catchment.readout.exact_rows import whole_weights
from catchment.readout.grid import Grid
from catchment.readout.short_sequences import is_short, short_statistics, targets
from catchment.readout.statistics import RidgeStatistics


def accumulate_each(
    features: FeatureMap,
    groups: Iterable[Iterable[Recording]],
    *,
    classes: bool | None = None,
) -> list[RidgeStatistics]:
    """Return the statistics of each group of sequences, bit for bit what `accumulate` returns.

    Groups are read one after another; only single short sequences wait for others.

    Parameters
    ----------
    classes
        As for `accumulate`.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording
    >>> features = EchoState(50, seed=1, washout=20).build(1, per_step=True)
    >>> groups = [[Recording(np.sin(np.arange(200) / k), np.ones(200))] for k in range(1, 10)]
    >>> accumulate_each(features, groups)[3] == accumulate(features, groups[3])
    True
    """
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
