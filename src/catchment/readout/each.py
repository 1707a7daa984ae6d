"""Statistics of many clients with one short sequence each, for less than each by itself.

Their sequences advance side by side; then every lane is summed alone, in the very operations that
`accumulate` would do. So the numbers are the same to the last bit, and which clients happened to be
served together does not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import chain, islice

import numpy as np

from catchment.arrays import Array
from catchment.data.sequence import Sequence as Recorded
from catchment.parallel import single_blas_thread
from catchment.readout.accumulate import Moments, accumulate
from catchment.readout.gram import add_gram
from catchment.readout.statistics import RidgeStatistics
from catchment.reservoir.advance import LONE_STEPS
from catchment.reservoir.batches import Batch, Lane
from catchment.reservoir.features import Features
from catchment.reservoir.segments import runs_whole

LANES = 8  # the lockstep kernel of this width sums a row in the order of the one for a lone lane


def accumulate_each(
    features: Features, groups: Iterable[Iterable[Recorded]]
) -> list[RidgeStatistics]:
    """Return the statistics of each group of sequences, bit for bit what `accumulate` returns.

    Groups are read one after another; only single short sequences wait for others.

    >>> from catchment import Recipe, Reservoir, Sequence
    >>> features = Features(Reservoir.from_recipe(Recipe(units=50, inputs=1, seed=1)), washout=20)
    >>> groups = [[Sequence(np.sin(np.arange(200) / k), np.ones(200))] for k in range(1, 10)]
    >>> accumulate_each(features, groups)[3] == accumulate(features, groups[3])
    True
    """
    found: dict[int, RidgeStatistics] = {}
    waiting: dict[int, Recorded] = {}
    whole = cache(partial(_runs_whole, features))
    with single_blas_thread():
        for k, group in enumerate(groups):
            sequences = iter(group)
            begin = list(islice(sequences, 2))
            if len(begin) == 1 and whole(begin[0].n_steps) and _has_targets(begin[0]):
                waiting[k] = begin[0]
            else:
                found[k] = accumulate(features, chain(begin, sequences), threads=1)
        for batch in _batches(waiting):
            found.update(zip(batch, _side_by_side(features, batch.values()), strict=True))
    return [found[k] for k in sorted(found)]


def _batches(waiting: Mapping[int, Recorded]) -> Iterator[dict[int, Recorded]]:
    """Yield up to eight sequences at a time, of like length and with as many targets."""
    by_width: dict[int, list[int]] = {}
    for k, sequence in waiting.items():
        by_width.setdefault(_targets(sequence).shape[-1], []).append(k)
    for numbers in by_width.values():
        numbers.sort(key=lambda k: waiting[k].n_steps)
        for first in range(0, len(numbers), LANES):
            yield {k: waiting[k] for k in numbers[first : first + LANES]}


def _runs_whole(features: Features, n_steps: int) -> bool:
    """Whether a lone sequence of so many steps runs in one piece, one block and sparse rows."""
    return (
        features.per_step
        and features.precision == "float64"
        and n_steps <= LONE_STEPS
        and all(program.dense is None for program in features.programs)
        and runs_whole(features.programs, n_steps - features.washout)
    )


def _has_targets(sequence: Recorded) -> bool:
    return sequence.y is not None and not np.isnan(sequence.y).any()


def _side_by_side(features: Features, sequences: Iterable[Recorded]) -> list[RidgeStatistics]:
    from catchment.reservoir.kernels import lanes_apart

    lanes = list(sequences)
    us = [features.checked(s.u, f"sequence {b}") for b, s in enumerate(lanes)]
    washout, n_targets = features.washout, _targets(lanes[0]).shape[-1]
    longest = max(len(u) for u in us) - washout
    Z = np.empty((len(lanes), longest, features.n_features + n_targets + 1))
    batch = Batch(tuple(Lane(b, u, washout, washout) for b, u in enumerate(us)))
    for block in features.blocks(batch):
        lanes_apart(block.rows, Z, block.start - washout)
    return [_statistics(features, Z[b, : len(u) - washout], lanes[b]) for b, u in enumerate(us)]


def _targets(sequence: Recorded) -> Array:
    assert sequence.y is not None
    return sequence.y


def _statistics(features: Features, rows: Array, sequence: Recorded) -> RidgeStatistics:
    """Return the statistics of one lane's rows (T, F + K + 1); the targets are put in here."""
    y = _targets(sequence)
    rows[:, features.n_features : -1] = y[features.washout :] if y.ndim == 2 else y
    rows[:, -1] = 1.0
    if sequence.weight != 1:
        rows *= np.sqrt(sequence.weight)
    total = np.zeros((rows.shape[1], rows.shape[1]))
    add_gram(total, rows.T)
    return Moments(len(rows), total).statistics(features.n_features, features.fingerprint)
