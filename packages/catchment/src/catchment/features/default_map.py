"""What a plan or a call without a map gets, and what "auto" chooses from.

For one target per recording the default is window statistics beside random convolutions from a
seed: no data enter it, a recipe of some hundred bytes says it all, and on unseen people of four
public sets it was at or near the top of all maps of its size. For a target per step it is a
reservoir, which gives a row at every step for the work of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any, Literal

from catchment.arrays import PositiveInt
from catchment.features.base import UNBOUND, FeatureMap
from catchment.features.minirocket import MiniRocket
from catchment.features.recipes import library_class
from catchment.features.union import AppendNorm, FeatureUnion
from catchment.features.window_statistics import WindowStatistics

UNITS = 200  # of the reservoir
FEWEST = 84  # kernels of MiniRocket: with less room than that it had better have all columns


@dataclass(frozen=True)
class DefaultMap(FeatureMap):
    """Window statistics beside MiniRocket for windows, a reservoir of 200 units for steps.

    Parameters
    ----------
    columns
        Features for one target per recording. What the statistics leave of them (17 a channel, and
        the correlations of up to 12 channels) are convolutions; where that would be fewer than 84,
        all are. Several channels have their norm as one more.
    seed
        Names the random draws.
    bits
        Bits of the features, as in the maps themselves.

    >>> windows = DefaultMap().build(3, per_step=False, classes=True)
    >>> windows.n_features, windows.standardize, windows.names()[0]
    (510, True, 'map0_mean_u0')
    >>> DefaultMap().build(3, per_step=True).n_features
    203
    """

    columns: PositiveInt = 510
    seed: int = 0
    bits: int | Literal["auto"] | None = "auto"

    is_bound = False
    n_features = bounds = compute_rows = UNBOUND

    def meant(self, n_inputs: int, *, per_step: bool) -> FeatureMap:
        """Return the map that this one stands for.

        >>> type(DefaultMap(100).meant(9, per_step=False)).__name__
        'AppendNorm'
        """
        if per_step:
            return _reservoir(self.seed, self.bits)
        statistics = WindowStatistics(bits=self.bits)
        channels = n_inputs + (n_inputs > 1)
        left = self.columns - statistics.build(channels, per_step=False).n_features
        if left < FEWEST:
            meant: FeatureMap = MiniRocket(self.columns, seed=self.seed, bits=self.bits)
        else:
            meant = FeatureUnion(statistics, MiniRocket(left, seed=self.seed, bits=self.bits))
        return AppendNorm(meant) if n_inputs > 1 else meant


@dataclass(frozen=True)
class AutoMap(FeatureMap):
    """One of a few maps, whichever has the least error on clients left out.

    Clients send the statistics of every candidate in one message, as large as all of theirs
    together. One owner chooses by generalized cross-validation. Where nothing can be chosen,
    because the server sees only a sum or there is one client, it is the default map.

    Parameters
    ----------
    columns
        Features of the larger candidates.
    seed
        Names the random draws.
    bits
        Bits of the features, as in the maps themselves.

    >>> [type(one).__name__ for one in AutoMap().candidates(3, per_step=False)]
    ['DefaultMap', 'MiniRocket', 'WindowStatistics', 'EchoState']
    >>> [type(one).__name__ for one in AutoMap().candidates(3, per_step=True)]
    ['EchoState', 'DiagonalReservoir', 'NVAR']
    """

    columns: PositiveInt = 510
    seed: int = 0
    bits: int | Literal["auto"] | None = "auto"

    is_bound = False
    n_features = bounds = compute_rows = UNBOUND

    @property
    def fallback(self) -> DefaultMap:
        """What it is where nothing can be chosen."""
        return DefaultMap(self.columns, self.seed, self.bits)

    def meant(self, n_inputs: int, *, per_step: bool) -> FeatureMap:
        """Return the default map, for those who cannot choose."""
        return self.fallback

    def candidates(self, n_inputs: int, *, per_step: bool) -> tuple[FeatureMap, ...]:
        """Return the descriptions to choose from, for a target per step or per recording."""
        reservoir = _reservoir(self.seed, self.bits)
        if per_step:
            diagonal = _named("diagonal", UNITS, seed=self.seed, bits=self.bits)
            # Products of as many delays as there is room for; none if not even two fit.
            fitting = [k for k in range(2, 11) if comb(k * n_inputs + 2, 2) <= self.columns]
            return (reservoir, diagonal, *(_named("nvar", k, bits=self.bits) for k in fitting[-1:]))
        convolutions = MiniRocket(self.columns, seed=self.seed, bits=self.bits)
        several = (convolutions, WindowStatistics(bits=self.bits), reservoir)
        same = self.fallback.meant(n_inputs, per_step=False) == convolutions
        return several if same else (self.fallback, *several)


def _reservoir(seed: int, bits: int | Literal["auto"] | None) -> FeatureMap:
    given = {"bits" if bits in ("auto", None) else "feature_bits": bits}
    return _named("echo_state", UNITS, seed=seed, **given)


def _named(name: str, *given: int, **settings: object) -> FeatureMap:
    """Return a map of the library; its file is read only now, when somebody wants it."""
    kind: Any = library_class(name)
    made: FeatureMap = kind(*given, **settings)
    return made
