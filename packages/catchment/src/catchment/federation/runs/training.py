"""What a run's folder says of its training, and the algorithm made again from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catchment.errors import FederationError
from catchment.federation.learn.balanced import BalancedRidge
from catchment.federation.learn.candidates import Candidates, Race
from catchment.federation.learn.ridge import FederatedRidge, RidgeState
from catchment.federation.runs.read import Run
from catchment.readout.heads import head_of
from catchment.readout.model import Model
from catchment.wire import Parts

TRAINING = "training"
# Each changes a message by itself; others weigh clients against each other, or hide them.
HARMLESS = frozenset({"Float32", "FactorUpload", "SmallestUpload"})


@dataclass(frozen=True)
class Described:
    """The training's algorithm by name, its settings, and all of its plan's."""

    name: str
    settings: Mapping[str, Any]
    plan: Mapping[str, Any]
    rounds: int

    @property
    def protections(self) -> tuple[str, ...]:
        """The names of the protections, in their order."""
        return tuple(next(iter(one)) for one in self.plan["protections"])

    @property
    def features(self) -> str:
        """The fingerprint of the map, where the model has just that one; nothing otherwise."""
        if self.name not in ("FederatedRidge", "AlignedRidge", "BalancedRidge", "FactoredRidge"):
            return ""
        return _fingerprint(self._of_ridge.get("features"))

    @property
    def prepare(self) -> str:
        """The fingerprint of the preparation."""
        return _fingerprint(self.plan.get("prepare"))

    @property
    def _of_ridge(self) -> Mapping[str, Any]:
        if self.name != "AlignedRidge":
            return self.settings
        inner: Mapping[str, Any] = self.settings["ridge"]["FederatedRidge"]
        return inner

    def rebuilt(self, model: Model) -> FederatedRidge | BalancedRidge | None:
        """Return the algorithm whose state is a sum of statistics, None if it is another.

        It has the map and the classes of the model: settings know them by their fingerprint.
        """
        plain = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in self._of_ridge.items()
        }
        known: dict[str, Any] = {**plain, "features": model.features, "classes": model.classes}
        if known.get("head") is not None:
            known["head"] = head_of(known["head"])
        match self.name:
            case "FederatedRidge" | "AlignedRidge":
                return FederatedRidge(**known)
            case "BalancedRidge":
                return BalancedRidge(**known)
        return None

    def chosen(self, model: Model, parts: Parts) -> tuple[FederatedRidge, RidgeState] | None:
        """Return the ridge of the map that won, and its sums, where several were tried in a round.

        None if the training was another, or candidates raced over several rounds.
        """
        if self.name != "Candidates" or self.settings["halvings"] != 0:
            return None
        tried = Candidates(features=(model.features,), classes=model.classes)
        race: Race = tried.load_state(parts)
        if race.total is None or race.best is None:
            return None
        ridge = FederatedRidge(
            features=model.features, classes=model.classes, per_output=self.settings["per_output"]
        )
        own = {name: sent.members[race.best] for name, sent in race.by_client.items()}
        return ridge, RidgeState(race.total.members[race.best], own)


def described(run: Run) -> Described:
    """Return what a run says of its training; FederationError if it has none."""
    for stage in run.stages:
        if stage.name == TRAINING:
            plan = stage.settings["Plan"]
            ((name, settings),) = plan["algorithm"].items()
            return Described(name, settings, plan, stage.rounds)
    raise FederationError(f"{run.folder} has no training; finish the run first")


def _fingerprint(told: object) -> str:
    """Return the one value of a part that is described by its fingerprint."""
    match told:
        case {**named} if len(named) == 1 and isinstance(value := next(iter(named.values())), str):
            return value
    return ""
