"""What "connectivity" means in Tables I to IV of Bacciu et al., IJCNN 2021, which do not say it.

The tables draw input and recurrent connectivity from 1 to 60 and select input connectivities of 50,
5, 20 and 50 for 8 signals (WESAD) and 32 (HAR). Three readings are offered:

    fan_in    the inputs that a unit receives: 50 of 8 inputs cannot be, so draws end at the inputs
    per_cent  of all weights: possible, though 1 % of 8 x 100 input weights are 8 weights in all
    fan_out   the units that an input reaches: possible for every value, with 100 units or more

Only per_cent and fan_out can have been meant for all selected values. `fan_out` is what the public
code of one of the authors counts (gallicch/EulerStateNetworks: "each input dimension is projected
only to C neurons"), and is the default. Between units the count is the same either way: n units
received by each are, over all, n units reached by each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from catchment import Booleans
from catchment.features import Reservoir
from catchment.features.echo_state import SparseRows
from catchment_lab.search import Draws, Space
from reproductions.study import Value

Connectivity = Literal["fan_in", "per_cent", "fan_out"]
READINGS: tuple[Connectivity, ...] = ("fan_in", "per_cent", "fan_out")


@dataclass(frozen=True)
class Wired:
    """A recipe, and how densely inputs and units are connected in a reading of the tables.

    >>> wired = Wired(Reservoir(units=100, inputs=8), 50, 1, "fan_out")
    >>> int(wired.reservoir().layers[0].W_in.n_nonzero)
    400
    """

    recipe: Reservoir
    input_connectivity: int
    recurrent_connectivity: int
    reading: Connectivity

    def possible(self) -> bool:
        """Return whether the two numbers can be had in this reading.

        >>> Wired(Reservoir(units=100, inputs=8), 50, 1, "fan_in").possible()
        False
        """
        N, I = self.recipe.n_units, self.recipe.inputs
        most = {"fan_in": (I, N), "per_cent": (100, 100), "fan_out": (N, N)}[self.reading]
        given = self.input_connectivity, self.recurrent_connectivity
        return all(1 <= n <= limit for n, limit in zip(given, most, strict=True))

    def seeded(self, seed: int) -> Wired:
        """Return the same with another draw of the weights."""
        return replace(self, recipe=replace(self.recipe, seed=seed))

    def reservoir(self) -> Reservoir:
        """Return the reservoir; ValueError if the numbers cannot be had."""
        if not self.possible():
            raise ValueError(
                f"connectivity {self.input_connectivity} of inputs and "
                f"{self.recurrent_connectivity} of units cannot be read as {self.reading} with "
                f"{self.recipe.inputs} inputs and {self.recipe.units} units; use another reading"
            )
        N, n = self.recipe.n_units, self.recurrent_connectivity
        if self.reading == "per_cent":
            n = max(1, round(n * N / 100))
        recipe = replace(self.recipe, connections=n)
        if self.reading == "fan_in":
            return replace(recipe, input_connections=self.input_connectivity)
        (layer,) = recipe.layers
        W_in = layer.W_in.to_dense() * self._mask()
        return Reservoir.of_layers([replace(layer, W_in=SparseRows.from_dense(W_in))])

    def _mask(self) -> Booleans:
        """Return which input weights (N, I) there are."""
        N, I, n = self.recipe.n_units, self.recipe.inputs, self.input_connectivity
        rng = np.random.default_rng([self.recipe.seed, 0xFA40])
        mask = np.zeros((N, I), dtype=bool)
        if self.reading == "per_cent":
            mask.flat[rng.permutation(N * I)[: max(1, round(n * N * I / 100))]] = True
        else:
            for k in range(I):
                mask[rng.permutation(N)[:n], k] = True
        return mask

    @property
    def wiring(self) -> dict[str, Value]:
        """What is not in the recipe, ready for JSON."""
        return {
            "input": self.input_connectivity,
            "recurrent": self.recurrent_connectivity,
            "reading": self.reading,
        }


def draw(space: Space, chooser: Draws, *, inputs: int, reading: Connectivity) -> Wired:
    """Return a recipe from the paper's ranges, and its connectivities in a reading.

    Parameters
    ----------
    space
        Its ranges of connections are those of the tables; draws end at what the reading allows.

    >>> from reproductions.spaces import Random
    >>> chooser = Random(np.random.default_rng(0))
    >>> draw(Space(units=(100,)), chooser, inputs=8, reading="fan_in").input_connectivity <= 8
    True
    """
    plain = replace(space, connections=None, input_connections=None)
    recipe, _ = plain.draw(chooser, inputs=inputs)
    ranges = (
        space.input_connections or (1, inputs),
        space.connections or (1, recipe.n_units),
    )
    if reading == "fan_in":
        ranges = (ranges[0][0], min(ranges[0][1], inputs)), ranges[1]
    n_inputs = chooser.suggest_int("input_connectivity", *ranges[0])
    return Wired(
        recipe, n_inputs, chooser.suggest_int("recurrent_connectivity", *ranges[1]), reading
    )
