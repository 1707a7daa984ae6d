"""The code of every map of the library but echo states, which have files of their own."""

from __future__ import annotations

from catchment.features import (
    NVAR,
    Concat,
    DiagonalReservoir,
    FeatureMap,
    Hydra,
    MiniRocket,
    Projected,
    RandomFourier,
    Thinned,
    WindowStatistics,
    WithNorm,
)
from catchment_edge.c.map_code import MapCode, Setting


def library_code(features: FeatureMap, setting: Setting, prefix: str) -> MapCode | None:
    """Return the code of a map, None where it has no form in C: networks, and users' own maps."""
    from catchment_edge.c import maps_concat, maps_nested, maps_steps, maps_windows
    from catchment_edge.c.maps import map_code

    match features:
        case MiniRocket() | WindowStatistics() | Hydra():
            return maps_windows.group_code([(features, 0)], setting, prefix)
        case NVAR() as one:
            return maps_steps.nvar_code(one, setting, prefix)
        case DiagonalReservoir() as one:
            return maps_steps.diagonal_code(one, setting, prefix)
        case Concat() as one:
            return maps_concat.concat_code(one, setting, prefix)
        case WithNorm() as one:
            return maps_nested.norm_code(one, setting, prefix)
        case Projected() as one:
            return maps_nested.projected_code(one, setting, prefix)
        case RandomFourier() as one:
            return maps_nested.fourier_code(one, setting, prefix)
        case Thinned() as one:
            # Training leaves rows out; a prediction takes all.
            return map_code(one.map, setting, prefix)
    return None


def widest_bits(features: FeatureMap) -> int:
    """Return the bits of the widest row in a map, those of maps inside counted.

    >>> from catchment import MiniRocket, Projected
    >>> wide = Projected(MiniRocket(100, grid=20), 50, grid=8)
    >>> widest_bits(wide.build(1, per_step=False))
    20
    """
    return max([features.grid or 0, *(widest_bits(one) for one in features.inner_maps)])
