"""`Concat`: the features of several maps side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from catchment.arrays import Array
from catchment.features.feature_map import FeatureMap
from catchment.features.library import named_map
from catchment.features.nested import Nested, all_built, built_map, reached_bounds, recognised
from catchment.features.own import Adapted, as_map, name_of


@dataclass(frozen=True, init=False)
class Concat:
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
    >>> built.n_features, built.name, built.names()[46]
    (66, 'concat', 'map1_mean_x0')
    >>> built.rows([np.zeros((30, 3))])[0].shape
    (1, 66)
    """

    maps: tuple[Nested, ...]

    def __init__(
        self,
        *several: Nested | str,
        maps: Sequence[Nested | str] = (),
    ) -> None:
        given = tuple(named_map(m) if isinstance(m, str) else m for m in (*several, *maps))
        if not given:
            raise ValueError("a Concat of no maps; pass some, such as Concat(EchoState(100), own)")
        object.__setattr__(self, "maps", given)

    def build(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> FeatureMap:
        """Return the map for inputs of this many channels; see `MapDescription`."""
        maps = [built_map(m, n_inputs, per_step=per_step, classes=classes) for m in self.maps]
        if len({one.per_step for one in maps}) > 1:
            kinds = ", ".join(f"{name_of(m)} {'step' if m.per_step else 'recording'}" for m in maps)
            raise ValueError(
                f"maps side by side give a row per the same thing, and these do not ({kinds}); "
                "choose all of one kind, or give EchoState a pool"
            )
        return as_map(Concat(*maps))

    def describes(
        self,
        built: FeatureMap,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether a map is the one described, each part by its own rule.

        >>> from catchment import EchoState
        >>> built = Concat(EchoState(20), EchoState(10)).build(1, per_step=True)
        >>> Concat(EchoState(20), EchoState(10)).describes(built, 1, per_step=True)
        True
        >>> Concat(EchoState(10), EchoState(20)).describes(built, 1, per_step=True)
        False
        """
        if not isinstance(built, Adapted) or not isinstance(built.inner, Concat):
            return False
        parts = built.inner._built
        return len(parts) == len(self.maps) and all(
            recognised(one, part, n_inputs, per_step=per_step, classes=classes, adapted=adapted)
            for one, part in zip(self.maps, parts, strict=True)
        )

    @cached_property
    def _built(self) -> tuple[FeatureMap, ...]:
        return all_built(self.maps, "Concat")

    @property
    def n_inputs(self) -> int | None:
        known = [one.n_inputs for one in self._built if one.n_inputs is not None]
        return known[0] if known else None

    @property
    def n_features(self) -> int:
        return sum(one.n_features for one in self._built)

    @property
    def per_step(self) -> bool:
        return self._built[0].per_step

    @property
    def washout(self) -> int:
        return max(one.washout for one in self._built)

    @property
    def grid(self) -> int | None:
        bits = [one.grid for one in self._built]
        return None if None in bits else max(b for b in bits if b is not None)

    @property
    def bounds(self) -> Array:
        largest = np.concatenate([reached_bounds(one) for one in self._built])
        return np.stack([-largest, largest], axis=1)

    @property
    def standardise(self) -> bool:
        return any(one.standardise for one in self._built)

    @property
    def cost(self) -> float:
        return sum(one.cost for one in self._built)

    def names(self) -> list[str]:
        return [f"map{k}_{name}" for k, one in enumerate(self._built) for name in one.names()]

    def array_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the rows (n, F) of each recording's inputs (T, I)."""
        maps, washout = self._built, self.washout
        found = [one.rows(inputs, threads=threads) for one in maps]
        late = [washout - one.washout if self.per_step else 0 for one in maps]
        return [
            np.concatenate([z[skip:] for z, skip in zip(parts, late, strict=True)], axis=1)
            for parts in zip(*found, strict=True)
        ]
