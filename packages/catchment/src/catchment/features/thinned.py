"""`Thinned`: a map that learns from some of its rows and predicts with all of them.

The states of a reservoir at neighbouring steps are nearly equal, so one row in eight tells a ridge
nearly what all eight do, and the products of rows, which are most of the work of long recordings,
cost an eighth. Rows are fewer, so noise in the targets is averaged over fewer of them:
benchmarks/results/dynamics.md shows the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.features.feature_map import FeatureMap
from catchment.features.nested import Nested, all_built, built_map, reached_bounds, recognised
from catchment.features.own import Adapted, as_map


@dataclass(frozen=True)
class Thinned:
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

    map: Nested
    every: int = 8

    per_step = True

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"every is {self.every!r}; give a whole number from 1 on")
        if isinstance(self.map, FeatureMap) and not self.map.per_step:
            raise ValueError(
                "only maps with a row per step are thinned, and this one has a row per recording; "
                "use it as it is, or with pool=None"
            )

    def build(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> FeatureMap:
        """Return the map for inputs of this many channels; see `MapDescription`."""
        inner = built_map(self.map, n_inputs, per_step=per_step, classes=classes)
        return as_map(replace(self, map=inner))

    def describes(
        self,
        built: FeatureMap,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether a map is the one described, the inner one by its own rule.

        >>> from catchment import EchoState
        >>> built = Thinned(EchoState(20), every=4).build(1, per_step=True)
        >>> Thinned(EchoState(20), every=2).describes(built, 1, per_step=True)
        False
        """
        if not isinstance(built, Adapted) or not isinstance(built.inner, Thinned):
            return False
        return self.every == built.inner.every and recognised(
            self.map,
            built.inner.inner,
            n_inputs,
            per_step=per_step,
            classes=classes,
            adapted=adapted,
        )

    @property
    def inner(self) -> FeatureMap:
        """The map that is thinned, built."""
        (one,) = all_built([self.map], "Thinned")
        return one

    @property
    def n_inputs(self) -> int | None:
        return self.inner.n_inputs

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    @property
    def washout(self) -> int:
        return self.inner.washout

    @property
    def bounds(self) -> Array:
        largest = reached_bounds(self.inner)
        return np.stack([-largest, largest], axis=1)

    @property
    def grid(self) -> int | None:
        return self.inner.grid

    @property
    def constant(self) -> bool:
        return self.inner.constant

    @property
    def standardise(self) -> bool:
        return self.inner.standardise

    @property
    def cost(self) -> float:
        return self.inner.cost

    def names(self) -> list[str]:
        return self.inner.names()

    def array_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return all rows (n, F) of each recording's inputs (T, I)."""
        return self.inner.rows(inputs, threads=threads)


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
    while isinstance(features, Adapted) and isinstance(features.inner, Thinned):
        washout, every = features.washout, features.inner.every
        recordings = [_thinned(one, washout, every) for one in recordings]
        features = features.inner.inner
    return features, list(recordings)


def _thinned(recording: Recording, washout: int, every: int) -> Recording:
    if recording.y is None or every == 1:
        return recording
    number = np.arange(1 - washout, recording.n_steps + 1 - washout)
    y = np.broadcast_to(recording.y, (recording.n_steps, recording.y.shape[-1])).copy()
    y[(number < 1) | (number % every != 0)] = np.nan
    return replace(recording, y=y, per_step=True)
