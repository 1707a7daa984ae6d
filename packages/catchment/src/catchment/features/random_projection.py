"""`RandomProjection`: many features mixed into a few by a seeded fast transform; uploads shrink.

    y = H D z / sqrt(F),   every feature's sign is drawn (D), H is the Hadamard matrix of the next
                           power of two, and a drawn selection of the rows of the result is kept

This is the subsampled randomized Hadamard transform (Ailon and Chazelle 2009, "The fast
Johnson-Lindenstrauss transform and approximate nearest neighbors"): lengths and angles are kept
about as a Gaussian matrix keeps them, with p log2 p additions and a recipe of a few bytes. Features
in fixed point are integers of one common unit, so every sum is exact, and one division follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from catchment.arrays import Array, Integers, PositiveFloat, PositiveInt, Seed
from catchment.features.base import Bits, FeatureMap, handed
from catchment.features.echo_state.weights import Purpose, Words, permutation, signs

BLOCK = 1 << 20  # numbers that are transformed at a time


@dataclass(frozen=True)
class RandomProjection(FeatureMap):
    """A map whose features are mixed into fewer, by signs drawn from a seed.

    An upload grows with the square of the number of features: 4 000 features projected to 504 send
    about a sixtieth of the bytes. Values are taken as they are, so features should be about of one
    size: those of inputs that were scaled to a standard deviation of 1 are.

    Parameters
    ----------
    inner
        The map, such as `EchoState(2000)`.
    features
        How many there are afterwards.
    seed
        Names the signs and the selection.
    bound
        Where the results are cut off. They are about as large as the features are on average
        (the root of their mean square), so 4 cuts next to nothing of features of size 1.
    bits
        Bits of the results within the bound, None to leave them as they are. "auto" is 8 for
        classes and 24 for numbers, and None where the inner map has none.

    >>> from catchment import EchoState
    >>> built = RandomProjection(EchoState(100), features=32).build(3, per_step=False, classes=True)
    >>> built.n_features, built.bits, built.rows([np.zeros((50, 3))])[0].shape
    (32, 8, (1, 32))
    """

    inner: FeatureMap
    features: PositiveInt = 504
    seed: Seed = 0
    bound: PositiveFloat = 4.0
    bits: Bits | Literal["auto"] | None = "auto"

    n_features = handed("features")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bound", float(self.bound))
        if self.inner.is_bound:
            if self.inner.n_features < self.features:
                raise ValueError(
                    f"a projection to {self.features} features of a map that has "
                    f"{self.inner.n_features}; ask for at most {self.inner.n_features}, or use the "
                    "map itself"
                )
            if self.inner.feature_bits is None:
                return
            digits, bits = self.inner.feature_digits, self.inner.feature_bits
            needed = math.log2(float(np.ldexp(1.0, digits.max() - digits + bits).sum()))
            if needed > 53:  # digits of a sum, more than a float64 has
                raise ValueError(
                    f"sums of these features take {needed:.0f} binary digits, and 53 are exact; "
                    "give the inner map fewer bits, or bounds that are closer to each other"
                )

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        return {"bits": None} if (self.bits, self.inner.feature_bits) == ("auto", None) else {}

    @property
    def bounds(self) -> Array:
        return np.full(self.features, self.bound)

    @property
    def cost(self) -> float:
        work = self._padded * math.log2(self._padded)
        # A row for a whole recording is spread over its steps, of which 100 are assumed.
        return self.inner.cost + (work if self.per_step else work / 100)

    def names(self) -> list[str]:
        return [f"p{k}" for k in range(self.features)]

    @property
    def _padded(self) -> int:
        """The power of two that the inner features are padded to with zeros."""
        return 1 << (self.inner.n_features - 1).bit_length()

    @cached_property
    def _drawn(self) -> tuple[Array, Integers]:
        """Signs (F inner,), and which results (F,) are kept."""
        rng = Words(seed=self.seed, layer=0, purpose=Purpose.PROJECTION_SIGNS)
        flips = signs(rng, self.inner.n_features)
        rng = Words(seed=self.seed, layer=0, purpose=Purpose.PROJECTION_PLACES)
        return flips, permutation(rng, self._padded)[: self.features]

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        found = self.inner.rows(inputs, threads=threads)
        (flips, kept), Z = self._drawn, np.concatenate(found)
        F, several = len(flips), max(1, BLOCK // self._padded)
        mixed = np.empty((len(Z), self.features))
        for first in range(0, len(Z), several):
            part = Z[first : first + several]
            padded = np.zeros((len(part), self._padded))
            np.multiply(part, flips, out=padded[:, :F])
            mixed[first : first + several] = hadamard_sums(padded)[:, kept] / math.sqrt(F)
        np.clip(mixed, -self.bound, self.bound, out=mixed)
        return np.split(mixed, np.cumsum([len(z) for z in found])[:-1])


def hadamard_sums(rows: Array) -> Array:
    """Return rows (n, p) times the Hadamard matrix of order p, a power of two, by additions alone.

    The order of the additions is fixed, so that floats too give the same bits everywhere.

    >>> hadamard_sums(np.array([[1.0, 2.0, 3.0, 4.0]]))
    array([[10., -2., -4.,  0.]])
    """
    n, p = rows.shape
    half = 1
    while half < p:
        pairs = rows.reshape(n, p // (2 * half), 2, half)
        sums = np.empty_like(pairs)
        np.add(pairs[:, :, 0], pairs[:, :, 1], out=sums[:, :, 0])
        np.subtract(pairs[:, :, 0], pairs[:, :, 1], out=sums[:, :, 1])
        rows, half = sums.reshape(n, p), 2 * half
    return rows
