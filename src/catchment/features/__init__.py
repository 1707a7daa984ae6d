"""Frozen maps from recordings to feature rows.

`EchoState` describes a reservoir and what a readout sees of it; `EchoStateMap` is what it builds. A
class of one's own with `n_features`, `bounds` and `rows` is a map too (`as_map`).
"""

from __future__ import annotations

from catchment.features.echo_state.echo_state import EchoState
from catchment.features.echo_state.recipe import Mixture, Recipe, Spread
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.feature_map import FeatureMap, MapDescription
from catchment.features.own import as_map
from catchment.features.pipeline import Pipeline

__all__ = [
    "EchoState",
    "EchoStateMap",
    "FeatureMap",
    "MapDescription",
    "Mixture",
    "Pipeline",
    "Recipe",
    "Reservoir",
    "Spread",
    "as_map",
]
