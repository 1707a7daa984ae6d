"""Ridge regression with what was left open settled by who takes part, the same for every way in.

Clients send statistics, F^2 / 2 integers (or float64), which add, so that anything may hide
them. With upload="auto", where the server sees clients one by one and statistics are integers,
each client sends as many rows of its Gram matrix as it has rows, if that is less: the same
statistics, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from catchment.features.base import FeatureMap
from catchment.features.recipes import AutoMap
from catchment.federation.algorithm import Algorithm
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.sums import MANY

if TYPE_CHECKING:
    from catchment.federation.learn.candidates import Candidates

Ridge = float | Literal["auto", "leave-one-client-out", "leave-one-group-out", "gcv"]
Upload = Literal["auto", "statistics", "autocovariances"] | Callable[..., Algorithm[Any, Any, Any]]
UNGROUPED = (
    "ridge is 'leave-one-group-out', for which the server must see whose statistics it adds to "
    "which group, and secure aggregation shows it one sum; pass ridge='leave-one-client-out', "
    "which takes a second round, 'gcv' or a number"
)


def automatic_ridge(
    features: FeatureMap,
    *,
    ridge: Ridge = "auto",
    classes: tuple[str, ...] | None = None,
    hidden: bool = False,
    n_clients: int | None = None,
    store_per_client: bool | Literal["groups"] | None = None,
    **settings: Any,
) -> FederatedRidge | Candidates:
    """Return exact ridge regression for clients that are seen one by one, or only as a sum.

    Parameters
    ----------
    ridge
        A number; "leave-one-client-out", the one with the least error on clients left out, for
        which a sum that hides them takes a second round; "leave-one-group-out", the same with
        groups of clients, whose sums are kept in the place of each client's; "gcv", which needs
        only the sum; or "auto": the first where there are several, the server sees them one by one
        and no class is one client's alone; of more than 1000 the second on the same terms; else
        "gcv".
    hidden
        Whether the server sees nothing but sums.
    n_clients
        How many train; None for many.
    store_per_client
        Whether the server keeps each client's statistics, or sums of groups of them. If not given,
        each client's wherever it can, and groups where the ridge is chosen by them.
    settings
        Of `FederatedRidge`; a head that has no use for a ridge takes part in no choice of one.

    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> automatic_ridge(features).ridge, automatic_ridge(features, hidden=True).ridge
    ('auto', 'gcv')
    >>> automatic_ridge(features, n_clients=1_000_000).store_per_client
    'groups'
    """
    alone = n_clients is not None and n_clients < 2
    chosen, head = ridge, settings.get("head")
    if head is not None and not head.uses_ridge:
        chosen = 0.0
    if chosen == "auto" and (hidden or alone or store_per_client is False):
        chosen = "gcv"
    if hidden and chosen == "leave-one-group-out":
        raise ValueError(UNGROUPED)
    if hidden and chosen == "leave-one-client-out" and not store_per_client:
        needed = {"head": None, "intercept": True, "deterministic": True, "row_stride": 1}
        for name, plain in needed.items():
            if settings.get(name, plain) != plain:
                raise ValueError(
                    f"{name} is {settings[name]!r}; behind secure aggregation a ridge is chosen by "
                    f"clients only with {name}={plain!r}, so pass ridge='gcv' or a number with it"
                )
        left = {name: settings[name] for name in settings if name == "standardize"}
        from catchment.federation.learn.candidates import Candidates

        return Candidates(features=(features,), classes=classes, store_per_client=False, **left)
    kept: bool | Literal["groups"] = not hidden and not alone
    if chosen == "leave-one-group-out" or (
        chosen == "auto" and n_clients is not None and n_clients > MANY
    ):
        kept = "groups"
    if store_per_client is not None:
        kept = store_per_client
    return FederatedRidge(
        features=features, ridge=chosen, classes=classes, store_per_client=kept, **settings
    )


@dataclass(frozen=True)
class Offered:
    """The maps of a workflow, and why the choice among several was not made if it was asked for."""

    maps: tuple[FeatureMap, ...]
    note: str = ""
    several: bool = False  # whether clients choose among them


def offered_maps(
    described: FeatureMap,
    n_inputs: int,
    *,
    per_step: bool,
    ahead: bool = False,
    hidden: bool = False,
    noisy: bool = False,
    n_clients: int | None = None,
) -> Offered:
    """Return the map that is described, or the candidates of an `AutoMap` where one can be chosen.

    Parameters
    ----------
    ahead
        Whether what is ahead in time is predicted.
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
        maps = described.candidates(n_inputs, per_step=per_step, ahead=ahead)
        return Offered(maps, several=len(maps) > 1)
    return Offered((described.fallback,), f"the default map is used: {why}")


def auto_choice(classes: object, n_clients: int | None = None) -> dict[str, Any]:
    """Return how `Candidates` choose a map for "auto": by what will be reported, with a margin.

    Classes are counted by the clients, who see the sum of all for that; two would see each other's.

    >>> auto_choice(("sit", "walk")), auto_choice(None)["by"], auto_choice(("sit", "walk"), 2)["by"]
    ({'margin': 1.0, 'by': 'accuracy'}, 'error', 'error')
    """
    counted = classes is not None and (n_clients is None or n_clients > 2)
    return {"margin": 1.0, "by": "accuracy" if counted else "error"}


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
