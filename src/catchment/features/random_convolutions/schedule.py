"""The order in which the compiled loops go through a list of features, so that they share sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers
from catchment.features.random_convolutions.kernels import counts_above
from catchment.features.random_convolutions.places import KERNELS


def _pair_first(kernel: tuple[int, ...]) -> tuple[int, int, int]:
    """Return a kernel's positions, first two that are both below 5 or both not.

    There are only sixteen such pairs, and every kernel has one.

    >>> _pair_first((0, 6, 7)), _pair_first((0, 3, 7))
    ((6, 7, 0), (0, 3, 7))
    """
    a, b, c = kernel
    return (a, b, c) if b < 5 else (b, c, a)


_ORDERED = np.array([_pair_first(kernel) for kernel in KERNELS])
_OTHERS = np.array([sorted(set(range(9)) - set(kernel)) for kernel in KERNELS])
POSITIONS = np.hstack([_ORDERED, _OTHERS])


@dataclass(frozen=True, eq=False)
class Schedule:
    """Features in the order of the compiled loops, for recordings of one length."""

    length: int
    pad: int
    groups: Integers
    channels: Integers
    runs: Integers
    kernels: Integers
    biases: NDArray[np.int32]
    places: Integers
    positions: Integers  # (F,) outputs of each kernel

    def counts(self, inputs: Array, scale: float, limit: float) -> Integers:
        """Return how many outputs are above each feature's bias (n, F); inputs are (n, T, I)."""
        out = np.empty((len(inputs), len(self.places)), dtype=np.int64)
        features = (self.runs, self.kernels, self.biases, self.places)
        counts_above(inputs, scale, limit, self.pad, self.groups, self.channels, features, out)
        return out


def scheduled(
    length: int,
    kernel: Integers,
    dilation: Integers,
    padded: NDArray[np.bool_],
    subsets: Sequence[tuple[int, ...]],
    biases: Integers,
) -> Schedule:
    """Return features (F,) in an order that lets kernels share sums.

    A kernel without padding that is longer than the recording has no output, and is padded.
    """
    padded = padded | (length <= 8 * dilation)
    keys = [
        ((d, s), tuple(POSITIONS[k].tolist()), p)
        for d, s, k, p in zip(dilation.tolist(), subsets, kernel, padded.tolist(), strict=True)
    ]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    groups, runs, channels, kernels, done = [], [], [], [], 0
    for (d, subset), inside in groupby(order, key=lambda f: keys[f][0]):
        groups.append((d, len(channels), len(runs)))
        channels.extend(subset)
        for (positions, p), members in groupby(inside, key=lambda f: keys[f][1:]):
            runs.append((p, done))
            kernels.append(positions)
            done += len(list(members))
    groups.append((0, len(channels), len(runs)))
    runs.append((0, done))
    return Schedule(
        length=length,
        pad=4 * int(dilation.max()),
        groups=np.array(groups, dtype=np.int64),
        channels=np.array(channels, dtype=np.int64),
        runs=np.array(runs, dtype=np.int64),
        kernels=np.array(kernels, dtype=np.int64),
        biases=np.asarray(biases)[order].astype(np.int32),
        places=np.array(order, dtype=np.int64),
        positions=np.where(padded, length, length - 8 * dilation),
    )
