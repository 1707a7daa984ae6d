"""How unusual every row of a prepared recording is, by its features or by what was forecast of it.

By "features" a row's score is that of its feature row; by "error" it is that of the inputs some
steps after it, less what a readout forecast of them, and known when those have come: the first
scores of a recording are then as many steps later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap
from catchment.readout.normal import NormalModel
from catchment.readout.readout import Readout
from catchment.wire import SAME, Kind, Structure

Score = Literal["features", "error"]


@dataclass(frozen=True, eq=False)
class Scoring(Structure):
    """What is normal, of features or of forecast errors, and how scores of rows follow.

    Parameters
    ----------
    normal
        Of feature rows, or of errors if there is a readout.
    readout
        Forecasts the inputs from feature rows; None to score features.
    horizon
        How many steps ahead it forecasts.
    average
        How many rows a score is the mean of, its own and those before it.

    >>> from catchment import NVAR
    >>> from catchment.readout.accumulation import accumulate
    >>> features = NVAR(delays=2, order=1, washout=1).build(1, per_step=True)
    >>> wave = Recording(np.sin(np.arange(90.0)), np.zeros(90))
    >>> scoring = Scoring(NormalModel.of(accumulate(features, [wave])))
    >>> [scores.shape for scores in scoring.scores(features, [wave])]
    [(89,)]
    """

    KIND: ClassVar[Kind] = Kind("scoring")

    normal: NormalModel
    readout: Readout | None = None
    horizon: Annotated[int, SAME] = 1
    average: Annotated[int, SAME] = 1

    def __post_init__(self) -> None:
        for name in ("horizon", "average"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; pass 1 or more")

    @property
    def lag(self) -> int:
        """Steps after the first feature row until the first score."""
        return 0 if self.readout is None else self.horizon

    def scores(self, features: FeatureMap, prepared: Sequence[Recording]) -> list[Array]:
        """Return the scores (n,) of each prepared recording, from step washout + `lag` on."""
        rows = features.rows([one.u for one in prepared])
        return [self.of_rows(z, one.u) for z, one in zip(rows, prepared, strict=True)]

    def of_rows(self, z: Array, u: Array) -> Array:
        """Return the scores (n,) of a recording's feature rows (rows, F) and its inputs (T, I)."""
        return averaged(self.normal.scores(self.deviations(z, u)), self.average)

    def deviations(self, z: Array, u: Array) -> Array:
        """Return what is scored: the feature rows, or the errors of the forecasts made of them."""
        if self.readout is None:
            return z
        known = max(len(z) - self.horizon, 0)
        return u[len(u) - known :] - self.readout(z[:known])


def averaged(scores: Array, n_rows: int) -> Array:
    """Return the mean (n,) of every score (n,) and those before it, so many together at most.

    >>> averaged(np.array([1.0, 3.0, 5.0]), 2)
    array([1., 2., 4.])
    """
    if n_rows == 1 or not len(scores):
        return scores
    before = np.concatenate([np.zeros(n_rows - 1), scores])
    total = np.lib.stride_tricks.sliding_window_view(before, n_rows).sum(axis=1)
    return np.asarray(total / np.minimum(np.arange(len(scores)) + 1, n_rows))
