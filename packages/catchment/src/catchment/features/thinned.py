"""`Thinned`: a map that learns from some of its rows and predicts with all of them.

The states of a reservoir at neighbouring steps are nearly equal, so one row in eight tells a ridge
nearly what all eight do, and the products of rows, which are most of the work of long recordings,
cost an eighth. Rows are fewer, so noise in the targets is averaged over fewer of them:
benchmarks/results/dynamics.md shows the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap


@dataclass(frozen=True)
class Thinned(FeatureMap):
    """Another map whose statistics take one row of every few.

    A prediction is made for every step all the same. Of a recording's rows, counted from 1 after
    the washout, training takes those whose number is a multiple of `every`. Another `every` is
    another fingerprint, so clients that thin differently do not add up by mistake.

    Parameters
    ----------
    map
        A map with a row per step, or its description, such as `EchoState(200)`.
    every
        One row of this many is learnt from.

    >>> from catchment import EchoState
    >>> from catchment.readout import accumulate
    >>> built = Thinned(EchoState(20), every=4).build(1, per_step=True)
    >>> u = np.sin(np.arange(100.0))
    >>> built.rows([u])[0].shape, accumulate(built, [Recording(u, u)]).n_rows
    ((100, 21), 25)
    """

    map: FeatureMap
    every: int = 8

    per_step = True

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"every is {self.every!r}; give a whole number from 1 on")
        if self.map.is_bound and not self.map.per_step:
            raise ValueError(
                "only maps with a row per step are thinned, and this one has a row per recording; "
                "use it as it is, or with pool=None"
            )

    @property
    def n_inputs(self) -> int | None:
        return self.map.n_inputs

    @property
    def n_features(self) -> int:
        return self.map.n_features

    @property
    def washout(self) -> int:
        return self.map.washout

    @property
    def bounds(self) -> Array:
        return self.map.reached_bounds

    @property
    def grid(self) -> Any:
        return self.map.grid

    @property
    def constant(self) -> bool:
        return self.map.constant

    @property
    def standardise(self) -> bool:
        return self.map.standardise

    @property
    def cost(self) -> float:
        return self.map.cost

    def names(self) -> list[str]:
        return self.map.names()

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return all rows (n, F) of each recording's inputs (T, I)."""
        return self.map.rows(inputs, threads=threads)


def thinned_recordings(
    features: FeatureMap, recordings: Sequence[Recording]
) -> tuple[FeatureMap, list[Recording]]:
    """Return the map inside a thinned one, and recordings with targets where it learns.

    Those of all other steps are NaN, which leaves their rows out of any statistics. Any other map
    and its recordings are returned as they are.

    >>> from catchment import EchoState
    >>> built = Thinned(EchoState(20, washout=1), every=2).build(1, per_step=True)
    >>> thinned_recordings(built, [Recording([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])])[1][0].y.T
    array([[nan, nan,  3., nan]])
    """
    while isinstance(features, Thinned):
        washout, every = features.washout, features.every
        recordings = [_thinned(one, washout, every) for one in recordings]
        features = features.map
    return features, list(recordings)


def _thinned(recording: Recording, washout: int, every: int) -> Recording:
    if recording.y is None or every == 1:
        return recording
    number = np.arange(1 - washout, recording.n_steps + 1 - washout)
    y = np.broadcast_to(recording.y, (recording.n_steps, recording.y.shape[-1])).copy()
    y[(number < 1) | (number % every != 0)] = np.nan
    return replace(recording, y=y, per_step=True)
