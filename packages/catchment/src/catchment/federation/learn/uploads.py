"""Which exact upload a ridge takes: the one with the fewest bytes, and why.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from catchment.features.base import FeatureMap
from catchment.federation.algorithm import Algorithm
from catchment.federation.learn.automatic import Ridge, automatic_ridge
from catchment.federation.protection import Protection
from catchment.federation.smallest_upload import SmallestUpload
from catchment.plugins import installed, plugin
from catchment.readout.grid import Grid
from catchment.readout.statistics import packed_length

UploadKind = Literal["auto", "statistics", "smallest", "gradients", "factors"]
UPLOADS = ("auto", "statistics", "smallest", "gradients", "factors")
MASKED_WHOLE, MASKED_FLOAT = 8, 16  # bytes of a number in a secure sum
MOST_ROUNDS = 200  # of gradients
LARGE = 100_000_000  # bytes of statistics, below which nobody waits for many rounds


@dataclass(frozen=True)
class UploadChoice:
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
        if self.may_be_smaller:
            return self._smaller(features, classes)
        if not self.hidden:
            return UploadChoice(
                "statistics", "clients send statistics: protections change what they send"
            )
        if self.summed or isinstance(self.ridge, str):
            return UploadChoice(
                "statistics",
                "clients send statistics: the server sees only sums and the ridge is chosen from "
                "them",
            )
        return self._over_rounds(features, classes)

    def _smaller(self, features: FeatureMap, classes: bool) -> UploadChoice:
        if Grid.of(features, classes=classes) is None:
            return UploadChoice(
                "statistics",
                "clients send statistics: features are float64, and only whole numbers have a "
                "smaller form that is exact",
            )
        F = features.n_features
        return UploadChoice(
            "smallest",
            f"each client sends the smaller of its statistics ({packed_length(F):,} sums of "
            f"products for {F} features) and as many rows of {F} of them as it has rows, which "
            "say exactly the same",
        )

    def _over_rounds(self, features: FeatureMap, classes: bool) -> UploadChoice:
        once, rounds = masked_bytes(features, self.n_targets, classes=classes)
        if rounds < once and once > LARGE and "gradients" in installed("uploads"):
            return UploadChoice(
                "gradients",
                f"clients send gradients: at most {rounds / 1e6:.1f} MB over up to {MOST_ROUNDS} "
                f"rounds, statistics would be {once / 1e6:.1f} MB",
            )
        return UploadChoice(
            "statistics",
            f"clients send statistics: {once / 1e6:.1f} MB under a secure sum, gradients could be "
            f"{rounds / 1e6:.1f} MB over up to {MOST_ROUNDS} rounds",
        )

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
        if chosen == "factors":
            made: Algorithm[Any, Any, Any] = plugin("uploads", "factors").automatic_factors(
                features, ridge=self.ridge, classes=classes, n_clients=n_clients, **settings
            )
            return made
        if chosen != "gradients":
            return automatic_ridge(
                features,
                ridge=self.ridge,
                classes=classes,
                hidden=self.hidden if hidden is None else hidden,
                n_clients=n_clients,
                **settings,
            )
        over_rounds: Algorithm[Any, Any, Any] = plugin("uploads", "gradients")(
            features=features,
            ridge="folds" if isinstance(self.ridge, str) else self.ridge,
            standardise=settings.get("standardise", "auto"),
            classes=classes,
        )
        return over_rounds


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
