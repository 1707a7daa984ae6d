"""The code of every map of the library but echo states, which have files of their own."""

from __future__ import annotations

from catchment.export.c.map_code import MapCode, Setting
from catchment.features.concat import Concat
from catchment.features.diagonal.diagonal import DiagonalReservoir
from catchment.features.feature_map import FeatureMap
from catchment.features.nvar import NVAR
from catchment.features.own import Adapted
from catchment.features.projected import Projected
from catchment.features.random_convolutions.hydra import Hydra
from catchment.features.random_convolutions.minirocket import MiniRocket
from catchment.features.random_fourier import RandomFourier
from catchment.features.thinned import Thinned
from catchment.features.window_statistics import WindowStatistics
from catchment.features.with_norm import WithNorm


def library_code(features: Adapted, setting: Setting, prefix: str) -> MapCode | None:
    """Return the code of a map, None where it has no form in C: networks, and users' own maps."""
    from catchment.export.c import maps_concat, maps_nested, maps_steps, maps_windows
    from catchment.export.c.maps import map_code

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
