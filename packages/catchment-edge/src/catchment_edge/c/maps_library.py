"""The code of every map of the library but echo states, which have files of their own."""

from __future__ import annotations

from catchment.features import (
    NVAR,
    Adapted,
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


def library_code(features: Adapted, setting: Setting, prefix: str) -> MapCode | None:
    """Return the code of a map, None where it has no form in C: networks, and users' own maps."""
    from catchment_edge.c import maps_concat, maps_nested, maps_steps, maps_windows
    from catchment_edge.c.maps import map_code

    match features.inner:
        case MiniRocket() | WindowStatistics() | Hydra():
            return maps_windows.group_code([(features, 0)], setting, prefix)
        case NVAR() as one:
            return maps_steps.nvar_code(features, one, setting, prefix)
        case DiagonalReservoir() as one:
            return maps_steps.diagonal_code(features, one, setting, prefix)
        case Concat():
            return maps_concat.concat_code(features, setting, prefix)
        case WithNorm() as one:
            return maps_nested.norm_code(one, setting, prefix)
        case Projected() as one:
            return maps_nested.projected_code(features, one, setting, prefix)
        case RandomFourier() as one:
            return maps_nested.fourier_code(features, one, setting, prefix)
        case Thinned() as one:
            # Training leaves rows out; a prediction takes all.
            return map_code(one.inner, setting, prefix)
    return None


def widest_bits(features: FeatureMap) -> int:
    """Return the bits of the widest row in a map, those of maps inside counted.

    >>> from catchment import MiniRocket, Projected
    >>> wide = Projected(MiniRocket(100, grid=20), 50, grid=8)
    >>> widest_bits(wide.build(1, per_step=False))
    20
    """
    own = features.grid or 0
    inner: tuple[FeatureMap, ...] = ()
    if isinstance(features, Adapted):
        match features.inner:
            case Concat() as one:
                inner = one._built
            case WithNorm() | Thinned() as one:
                inner = (one.inner,)
            case Projected() as one:
                inner = (one._inner,)
            case RandomFourier() as one if one.map is not None:
                inner = (one.inner,)
    return max([own, *(widest_bits(one) for one in inner)])
