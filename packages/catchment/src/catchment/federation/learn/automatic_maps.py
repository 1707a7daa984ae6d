"""Which feature maps a federation tries where it was left open, the same for every way in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from catchment.features.base import FeatureMap
from catchment.features.default_map import AutoMap


@dataclass(frozen=True)
class Offered:
    """The maps of a course, and why the choice among several was not made if it was asked for."""

    maps: tuple[FeatureMap, ...]
    note: str = ""

    @property
    def several(self) -> bool:
        """Whether clients choose among them."""
        return len(self.maps) > 1


def offered_maps(
    described: FeatureMap,
    n_inputs: int,
    *,
    per_step: bool,
    hidden: bool = False,
    noisy: bool = False,
    n_clients: int | None = None,
) -> Offered:
    """Return the map that is described, or the candidates of an `AutoMap` where one can be chosen.

    Parameters
    ----------
    hidden
        Whether the server sees nothing but sums.
    noisy
        Whether noise bounds what the training tells, under which nothing may be chosen by data.
    n_clients
        How many clients train; None for many.

    >>> len(offered_maps(AutoMap(), 3, per_step=False).maps)
    4
    >>> offered_maps(AutoMap(), 3, per_step=False, hidden=True).note
    "the default map is used: the server sees only a sum, and 'auto' leaves clients out"
    """
    if not isinstance(described, AutoMap):
        return Offered((described,))
    if noisy:
        why = "under noise no map may be chosen by the data"
    elif hidden:
        why = "the server sees only a sum, and 'auto' leaves clients out"
    elif n_clients is not None and n_clients < 2:
        why = "'auto' leaves clients out, and there is one"
    else:
        return Offered(described.candidates(n_inputs, per_step=per_step))
    return Offered((described.fallback,), f"the default map is used: {why}")


def refuse_settings(given: Collection[str]) -> None:
    """Raise ValueError for what a choice among maps settles by itself.

    Parameters
    ----------
    given
        Names of settings that were given.

    >>> refuse_settings(["ridge"])
    Traceback (most recent call last):
    ValueError: map 'auto' is chosen together with its ridge, ... leave out ridge, or name a map
    """
    if given:
        raise ValueError(
            "map 'auto' is chosen together with its ridge, by the error on clients left out; leave "
            f"out {', '.join(given)}, or name a map"
        )
