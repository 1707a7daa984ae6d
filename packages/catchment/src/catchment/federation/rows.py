"""What a client can work out by itself: feature rows, statistics of segments of its data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment.arrays import Array, Booleans, Integers
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.statistics import RidgeStatistics, unpack

N_BLOCKS = 5
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class Rows:
    """Features (n, F), targets (n, K) and weights (n,) of a client's rows whose target is known.

    `recording` (n,) says which recording a row is of. `moment` (n, 2) is its place among the rows
    of its recording, and how many these are; `order` (n, 2) is the same, or, where a recording has
    one target, its place among the recordings of its class, and how many these are.
    """

    z: Array
    y: Array
    weight: Array
    recording: Integers
    moment: Integers
    order: Integers
    n_recordings: int
    per_step: bool
    fingerprint: str = ""
    fixed: FixedPoint | None = None

    @classmethod
    def of(
        cls,
        features: FeatureMap,
        recordings: Iterable[Recording],
        *,
        classes: bool | None = None,
    ) -> Rows:
        """Return the rows of at least one recording; those without a target are left out.

        Parameters
        ----------
        classes
            Whether targets are whole, for a map in fixed point; if None they are if all are 0 or 1.

        >>> from catchment import Reservoir
        >>> from catchment.features import EchoState
        >>> features = EchoState.of(Reservoir(units=5, inputs=1), washout=1)
        >>> rows = Rows.of(features, [Recording([0.0, 1.0, 2.0], [0.0, np.nan, 2.0])])
        >>> rows.z.shape, rows.y, rows.weight
        ((1, 6), array([[2.]]), array([1.]))
        """
        every = list(recordings)
        if not every:
            raise ValueError("no recordings were given; pass at least one with targets")
        zs = features.rows([s.u for s in every], threads=1)
        washout = features.washout if features.per_step else None
        y = np.concatenate([targets_of(s, len(zs[k]), washout, k) for k, s in enumerate(every)])
        sizes = [len(z) for z in zs]
        moment = np.concatenate([np.column_stack([range(n), [n] * n]) for n in sizes])
        number = np.repeat(np.arange(len(every)), sizes)
        own = np.array([s.per_step for s in every])[number, None]
        known = ~np.isnan(y).any(axis=1)
        return cls(
            np.concatenate(zs)[known],
            y[known],
            np.repeat([s.weight for s in every], sizes)[known],
            number[known],
            moment[known],
            np.where(own, moment, np.array(_places(every))[number])[known],
            len(every),
            features.per_step,
            features.fingerprint,
            FixedPoint.of(features, classes=classes, among=every),
        )

    def __len__(self) -> int:
        return len(self.z)

    @property
    def pair(self) -> tuple[Array, Array]:
        """Features and targets."""
        return self.z, self.y

    def only(self, which: Booleans) -> Rows:
        """Return some of the rows, in their order."""
        names = ("z", "y", "weight", "recording", "moment", "order")
        own: dict[str, Any] = {name: getattr(self, name)[which] for name in names}
        return replace(self, **own)

    def statistics(self) -> RidgeStatistics:
        """Return the statistics of the rows."""
        return RidgeStatistics.from_states(
            self.z, self.y, weight=self.weight, fingerprint=self.fingerprint, fixed=self.fixed
        )

    def blocks(self, n_blocks: int = N_BLOCKS) -> list[Rows]:
        """Return segments of the rows, contiguous in time; those without rows are left out.

        Recordings with one target each are blocked in their order, each class by itself, so that
        every block has every class.

        >>> from catchment import Reservoir
        >>> from catchment.features import EchoState
        >>> features = EchoState.of(Reservoir(units=5, inputs=1), pool="mean")
        >>> waves = [Recording.labeled([0.0, 1.0], k // 4, 2) for k in range(8)]
        >>> Rows.of(features, waves).blocks(4)[0].y.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        block = _cut(self.order, n_blocks)
        found = (self.only(block == b) for b in range(n_blocks))
        return [rows for rows in found if rows.weight.sum() > 0]

    def folds(self, n_folds: int) -> Integers:
        """Return the fold (n,) of each row, for what is chosen or predicted without the answer.

        Rows of a fold lie together: a fold is a share of the recordings where there are enough of
        them, else a segment of each, because neighbors in time tell each other's targets.
        """
        many = not self.per_step or self.n_recordings >= n_folds
        return self.recording % n_folds if many else _cut(self.moment, n_folds)


def _cut(place: Integers, n_parts: int) -> Integers:
    """Return the part (n,), of so many equal ones, in which places (n, 2) lie."""
    return place[:, 0] * n_parts // place[:, 1]


def targets_of(recording: Recording, n_rows: int, washout: int | None, number: int = 0) -> Array:
    """Return the targets (n, K) of the rows of a prepared recording, NaN where they are not known.

    Parameters
    ----------
    washout
        Steps at the start that give no row; None if there is one row for all steps.
    number
        Of the recording, for the error.

    >>> targets_of(Recording([0.0, 1.0, 2.0], [5.0, 6.0, 7.0]), 2, 1).ravel()
    array([6., 7.])
    """
    if recording.y is None:
        raise ValueError(f"recording {number} has no target; pass recordings with targets")
    if not recording.per_step:
        return np.repeat(recording.y[None], n_rows, axis=0)
    if washout is None:
        raise ValueError(
            f"recording {number} has a target per step, but pooled features give one row per "
            "recording; pass pool=None or one target per recording"
        )
    return recording.y[washout:]


def segment(
    sequences: Iterable[Recording], begin: float, end: float, *, washout: int = 0
) -> Iterator[Recording]:
    """Yield a share of the data: the steps of each sequence between two fractions of its length.

    The steps before stay as inputs without targets, so that the reservoir's state is what it would
    be had the sequence never been cut. A sequence with one target for all its steps is taken whole
    or not at all, spread evenly over the fractions whatever the order of the sequences.

    Parameters
    ----------
    begin, end
        Fractions, from 0 to 1; segments that follow on each other share no step and miss none.
    washout
        Steps at the start of each sequence that are in no segment.

    >>> s = Recording(np.arange(6.0), np.arange(6.0))
    >>> [part.y.ravel() for part in segment([s], 0.5, 1.0)]
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


def _places(sequences: Sequence[Recording]) -> list[tuple[int, int]]:
    """Return each sequence's position among those of its class, and how many there are."""
    labels = [
        -1 if s.y is None or s.per_step or len(s.y) < 2 else int(np.nan_to_num(s.y).argmax())
        for s in sequences
    ]
    seen: dict[int, int] = {}
    positions = []
    for label in labels:
        positions.append(seen.get(label, 0))
        seen[label] = positions[-1] + 1
    return [(position, seen[label]) for position, label in zip(positions, labels, strict=True)]


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
    statistics = statistics.floats
    F = statistics.n_features
    A = np.empty((F + 1, F + 1))
    A[:F, :F] = unpack(statistics.gram)
    A[F, :F] = A[:F, F] = statistics.feature_sum
    A[F, F] = statistics.weight
    B = np.vstack([statistics.cross, statistics.target_sum])
    return A / statistics.weight, B / statistics.weight
