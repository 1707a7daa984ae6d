"""Hydra in integers, from a seed alone.

Groups of eight random kernels compete: at every step of a recording, or of its first difference,
the largest response is added to its kernel's sum, and the kernel with the smallest one is counted
(Dempster, Schmidt and Webb 2023, "Hydra: competing convolutional kernels for fast and accurate time
series classification"). Dilations are powers of two up to what a recording holds.

Inputs and weights are rounded, so responses are integers, and who wins is the same on every
machine. A feature is the square root, which the authors' scaler takes, of a sum or a count divided
by the number of steps. The authors normalize sums no further; here they are also divided by the
number of channels in them, and cut off at 1, so that a few bits suit them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers, PositiveInt, Seed
from catchment.compiling import njit
from catchment.features.base import FeatureMap, in_batches, power_of_two
from catchment.features.echo_state.weights import Purpose, Words, distinct
from catchment.features.minirocket import LANES, STEPS, Range, compete, whole_inputs

KERNELS = 8  # of a group
TAPS = 9
TILE = 512  # steps whose responses stay in the first cache
WEIGHT_BITS = 10  # the sizes of a kernel's weights add up to 2^10, about
RESPONSE_BITS = 30
MOST_CHANNELS = 8  # that one group adds up
_PER_GROUP = 2 * KERNELS


@dataclass(frozen=True)
class Hydra(FeatureMap):
    """Which of eight random kernels fits best, and which least, one row per recording.

    Parameters
    ----------
    features
        Columns, rounded up to a multiple of 16: a group has eight kernels and two columns for each.
    seed
        Names the random draws: weights, and channels of each group.
    length
        None: dilations are spread over the length of each recording. A number of steps: they are
        those of a recording of this length for all, cut off where a recording is too short.
    range
        A power of two at which inputs are cut off, after preparation. The inputs' digits after the
        point are as many as 32-bit responses leave room for: 15 for one channel with a range of 16.
    bits
        Bits of the features; "auto" is 8 for classes and 24 for numbers, None leaves the roots.
    n_inputs
        Channels; filled in by `build`.

    >>> features = Hydra(100).build(2, per_step=False, classes=True)
    >>> t = np.linspace(0, 6, 150)
    >>> (z,) = features.rows([np.column_stack([np.sin(t), np.cos(t)])])
    >>> z.shape, z.min() >= 0, z.max() <= 1
    ((1, 112), np.True_, np.True_)
    """

    features: PositiveInt = 1024
    seed: Seed = 0
    length: PositiveInt | None = None
    range: Range = 16.0
    bits: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    pools_always = True
    standardize = True

    def __post_init__(self) -> None:
        super().__post_init__()
        power_of_two(self.range, "range")

    @property
    def n_groups(self) -> int:
        return -(-self.features // _PER_GROUP)

    @property
    def n_features(self) -> int:
        return _PER_GROUP * self.n_groups

    @property
    def bounds(self) -> Array:
        return np.ones(self.n_features)

    @property
    def cost(self) -> float:
        return 2.0 * TAPS * KERNELS * self.n_groups

    def names(self) -> list[str]:
        kinds = ("largest", "smallest")
        return [
            f"hydra_{g}_{kind}_{k}"
            for g in range(self.n_groups)
            for kind in kinds
            for k in range(KERNELS)
        ]

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        n_inputs = inputs[0].shape[1]
        channels = group_channels(self.n_groups, self.seed, n_inputs)
        W = weights(self.n_groups, self.seed)
        scale = 2.0 ** input_digits(self.range, channels.shape[1])

        def work(us: list[Array]) -> Array:
            T, together = len(us[0]), np.stack(us)
            groups = group_list(self.n_groups, T, self.length or T)
            found = np.empty((len(us), self.n_groups, 2, KERNELS), dtype=np.int64)
            competitions(together, scale, self.range * scale, groups, channels, W, found)
            unit = scale * channels.shape[1] * 2.0**WEIGHT_BITS
            steps = np.maximum(1, T - groups[:, 1])
            shares = found / (steps[:, None, None] * np.array([unit, 1.0])[:, None])
            roots: Array = np.sqrt(np.clip(shares, 0.0, 1.0)).reshape(len(together), -1)
            return roots

        return in_batches(work, inputs, threads, STEPS)


def input_digits(reach: float, n_channels: int) -> int:
    """Return the digits after the point of inputs, so that no response leaves 30 bits.

    >>> input_digits(16.0, 1), input_digits(16.0, 8)
    (15, 12)
    """
    # A first difference has one bit more than the inputs.
    room = RESPONSE_BITS - WEIGHT_BITS - 1 - (n_channels - 1).bit_length()
    return room - (int(np.frexp(reach)[1]) - 1)


def group_list(n_groups: int, length: int, nominal: int) -> Integers:
    """Return dilation, and whether it sees first differences, of every group (n_groups, 2).

    Pairs of groups are spread evenly over the powers of two from 1 to what a recording of the
    nominal length holds; dilations too long for the actual length are cut off.

    >>> group_list(8, 128, 128).tolist()
    [[1, 0], [1, 1], [2, 0], [2, 1], [4, 0], [4, 1], [8, 0], [8, 1]]
    """
    exponents = max(1, (nominal - 1) // 8).bit_length()
    pairs = -(-n_groups // 2)
    group = np.arange(n_groups)
    dilation = 2 ** (group // 2 * exponents // pairs)
    return np.column_stack([np.minimum(dilation, max(1, (length - 1) // 8)), group % 2])


@lru_cache(maxsize=16)
def weights(n_groups: int, seed: int) -> NDArray[np.int32]:
    """Return weights (n_groups, 8, 9): nearly normal, of sum 0, and of sizes that add up to 2^10.

    >>> w = weights(2, 0)
    >>> w.sum(axis=2).any(), int(np.abs(w).sum(axis=2).max()) <= 2**10
    (np.False_, True)
    """
    words = Words(seed=seed, layer=0, purpose=Purpose.HYDRA_KERNELS).take(n_groups * KERNELS * TAPS)
    # Sums of eight bytes are nearly normal, and the order of bytes in memory does not matter.
    drawn = words.view(np.uint8).reshape(-1, TAPS, 8).sum(axis=2, dtype=np.int64)
    centered = TAPS * drawn - drawn.sum(axis=1, keepdims=True)
    size = np.maximum(1, np.abs(centered).sum(axis=1, keepdims=True))
    # Sizes are rounded down, and what is then missing to a sum of 0 comes off the largest weight.
    w = np.sign(centered) * (np.abs(centered) * 2**WEIGHT_BITS // size)
    excess = w.sum(axis=1)
    side = np.sign(excess)[:, None] * w
    w[np.arange(len(w)), side.argmax(axis=1)] -= excess
    found: NDArray[np.int32] = w.astype(np.int32).reshape(n_groups, KERNELS, TAPS)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=16)
def group_channels(n_groups: int, seed: int, n_inputs: int) -> Integers:
    """Return the channels (n_groups, c) that each group adds up: half of them, two to eight.

    >>> group_channels(3, 0, 5)
    array([[2, 3],
           [0, 2],
           [2, 3]])
    """
    n = min(n_inputs, max(2, min(n_inputs // 2, MOST_CHANNELS)))
    rng = Words(seed=seed, layer=0, purpose=Purpose.HYDRA_CHANNELS)
    found = distinct(rng, n_groups, n, n_inputs)
    found.flags.writeable = False
    return found


@njit(inline="always", error_model="numpy")
def _compete(y, pad, T, d, W, steps, sums, counts):
    """Add to sums (8,) the largest response of every step, to counts (8,) who has the smallest."""
    largest, winner, loser = steps
    for start in range(0, T, TILE):
        n = min(TILE, T - start)
        compete(y, pad + start - 4 * d, d, W, n, largest, winner, loser)
        for k in range(KERNELS):
            total, count = np.int64(0), np.int32(0)
            for t in range(n):
                total += largest[t] if winner[t] == k else np.int32(0)
            for t in range(n):
                count = np.int32(count + np.int32(loser[t] == k))
            sums[k] += total
            counts[k] += count


@njit(nogil=True, cache=True, error_model="numpy")
def competitions(U, scale, limit, groups, channels, W, out):
    """Put into out (n, n_groups, 2, 8) sums of largest responses, and counts of smallest ones.

    Parameters
    ----------
    U
        (n, T, I) recordings of one length.
    scale, limit
        Inputs are multiplied by `scale`, cut off at `limit` and rounded.
    groups
        (n_groups, 2) dilation, and whether the group sees first differences.
    channels
        (n_groups, c) channels whose sum a group sees.
    W
        (n_groups, 8, 9) weights.
    """
    n, T, I = U.shape
    pad = 4 * groups[:, 0].max()
    row = pad + T + pad + LANES
    X, y = np.zeros((I, row), dtype=np.int32), np.zeros(row, dtype=np.int32)
    largest, winner = np.empty(TILE, dtype=np.int32), np.empty(TILE, dtype=np.int32)
    loser = np.empty(TILE, dtype=np.int32)
    for r in range(n):
        whole_inputs(U[r], scale, limit, pad, X)
        for g in range(len(groups)):
            y[pad : pad + T] = X[channels[g, 0], pad : pad + T]
            for k in range(1, channels.shape[1]):
                c = channels[g, k]
                for t in range(pad, pad + T):
                    y[t] += X[c, t]
            length = T
            if groups[g, 1]:
                length = T - 1
                for t in range(pad, pad + T - 1):
                    y[t] = y[t + 1] - y[t]
                y[pad + T - 1] = 0
            out[r, g] = 0
            steps = (largest, winner, loser)
            _compete(y, pad, length, groups[g, 0], W[g], steps, out[r, g, 0], out[r, g, 1])
