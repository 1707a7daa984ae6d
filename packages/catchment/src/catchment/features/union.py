"""Maps made of maps: `FeatureUnion`, side by side, and `AppendNorm`, a channel more.

The further channel of `AppendNorm` is the length of the input vector: sensors are worn in any
direction, and the length of what they measure does not depend on it. With inputs of standard
deviation 1 the length is about sqrt(I), which is taken off:

    x = round(2^16 u), cut off at 2^22;  r = floor(sqrt(sum_i x_i^2)) - floor(2^16 sqrt(I))

in integers but for the root, which IEEE 754 rounds the same way everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter

import numpy as np

from catchment.arrays import Array
from catchment.compiling import njit
from catchment.features.base import FeatureMap, handed, name_of
from catchment.features.recipes import known_map

DIGITS = 16  # of inputs, after the point
RANGE = 64.0  # where inputs are cut off before they are squared


@dataclass(frozen=True, init=False)
class FeatureUnion(FeatureMap):
    """Several maps of the same recordings, whose features are one row.

    It is in fixed point if all of them are, with the most binary digits of theirs, so that no value
    changes. Where every step has a row, the first ones are those after the longest
    washout. A ridge acts on features divided by their spread if one of the maps asks for it.

    Parameters
    ----------
    maps
        Descriptions such as `EchoState(100)`, names such as "minirocket", built maps, and maps of
        one's own.

    >>> from catchment import EchoState
    >>> both = FeatureUnion(EchoState(20, seed=1), EchoState(10, seed=2, input=False))
    >>> built = both.build(3, per_step=False)
    >>> built.n_features, name_of(built), built.names()[46]
    (66, 'feature_union', 'map1_mean_x0')
    >>> built.rows([np.zeros((30, 3))])[0].shape
    (1, 66)
    """

    maps: tuple[FeatureMap, ...]

    def __init__(self, *several: FeatureMap | str, maps: Sequence[FeatureMap | str] = ()) -> None:
        given = tuple(map(known_map, (*several, *maps)))
        if not given:
            raise ValueError(
                "a FeatureUnion of no maps; pass some, such as FeatureUnion(EchoState(100), own)"
            )
        object.__setattr__(self, "maps", given)
        if self.is_bound and len(set(map(attrgetter("per_step"), self.maps))) > 1:
            kinds = [f"{name_of(m)} {'step' if m.per_step else 'recording'}" for m in self.maps]
            raise ValueError(
                "maps side by side give a row per the same thing, and these do not "
                f"({', '.join(kinds)}); choose all of one kind, or give EchoState a pool"
            )

    @property
    def n_features(self) -> int:
        return int(sum(map(attrgetter("n_features"), self.maps)))

    @property
    def bits(self) -> int | None:
        bits = list(map(attrgetter("feature_bits"), self.maps))
        return None if None in bits else max(bits)

    @property
    def bounds(self) -> Array:
        return np.concatenate(list(map(attrgetter("reached_bounds"), self.maps)))

    @property
    def standardize(self) -> bool:
        return any(map(attrgetter("standardize"), self.maps))

    @property
    def cost(self) -> float:
        return float(sum(map(attrgetter("cost"), self.maps)))

    def title(self) -> str:
        return " + ".join(one.title() for one in self.maps)

    def names(self) -> list[str]:
        return [f"map{k}_{name}" for k, one in enumerate(self.maps) for name in one.names()]

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        found = []
        for one in self.maps:
            after = slice(self.washout - one.washout if self.per_step else 0, None)
            found.append(map(itemgetter(after), one.rows(inputs, threads=threads)))
        return list(map(partial(np.concatenate, axis=1), zip(*found, strict=True)))


@dataclass(frozen=True)
class AppendNorm(FeatureMap):
    """Another map of the inputs and of their Euclidean norm, which is one channel more.

    Parameters
    ----------
    map
        A map such as `WindowStatistics()`.
    n_inputs
        Channels without the norm; filled in by `build`.

    >>> from catchment import WindowStatistics
    >>> built = AppendNorm(WindowStatistics()).build(2, per_step=False)
    >>> built.n_inputs, built.n_features, built.names()[34]
    (2, 54, 'mean_u2')
    >>> round(float(built.rows([np.array([[3.0, 4.0]])])[0][0, 34]), 3)  # 5 - sqrt(2)
    3.586
    """

    n_more_inputs = 1

    map: FeatureMap
    n_inputs: int | None = None

    n_features = handed("map.n_features")
    bounds = handed("map.reached_bounds")
    bits = handed("map.feature_bits")
    constant = handed("map.constant")
    standardize = handed("map.standardize")
    cost = handed("map.cost")

    def names(self) -> list[str]:
        return self.map.names()

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return self.map.rows(list(map(inputs_with_norm, inputs)), threads=threads)


@njit(nogil=True, cache=True, error_model="numpy")
def inputs_with_norm(u):
    """Return inputs u (T, I) and the length of each of them, less sqrt(I), as the last column.

    Before they are squared they are cut off at RANGE and rounded to DIGITS.
    """
    (T, I), unit = u.shape, 2.0**DIGITS
    found, usual = np.empty((T, I + 1)), np.floor(np.sqrt(I * unit * unit))
    for t in range(T):
        total = np.int64(0)
        for i in range(I):
            x = np.int64(np.rint(min(max(u[t, i], -RANGE), RANGE) * unit))
            total += x * x
            found[t, i] = u[t, i]
        found[t, I] = (np.floor(np.sqrt(np.float64(total))) - usual) / unit
    return found
