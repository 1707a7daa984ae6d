"""What a map is called where people read it: on the terminal, in logs and in reports."""

from __future__ import annotations

from dataclasses import fields

from catchment.features.echo_state.echo_state import EchoStateMap
from catchment.features.feature_map import FeatureMap
from catchment.features.own import Adapted, name_of


def label_of(features: FeatureMap) -> str:
    """Return a map's name, with the maps inside it, and its number of features.

    >>> from catchment import Concat, EchoState
    >>> label_of(EchoState(50).build(3, per_step=True))
    'echo_state (50 units), 53 features'
    >>> label_of(Concat(EchoState(5), EchoState(10, seed=1)).build(1, per_step=True))
    'echo_state (5 units) + echo_state (10 units), 17 features'
    """
    return f"{_name(features)}, {features.n_features} features"


def _name(features: FeatureMap) -> str:
    if isinstance(features, EchoStateMap):
        return f"echo_state ({features.reservoir.n_units} units)"
    name = name_of(features)
    parts = _parts(features)
    if not parts:
        return name
    return " + ".join(parts) if name == "concat" else f"{name} ({', '.join(parts)})"


def _parts(features: FeatureMap) -> list[str]:
    """Return the names of the maps that are settings of a map."""
    if not isinstance(features, Adapted):
        return []
    settings = (getattr(features.inner, one.name) for one in fields(features.inner))  # type: ignore[arg-type]
    held = [m for s in settings for m in (s if isinstance(s, tuple) else (s,))]
    return [_name(m) for m in held if isinstance(m, FeatureMap)]
