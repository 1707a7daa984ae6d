"""The code of each kind of map."""

from __future__ import annotations

from importlib import import_module

from catchment.features import Encoder, FeatureMap, form_maker
from catchment_edge.c.map_code import MapCode, Setting

# Files whose code of maps registers itself, as soon as one is asked for.
FORMS = ("echo_state", "maps_concat", "maps_nested", "maps_steps", "maps_windows")


def map_code(features: FeatureMap, setting: Setting, prefix: str = "map") -> MapCode:
    """Return the code of a map; ValueError with what can be done instead if there is none.

    Parameters
    ----------
    prefix
        What its names start with, different for each of the maps of one model.
    """
    for name in FORMS:
        import_module(f"catchment_edge.c.{name}")
    make = form_maker("c", features)
    if make is not None:
        code: MapCode = make(features, setting, prefix)
        return code
    instead = ", or export it with --to onnx" if isinstance(features, Encoder) else ""
    raise ValueError(
        f"{type(features).__name__} cannot be written as C; train with EchoState or "
        f"WindowStatistics{instead}"
    )


def widest_bits(features: FeatureMap) -> int:
    """Return the bits of the widest row in a map, those of maps inside counted.

    >>> from catchment import RandomProjection, WindowStatistics
    >>> wide = RandomProjection(WindowStatistics(grid=20), 10, grid=8)
    >>> widest_bits(wide.build(1, per_step=False))
    20
    """
    return max([features.feature_grid or 0, *(widest_bits(one) for one in features.inner_maps)])


def in_q15(features: FeatureMap) -> FeatureMap:
    """Return a map with at most 15 binary digits, the very same where it has no more."""
    for name in FORMS:
        import_module(f"catchment_edge.c.{name}")
    make = form_maker("q15", features)
    if make is not None:
        coarser: FeatureMap = make(features)
        return coarser
    raise ValueError(
        f"{type(features).__name__} has no form in q15; export it with --number whole or float32"
    )
