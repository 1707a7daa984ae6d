"""Statistics of ridge regression as an aggregation of Ray Data, for pipelines of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from operator import add
from typing import Any

from catchment.data import Recording
from catchment.features import FeatureMap
from catchment.readout import RidgeStatistics, accumulate
from catchment.wire import Message

Row = Mapping[str, Any]


def ridge_statistics(
    dataset: Any, features: FeatureMap, recording: Callable[[Row], Recording]
) -> RidgeStatistics:
    """Return the statistics of the rows of a data set of Ray Data; ValueError if it has none.

    They are what `accumulate` makes of all recordings in one process. In fixed point, the default
    of feature maps, they are integers: how Ray divides and orders the rows does not show in them.

    Parameters
    ----------
    dataset
        A `ray.data.Dataset`; every row is a recording.
    features
        Turns recordings into rows of features.
    recording
        Makes the recording, with its targets, of a row of the data set.
    """
    from ray.data.aggregate import AggregateFn

    aggregation = AggregateFn(
        init=_nothing,
        accumulate_block=partial(_accumulate_block, features, recording),
        merge=_merge,
        finalize=bytes,
        name="statistics",
    )
    found = _read(dataset.aggregate(aggregation)["statistics"])
    if found is None:
        raise ValueError("the data set has no rows; pass one with a recording in every row")
    return found


# Between workers statistics travel as the messages of clients do: Arrow has no type for them.


def _nothing(key: Any) -> bytes:
    """Return the sum of no rows: how many targets there are is not known yet."""
    return b""


def _accumulate_block(
    features: FeatureMap, recording: Callable[[Row], Recording], before: bytes, block: Any
) -> bytes:
    from ray.data.block import BlockAccessor

    rows: Iterable[Row] = BlockAccessor.for_block(block).iter_rows(public_row_format=True)
    found = [recording(row) for row in rows]
    if not found:
        return before
    return _merge(before, accumulate(features, found, threads=1).parts().to_bytes())


def _merge(one: bytes, other: bytes) -> bytes:
    both = [found for found in (_read(one), _read(other)) if found is not None]
    return reduce(add, both).parts().to_bytes() if both else b""


def _read(found: bytes | None) -> RidgeStatistics | None:
    return RidgeStatistics.from_message(Message.from_bytes(found)) if found else None
