"""The code of each kind of map."""

from __future__ import annotations

from catchment.features import EchoStateMap, Encoder, FeatureMap
from catchment_edge.c.map_code import MapCode, Setting


def map_code(features: FeatureMap, setting: Setting, prefix: str = "map") -> MapCode:
    """Return the code of a map; ValueError with what can be done instead if there is none.

    Parameters
    ----------
    prefix
        What its names start with, different for each of the maps of one model.
    """
    from catchment_edge.c import echo_state, maps_library

    if isinstance(features, EchoStateMap):
        return echo_state.map_code(features, setting, prefix)
    code = maps_library.library_code(features, setting, prefix)
    if code is not None:
        return code
    instead = ", or export it with --to onnx" if isinstance(features, Encoder) else ""
    raise ValueError(
        f"{type(features).__name__} cannot be written as C; train with EchoState, MiniRocket or "
        f"WindowStatistics{instead}"
    )


def in_q15(features: FeatureMap) -> FeatureMap:
    """Return a map with at most 15 binary digits, the very same where it has no more."""
    from catchment_edge.c import echo_state

    match features:
        case EchoStateMap():
            return echo_state.in_q15(features)
    raise ValueError(
        f"{type(features).__name__} has no form in q15; export it with --number whole or float32"
    )
