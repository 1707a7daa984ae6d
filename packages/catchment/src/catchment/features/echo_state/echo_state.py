"""`EchoState`: one description of a reservoir and of what a readout sees of it.

It says everything but the number of channels, which the data have, so the same few words mean the
same map for one owner, for many, in scikit-learn and in a plan file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from catchment.features.base import UNBOUND, FeatureMap, checked_bits
from catchment.features.echo_state.pooling import Pool
from catchment.features.echo_state.recipe import Mixture, Recipe, Spread
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.settings import grid_digits, power_of_two
from catchment.features.echo_state.state_map import KIND, EchoStateMap
from catchment.wire import Parts

MOST_UNITS = 10_000_000  # refused before anything is built, whatever is summed of them

# What "auto" is, by the kind of target; docs/concepts/defaults.md says why.
PER_STEP = {
    "spectral_radius": 0.95,
    "input_scaling": 0.2,
    "leak_rate": Spread("tail", 0.1, 1.0),
}
PER_RECORDING = {"spectral_radius": 0.9, "input_scaling": 0.5, "leak_rate": 0.3}

# Bits of the states and of the features, and where inputs are cut off, that "auto" is for targets
# that are classes or numbers; docs/concepts/integers.md says why.
AUTO_GRID: dict[str, tuple[int, int, float]] = {
    "classes": (20, 8, 8.0),
    "numbers": (24, 24, 64.0),
}


@dataclass(frozen=True)
class EchoState(FeatureMap):
    """A reservoir and the features made of its states, before the data are known.

    Parameters
    ----------
    units
        Number of units; a tuple makes a deep stack, each layer driven by the one below, and other
        settings of the reservoir may then be tuples too.
    seed
        Names the random draws.
    topology, density, connections, rewiring, jump, jump_weight, random_signs
        Wiring, as in `Recipe`.
    input_connections, bias_scaling, activation
        Dynamics, as in `Recipe`.
    spectral_radius, input_scaling, leak_rate
        As in `Recipe`, for inputs of standard deviation 1. "auto" is, where every step has a
        target, 0.95, 0.2 and `Spread("tail", 0.1, 1.0)`: most units are quick and a few slow; and
        where a whole recording has one, 0.9, 0.5 and 0.3.
    bias, input, state
        Whether a constant one, the inputs and the states are features.
    pool
        "auto": mean and standard deviation over a recording that has one target, none where every
        step has its own. None for a row per step; "last", "mean", "mean_std" or "max" for one row
        per recording.
    segments
        With a pool: cut each recording into this many equal parts, pool each, and join the rows.
    washout
        Steps at the start of each recording that give no features.
    precision
        Of the states. Statistics are float64 always.
    grid, input_range
        As in `Recipe`. "auto" follows `AUTO_GRID`, and is None with precision "float32".
    feature_grid
        Bits to which features are rounded, which makes their statistics whole numbers; it needs a
        grid. "auto" follows `AUTO_GRID`, and is at most the grid.

    >>> EchoState(50).build(3, per_step=False).n_features
    106
    >>> EchoState(50).build(3, per_step=True).n_features
    53
    """

    units: int | tuple[int, ...] = 200
    seed: int = 0
    topology: str | tuple[str, ...] = Recipe.topology
    density: float | tuple[float | None, ...] | None = Recipe.density
    connections: int | tuple[int | None, ...] | None = Recipe.connections
    rewiring: float | tuple[float | None, ...] | None = Recipe.rewiring
    jump: int | tuple[int | None, ...] | None = Recipe.jump
    jump_weight: float | tuple[float | None, ...] | None = Recipe.jump_weight
    random_signs: bool | tuple[bool, ...] = Recipe.random_signs
    spectral_radius: float | tuple[float, ...] | Literal["auto"] = "auto"
    input_scaling: float | tuple[float, ...] | Literal["auto"] = "auto"
    input_connections: int | tuple[int | None, ...] | None = Recipe.input_connections
    bias_scaling: float | tuple[float, ...] = Recipe.bias_scaling
    leak_rate: float | Spread | tuple[float | Spread, ...] | Literal["auto"] = "auto"
    activation: str | Mixture | tuple[str | Mixture, ...] = Recipe.activation
    bias: bool = EchoStateMap.bias
    input: bool = EchoStateMap.input
    state: bool = EchoStateMap.state
    pool: Pool | Literal["auto"] | None = "auto"
    segments: int = EchoStateMap.segments
    washout: int = EchoStateMap.washout
    precision: Literal["float64", "float32"] = EchoStateMap.precision
    grid: int | Literal["auto"] | None = "auto"
    feature_grid: int | Literal["auto"] | None = "auto"
    input_range: float | Literal["auto"] = "auto"

    is_bound = False
    n_features = bounds = compute_rows = UNBOUND

    def __post_init__(self) -> None:
        self.recipe(1 << 31)
        self._refuse_giants()
        self._check_grids()

    def recipe(self, n_inputs: int, *, per_step: bool = True, classes: bool = False) -> Recipe:
        """Return the reservoir's recipe for inputs of this many channels.

        >>> EchoState(50).recipe(3, per_step=False).input_scaling
        0.5
        """
        shared = {field.name for field in fields(Recipe)} & {field.name for field in fields(self)}
        settings = {name: getattr(self, name) for name in shared}
        auto = PER_STEP if per_step else PER_RECORDING
        settings |= {name: value for name, value in auto.items() if settings[name] == "auto"}
        bits, _, largest = AUTO_GRID["classes" if classes else "numbers"]
        if settings["grid"] == "auto":
            settings["grid"] = None if self.precision == "float32" else bits
        if settings["grid"] is None:
            settings["input_range"] = Recipe.input_range
        elif settings["input_range"] == "auto":
            settings["input_range"] = largest
        return Recipe(inputs=n_inputs, **settings)

    def build(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> EchoStateMap:
        """Return the map for inputs of this many channels."""
        recipe = self.recipe(n_inputs, per_step=per_step, classes=classes)
        return self.of(Reservoir.from_recipe(recipe), per_step=per_step, classes=classes)

    def of(self, reservoir: Reservoir, *, per_step: bool, classes: bool = False) -> EchoStateMap:
        """Return the features of a reservoir that is there already."""
        pool = (None if per_step else "mean_std") if self.pool == "auto" else self.pool
        return EchoStateMap(
            reservoir,
            bias=self.bias,
            input=self.input,
            state=self.state,
            pool=pool,
            segments=self.segments if pool is not None else 1,
            washout=self.washout,
            precision=self.precision,
            feature_grid=self._feature_grid(reservoir, classes),
        )

    def _feature_grid(self, reservoir: Reservoir, classes: bool) -> int | None:
        if self.feature_grid != "auto":
            return self.feature_grid
        _, bits, _ = AUTO_GRID["classes" if classes else "numbers"]
        return None if reservoir.grid is None else min(bits, reservoir.grid)

    def foresees(
        self,
        parts: Parts,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether parts have this recipe, but for the scale; nothing is built.

        >>> parts = EchoState(20).build(1, per_step=True).parts()
        >>> EchoState(20).foresees(parts, 1, per_step=True)
        True
        """
        try:
            recipe = Recipe.from_json(str(parts.facts.get("recipe")))
        except (TypeError, ValueError):
            return False
        mine = self.recipe(n_inputs, per_step=per_step, classes=classes)
        return parts.kind == KIND and recipe.unprepared() == mine

    def describes(
        self,
        built: FeatureMap,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether a map is the one described, but for its scale; no eigenvalue is solved.

        >>> built = EchoState(20).build(1, per_step=True)
        >>> EchoState(20).describes(built, 1, per_step=True)
        True
        >>> EchoState(20, leak_rate=0.5).describes(built, 1, per_step=True)
        False
        """
        if not isinstance(built, EchoStateMap):
            return False
        reservoir = built.reservoir
        recipe = reservoir.recipe or (reservoir.adapted_from if adapted else None)
        mine = self.recipe(n_inputs, per_step=per_step, classes=classes)
        if recipe is None or recipe.unprepared() != mine:
            return False
        own = self.of(reservoir, per_step=per_step, classes=classes)
        return own.settings() == built.settings()

    def _check_grids(self) -> None:
        grid_digits(None if self.grid == "auto" else self.grid, "grid")
        if self.input_range != "auto":
            power_of_two(self.input_range, "input_range")
        if isinstance(self.feature_grid, int):
            checked_bits(self.feature_grid, "feature_grid")
            if self.grid is None:
                raise ValueError(
                    f"feature_grid is {self.feature_grid} and grid is None; give a grid too, such "
                    "as grid=20"
                )
        if isinstance(self.grid, int) and self.precision == "float32":
            raise ValueError(
                f"precision is 'float32' and grid is {self.grid}; use one or the other"
            )

    def _refuse_giants(self) -> None:
        units = self.units if isinstance(self.units, tuple) else (self.units,)
        if sum(units) > MOST_UNITS:
            raise ValueError(
                f"{sum(units):,} units are more than {MOST_UNITS:,}; ask for fewer units"
            )
