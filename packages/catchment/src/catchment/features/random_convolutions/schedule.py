"""The order in which the compiled loops go through a list of features, so that they share sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
POSITIONS: Integers = np.hstack([_ORDERED, _OTHERS])  # of the weights 2, then of -1
_PAIR = 9 * POSITIONS[:, 0] + POSITIONS[:, 1]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Features in the order of the compiled loops, for recordings of one length."""

    length: int
    pad: int
    groups: Integers
    channels: Integers
    kinds: Integers
    biases: NDArray[np.int32]
    places: Integers
    positions: Integers  # (F,) outputs of each kernel

    def counts(self, inputs: Array, scale: float, limit: float) -> NDArray[np.int32]:
        """Return how many outputs are above each feature's bias (n, F); inputs are (n, T, I)."""
        out = np.empty((len(inputs), len(self.places)), dtype=np.int32)
        features = (self.kinds, self.biases, self.places, POSITIONS)
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
    ids = {subset: k for k, subset in enumerate(dict.fromkeys(subsets))}
    subset = np.array([ids[one] for one in subsets])
    order = np.lexsort((kernel, padded, _PAIR[kernel], subset, dilation))
    d, s = dilation[order], subset[order]
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = (d[1:] != d[:-1]) | (s[1:] != s[:-1])
    chosen = [list(ids)[k] for k in s[starts]]
    return Schedule(
        length=length,
        pad=4 * int(dilation.max()),
        groups=np.column_stack(
            [
                np.append(d[starts], 0),
                np.cumsum([0, *map(len, chosen)]),
                np.append(np.flatnonzero(starts), len(order)),
            ]
        ),
        channels=np.concatenate([np.array(one) for one in chosen]),
        kinds=np.column_stack([kernel, padded])[order].astype(np.int64),
        biases=np.asarray(biases)[order].astype(np.int32),
        places=order.astype(np.int64),
        positions=np.where(padded, length, length - 8 * dilation),
    )
