"""Settings of algorithms that are made of others, as [learn] has them: flat, with plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from catchment.features.base import FeatureMap, name_of
from catchment.features.echo_state.echo_state import EchoState, EchoStateMap
from catchment.features.echo_state.recipe import Recipe
from catchment.federation.algorithm import Algorithm
from catchment.federation.learn.ensemble import ReservoirEnsemble
from catchment.federation.learn.personal import PersonalReadouts
from catchment.federation.learn.personal_increments import PersonalIncrements
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.measure.drift import FALSE_ALARMS

if TYPE_CHECKING:
    from catchment.plans.names import Given

Recipes = Mapping[str, EchoState]


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Train a readout on every client's own reservoir; the model is the mean of their predictions.

    Parameters
    ----------
    recipes
        By client: the settings of its own reservoir, as in [features]. Who has none uses that of
        [features] with a seed that depends on the client's name.
    alpha
        A number between 0 and 1: how far reservoirs are moved towards that of [features].
    ridge
        A number, or "folds": each client takes the ridge with the least error on folds of its own
        rows.
    n_folds
        Folds of a client's rows.
    weighting
        "mean": all members count the same; "samples": by the rows they were trained on.
    """

    recipes: Recipes = field(default_factory=dict)
    alpha: float | None = None
    ridge: float | Literal["folds"] = "folds"
    n_folds: int = 5
    weighting: Literal["mean", "samples"] = "mean"

    def learner(self, given: Given) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        features = reservoir_map(given)
        return ReservoirEnsemble(
            features=features,
            recipes=recipes_of(self.recipes, features, given),
            alpha=self.alpha,
            ridge=self.ridge,
            n_folds=self.n_folds,
            weighting=self.weighting,
            classes=given.classes,
        )


@dataclass(frozen=True, kw_only=True)
class Personal:
    """The exact shared readout, and one of every client's own, chosen by its name afterwards.

    Parameters
    ----------
    method
        "towards": ridge towards the shared readout; "mixed": everybody's statistics and one's own.
    ridge
        Of the shared readout: a number, "clients" or "gcv".
    n_blocks
        Stretches of a client's data that are left out in turn, to choose how far to go.
    increments, forgetting, window, false_alarms
        Of the shared readout, as for a ridge. With increments = "new" how far to go is chosen by
        what came in later, and clients send nothing more than for a ridge.
    """

    method: Literal["towards", "mixed"] = "towards"
    ridge: float | Literal["clients", "gcv"] = "clients"
    n_blocks: int = 5
    increments: int | Literal["new"] = 1
    forgetting: float = 1.0
    window: int | None = None
    false_alarms: float = FALSE_ALARMS

    def learner(self, given: Given) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        shared = FederatedRidge(
            features=only_map(given),
            ridge=self.ridge,
            classes=given.classes,
            increments=self.increments,
            forgetting=self.forgetting,
            window=self.window,
            false_alarms=self.false_alarms,
        )
        if shared.carries:
            return PersonalIncrements(ridge=shared, method=self.method)
        return PersonalReadouts(ridge=shared, method=self.method, n_blocks=self.n_blocks)


def only_map(given: Given) -> FeatureMap:
    (features,) = given.maps
    return features


def reservoir_map(given: Given) -> EchoStateMap:
    features = only_map(given)
    if not isinstance(features, EchoStateMap):
        raise ValueError(
            f"{name_of(features)} has no reservoir of every client's own; use map = "
            '"echo_state" in [features], or algorithm = "ridge"'
        )
    return features


def recipes_of(recipes: Recipes, features: EchoStateMap, given: Given) -> dict[str, Recipe]:
    n_inputs, per_step = features.reservoir.n_inputs, features.per_step
    classes = given.classes is not None
    return {
        name: one.recipe(n_inputs, per_step=per_step, classes=classes)
        for name, one in recipes.items()
    }
