"""MiniRocket in integers, from a seed alone.

A recording is convolved with 84 kernels of nine taps at several dilations, and a feature is the
share of steps at which the output is above a bias (Dempster, Schmidt and Webb 2021, "MiniRocket: a
very fast (almost) deterministic transform for time series classification"). The authors take the
biases from training data; here they are quantiles on noise that the seed draws, so that clients
agree on the map without any data having been seen.

Inputs are rounded to 2^-16 and cut off, an output is an integer, and a feature is a count
divided by the number of steps: every machine finds the same bits.

A kernel has three weights 2 and six weights -1, so its output is 3 (x_a + x_b + x_c) minus the sum
of all nine taps. A kernel on several channels adds their outputs, which is the output on the sum of
the channels: that is formed first. Kernels on the same channels with the same dilation share the
nine-tap sum, and those that also share two of their three positions share the sum up to there; what
is left is an addition and a comparison a step, in registers. Sums wrap at 2^32, which only the last
one must not reach. Loops take sixteen steps at a time in LLVM's vector types, which processors with
narrower registers do in several parts: the compiler does not find this form by itself. There is no
loop over single steps for the rest: counts ignore the lanes beyond the end, and sums are written
there too, so every array needs room for `LANES` more numbers.

Each channel of the noise is a random walk, brought to mean 0 and deviation 1, plus white noise: the
spectra of many recordings are of this kind. It is made of integers by integer arithmetic, and
a quantile is one of the outputs, so every machine finds the same biases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, wraps
from itertools import combinations
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from catchment.arrays import Array, Booleans, Integers, PositiveInt, Seed
from catchment.compiling import in_every_lane, njit, pointers
from catchment.features.base import FeatureMap, handed, in_batches, power_of_two
from catchment.features.echo_state.weights import ROUND, Purpose, Words, distinct, log_uniform

# An input is an integer up to 2^22: nine channels of an output, 12 times that each, stay below
# 2^31. Digits after the point are 16, fewer where the range leaves no room for them.
INPUT_BITS, MOST_DIGITS = 22, 16
Range = Annotated[float, Ge(1), Le(2**16)]  # of inputs, a power of two

STEPS = 2**12  # of a task of one thread, unless one recording has more; its rows stay in the cache
KERNELS = tuple(combinations(range(9), 3))  # the positions of the three weights 2
N_KERNELS = len(KERNELS)
MOST_CHANNELS = 9  # that one feature adds up
MOST_LEVELS = 32  # dilations of one kernel
GOLDEN = 2_654_435_769  # 2^32 divided by the golden ratio: its multiples fill a circle evenly
# Of a kernel's positions first two that are both below 5 or both not: there are only sixteen such
# pairs, and every kernel has one.
_ORDERED = np.array([(a, b, c) if b < 5 else (b, c, a) for a, b, c in KERNELS])
_OTHERS = np.array([sorted(set(range(9)) - set(kernel)) for kernel in KERNELS])
POSITIONS: Integers = np.hstack([_ORDERED, _OTHERS])  # of the weights 2, then of -1
_PAIR = 9 * POSITIONS[:, 0] + POSITIONS[:, 1]

RECORDINGS = 16  # of noise, of which each feature takes one
LONGEST = 4096  # steps of noise; dilations of longer recordings are shortened in proportion
WHITE = (1, 4)  # deviation of the white noise, as a fraction
_MEAN, _DEVIATION = 8 * 255 // 2, 209  # of the sum of eight random bytes
_AT_ONCE = 2**20  # outputs that are sorted at a time

TILE = 1536  # steps whose sums stay in the first cache
SHARED = 3  # kernels from which on a nine-tap sum of their own pays
LANES = 16
_ELEMENT, _INDEX = ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_ELEMENT, LANES)


@dataclass(frozen=True)
class MiniRocket(FeatureMap):
    """Shares of steps at which dilated kernels are above a bias, one row per recording.

    Parameters
    ----------
    features
        Columns; any number.
    seed
        Names the random draws: channels of each feature, and the noise that gives biases.
    length
        None: dilations are spread over the length of each recording, so those of a recording twice
        as long are twice as long. A number of steps: they are those of a recording of this length
        for all, cut off where a recording is too short for them.
    biases
        "noise": quantiles of outputs on noise from the seed, which no data enter. Or an integer
        for every feature, in units of the rounded inputs (2^-16 where the range is 64 or less).
    range
        A power of two at which inputs are cut off, after preparation.
    bits
        Bits of the features; "auto" is 8 for classes and 24 for numbers, None leaves the quotients.
    n_inputs
        Channels; filled in by `build`.

    >>> features = MiniRocket(252).build(2, per_step=False, classes=True)
    >>> t = np.linspace(0, 6, 150)
    >>> (z,) = features.rows([np.column_stack([np.sin(t), np.cos(t)])])
    >>> z.shape, z.min() >= 0, z.max() <= 1
    ((1, 252), np.True_, np.True_)
    """

    features: PositiveInt = 504
    seed: Seed = 0
    length: PositiveInt | None = None
    biases: Literal["noise"] | tuple[int, ...] = "noise"
    range: Range = 64.0
    bits: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    pools_always = True
    standardize = True

    def __post_init__(self) -> None:
        super().__post_init__()
        power_of_two(self.range, "range")
        if isinstance(self.biases, str):
            return
        given = np.asarray(self.biases)
        if given.shape != (self.features,) or given.dtype.kind not in "iu":
            raise ValueError(
                f"biases have shape {given.shape} and type {given.dtype}; give an integer for "
                f"each of {self.features} features"
            )
        if np.abs(given).max() >= 2**31:
            raise ValueError(f"biases reach {np.abs(given).max()}; give numbers below 2^31")
        object.__setattr__(self, "biases", tuple(given.tolist()))

    n_features = handed("features")

    @property
    def digits(self) -> int:
        """Binary digits after the point of the rounded inputs."""
        return min(MOST_DIGITS, INPUT_BITS + 1 - int(np.frexp(self.range)[1]))

    @property
    def bounds(self) -> Array:
        return np.ones(self.n_features)

    @property
    def cost(self) -> float:
        return 4.0 * self.features

    def names(self) -> list[str]:
        listed = feature_list(self.features, self.length or 128)
        return [
            "ppv_" + "".join(map(str, KERNELS[k])) + f"_{i}"
            for k, i in zip(listed.kernel, np.arange(self.features) // len(KERNELS), strict=True)
        ]

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        def work(us: list[Array]) -> Array:
            one = _schedule(self, *us[0].shape)
            counts = np.empty((len(us), self.features), dtype=np.int32)
            features, most = (one.kinds, one.biases, one.places, POSITIONS), self.range
            how = (one.scale, most * one.scale, one.pad, one.groups, one.channels, features)
            counts_above(np.stack(us), *how, counts)
            return counts / one.positions

        return in_batches(work, inputs, threads, STEPS)


@lru_cache(maxsize=128)
def _schedule(settings: MiniRocket, length: int, n_inputs: int) -> Schedule:
    """Return what to count for recordings of this length."""
    nominal = settings.length or length
    listed = feature_list(settings.features, nominal)
    subsets = channel_subsets(settings.features, settings.seed, n_inputs)
    if isinstance(settings.biases, str):
        biases = noise_biases(listed, subsets, nominal, settings.seed, n_inputs, 2**settings.digits)
    else:
        biases = np.array(settings.biases)
    dilation = np.minimum(listed.dilation, max(1, (length - 1) // 8))
    made = scheduled(length, listed.kernel, dilation, listed.padded, subsets, biases)
    return replace(made, scale=2.0**settings.digits)


@dataclass(frozen=True, eq=False)
class FeatureList:
    """Features of recordings of one length, as integers (F,)."""

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
    neighbors.

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
    # Each level is an equal part of the range, in which the kernels stand at different places.
    places = (level * N_KERNELS + kernel * 37 % N_KERNELS).tolist()
    lengths = (levels * N_KERNELS - 1).tolist()
    dilation = np.array(list(map(partial(_dilation, length), places, lengths)))
    return FeatureList(
        kernel=kernel,
        level=level,
        dilation=dilation,
        padded=(level + kernel) % 2 == 0,
        quantile=(f + 1) * GOLDEN % 2**32,
    )


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


@dataclass(frozen=True, eq=False)
class Schedule:
    """Features in the order of the compiled loops, for recordings of one length."""

    pad: int
    groups: Integers
    channels: Integers
    kinds: Integers
    biases: NDArray[np.int32]
    places: Integers
    positions: Integers  # (F,) outputs of each kernel
    scale: float = 1.0  # that inputs are multiplied by before they are rounded


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
        What an input of 1 is as an integer.
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


@njit(inline="always", error_model="numpy")
def whole_inputs(u, scale, limit, pad, X):
    """Put u (T, I), rounded to integers, into the middle of X (I, pad + T + pad)."""
    T, I = u.shape
    for i in range(I):
        for t in range(T):
            x = min(max(u[t, i] * scale, -limit), limit)
            X[i, pad + t] = np.int32((x + ROUND) - ROUND)


@njit(nogil=True, cache=True, error_model="numpy")
def counts_above(U, scale, limit, pad, groups, channels, features, out):
    """Put into out (n, F) how many outputs of each kernel are above each of its biases.

    Parameters
    ----------
    U
        (n, T, I) recordings of one length.
    scale, limit
        Inputs are multiplied by `scale`, cut off at `limit` and rounded.
    pad
        Zeros on either side, four times the longest dilation.
    groups
        (n_groups + 1, 3) dilation, first of `channels`, first feature: those that share the two.
    features
        (F, 2) number of the kernel and whether it is padded; (F,) biases; (F,) columns in `out`;
        (84, 9) positions of all kernels with the weight 2, then with -1. Features that share the
        first two positions are neighbors.
    """
    n, T, I = U.shape
    row = pad + T + pad + LANES
    X = np.zeros((I, row), dtype=np.int32)
    together, triple = np.zeros(row, dtype=np.int32), np.zeros(row, dtype=np.int32)
    sums = np.empty(TILE + LANES, dtype=np.int32)
    pair = np.empty(TILE + LANES, dtype=np.int32)
    for r in range(n):
        whole_inputs(U[r], scale, limit, pad, X)
        out[r, :] = 0
        for g in range(len(groups) - 1):
            first, last = groups[g, 1], groups[g + 1, 1]
            if last - first == 1:
                y = X[channels[first]]
            else:
                y = together
                add_rows(X, channels[first] * row, channels[first + 1] * row, pad, T, y)
                for k in range(first + 2, last):
                    add_row(X, channels[k] * row, pad, T, y)
            where = (pad, T, groups[g, 0], groups[g, 2], groups[g + 1, 2])
            if where[4] - where[3] < SHARED:
                kinds, biases, places, positions = features
                d = groups[g, 0]
                for f in range(where[3], where[4]):
                    skip = 0 if kinds[f, 1] else 4 * d
                    at, steps = pad + skip - 4 * d, T - 2 * skip
                    found = count_alone(y, at, d, positions[kinds[f, 0]], steps, biases[f])
                    out[r, places[f]] += found
            else:
                for t in range(pad, pad + T):
                    triple[t] = np.int32(3 * y[t])
                _count_shared(y, triple, where, features, sums, pair, out[r])


@njit(inline="always", error_model="numpy")
def _count_shared(y, triple, where, features, sums, pair, out):
    """Count for kernels on the same channels with the same dilation; `triple` is 3 y."""
    pad, T, d, begin, end = where
    kinds, biases, places, positions = features
    for start in range(0, T, TILE):
        n = min(TILE, T - start)
        base = pad + start - 4 * d  # the first tap of the tile's first step
        minus_nine(y, base, d, n, sums)
        known = -1
        for f in range(begin, end):
            k = kinds[f, 0]
            shares = 9 * positions[k, 0] + positions[k, 1]
            if shares != known:
                at_a, at_b = base + positions[k, 0] * d, base + positions[k, 1] * d
                with_pair(sums, triple, at_a, at_b, n, pair)
                known = shares
            skip, stop = 0, n
            if kinds[f, 1] == 0:
                skip, stop = max(0, 4 * d - start), min(n, T - 4 * d - start)
            if skip < stop:
                at_c = base + skip + positions[k, 2] * d
                out[places[f]] += count_pair(pair, skip, triple, at_c, stop - skip, biases[f])


@njit(nogil=True, cache=True, error_model="numpy")
def outputs(X, which, kernels, dilations, first_channel, channels, out):
    """Put the outputs (F, T) of kernels on recordings X (m, I, T), padded with zeros, into out.

    `which` names the recording of each, `kernels` (F, 9) its positions as in `counts_above`, and
    its channels are channels[first_channel[f] : first_channel[f + 1]].
    """
    T = X.shape[2]
    y = np.empty(T, dtype=np.int32)
    for f in range(len(out)):
        y[:] = 0
        for k in range(first_channel[f], first_channel[f + 1]):
            y += X[which[f], channels[k]]
        z = out[f]
        z[:] = 0
        for g in range(9):
            weight = np.int32(2 if g < 3 else -1)
            shift = (kernels[f, g] - 4) * dilations[f]
            low, high = max(0, -shift), min(T, T - shift)
            if low < high:
                z[low:high] += weight * y[low + shift : high + shift]


def vectorized(returns=types.void):
    """Make an intrinsic of a function that writes LLVM code, arrays being pointers to it."""

    def made(write):
        @wraps(write)  # whose signature numba reads
        def define(typingctx, *kinds):
            def codegen(context, builder, signature, values):
                found = write(builder, *pointers(context, builder, signature, values))
                return context.get_dummy_value() if returns is types.void else found

            return returns(*kinds), codegen

        return intrinsic(define)

    return made


def _index(number):
    return ir.Constant(_INDEX, number)


def _at(builder, base, place):
    return builder.gep(base, [place])


def _load(builder, base, place):
    at = builder.bitcast(_at(builder, base, place), ir.PointerType(_VECTOR))
    return builder.load(at, align=4, typ=_VECTOR)


def _store(builder, value, base, place):
    at = builder.bitcast(_at(builder, base, place), ir.PointerType(_VECTOR))
    builder.store(value, at, align=4)


def _whole_vectors(builder, n):
    return builder.and_(n, _index(-LANES))


def _steps(builder, n):
    """Go through the steps below n, and up to the next multiple of LANES."""
    end = _whole_vectors(builder, builder.add(n, _index(LANES - 1)))
    return cgutils.for_range_slice(builder, _index(0), end, _index(LANES))


def _count(builder, n, value_at, bias):
    """Return in how many of n steps the value at a step is above a bias."""
    limit, zero = in_every_lane(builder, bias, _VECTOR), ir.Constant(_VECTOR, [0] * LANES)
    total = cgutils.alloca_once_value(builder, zero)

    def add(t, inside=None):
        above = builder.icmp_signed(">", value_at(t), limit)
        if inside is not None:
            above = builder.and_(above, inside)
        ones = builder.sext(above, _VECTOR)  # -1 where it is above
        builder.store(builder.sub(builder.load(total, typ=_VECTOR), ones), total)

    builder.store(zero, total)
    whole = _whole_vectors(builder, n)
    with cgutils.for_range_slice(builder, _index(0), whole, _index(LANES)) as (t, _):
        add(t)
    rest = builder.trunc(builder.sub(n, whole), _ELEMENT)
    with builder.if_then(builder.icmp_signed(">", rest, ir.Constant(_ELEMENT, 0))):
        lane = ir.Constant(_VECTOR, list(range(LANES)))
        add(whole, builder.icmp_signed("<", lane, in_every_lane(builder, rest, _VECTOR)))
    kind = ir.FunctionType(_ELEMENT, [_VECTOR])
    name = f"llvm.vector.reduce.add.v{LANES}i32"
    reduce = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(reduce, [builder.load(total, typ=_VECTOR)])


def _sum(builder, values):
    """Return the sum of vectors, added in pairs."""
    values = list(values)
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [builder.add(x, y) for x, y in pairs] + values[len(values) // 2 * 2 :]
    return values[0]


def _sums(builder, bases, n, target, negative=False):
    """target[t] = the sum of what lies at t behind each base, or minus it."""
    with _steps(builder, n) as (t, _):
        total = _sum(builder, [_load(builder, base, t) for base in bases])
        _store(builder, builder.neg(total) if negative else total, target, t)


@vectorized()
def add_rows(builder, X, first, second, start, n, target):
    """target[start : start + n] = row `first` + row `second` of X (I, L), given by their places.

    `first` and `second` are places of row starts in X; `start` is added to all.
    """
    bases = [_at(builder, X, builder.add(row, start)) for row in (first, second)]
    _sums(builder, bases, n, _at(builder, target, start))


@vectorized()
def add_row(builder, X, row, start, n, target):
    """Add a row of X, given by its place, to target[start : start + n]."""
    goal = _at(builder, target, start)
    _sums(builder, [_at(builder, X, builder.add(row, start)), goal], n, goal)


@vectorized()
def minus_nine(builder, y, at, d, n, sums):
    """sums[:n] = minus the sum of nine taps, d steps apart, of which the first begins at `at`."""
    _sums(builder, _taps(builder, y, at, d), n, sums, negative=True)


def _taps(builder, y, at, d):
    base = _at(builder, y, at)
    return [_at(builder, base, builder.mul(d, _index(g))) for g in range(9)]


@vectorized()
def with_pair(builder, sums, y, a, b, n, pair):
    """pair[:n] = sums + y[a:] + y[b:]."""
    _sums(builder, [sums, _at(builder, y, a), _at(builder, y, b)], n, pair)


@vectorized(types.int32)
def count_pair(builder, pair, at, y, c, n, bias):
    """Return in how many of n steps pair[at:] + y[c:] is above the bias."""
    one, two = _at(builder, pair, at), _at(builder, y, c)
    value = lambda t: builder.add(_load(builder, one, t), _load(builder, two, t))  # noqa: E731
    return _count(builder, n, value, bias)


@vectorized(types.int32)
def count_alone(builder, y, at, d, kernel, n, bias):
    """Return in how many of n steps a kernel is above the bias, from its nine taps.

    `kernel` is the place, in an array, of its three positions of weight 2 and its six of weight -1.
    """
    base, taps = _at(builder, y, at), []
    for g in range(9):
        position = builder.load(_at(builder, kernel, _index(g)), typ=_INDEX)
        taps.append(_at(builder, base, builder.mul(position, d)))

    def value(t):
        plus = _sum(builder, [_load(builder, x, t) for x in taps[:3]])
        minus = _sum(builder, [_load(builder, x, t) for x in taps[3:]])
        return builder.sub(builder.add(plus, plus), minus)

    return _count(builder, n, value, bias)


@vectorized()
def compete(builder, y, at, d, W, n, largest, winner, loser):
    """Put the largest of eight responses, whose it is and whose the smallest is, into arrays (n,).

    W (8, 9) are the weights of taps d steps apart, of which the first begins at `at`. Of equals the
    first wins or loses.
    """
    taps, factors = _taps(builder, y, at, d), []
    for k in range(72):
        weight = builder.load(_at(builder, W, _index(k)), typ=_ELEMENT)
        factors.append(in_every_lane(builder, weight, _VECTOR))

    def respond(xs, k):
        pairs = zip(factors[9 * k : 9 * k + 9], xs, strict=True)
        return _sum(builder, [builder.mul(w, x) for w, x in pairs])

    with _steps(builder, n) as (t, _):
        xs = [_load(builder, x, t) for x in taps]
        most = least = respond(xs, 0)
        first = last = ir.Constant(_VECTOR, [0] * LANES)
        for k in range(1, 8):
            r, this = respond(xs, k), ir.Constant(_VECTOR, [k] * LANES)
            above = builder.icmp_signed(">", r, most)
            below = builder.icmp_signed("<", r, least)
            first, last = builder.select(above, this, first), builder.select(below, this, last)
            most, least = builder.select(above, r, most), builder.select(below, r, least)
        for value, target in zip((most, first, last), (largest, winner, loser), strict=True):
            _store(builder, value, target, t)
