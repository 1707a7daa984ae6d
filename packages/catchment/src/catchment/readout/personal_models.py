"""Models by client: everybody's, and for some clients one of their own, chosen by name.

What differs between them is the readout (personal readouts) or the map (reservoirs that are only
nearly the same); preparation, channels and classes are common to all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap
from catchment.features.pipeline import Pipeline
from catchment.readout.intervals import Intervals
from catchment.readout.model import Model, model_of
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import Readout
from catchment.readout.storage import Own, Stored, map_of, stored_map, to_bytes, typed

KIND = "personal"


@dataclass(frozen=True, eq=False)
class PersonalModels(Predictor):
    """A shared model, and for some clients a readout or a map of their own.

    Parameters
    ----------
    model
        Shared: used for every client without one of its own.
    readouts, maps
        By client name; who has only the one shares the other.

    >>> from catchment import EchoState
    >>> z = EchoState(5).build(1, per_step=True)
    >>> flat, steep = (Readout(np.full((6, 1), w), np.zeros(1)) for w in (0.0, 1.0))
    >>> models = PersonalModels(Model(z, flat), {"ann": steep})
    >>> u = np.ones((1, 1))
    >>> float(models.predict(u)[0, 0]), float(models.predict(u, client="ann")[0, 0]) > 0
    (0.0, True)
    """

    model: Model
    readouts: Mapping[str, Readout] = field(default_factory=dict)
    maps: Mapping[str, FeatureMap] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for client in self.clients:
            self.of(client)  # raises now if a readout does not fit its map

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(sorted({*self.readouts, *self.maps}))

    def of(self, client: str) -> Model:
        """Return the model of one client: its own if there is one, else the shared one."""
        if client not in self.readouts and client not in self.maps:
            return self.model
        shared = self.model
        features = self.maps.get(client, shared.features)
        readout = self.readouts.get(client, shared.readout)
        before = Pipeline(shared.prepare, features)
        return replace(shared, before=before, readout=readout, statistics=None)

    @property
    def pipeline(self) -> Pipeline:
        return self.model.pipeline

    @property
    def channels(self) -> tuple[str, ...] | None:
        return self.model.channels

    @property
    def columns(self) -> Mapping[str, str]:
        return self.model.columns

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.model.classes

    @property
    def n_outputs(self) -> int:
        return self.model.n_outputs

    @property
    def deviation(self) -> Array | None:
        return self.model.deviation

    @property
    def intervals(self) -> Intervals | None:
        return self.model.intervals

    def identity(self) -> str:
        """Return the SHA-256 of all that the models say, in hexadecimal."""
        return hashlib.sha256(to_bytes(self)).hexdigest()

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        return self.of(client).outputs_of(prepared, device=device)

    def probabilities(self, scores: Array) -> Array:
        return self.model.probabilities(scores)

    def prepared_by(self, prepare: Prepare, channels: Sequence[str] | None = None) -> Self:
        return replace(self, model=self.model.prepared_by(prepare, channels))

    def read_from(self, columns: Mapping[str, str]) -> Self:
        return replace(self, model=self.model.read_from(columns))

    def stored(self) -> Stored:
        shared = self.model.stored()
        tensors: dict[str, NDArray[Any]] = dict(shared.tensors)
        facts = {**shared.facts, "readouts": sorted(self.readouts), "maps": {}}
        if self.readouts:
            own = [self.readouts[name] for name in sorted(self.readouts)]
            tensors["own.weights"] = np.stack([readout.weights for readout in own])
            tensors["own.intercept"] = np.stack([readout.intercept for readout in own])
            # (M,) of all, or (M, K) where outputs have ridges of their own.
            ridges = [np.asarray(readout.ridge, dtype=np.float64) for readout in own]
            width = (self.n_outputs,) if any(map(np.ndim, ridges)) else ()
            tensors["own.ridge"] = np.stack([np.broadcast_to(one, width) for one in ridges])
        for k, (name, features) in enumerate(sorted(self.maps.items())):
            described = stored_map(features, f"own_map.{k}")
            facts["maps"][name] = described.facts
            tensors |= described.tensors
        return Stored(KIND, facts, tensors)


def personal_models_of(held: Stored, use: Own = ()) -> PersonalModels:
    """Return the models that a file holds."""
    facts, tensors = held.facts, held.tensors
    names = list(facts["readouts"])
    readouts: dict[str, Readout] = {}
    if names:
        weights, intercepts, ridges = (
            typed(tensors, f"own.{name}", np.float64) for name in ("weights", "intercept", "ridge")
        )
        for name, W, b, ridge in zip(names, weights, intercepts, ridges, strict=True):
            readouts[name] = Readout(W, b, float(ridge) if ridge.ndim == 0 else ridge)
    maps = {
        name: map_of(facts["maps"][name], tensors, f"own_map.{k}", use)
        for k, name in enumerate(sorted(facts["maps"]))
    }
    return PersonalModels(model_of(held, use), readouts, maps)
