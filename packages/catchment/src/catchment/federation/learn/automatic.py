"""Ridge regression with what was left open settled by who takes part, the same for every way in.

Which exact upload a ridge takes: the one with the fewest bytes, and why.

    statistics   F^2 / 2 whole numbers (or float64), once; they add, so anything may hide them
    smallest     as many rows of the Gram matrix as the client has rows, where that is less; once,
                 and only where the server sees clients one by one
    gradients    F K float64 numbers a round, over rounds; they add
    factors      F^2 / 2 float64 numbers, once; they are merged, and nothing can hide them

All four end in the same readout: the first two to the bit, gradients to a tolerance of
1e-10, factors to the digits of the rows, which sums of noise-free series do not have. They are
taken if asked for.

The rule: where the server sees clients one by one and statistics are whole numbers, each
client sends the smaller of the first two. Where a sum hides them, and the ridge is a
number, gradients are taken if statistics are more than 100 MB and even the most rounds of gradients
are fewer bytes; below that one round is worth more than bytes. Else statistics.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from catchment.features.base import FeatureMap
from catchment.features.default_map import AutoMap
from catchment.federation.algorithm import Algorithm
from catchment.federation.learn.candidates import SelectedRidge
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.ridge_state import MANY
from catchment.federation.protection import Protection, SmallestUpload
from catchment.plugins import installed, plugin
from catchment.readout.grid import Grid
from catchment.readout.statistics import packed_length

Ridge = float | Literal["auto", "clients", "groups", "gcv"]
UploadKind = Literal["auto", "statistics", "smallest", "gradients", "factors"]
UPLOADS = ("auto", "statistics", "smallest", "gradients", "factors")
MASKED_WHOLE, MASKED_FLOAT = 8, 16  # bytes of a number in a secure sum
MOST_ROUNDS = 200  # of gradients
LARGE = 100_000_000  # bytes of statistics, below which nobody waits for many rounds
UNGROUPED = (
    "ridge is 'groups', for which the server must see whose statistics it adds to which group, and "
    "a secure sum shows it one sum; pass ridge='clients', which takes a second round, 'gcv' or a "
    "number"
)


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
        raise ValueError(UNGROUPED)
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
        if settings.get("row_stride", 1) != 1:
            raise ValueError(
                "behind a secure sum a ridge is chosen by clients from all rows; pass ridge='gcv' "
                "or a number with a row_stride"
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


class UploadChoice(NamedTuple):
    """What clients send, and why in one sentence."""

    how: Literal["statistics", "smallest", "gradients", "factors"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """What an upload is chosen by, before the map is known.

    Parameters
    ----------
    asked
        "auto", or the upload itself.
    protected
        Whether anything changes or hides what clients send.
    hidden
        Whether the server sees nothing but sums.
    summed
        Whether the sum of statistics itself is wanted, for another head or to join an earlier one.
    ridge
        As it was asked for.
    n_targets
        Outputs, as far as known.
    """

    asked: UploadKind = "auto"
    protected: bool = False
    hidden: bool = False
    summed: bool = False
    ridge: Ridge = "auto"
    n_targets: int = 1

    def __post_init__(self) -> None:
        if self.asked not in UPLOADS:
            raise ValueError(f"upload is {self.asked!r}; choose from {', '.join(UPLOADS)}")
        if self.hidden and self.ridge == "groups":
            raise ValueError(UNGROUPED)
        if self.asked == "smallest" and self.protected:
            raise ValueError(
                "upload is 'smallest', which the server must see client by client and unchanged; "
                "leave out the protections, or use upload='auto'"
            )
        if self.asked == "factors" and self.protected:
            raise ValueError(
                "upload is 'factors', which are merged and do not add, so that no secure sum hides "
                "them and no noise is made for them; use upload='statistics' with protections"
            )
        if self.asked == "factors" and self.summed:
            raise ValueError(
                "upload is 'factors', which leave no sum of statistics for another head, a window, "
                "forgetting, any device, or to join an earlier run; use upload='statistics'"
            )
        if self.asked == "gradients" and self.summed:
            raise ValueError(
                "upload is 'gradients', which leaves no sum of statistics for another head or to "
                "join an earlier run; use upload='statistics'"
            )
        if self.asked == "gradients" and self.hidden and isinstance(self.ridge, str):
            raise ValueError(
                f"upload is 'gradients' and ridge is {self.ridge!r}, which a secure sum cannot "
                "choose over rounds; pass a number as the ridge, or upload='statistics'"
            )

    @property
    def may_be_smaller(self) -> bool:
        """Whether clients look for a smaller form of their statistics."""
        return self.asked == "smallest" or (self.asked == "auto" and not self.protected)

    @property
    def sums_products(self) -> bool:
        """Whether products of all features are summed, however many features there are."""
        fixed = self.summed or isinstance(self.ridge, str)
        by_size = self.asked == "auto" and self.hidden and not fixed
        return self.asked != "gradients" and not by_size

    def added_to(self, protections: Sequence[Protection]) -> tuple[Protection, ...]:
        """Return the protections with what makes statistics smaller, where that may be."""
        return (*protections, SmallestUpload()) if self.may_be_smaller else tuple(protections)

    def chosen(self, features: FeatureMap, *, classes: bool) -> UploadChoice:
        """Return the upload for a map.

        >>> from catchment import EchoState
        >>> features = EchoState(10).build(1, per_step=True)
        >>> Uploads().chosen(features, classes=False).how
        'smallest'
        >>> Uploads(protected=True, hidden=True).chosen(features, classes=False).reason
        'clients send statistics: the server sees only sums and the ridge is chosen from them'
        """
        if self.asked in ("statistics", "gradients", "factors"):
            return UploadChoice(self.asked, f"clients send {self.asked}, as asked for")
        F = features.n_features
        if self.may_be_smaller and Grid.of(features, classes=classes) is not None:
            return UploadChoice(
                "smallest",
                f"each client sends the smaller of its statistics ({packed_length(F):,} sums of "
                f"products for {F} features) and as many rows of {F} of them as it has rows, which "
                "say exactly the same",
            )
        if self.may_be_smaller:
            why = "features are float64, and only whole numbers have a smaller form that is exact"
        elif not self.hidden:
            why = "protections change what they send"
        elif self.summed or isinstance(self.ridge, str):
            why = "the server sees only sums and the ridge is chosen from them"
        else:
            once, rounds = masked_bytes(features, self.n_targets, classes=classes)
            over = f"{rounds / 1e6:.1f} MB over up to {MOST_ROUNDS} rounds"
            if rounds < once and once > LARGE and "gradients" in installed("uploads"):
                large = f"statistics would be {once / 1e6:.1f} MB"
                return UploadChoice("gradients", f"clients send gradients: at most {over}, {large}")
            why = f"{once / 1e6:.1f} MB under a secure sum, gradients could be {over}"
        return UploadChoice("statistics", f"clients send statistics: {why}")

    def learner(
        self,
        features: FeatureMap,
        *,
        classes: tuple[str, ...] | None,
        n_clients: int | None,
        hidden: bool | None = None,
        **settings: Any,
    ) -> Algorithm[Any, Any, Any]:
        """Return the algorithm that takes the chosen upload.

        Parameters
        ----------
        hidden
            Whether the server cannot leave a client out, if not only what is sent is hidden.
        settings
            Of `FederatedRidge`; of a ridge over rounds only `standardise` counts.
        """
        chosen = self.chosen(features, classes=classes is not None).how
        settings |= {"ridge": self.ridge, "classes": classes}
        made: Algorithm[Any, Any, Any]
        if chosen == "gradients":
            if isinstance(self.ridge, str):
                settings["ridge"] = "folds"
            taken = {name: settings.get(name, "auto") for name in ("ridge", "standardise")}
            made = plugin("uploads", "gradients")(features=features, classes=classes, **taken)
        elif chosen == "factors":
            factors = plugin("uploads", "factors")
            made = factors.automatic_factors(features, n_clients=n_clients, **settings)
        else:
            unseen = self.hidden if hidden is None else hidden
            made = automatic_ridge(features, hidden=unseen, n_clients=n_clients, **settings)
        return made


def masked_bytes(features: FeatureMap, n_targets: int, *, classes: bool) -> tuple[int, int]:
    """Return the bytes of one client's numbers in a secure sum: statistics, and most of gradients.

    >>> from catchment import EchoState
    >>> masked_bytes(EchoState(100).build(1, per_step=False, classes=True), 2, classes=True)
    (168912, 1299264)
    """
    F, K = features.n_features, n_targets
    entries = {
        "feature_sum": F,
        "target_sum": K,
        "gram": packed_length(F),
        "cross": F * K,
        "target_gram": packed_length(K),
    }
    grid = Grid.of(features, classes=classes)
    if grid is None:
        statistics = MASKED_FLOAT * sum(entries.values())
    else:
        statistics = sum(MASKED_WHOLE * grid.limbs[name] * n for name, n in entries.items())
    return statistics, MASKED_FLOAT * (F * (K + 2) + (MOST_ROUNDS - 1) * F * K)
