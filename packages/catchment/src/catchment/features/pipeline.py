"""Everything before the readout as one value: how recordings are prepared, and the map.

Whether the sums of its features fit into memory is told before anything large is made.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from catchment.arrays import Array
from catchment.data.preprocessing import RAW, Preprocessing
from catchment.data.recording import Recording
from catchment.features.recipes import DefaultForecast, DefaultMap, FeatureMap, known_map


@dataclass(frozen=True, eq=False)
class Pipeline:
    """How recordings are prepared and the map that turns them into features.

    Parameters
    ----------
    preprocessing
        Gaps, resampling, scaling, windows, horizon.
    map
        A feature map, such as `EchoState(200)`, which is bound to its inputs as soon as the
        channels are known; or the name of one that needs no settings, such as "default".

    >>> from catchment import EchoState
    >>> pipeline = Pipeline(Preprocessing(scale="none"), EchoState(50))
    >>> pipeline.built(3, per_step=False).features.n_features
    106
    """

    preprocessing: Preprocessing
    map: FeatureMap | str
    known_map: FeatureMap = field(init=False, repr=False)  # as it suits the preparation

    def __post_init__(self) -> None:
        given = known_map(self.map)
        object.__setattr__(self, "map", given)
        object.__setattr__(self, "known_map", suited(given, self.preprocessing))

    @property
    def features(self) -> FeatureMap:
        """The map; ValueError before it is built."""
        if not self.known_map.is_bound:
            raise self.known_map.unbound()
        return self.known_map

    def built(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> Pipeline:
        """Return the pipeline with its map built for recordings of this many channels."""
        n_inputs = self.preprocessing.n_inputs(n_inputs)
        built = self.known_map.build(n_inputs, per_step=per_step, classes=classes)
        return self if built is self.map else Pipeline(self.preprocessing, built)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that could change a feature, in hexadecimal."""
        told = [self.preprocessing.fingerprint, self.features.fingerprint]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def rows(self, recordings: Iterable[Recording], *, threads: int | None = None) -> list[Array]:
        """Return the feature rows of raw recordings, one array per prepared segment."""
        segments = self.preprocessing.inputs(recordings)
        return self.features.rows([segment.u for segment in segments], threads=threads)


def suited(described: FeatureMap, preprocessing: Preprocessing) -> FeatureMap:
    """Return a map for recordings that are prepared like this.

    Of forecasts the default map is the last values. Recordings that start anew after a gap share
    one weight among their parts. Weights in fixed point are integers, so there "auto" is float64.

    >>> from catchment import EchoState
    >>> suited(EchoState(20), Preprocessing(gaps="restart")).bits is None
    True
    >>> from catchment import FeatureUnion
    >>> suited(FeatureUnion(EchoState(20)), Preprocessing(gaps="restart")).maps[0].bits is None
    True
    """
    restarts = preprocessing.gaps == "restart"
    if described.is_bound or not (restarts or preprocessing.horizon is not None):
        return described
    made = described
    if type(made) is DefaultMap and preprocessing.horizon is not None:
        made = DefaultForecast(made.columns, made.seed, made.bits)
    if made.inner_maps:
        made = made.with_inner([suited(one, preprocessing) for one in made.inner_maps])
    changed: dict[str, Any] = {"bits": None} if vars(made).get("bits") == "auto" else {}
    return replace(made, **changed) if restarts else made


def as_pipeline(value: Pipeline | FeatureMap | str, preprocessing: Preprocessing = RAW) -> Pipeline:
    """Return a pipeline; a bare map, or its name, gets the preparation given.

    >>> as_pipeline("echo_state").map.units
    200
    """
    return value if isinstance(value, Pipeline) else Pipeline(preprocessing, value)


def as_recordings(new: Recording | Array | Sequence[Recording | Array]) -> list[Recording]:
    """Return recordings of whatever holds inputs: a recording, array or data frame, or several."""
    found: list[Any] = [new] if is_alone(new) else list(cast(Any, new))
    for k, one in enumerate(found):
        found[k] = one if isinstance(one, Recording) else Recording(one)
    return found


def is_alone(new: object) -> bool:
    """Whether this is one recording, one array (T, I) or one data frame, and not several."""
    one = isinstance(new, np.ndarray) and new.ndim < 3
    return one or isinstance(new, Recording) or hasattr(new, "columns")


def refuse_large(
    one: FeatureMap, n_inputs: int, *, per_step: bool, classes: bool, remedy: str = ""
) -> None:
    """Raise ValueError if the sums of a map's features cannot be in this machine's memory.

    Parameters
    ----------
    remedy
        What else would help.

    >>> from catchment import EchoState
    >>> refuse_large(EchoState(200), 3, per_step=False, classes=True)
    """
    try:
        F = one.build(n_inputs, per_step=per_step, classes=classes).n_features
    except ValueError:  # it is no map for such data, as whoever takes it will say
        return
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return
    numbers = F * (F + 1) // 2  # the sums of products of features, each pair once
    if 8 * numbers <= memory:
        return
    takes, has = (
        f"{n / 1e12:,.1f} TB" if n >= 1e12 else f"{n / 1e9:,.1f} GB" for n in (8 * numbers, memory)
    )
    raise ValueError(
        f"the map has {F:,} features, whose Gram matrix of {numbers:,} numbers "
        f"takes {takes}, and this machine has {has}; take fewer units, "
        f"{remedy}or project the features to fewer (RandomProjection)"
    )
