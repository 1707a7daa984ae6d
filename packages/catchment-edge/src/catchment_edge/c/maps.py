"""The code of each kind of map."""

from __future__ import annotations

from catchment.features import Adapted, EchoStateMap, FeatureMap
from catchment_edge.c.map_code import MapCode, Setting


def map_code(features: FeatureMap, setting: Setting, prefix: str = "map") -> MapCode:
    """Return the code of a map; ValueError with what can be done instead if there is none.

    Parameters
    ----------
    prefix
        What its names start with, different for each of the maps of one model.
    """
    from catchment_edge.c import echo_state, maps_library

    match features:
        case EchoStateMap():
            return echo_state.map_code(features, setting, prefix)
        case Adapted():
            code = maps_library.library_code(features, setting, prefix)
            if code is not None:
                return code
    instead = ", or export it with --to onnx" if _name(features) == "Encoder" else ""
    raise ValueError(
        f"{_name(features)} cannot be written as C; train with EchoState, MiniRocket or "
        f"WindowStatistics{instead}"
    )


def in_q15(features: FeatureMap) -> FeatureMap:
    """Return a map with at most 15 binary digits, the very same where it has no more."""
    from catchment_edge.c import echo_state

    match features:
        case EchoStateMap():
            return echo_state.in_q15(features)
    raise ValueError(
        f"{_name(features)} has no form in q15; export it with --number whole or float32"
    )


def _name(features: FeatureMap) -> str:
    inner = features.inner if isinstance(features, Adapted) else features
    return type(inner).__name__
