"""Settings of `algorithm = "normal"` in [learn], and what such a plan needs of its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from catchment.features.base import FeatureMap
from catchment.features.default_map import DefaultMap
from catchment.features.nvar import NVAR
from catchment.federation.algorithm import Algorithm
from catchment.federation.learn.normal import FederatedNormal
from catchment.readout.detector import ANOMALY, NORMAL

if TYPE_CHECKING:
    from catchment.plans.names import Given

NAME = "normal"
WASHOUT = 50  # steps after which a reservoir is taken to have entered a recording


@dataclass(frozen=True, kw_only=True)
class Normal:
    """A model of what is normal for all clients, and a threshold above which there is an alarm.

    Parameters
    ----------
    score
        "features": how unusual a feature row is; "error": how unusual the error is of a forecast of
        the inputs.
    false_alarms
        The share of normal rows that may be above the threshold.
    shrinkage
        Of the covariance: a number from 0 to 1, or "auto".
    calibration
        Share of every recording, its end, that sets the threshold and nothing else.
    average
        How many rows a score is the mean of, its own and those before it.
    horizon
        How many steps ahead inputs are forecast, for "error".
    ridge
        Of the forecasts, for "error": a number, or "gcv".
    standardise
        Whether features are divided by their standard deviation first; "auto" is what the map says.
    per_decade
        Bins, for every factor of ten, in which scores are counted.
    normal_class
        Which of two labels is normal, where [data] has a label; "normal" and "0" need not be named.
    """

    score: Literal["features", "error"] = "features"
    false_alarms: float = 0.01
    shrinkage: float | Literal["auto"] = "auto"
    calibration: float = 0.25
    average: int = 1
    horizon: int = 1
    ridge: float | Literal["gcv"] = "gcv"
    standardise: bool | Literal["auto"] = "auto"
    per_decade: int = 64
    normal_class: str = ""

    def learner(self, given: Given) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        (features,) = given.maps
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return FederatedNormal(
            features=features, classes=given.classes, keep_clients=not given.hidden, **own
        )


def stand_in_classes(learn: Mapping[str, object]) -> tuple[str, str]:
    """Return two labels that a plan's settings fit, where its own are not known yet.

    >>> stand_in_classes({"algorithm": "normal", "normal_class": "healthy"})
    ('healthy', 'anomaly')
    """
    return str(learn.get("normal_class") or NORMAL), ANOMALY


def entered(one: FeatureMap, table: Mapping[str, object]) -> FeatureMap:
    """Return a map with a row per step that waits until its memory is filled.

    Before that, rows are unlike those that set the threshold, and most would be alarms. A washout
    that the table of the map names stays as it is, and so do maps without the setting.

    >>> entered(NVAR(delays=3, stride=2), {"map": "nvar"}).washout
    4
    >>> entered(NVAR(delays=3), {"map": "nvar", "washout": 0}).washout
    0
    """
    if isinstance(one, DefaultMap):
        one = one.meant(1, per_step=True)
    if "washout" in table or "washout" not in {each.name for each in fields(one)}:
        return one
    steps = (one.delays - 1) * one.stride if isinstance(one, NVAR) else WASHOUT
    changed: dict[str, Any] = {"washout": steps}
    return replace(one, **changed)


def check_data(*, target: bool, horizon: bool, baselines: bool) -> None:
    """Raise ValueError if what a plan says of its data has no meaning for what is normal."""
    if target:
        raise ValueError(
            "[data] has a target of numbers, and what is normal is learned of the inputs; leave it "
            'out, or name a column of two labels, label = "..."'
        )
    if horizon:
        raise ValueError(
            'horizon in [prepare] is for targets; write score = "error" and the horizon into '
            "[learn], which forecasts the inputs itself"
        )
    if baselines:
        raise ValueError(
            "baselines are compared by labels, and [data] has none; leave them out, or name a "
            'column of two labels, label = "..."'
        )
