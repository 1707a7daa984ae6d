"""Ranges of hyper-parameters, and draws from them.

`connections` are the units that a unit receives and `input_connections` the inputs, at most as many
as there are. The gradient of plasticity grows as 1 / target_std^2, so the learning rate is drawn
relative to target_std^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

from catchment.features import Reservoir
from catchment.plugins import plugin

Range = tuple[float, float]


class Draws(Protocol):
    """What draws: a trial of optuna, or whatever has these of its methods."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...

    def suggest_int(self, name: str, low: int, high: int) -> int: ...

    def suggest_categorical(self, name: str, choices: Sequence[int]) -> int: ...


@dataclass(frozen=True, kw_only=True)
class PlasticitySpace:
    """Ranges of plasticity; `relative_rate` is the learning rate divided by target_std^2.

    A target mean of 0 pulls tanh units toward odd functions of their inputs, and
    a mean of odd states tells little about how strong a movement is; other means are tried too.

    Parameters
    ----------
    learning_rate
        One for all targets, in place of a relative one.
    updates, equation
        As `IntrinsicPlasticity` has them.

    >>> from optuna.trial import FixedTrial
    >>> fixed = PlasticitySpace(learning_rate=0.01, updates="batch")
    >>> drawn = {"target_mean": 0.1, "target_std": 0.2, "epochs": 1, "rounds": 4}
    >>> fixed.draw(FixedTrial(drawn)).rule.learning_rate
    0.01
    """

    target_mean: Range = (0.0, 0.6)
    target_std: Range = (0.05, 0.9)
    relative_rate: Range = (5e-4, 3e-2)
    epochs: tuple[int, ...] = (1,)
    rounds: tuple[int, ...] = (2, 4)
    learning_rate: float | None = None
    updates: Literal["step", "batch"] = "step"
    equation: Literal["corrected", "printed"] = "corrected"

    def draw(self, trial: Draws) -> Adaptation:
        mean = trial.suggest_float("target_mean", *self.target_mean)
        std = trial.suggest_float("target_std", *self.target_std, log=True)
        rate = self.learning_rate
        if rate is None:
            rate = trial.suggest_float("relative_rate", *self.relative_rate, log=True) * std**2
        epochs = trial.suggest_categorical("epochs", self.epochs)
        rule = replace(
            plugin("plasticity", "fedip", needed_for="reservoirs that adapt").rule,
            target_mean=mean,
            target_std=std,
            learning_rate=rate,
            epochs=epochs,
            updates=self.updates,
            equation=self.equation,
        )
        return Adaptation(rule, trial.suggest_categorical("rounds", self.rounds))


@dataclass(frozen=True)
class Adaptation:
    """A rule of plasticity, and for how many rounds it is federated."""

    rule: Any  # an IntrinsicPlasticity
    rounds: int = 3


@dataclass(frozen=True, kw_only=True)
class Space:
    """Ranges of recipes, and of plasticity where there is to be some.

    >>> from optuna.trial import FixedTrial
    >>> space = Space(units=(50,), connections=None, input_connections=None)
    >>> drawn = {"units": 50, "spectral_radius": 0.9, "leak_rate": 0.5, "input_scaling": 0.5}
    >>> recipe, adaptation = space.draw(FixedTrial(drawn), inputs=3)
    >>> recipe.leak_rate, adaptation is None
    (0.5, True)
    """

    units: tuple[int, ...] = (100, 250)
    spectral_radius: Range = (0.1, 0.99)
    leak_rate: Range = (0.1, 1.0)
    input_scaling: Range = (0.1, 1.0)
    connections: tuple[int, int] | None = (1, 60)
    input_connections: tuple[int, int] | None = (1, 60)
    plasticity: PlasticitySpace | None = None

    def draw(
        self, trial: Draws, *, inputs: int, base: Reservoir | None = None
    ) -> tuple[Reservoir, Adaptation | None]:
        """Return a recipe for this many inputs, and how it is to adapt.

        Parameters
        ----------
        base
            What is not drawn; a plain recipe if not given.
        """
        units = trial.suggest_categorical("units", self.units)
        recipe = replace(
            Reservoir(units=units) if base is None else base,
            units=units,
            inputs=inputs,
            spectral_radius=trial.suggest_float("spectral_radius", *self.spectral_radius),
            leak_rate=trial.suggest_float("leak_rate", *self.leak_rate),
            input_scaling=trial.suggest_float("input_scaling", *self.input_scaling),
        )
        if self.connections is not None:
            low, high = self.connections
            n = trial.suggest_int("connections", low, high)
            recipe = replace(recipe, connections=min(n, units))
        if self.input_connections is not None:
            low, high = self.input_connections
            n = trial.suggest_int("input_connections", min(low, inputs), min(high, inputs))
            recipe = replace(recipe, input_connections=n)
        return recipe, self.plasticity.draw(trial) if self.plasticity else None

    def described(self) -> dict[str, Any]:
        """Return the ranges as plain values; options that came later only where they are used.

        A search that was kept before there were such options is still the same search.
        """
        found = asdict(self)
        for name in ("learning_rate", "updates", "equation"):
            if self.plasticity and getattr(self.plasticity, name) == getattr(PLAIN, name):
                del found["plasticity"][name]
        return found


PLAIN = PlasticitySpace()
