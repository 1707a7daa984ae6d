"""What a plan or a call without a map gets, and what "auto" chooses from.

For one target per recording the default is window statistics beside random convolutions from a
seed: no data enter it, a recipe of some hundred bytes says it all, and on unseen people of four
public sets it was at or near the top of all maps of its size. For a target per step it is a
reservoir, which gives a row at every step for the work of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal

from catchment.features.concat import Concat
from catchment.features.diagonal.diagonal import DiagonalReservoir
from catchment.features.echo_state.echo_state import EchoState
from catchment.features.echo_state.recipe import whole
from catchment.features.feature_map import FeatureMap, MapDescription
from catchment.features.nested import foreseen, recognised
from catchment.features.nvar import NVAR
from catchment.features.random_convolutions.minirocket import MiniRocket
from catchment.features.window_statistics import WindowStatistics
from catchment.features.with_norm import WithNorm
from catchment.wire import Parts

UNITS = 200  # of the reservoir
FEWEST = 84  # kernels of MiniRocket: with less room than that it had better have all columns


@dataclass(frozen=True)
class DefaultMap:
    """Window statistics beside MiniRocket for windows, a reservoir of 200 units for steps.

    Parameters
    ----------
    columns
        Features for one target per recording. What the statistics leave of them (17 a channel, and
        the correlations of up to 12 channels) are convolutions; where that would be fewer than 84,
        all are. Several channels have their norm as one more.
    seed
        Names the random draws.
    grid
        Bits of the features, as in the maps themselves.

    >>> windows = DefaultMap().build(3, per_step=False, classes=True)
    >>> windows.n_features, windows.standardise, windows.names()[0]
    (510, True, 'map0_mean_u0')
    >>> DefaultMap().build(3, per_step=True).n_features
    203
    """

    columns: int = 510
    seed: int = 0
    grid: int | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        whole(self.columns, "columns", at_least=1)

    def meant(self, n_inputs: int, *, per_step: bool) -> MapDescription:
        """Return the description that this one stands for.

        >>> type(DefaultMap(100).meant(9, per_step=False)).__name__
        'WithNorm'
        """
        if per_step:
            return _reservoir(self.seed, self.grid)
        statistics = WindowStatistics(grid=self.grid)
        channels = n_inputs + (n_inputs > 1)
        left = self.columns - statistics.build(channels, per_step=False).n_features
        if left < FEWEST:
            meant: MapDescription = MiniRocket(self.columns, seed=self.seed, grid=self.grid)
        else:
            meant = Concat(statistics, MiniRocket(left, seed=self.seed, grid=self.grid))
        return WithNorm(meant) if n_inputs > 1 else meant

    def build(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> FeatureMap:
        """Return the map for inputs of this many channels; see `MapDescription`."""
        meant = self.meant(n_inputs, per_step=per_step)
        return meant.build(n_inputs, per_step=per_step, classes=classes)

    def describes(
        self,
        built: FeatureMap,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether a map is the one described, by the rules of its parts.

        >>> built = DefaultMap().build(3, per_step=False, classes=True)
        >>> DefaultMap().describes(built, 3, per_step=False, classes=True)
        True
        >>> DefaultMap(seed=1).describes(built, 3, per_step=False, classes=True)
        False
        """
        meant = self.meant(n_inputs, per_step=per_step)
        return recognised(
            meant, built, n_inputs, per_step=per_step, classes=classes, adapted=adapted
        )

    def foresees(
        self,
        parts: Parts,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether parts may be those of the map described; nothing is built from them."""
        meant = self.meant(n_inputs, per_step=per_step)
        return foreseen(meant, parts, n_inputs, per_step=per_step, classes=classes, adapted=adapted)


@dataclass(frozen=True)
class AutoMap:
    """One of a few maps, whichever has the least error on clients left out.

    Clients send the statistics of every candidate in one message, as large as all of theirs
    together. One owner chooses by generalised cross-validation. Where nothing can be chosen,
    because the server sees only a sum or there is one client, it is the default map.

    Parameters
    ----------
    columns
        Features of the larger candidates.
    seed
        Names the random draws.
    grid
        Bits of the features, as in the maps themselves.

    >>> [type(one).__name__ for one in AutoMap().candidates(3, per_step=False)]
    ['DefaultMap', 'MiniRocket', 'WindowStatistics', 'EchoState']
    >>> [type(one).__name__ for one in AutoMap().candidates(3, per_step=True)]
    ['EchoState', 'DiagonalReservoir', 'NVAR']
    """

    columns: int = 510
    seed: int = 0
    grid: int | Literal["auto"] | None = "auto"

    @property
    def fallback(self) -> DefaultMap:
        """What it is where nothing can be chosen."""
        return DefaultMap(self.columns, self.seed, self.grid)

    def candidates(self, n_inputs: int, *, per_step: bool) -> tuple[MapDescription, ...]:
        """Return the descriptions to choose from, for a target per step or per recording."""
        reservoir = _reservoir(self.seed, self.grid)
        if per_step:
            diagonal = DiagonalReservoir(UNITS, seed=self.seed, grid=self.grid)
            return (reservoir, diagonal, *_delays(n_inputs, self.columns, self.grid))
        convolutions = MiniRocket(self.columns, seed=self.seed, grid=self.grid)
        several = (convolutions, WindowStatistics(grid=self.grid), reservoir)
        same = self.fallback.meant(n_inputs, per_step=False) == convolutions
        return several if same else (self.fallback, *several)

    def build(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> FeatureMap:
        """Return the default map, for those who cannot choose."""
        return self.fallback.build(n_inputs, per_step=per_step, classes=classes)

    def describes(
        self,
        built: FeatureMap,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether a map is the default one; see `DefaultMap`."""
        return self.fallback.describes(
            built, n_inputs, per_step=per_step, classes=classes, adapted=adapted
        )

    def foresees(
        self,
        parts: Parts,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether parts may be those of the fallback; nothing is built from them."""
        return self.fallback.foresees(
            parts, n_inputs, per_step=per_step, classes=classes, adapted=adapted
        )


def _delays(
    n_inputs: int, columns: int, grid: int | Literal["auto"] | None
) -> tuple[MapDescription, ...]:
    """Return products of as many delays as there is room for; nothing if not even two fit."""
    fitting = [k for k in range(2, 11) if 1 + comb(k * n_inputs + 1, 2) + k * n_inputs <= columns]
    return tuple(NVAR(delays, grid=grid) for delays in fitting[-1:])


def _reservoir(seed: int, grid: int | Literal["auto"] | None) -> EchoState:
    if isinstance(grid, int):
        return EchoState(UNITS, seed=seed, feature_grid=grid)
    return EchoState(UNITS, seed=seed, grid=grid)
