"""Statistics of many clients with one short sequence each, for less than each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice

from catchment.data.recording import Recording
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.feature_map import FeatureMap
from catchment.parallel import single_blas_thread
from catchment.readout.accumulation import accumulate
from catchment.readout.short_sequences import is_short, short_statistics, targets
from catchment.readout.statistics import RidgeStatistics


def accumulate_each(
    features: FeatureMap, groups: Iterable[Iterable[Recording]]
) -> list[RidgeStatistics]:
    """Return the statistics of each group of sequences, bit for bit what `accumulate` returns.

    Groups are read one after another; only single short sequences wait for others.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording
    >>> features = EchoState(50, seed=1, washout=20).build(1, per_step=True)
    >>> groups = [[Recording(np.sin(np.arange(200) / k), np.ones(200))] for k in range(1, 10)]
    >>> accumulate_each(features, groups)[3] == accumulate(features, groups[3])
    True
    """
    if not isinstance(features, EchoStateMap):
        return [accumulate(features, group, threads=1) for group in groups]
    found: dict[int, RidgeStatistics] = {}
    waiting: dict[int, Recording] = {}
    with single_blas_thread():
        for k, group in enumerate(groups):
            sequences = iter(group)
            begin = list(islice(sequences, 2))
            if len(begin) == 1 and is_short(features, begin[0]):
                waiting[k] = begin[0]
            else:
                found[k] = accumulate(features, chain(begin, sequences), threads=1)
        for numbers in _alike(waiting):
            lanes = [waiting[k] for k in numbers]
            found.update(zip(numbers, short_statistics(features, lanes), strict=True))
    return [found[k] for k in sorted(found)]


def _alike(waiting: Mapping[int, Recording]) -> Iterable[list[int]]:
    """Return the numbers of sequences with equally many targets."""
    by_width: dict[int, list[int]] = {}
    for k, sequence in waiting.items():
        by_width.setdefault(targets(sequence).shape[-1], []).append(k)
    return by_width.values()
