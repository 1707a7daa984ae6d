"""Reservoirs that differ less: W_k(alpha) = (1 - alpha) W_k + alpha W*, at one spectral radius.

Input weights, biases and leaks are those of the target; only the recurrent matrices differ, and at
alpha = 1 not even they. Summing statistics of reservoirs that differ is not ridge regression on any
features: it is exact only at alpha = 1, and the published figures show that nearly equal is not
nearly as good. An ensemble needs no alignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from catchment.arrays import Fraction
from catchment.features import FeatureMap, Reservoir, name_of
from catchment.federation import Algorithm, Data, Kept, Requirements, RoundContext, Tally
from catchment.federation.learn import FederatedRidge, RidgeState, learned
from catchment.readout import Model, PersonalModels, RidgeStatistics, accumulate
from catchment.wire import Message
from catchment_research.learn.reservoirs import aligned_reservoir, with_own_seed


@dataclass(frozen=True, kw_only=True)
class AlignedRidge(Algorithm[RidgeState, Tally[RidgeStatistics], PersonalModels]):
    """Federated ridge over reservoirs that are only nearly the same.

    Parameters
    ----------
    ridge
        The exact algorithm; its features read the target reservoir.
    alpha
        How far every client's reservoir is moved towards the target; 1 is exact.
    recipes
        Recipes of the clients' own reservoirs. Who has none uses the target's with a seed that
        depends on the client's name.

    >>> import numpy as np
    >>> from catchment import Recording
    >>> from catchment.engine import run_locally
    >>> from catchment.federation import Plan
    >>> features = Reservoir(units=10, inputs=1).features(washout=5)
    >>> wave = np.sin(np.arange(121) / 5)
    >>> clients = {name: [Recording(wave[:-1], wave[1:])] for name in ("a", "b")}
    >>> exact = FederatedRidge(features=features, ridge=1e-3)
    >>> same = run_locally(Plan(algorithm=AlignedRidge(ridge=exact, alpha=1.0)), clients)
    >>> same.state.total == run_locally(Plan(algorithm=exact), clients).state.total
    True
    """

    ridge: FederatedRidge
    alpha: Fraction
    recipes: Mapping[str, Reservoir] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.target

    @property
    def target(self) -> FeatureMap:
        """The features of the reservoir that all are moved towards."""
        features = self.ridge.features
        if name_of(features) != "echo_state":
            raise TypeError(f"{name_of(features)} has no reservoir to align; use an EchoState map")
        return features

    def features_of(self, client: str) -> FeatureMap:
        """Return the features of a client's own, aligned reservoir."""
        features: Any = self.target
        target: Reservoir = features.reservoir
        recipe = self.recipes.get(client)
        if recipe is None:
            if not target.is_drawn:
                raise ValueError(f"there is no recipe for {client}; pass recipes")
            recipe = with_own_seed(target, client)
        found: FeatureMap = features.reading(aligned_reservoir(recipe, target, self.alpha))
        return found

    def model_of(self, state: RidgeState, client: str) -> Model:
        """Return the model as one client uses it: the common readout on its own reservoir."""
        return Model(self.features_of(client), learned(state.readout), self.ridge.classes)

    @property
    def requirements(self) -> Requirements:
        return self.ridge.requirements

    def start(self) -> RidgeState:
        return self.ridge.start()

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        features, classes = self.features_of(context.client), self.ridge.classes is not None
        statistics = accumulate(features, data(), threads=1, classes=classes)
        # Added as if the reservoirs were equal: that is what is being tried here.
        return replace(statistics, fingerprint=self.ridge.features.fingerprint)

    def read_update(self, parts: Message, context: RoundContext) -> Tally[RidgeStatistics]:
        return self.ridge.read_update(parts, context)

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], context: RoundContext
    ) -> RidgeState:
        return self.ridge.server_update(state, total, context)

    def result(self, state: RidgeState) -> PersonalModels:
        """Return the common readout on every known client's own reservoir.

        For others it is on the target reservoir, which belongs to no client.
        """
        maps = {name: self.features_of(name) for name in sorted(state.by_client)}
        return PersonalModels(self.ridge.result(state), maps=maps if self.alpha < 1 else {})

    def figures(self, state: RidgeState) -> dict[str, float]:
        return self.ridge.figures(state)

    def kept(self, state: RidgeState) -> Kept:
        return self.ridge.kept(state)

    def tally(self, state: RidgeState) -> Tally[RidgeStatistics] | None:
        return self.ridge.tally(state)

    def alone(self, state: RidgeState) -> AlignedRidge:
        return replace(self, ridge=self.ridge.alone(state))
