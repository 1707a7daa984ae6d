"""Feature maps rebuilt from what travelled or was kept."""

from __future__ import annotations

from collections.abc import Iterable

from catchment.errors import IntegrityError
from catchment.features.echo_state import state_map
from catchment.features.feature_map import FeatureMap
from catchment.features.own import KIND, own_from_parts
from catchment.wire import Parts


def restored(parts: Parts, classes: Iterable[type] = ()) -> FeatureMap:
    """Return the map that `parts` describes; no eigenvalue is solved.

    Parameters
    ----------
    parts
        As a map's `parts` made them.
    classes
        A user's own maps that may be meant.
    """
    match parts.kind:
        case state_map.KIND:
            return state_map.EchoStateMap.from_parts(parts)
        case _ if parts.kind == KIND:
            return own_from_parts(parts, classes, lambda inner: restored(inner, classes))
    raise IntegrityError(f"there is no feature map of kind {parts.kind[:40]!r}; upgrade catchment")
