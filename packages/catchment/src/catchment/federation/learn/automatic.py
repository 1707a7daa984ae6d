"""Ridge regression with what was left open settled by who takes part, the same for every way in."""

from __future__ import annotations

from typing import Any, Literal

from catchment.features.base import FeatureMap
from catchment.federation.learn.groups import MANY
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.selected import SelectedRidge

Ridge = float | Literal["auto", "clients", "groups", "gcv"]


def automatic_ridge(
    features: FeatureMap,
    *,
    ridge: Ridge = "auto",
    classes: tuple[str, ...] | None = None,
    hidden: bool = False,
    n_clients: int | None = None,
    keep_clients: bool | Literal["groups"] | None = None,
    **settings: Any,
) -> FederatedRidge | SelectedRidge:
    """Return exact ridge regression for clients that are seen one by one, or only as a sum.

    Parameters
    ----------
    ridge
        A number; "clients", the one with the least error on clients left out, for which a sum that
        hides them takes a second round; "groups", the same with groups of clients, whose sums are
        kept in the place of each client's; "gcv", which needs only the sum; or "auto": "clients"
        where there are several, the server sees them one by one and no class is one client's alone;
        of more than 1000 "groups" on the same terms; else "gcv".
    hidden
        Whether the server sees nothing but sums.
    n_clients
        How many train; None for many.
    keep_clients
        Whether the server keeps each client's statistics, or sums of groups of them. If not given,
        each client's wherever it can, and groups where the ridge is chosen by them.
    settings
        Of `FederatedRidge`; a head that has no use for a ridge takes part in no choice of one.

    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> automatic_ridge(features).ridge, automatic_ridge(features, hidden=True).ridge
    ('auto', 'gcv')
    >>> automatic_ridge(features, n_clients=1_000_000).keep_clients
    'groups'
    """
    alone = n_clients is not None and n_clients < 2
    chosen, head = ridge, settings.get("head")
    if head is not None and not head.uses_ridge:
        chosen = 0.0
    if chosen == "auto" and (hidden or alone or keep_clients is False):
        chosen = "gcv"
    if hidden and chosen == "groups":
        raise ValueError(
            "ridge is 'groups', for which the server must see whose statistics it adds to which "
            "group, and a secure sum shows it one sum; pass ridge='clients', which takes a second "
            "round, 'gcv' or a number"
        )
    if hidden and chosen == "clients" and not keep_clients:
        if head is not None or not settings.get("intercept", True):
            raise ValueError(
                "behind a secure sum a ridge is chosen by clients only for a regression with an "
                "intercept; pass ridge='gcv' or a number"
            )
        if settings.get("devices", "same") != "same":
            raise ValueError(
                "behind a secure sum a ridge is chosen by clients only where all compute on the "
                "CPU or on a grid; pass ridge='gcv' or a number with devices='any'"
            )
        left = {name: settings[name] for name in settings if name in ("per_output", "standardise")}
        return SelectedRidge(features=features, classes=classes, **left)
    kept: bool | Literal["groups"] = not hidden and not alone
    if chosen == "groups" or (chosen == "auto" and n_clients is not None and n_clients > MANY):
        kept = "groups" if settings.get("window") is None else kept
    if keep_clients is not None:
        kept = keep_clients
    return FederatedRidge(
        features=features, ridge=chosen, classes=classes, keep_clients=kept, **settings
    )
