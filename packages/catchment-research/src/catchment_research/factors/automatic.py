"""Ridge regression from factors, with what was left open settled by who takes part."""

from __future__ import annotations

from typing import Any, Literal

from catchment.features import FeatureMap
from catchment.federation.learn import MANY, Ridge
from catchment_research.factors.ridge import FactoredRidge


def automatic_factors(
    features: FeatureMap,
    *,
    ridge: Ridge = "auto",
    classes: tuple[str, ...] | None = None,
    n_clients: int | None = None,
    keep_clients: bool | Literal["groups"] | None = None,
    **settings: Any,
) -> FactoredRidge:
    """Return exact ridge regression from QR factors; what was left open is settled as for sums.

    Parameters
    ----------
    ridge, classes, n_clients, keep_clients
        As for `automatic_ridge`.
    settings
        Of `FederatedRidge`; those that are about sums are left at what they are by default.

    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> automatic_factors(features).ridge, automatic_factors(features, n_clients=1).ridge
    ('auto', 'gcv')
    """
    alone = n_clients is not None and n_clients < 2
    chosen: Ridge = "gcv" if ridge == "auto" and (alone or keep_clients is False) else ridge
    kept: bool | Literal["groups"] = not alone
    if chosen == "groups" or (chosen == "auto" and n_clients is not None and n_clients > MANY):
        kept = "groups"
    own = ("per_output", "standardise", "increments", "intercept")
    return FactoredRidge(
        features=features,
        ridge=chosen,
        classes=classes,
        keep_clients=kept if keep_clients is None else keep_clients,
        **{name: settings[name] for name in own if name in settings},
    )
