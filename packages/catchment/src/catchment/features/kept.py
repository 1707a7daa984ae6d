"""Feature maps rebuilt from what travelled or was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

from catchment.errors import IntegrityError
from catchment.features.echo_state import echo_state
from catchment.features.feature_map import FeatureMap
from catchment.features.own import KIND, own_from_parts
from catchment.wire import Parts

Allowed = Callable[[Parts], bool]
_ALLOWED: ContextVar[Allowed | None] = ContextVar("allowed", default=None)


@contextmanager
def building_only(allowed: Allowed) -> Iterator[None]:
    """Within this, build only maps whose parts are allowed, and of classes that are named.

    For letters and files of somebody else: what they ask for is compared before it costs anything.
    """
    token = _ALLOWED.set(allowed)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def restored(parts: Parts, classes: Iterable[type] = ()) -> FeatureMap:
    """Return the map that `parts` describes; no eigenvalue is solved.

    Parameters
    ----------
    parts
        As a map's `parts` made them.
    classes
        A user's own maps that may be meant.
    """
    guard = _ALLOWED.get()
    if guard is not None and not guard(parts):
        raise IntegrityError("the feature map is not one that was agreed on; nothing was built")
    named = tuple(classes)
    match parts.kind:
        case echo_state.KIND:
            return echo_state.EchoStateMap.from_parts(parts)
        case _ if parts.kind == KIND:
            return own_from_parts(
                parts, named, partial(_inside, classes=named), only_named=guard is not None
            )
    raise IntegrityError(f"there is no feature map of kind {parts.kind[:40]!r}; upgrade catchment")


def _inside(parts: Parts, classes: Iterable[type]) -> FeatureMap:
    """Return a map that is a setting of another, with which it was compared if there is a rule."""
    if _ALLOWED.get() is None:
        return restored(parts, classes)
    with building_only(lambda _: True):
        return restored(parts, classes)
