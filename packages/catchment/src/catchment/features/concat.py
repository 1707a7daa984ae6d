"""`Concat`: the features of several maps side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
from catchment.features.base import FeatureMap, known_map, name_of


@dataclass(frozen=True, init=False)
class Concat(FeatureMap):
    """Several maps of the same recordings, whose features are one row.

    It has a grid if all of them have, the finest of theirs, on which the values of the others lie
    too: no value changes. Where every step has a row, the first ones are those after the longest
    washout. A ridge acts on features divided by their spread if one of the maps asks for it.

    Parameters
    ----------
    maps
        Descriptions such as `EchoState(100)`, names such as "minirocket", built maps, and maps of
        one's own.

    >>> from catchment import EchoState
    >>> both = Concat(EchoState(20, seed=1), EchoState(10, seed=2, input=False))
    >>> built = both.build(3, per_step=False)
    >>> built.n_features, name_of(built), built.names()[46]
    (66, 'concat', 'map1_mean_x0')
    >>> built.rows([np.zeros((30, 3))])[0].shape
    (1, 66)
    """

    maps: tuple[FeatureMap, ...]

    def __init__(
        self,
        *several: FeatureMap | str,
        maps: Sequence[FeatureMap | str] = (),
    ) -> None:
        given = tuple(known_map(m) for m in (*several, *maps))
        if not given:
            raise ValueError("a Concat of no maps; pass some, such as Concat(EchoState(100), own)")
        object.__setattr__(self, "maps", given)
        if self.is_bound and len({one.per_step for one in self.maps}) > 1:
            kinds = [f"{name_of(m)} {'step' if m.per_step else 'recording'}" for m in self.maps]
            raise ValueError(
                "maps side by side give a row per the same thing, and these do not "
                f"({', '.join(kinds)}); choose all of one kind, or give EchoState a pool"
            )

    @property
    def n_inputs(self) -> int | None:
        known = [one.n_inputs for one in self.maps if one.n_inputs is not None]
        return known[0] if known else None

    @property
    def n_features(self) -> int:
        return sum(one.n_features for one in self.maps)

    @property
    def per_step(self) -> bool:
        return self.maps[0].per_step

    @property
    def washout(self) -> int:
        return max(one.washout for one in self.maps)

    @property
    def grid(self) -> int | None:
        bits = [one.grid for one in self.maps]
        return None if None in bits else max(b for b in bits if b is not None)

    @property
    def bounds(self) -> Array:
        return np.concatenate([one.reached_bounds for one in self.maps])

    @property
    def standardise(self) -> bool:
        return any(one.standardise for one in self.maps)

    @property
    def cost(self) -> float:
        return sum(one.cost for one in self.maps)

    def title(self) -> str:
        return " + ".join(one.title() for one in self.maps)

    def names(self) -> list[str]:
        return [f"map{k}_{name}" for k, one in enumerate(self.maps) for name in one.names()]

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the rows (n, F) of each recording's inputs (T, I)."""
        maps, washout = self.maps, self.washout
        found = [one.rows(inputs, threads=threads) for one in maps]
        late = [washout - one.washout if self.per_step else 0 for one in maps]
        return [
            np.concatenate([z[skip:] for z, skip in zip(parts, late, strict=True)], axis=1)
            for parts in zip(*found, strict=True)
        ]
