"""What a client can work out by itself: feature rows, statistics of stretches of its data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.features.feature_map import FeatureMap
from catchment.federation.plan import Data
from catchment.readout.accumulate import accumulate
from catchment.readout.packing import unpack
from catchment.readout.statistics import RidgeStatistics

N_BLOCKS = 5
GOLDEN = (math.sqrt(5) - 1) / 2


def feature_rows(
    features: FeatureMap, sequences: Iterable[Recording]
) -> tuple[Array, Array, Array]:
    """Return features (n, F), targets (n, K) and weights (n,) of all rows whose target is known.

    >>> from catchment import Recipe, Reservoir
    >>> from catchment.features import EchoStateMap
    >>> features = EchoStateMap(Reservoir.from_recipe(Recipe(units=5, inputs=1)), washout=1)
    >>> z, y, weight = feature_rows(features, [Recording([0.0, 1.0, 2.0], [0.0, np.nan, 2.0])])
    >>> z.shape, y, weight
    ((1, 6), array([[2.]]), array([1.]))
    """
    every = list(sequences)
    if not every:
        raise ValueError("no sequences were given; pass at least one with targets")
    rows = features.rows([s.u for s in every], threads=1)
    washout = features.washout if features.per_step else None
    targets = [
        targets_of(sequence, len(z), washout, k)
        for k, (sequence, z) in enumerate(zip(every, rows, strict=True))
    ]
    y = np.concatenate(targets)
    weight = np.repeat([s.weight for s in every], [len(z) for z in rows])
    known = ~np.isnan(y).any(axis=1)
    return np.concatenate(rows)[known], y[known], weight[known]


def targets_of(recording: Recording, n_rows: int, washout: int | None, k: int = 0) -> Array:
    """Return the targets (n, K) of the rows that a prepared recording gives.

    Parameters
    ----------
    washout
        Steps at the start that give no row; None if there is one row for all steps.
    k
        The recording's number, for the error.

    >>> targets_of(Recording([0.0, 1.0, 2.0], [5.0, 6.0, 7.0]), 2, 1).ravel()
    array([6., 7.])
    """
    if recording.y is None:
        raise ValueError(f"recording {k} has no target; pass recordings with targets")
    if not recording.per_step:
        return np.repeat(recording.y[None], n_rows, axis=0)
    if washout is None:
        raise ValueError(
            f"recording {k} has a target per step, but pooled features give one row per "
            "recording; pass pool=None or one target per recording"
        )
    return recording.y[washout:]


def local_blocks(
    features: FeatureMap, data: Data, n_blocks: int = N_BLOCKS
) -> list[RidgeStatistics]:
    """Return the statistics of stretches of a client's data, those without rows left out.

    Together they are the statistics of all its data.

    >>> from catchment import Recipe, Reservoir
    >>> from catchment.features import EchoStateMap
    >>> features = EchoStateMap(Reservoir.from_recipe(Recipe(units=5, inputs=1)))
    >>> u = np.arange(10.0)
    >>> [block.n_rows for block in local_blocks(features, lambda: [Recording(u, u)], 4)]
    [2, 3, 2, 3]
    """
    blocks = []
    for k in range(n_blocks):
        share = k / n_blocks, (k + 1) / n_blocks
        part = list(stretch(data(), *share, washout=features.washout))
        if part:
            blocks.append(accumulate(features, part, threads=1))
    filled = [block for block in blocks if block.n_rows > 0]
    if not filled:
        raise ValueError("no sequences were given; pass at least one with targets")
    return filled


def stretch(
    sequences: Iterable[Recording], begin: float, end: float, *, washout: int = 0
) -> Iterator[Recording]:
    """Yield a share of the data: the steps of each sequence between two fractions of its length.

    The steps before stay as inputs without targets, so that the reservoir's state is what it would
    be had the sequence never been cut. A sequence with one target for all its steps is taken whole
    or not at all, spread evenly over the fractions whatever the order of the sequences.

    Parameters
    ----------
    begin, end
        Fractions, from 0 to 1; stretches that follow on each other share no step and miss none.
    washout
        Steps at the start of each sequence that are in no stretch.

    >>> s = Recording(np.arange(6.0), np.arange(6.0))
    >>> [part.y.ravel() for part in stretch([s], 0.5, 1.0)]
    [array([nan, nan, nan,  3.,  4.,  5.])]
    """
    for k, sequence in enumerate(sequences):
        if not sequence.per_step:
            if begin <= (k * GOLDEN) % 1.0 < end:
                yield sequence
            continue
        rows = max(sequence.n_steps - washout, 0)
        first, last = (washout + int(rows * share) for share in (begin, end))
        if first < last and sequence.y is not None:
            y: Array = sequence.y[:last].copy()
            y[:first] = np.nan
            yield replace(sequence.part(0, last), y=y)


def augmented(statistics: RidgeStatistics) -> tuple[Array, Array]:
    """Return mean moments of the features and a constant: A (F + 1, F + 1) and B (F + 1, K).

    >>> s = RidgeStatistics.from_states(np.array([[1.0], [3.0]]), np.array([[0.0], [4.0]]))
    >>> augmented(s)
    (array([[5., 2.],
           [2., 1.]]), array([[6.],
           [2.]]))
    """
    if statistics.weight <= 0:
        raise ValueError(f"the statistics have weight {statistics.weight}; add data first")
    F = statistics.n_features
    A = np.empty((F + 1, F + 1))
    A[:F, :F] = unpack(statistics.gram)
    A[F, :F] = A[:F, F] = statistics.feature_sum
    A[F, F] = statistics.weight
    B = np.vstack([statistics.cross, statistics.target_sum])
    return A / statistics.weight, B / statistics.weight
