"""Statistics of ridge regression as an aggregation of Ray Data, for pipelines of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from operator import add
from typing import Any

from catchment.data.recording import Recording
from catchment.features.feature_map import FeatureMap
from catchment.readout.accumulation import accumulate
from catchment.readout.statistics import RidgeStatistics

Row = Mapping[str, Any]


def ridge_aggregation(
    features: FeatureMap,
    recording: Callable[[Row], Recording],
    *,
    name: str = "statistics",
) -> Any:
    """Return an aggregation that makes `RidgeStatistics` of a data set's rows.

    `dataset.aggregate(ridge_aggregation(features, recording))["statistics"]` has what
    `accumulate` makes of all recordings in one process. On a grid, the default of feature maps,
    these are whole numbers, and however Ray divides and orders the rows does not show in them.

    Parameters
    ----------
    features
        Turns recordings into rows of features.
    recording
        Makes the recording, with its targets, of a row of the data set.
    name
        What the result is called.
    """
    from ray.data.aggregate import AggregateFn

    return AggregateFn(
        init=_nothing,
        accumulate_block=partial(_accumulate_block, features, recording),
        merge=_merge,
        finalize=_finalize,
        name=name,
    )


def _nothing(key: Any) -> list[RidgeStatistics]:
    """Return the sum of no rows: how many targets there are is not known yet."""
    return []


def _accumulate_block(
    features: FeatureMap,
    recording: Callable[[Row], Recording],
    before: list[RidgeStatistics],
    block: Any,
) -> list[RidgeStatistics]:
    from ray.data.block import BlockAccessor

    rows = BlockAccessor.for_block(block).iter_rows(public_row_format=True)
    found = [recording(row) for row in rows]
    return _merge(before, [accumulate(features, found, threads=1)] if found else [])


def _merge(one: list[RidgeStatistics], other: list[RidgeStatistics]) -> list[RidgeStatistics]:
    return [reduce(add, [*one, *other])] if one or other else []


def _finalize(found: list[RidgeStatistics]) -> RidgeStatistics | None:
    return found[0] if found else None
