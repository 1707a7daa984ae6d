"""Where the features of MiniRocket are: kernel, dilation, padding, channels and quantile of each.

Everything is a whole number, found from the settings and the length of a recording by integer
arithmetic, so that no machine can differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from catchment.arrays import Booleans, Integers
from catchment.features.echo_state.weights import Purpose, Words, distinct, log_uniform

KERNELS = tuple(combinations(range(9), 3))  # the positions of the three weights 2
N_KERNELS = len(KERNELS)
MOST_CHANNELS = 9  # that one feature adds up
MOST_LEVELS = 32  # dilations of one kernel
GOLDEN = 2_654_435_769  # 2^32 divided by the golden ratio: its multiples fill a circle evenly


@dataclass(frozen=True, eq=False)
class FeatureList:
    """Features of recordings of one length, as whole numbers (F,)."""

    kernel: Integers  # 0 to 83
    level: Integers  # which of the kernel's dilations, from the shortest
    dilation: Integers
    padded: Booleans  # zeros before and after the recording, or only steps that need none
    quantile: Integers  # of 2^32: where the bias lies among the kernel's outputs


def feature_list(features: int, length: int) -> FeatureList:
    """Return the features of recordings of this length.

    Kernels take turns, and each spaces its dilations evenly in the exponent, from one step to as
    many as the recording holds. The authors' kernels all have the same dilations; here each begins
    at a place of its own, so that few features see many scales. Padding alternates between
    neighbours.

    >>> some = feature_list(504, 128)
    >>> some.dilation[::84].tolist()
    [1, 1, 2, 3, 6, 10]
    >>> some.kernel[-1], some.padded[:3]
    (np.int64(83), array([ True, False,  True]))
    """
    f = np.arange(features)
    full, rest = divmod(features, N_KERNELS)
    # Where the last turn is not for all kernels, those that have it are spread over all.
    last = np.arange(rest) * N_KERNELS // max(rest, 1)
    kernel = np.concatenate([np.tile(np.arange(N_KERNELS), full), last])
    turn = f // N_KERNELS
    turns = np.bincount(kernel, minlength=N_KERNELS)[kernel]
    levels = np.minimum(turns, MOST_LEVELS)
    level = turn % levels
    dilation = np.array(
        [
            _dilation(length, *_fraction(int(k), int(i), int(n)))
            for k, i, n in zip(kernel, level, levels, strict=True)
        ]
    )
    return FeatureList(
        kernel=kernel,
        level=level,
        dilation=dilation,
        padded=(level + kernel) % 2 == 0,
        quantile=(f + 1) * GOLDEN % 2**32,
    )


def _fraction(kernel: int, level: int, levels: int) -> tuple[int, int]:
    """Return where a dilation is between the shortest (0) and the longest (1), as a fraction.

    Each level is an equal part of the range, in which the kernels stand at different places.
    """
    return level * N_KERNELS + kernel * 37 % N_KERNELS, levels * N_KERNELS - 1


@lru_cache(maxsize=2**14)
def _dilation(length: int, numerator: int, denominator: int) -> int:
    """Return the whole part of ((length - 1) / 8) ** (numerator / denominator), at least 1.

    >>> _dilation(129, 1, 1), _dilation(129, 1, 2), _dilation(5, 1, 2)
    (16, 4, 1)
    """
    low, high = 1, max(1, (length - 1) // 8)
    top = (length - 1) ** numerator
    eights = 8**numerator
    while low < high:
        middle = (low + high + 1) // 2
        if middle**denominator * eights <= top:
            low = middle
        else:
            high = middle - 1
    return low


@lru_cache(maxsize=64)
def channel_subsets(features: int, seed: int, n_inputs: int) -> tuple[tuple[int, ...], ...]:
    """Return the channels that each feature adds up: few more often than many, nine at most.

    >>> channel_subsets(5, 0, 4)
    ((1, 2, 3), (0, 1, 2), (3,), (0, 1, 2, 3), (3,))
    """
    if n_inputs == 1:
        return ((0,),) * features
    most = min(n_inputs, MOST_CHANNELS)
    rng = Words(seed=seed, layer=0, purpose=Purpose.CONVOLUTION_CHANNELS)
    sizes = np.minimum(log_uniform(rng, features, 1.0, most + 1.0).astype(np.int64), most)
    found: list[tuple[int, ...]] = [()] * features
    for size in range(1, most + 1):
        where = np.flatnonzero(sizes == size)
        rng = Words(seed=seed, layer=size, purpose=Purpose.CONVOLUTION_CHANNELS)
        for f, chosen in zip(where, distinct(rng, len(where), size, n_inputs), strict=True):
            found[f] = tuple(int(c) for c in chosen)
    return tuple(found)
