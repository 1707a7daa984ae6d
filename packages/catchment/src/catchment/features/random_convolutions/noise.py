"""Biases of MiniRocket without data: quantiles of its kernels' outputs on noise from the seed.

Each channel of the noise is a random walk, brought to mean 0 and deviation 1, plus white noise: the
spectra of many recordings are of this kind. It is made of whole numbers by integer arithmetic, and
a quantile is one of the outputs, so every machine finds the same biases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Integers
from catchment.features.echo_state.weights import Purpose, Words
from catchment.features.random_convolutions.kernels import outputs
from catchment.features.random_convolutions.places import FeatureList
from catchment.features.random_convolutions.schedule import POSITIONS

RECORDINGS = 16  # of noise, of which each feature takes one
LONGEST = 4096  # steps of noise; dilations of longer recordings are shortened in proportion
WHITE = (1, 4)  # deviation of the white noise, as a fraction
_MEAN, _DEVIATION = 8 * 255 // 2, 209  # of the sum of eight random bytes
_AT_ONCE = 2**20  # outputs that are sorted at a time


def noise(seed: int, n: int, length: int, n_inputs: int, one: int) -> NDArray[np.int32]:
    """Return noise (n, n_inputs, length) of deviation about `one`.

    >>> x = noise(0, 4, 500, 2, 2**16)
    >>> x.shape, bool(0.9 < x.std() / 2**16 < 1.2)
    ((4, 2, 500), True)
    """
    rng = Words(seed=seed, layer=0, purpose=Purpose.CONVOLUTION_NOISE)
    series = n * n_inputs
    words = rng.take(2 * series * length)
    # Sums of eight bytes are nearly normal, and the order of bytes in memory does not matter.
    drawn = words.view(np.uint8).reshape(2, series, length, 8).sum(axis=3, dtype=np.int64) - _MEAN
    walk = np.cumsum(drawn[0], axis=1)
    walk -= walk.sum(axis=1, keepdims=True) // length
    variances = (walk * walk).sum(axis=1) // length
    deviations = np.array([max(1, math.isqrt(v)) for v in variances.tolist()])
    white = drawn[1] * (one * WHITE[0]) // (_DEVIATION * WHITE[1])
    x = walk * one // deviations[:, None] + white
    found: NDArray[np.int32] = x.astype(np.int32).reshape(n, n_inputs, length)
    return found


def noise_biases(
    listed: FeatureList, subsets: Sequence[tuple[int, ...]], length: int, seed: int, n_inputs: int,
    one: int,
) -> Integers:  # fmt: skip
    """Return biases (F,): each feature's quantile of its own kernel's outputs on noise.

    Parameters
    ----------
    length
        Of the recordings that the features are listed for.
    one
        What an input of 1 is as a whole number.
    """
    T = min(length, LONGEST)
    X = noise(seed, RECORDINGS, T, n_inputs, one)
    F = len(listed.kernel)
    dilation = np.maximum(1, listed.dilation * T // length)
    padded = listed.padded | (8 * dilation >= T)
    edge = np.where(padded, 0, 4 * dilation)
    n_outputs = T - 2 * edge
    first = np.concatenate([[0], np.cumsum([len(s) for s in subsets])])
    channels = np.concatenate([np.array(s, dtype=np.int64) for s in subsets])
    which = (listed.kernel * 5 + listed.level * 3) % RECORDINGS
    biases = np.empty(F, dtype=np.int64)
    step = max(1, _AT_ONCE // T)
    for at in range(0, F, step):
        some = slice(at, min(at + step, F))
        found = np.empty((some.stop - at, T), dtype=np.int32)
        outputs(
            X, which[some], POSITIONS[listed.kernel[some]], dilation[some],
            first[at : some.stop + 1], channels, found,
        )  # fmt: skip
        steps = np.arange(T)
        missing = (steps < edge[some, None]) | (steps >= T - edge[some, None])
        found[missing] = np.iinfo(np.int32).max  # after all others
        found.sort(axis=1)
        rank = listed.quantile[some] * n_outputs[some] >> 32
        biases[some] = found[np.arange(len(found)), rank]
    return biases
