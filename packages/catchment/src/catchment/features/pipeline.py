"""Everything before the readout as one value: how recordings are prepared, and the map."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data.prepare import RAW, Prepare
from catchment.data.recording import Recording
from catchment.features.feature_map import FeatureMap, MapDescription
from catchment.features.library import named_map
from catchment.features.own import ArrayMap, OwnMap, as_map

AnyMap = FeatureMap | MapDescription | OwnMap | ArrayMap


@dataclass(frozen=True, eq=False)
class Pipeline:
    """How recordings are prepared and the map that turns them into features.

    Parameters
    ----------
    prepare
        Gaps, resampling, scaling, windows, horizon.
    map
        A feature map, or a description such as `EchoState(200)`, from which one is built as soon
        as the channels are known; or the name of one that needs no settings, such as "default".

    >>> from catchment import EchoState
    >>> pipeline = Pipeline(Prepare(scale="none"), EchoState(50))
    >>> pipeline.is_built, pipeline.built(3, per_step=False).features.n_features
    (False, 106)
    """

    prepare: Prepare
    map: AnyMap | str

    def __post_init__(self) -> None:
        if isinstance(self.map, str):
            object.__setattr__(self, "map", named_map(self.map))

    @cached_property
    def known_map(self) -> FeatureMap | MapDescription:
        """The map or its description, a user's own class adapted."""
        if isinstance(self.map, MapDescription):
            return suited(self.map, self.prepare)
        assert not isinstance(self.map, str)  # __post_init__ has looked it up
        return as_map(self.map)

    @property
    def is_built(self) -> bool:
        """Whether the map is there, and not only its description."""
        return not isinstance(self.map, MapDescription)

    @property
    def features(self) -> FeatureMap:
        """The map; ValueError before it is built."""
        known = self.known_map
        if isinstance(known, MapDescription):
            raise ValueError(
                f"{type(self.map).__name__} is a description; call built(n_inputs, per_step=...) "
                "to make the map for data of this many channels"
            )
        return known

    def built(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> Pipeline:
        """Return the pipeline with its map built for recordings of this many channels."""
        n_inputs = self.prepare.n_inputs(n_inputs)
        if isinstance(self.map, MapDescription):
            described = suited(self.map, self.prepare)
            built = described.build(n_inputs, per_step=per_step, classes=classes)
            return Pipeline(self.prepare, built)
        known = self.features.n_inputs
        if known not in (None, n_inputs):
            raise ValueError(
                f"the data have {n_inputs} inputs, the map was built for {known}; pass data with "
                "the same channels, or a description such as EchoState(200)"
            )
        return self

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that could change a feature, in hexadecimal."""
        told = [self.prepare.fingerprint, self.features.fingerprint]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def rows(self, recordings: Iterable[Recording], *, threads: int | None = None) -> list[Array]:
        """Return the feature rows of raw recordings, one array per prepared piece."""
        pieces = self.prepare.inputs(recordings)
        return self.features.rows([piece.u for piece in pieces], threads=threads)


def suited(described: MapDescription, prepare: Prepare) -> MapDescription:
    """Return the description of a map for recordings that are prepared like this.

    Recordings that start anew after a gap share one weight among their parts. Weights on a grid are
    whole numbers, so there "auto" is no grid.

    >>> from catchment import EchoState
    >>> suited(EchoState(20), Prepare(gaps="restart")).grid is None
    True
    >>> from catchment import Concat
    >>> suited(Concat(EchoState(20)), Prepare(gaps="restart")).maps[0].grid is None
    True
    """
    if prepare.gaps != "restart":
        return described
    without: MapDescription = _without_grid(described)
    return without


def _without_grid(value: Any) -> Any:
    """Return a description with None for every grid that is "auto", its inner maps' too."""
    if isinstance(value, tuple):
        return tuple(_without_grid(one) for one in value)
    if not is_dataclass(value) or not isinstance(value, MapDescription):
        return value
    own = {one.name: getattr(value, one.name) for one in fields(value)}
    without = {name: _without_grid(held) for name, held in own.items()}
    without |= {"grid": None} if own.get("grid") == "auto" else {}
    changed = {name: held for name, held in without.items() if held is not own[name]}
    return replace(value, **changed) if changed else value


def as_pipeline(value: Pipeline | AnyMap | str, prepare: Prepare = RAW) -> Pipeline:
    """Return a pipeline; a bare map, or its name, gets the preparation given.

    >>> as_pipeline("echo_state").map.units
    200
    """
    return value if isinstance(value, Pipeline) else Pipeline(prepare, value)


def as_recordings(new: Recording | Array | Sequence[Recording | Array]) -> list[Recording]:
    """Return recordings of whatever holds inputs: one recording or array, or several."""
    if isinstance(new, Recording):
        return [new]
    if isinstance(new, np.ndarray) and new.ndim < 3:
        return [Recording(new)]
    return [one if isinstance(one, Recording) else Recording(one) for one in new]
