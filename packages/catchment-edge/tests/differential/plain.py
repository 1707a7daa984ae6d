"""Feature maps in plain numpy, from their definitions: slow, without numba and without lanes.

In fixed point every number is exact, or rounded as the definition says, so results are the
library's to the bit. What is drawn from a seed (weights, wirings, biases) is taken from the maps;
all that is computed with it is written here again.
"""

from __future__ import annotations

import math
from itertools import combinations, combinations_with_replacement, pairwise
from typing import Any

import numpy as np

from catchment import Array
from catchment.data import Preprocessing, Scaler
from catchment.features import (
    NVAR,
    AppendNorm,
    DefaultMap,
    DiagonalReservoir,
    EchoState,
    FeatureMap,
    FeatureUnion,
    MiniRocket,
    RandomFourierFeatures,
    RandomProjection,
    WindowStatistics,
    hydra,
)
from catchment.features.echo_state import ACTIVATIONS
from catchment.features.minirocket import channel_subsets, feature_list, noise_biases

KERNELS = list(combinations(range(9), 3))


def to(x: Any, digits: int) -> Array:
    """Round to so many binary digits after the point, ties to even."""
    return np.asarray(np.ldexp(np.rint(np.ldexp(x, digits)), -digits))


def growth(y: Array) -> Array:
    """e^y - 1, as `catchment.features.echo_state.kernels` defines it."""
    k = np.rint(y * (3025551 / 2**21))
    r = y - k * (46516320 / 2**26)
    p = np.full_like(y, 187240 / 2**27)
    for c in (1123252, 5592344, 22369423, 67108865, 0):
        p = to(p * r + c / 2**27, 27)
    p = to(p * r + r, 27)
    scale = np.exp2(k)
    return scale * p + (scale - 1.0)


def tanh(x: Array, digits: int) -> Array:
    e = growth(np.minimum(to(np.abs(2 * x), 26), 20.0))
    return np.copysign(np.minimum(to(e / (e + 2), digits), 1 - 0.5**digits), x)


def sigmoid(x: Array, digits: int) -> Array:
    e = growth(np.minimum(to(np.abs(x), 26), 20.0))
    upper = np.minimum(to((e + 1) / (e + 2), digits), 1 - 0.5**digits)
    return np.where(x >= 0, upper, 1 - upper)


def sine(x: Array, digits: int) -> Array:
    a = np.minimum(np.abs(x), 64.0)
    k = np.rint(to(a, 26) * (333772 / 2**20))
    r = to(a - k * (3454217652358 / 2**40), 25)
    z = to(r * r, 24)
    p = to((-26220 / 2**40) * z + 189134 / 2**36, 36)
    p = to(p * z - 213039 / 2**30, 30)
    p = to(p * z + 8947845 / 2**30, 30)
    p = to(p * z - 89478485 / 2**29, 29)
    p = to(p * z, 27)
    top = 1 - 0.5**digits
    p = np.clip(to(to(p * r + r, 27), digits), -top, top)
    return np.where(k % 2 == 1, -p, p) * np.copysign(1.0, x)


def activated(codes: Any, p: Array, digits: int | None) -> Array:
    """Each unit's activation, in fixed point or in float64."""
    if digits is None:
        with np.errstate(over="ignore"):
            found = {
                "tanh": np.tanh(p),
                "sigmoid": 1 / (1 + np.exp(-p)),
                "relu": np.maximum(p, 0.0),
                "sin": np.sin(p),
                "identity": p,
            }
    else:
        linear = np.clip(to(p, digits), -8.0, 8.0)
        found = {
            "tanh": tanh(p, digits),
            "sigmoid": sigmoid(p, digits),
            "relu": np.maximum(linear, 0.0),
            "sin": sine(p, digits),
            "identity": linear,
        }
    return np.asarray(np.choose(codes, [found[name] for name in ACTIVATIONS]))


def states(features: EchoState, u: Array) -> Array:
    """States (T, N) of inputs, each part of a cut from rest."""
    L, M = features.reservoir.cut
    L = L or len(u)
    found = []
    for begin in range(0, len(u), L):
        start = max(0, begin - M)
        drive = u[start : begin + L]
        runs = []
        for program in features.programs:
            N, I, bits = program.n_units, program.n_inputs, program.bits
            W = np.zeros((N, N + I + 1))
            unit = np.repeat(np.arange(N), np.diff(program.starts))
            W[unit, program.columns] = program.values
            x, xs = np.zeros(N), []
            for v in drive:
                y = activated(program.activation, W @ np.concatenate([x, v, [1.0]]), bits)
                x = (1 - program.leak) * x + program.leak * y
                x = x if bits is None else to(x, bits)
                xs.append(x)
            drive = np.array(xs)
            runs.append(drive)
        found.append(np.hstack(runs)[begin - start :])
    return np.concatenate(found)


def echo_state(features: EchoState, u: Array) -> Array:
    reservoir = features.reservoir
    if reservoir.bits is not None:
        top = reservoir.range
        u = np.clip(to(u, reservoir.bits), -top, top)
    parts = [np.ones((len(u), 1)), u, states(features, u)]
    chosen = (features.bias, features.input, features.state)
    Z = np.hstack([part for part, is_in in zip(parts, chosen, strict=True) if is_in])
    Z = Z[features.washout :]
    if features.pool is None:
        return Z
    edges = [len(Z) * k // features.segments for k in range(features.segments + 1)]
    rows = [pooled(Z[first:last], features.pool, reservoir.bits) for first, last in pairwise(edges)]
    return np.concatenate(rows)[None]


def pooled(Z: Array, pool: str, digits: int | None) -> Array:
    T = len(Z)
    if pool == "last":
        return np.asarray(Z[-1])
    if pool == "max":
        return np.asarray(Z.max(axis=0))
    if digits is None:
        mean = np.asarray(Z.mean(axis=0))
        return mean if pool == "mean" else np.concatenate([mean, Z.std(axis=0)])
    whole = np.ldexp(Z, digits).astype(np.int64)
    S = whole.sum(axis=0)
    mean = np.asarray(np.ldexp(S / T, -digits))
    if pool == "mean":
        return mean
    m = S // T
    q = np.array([sum(int(k) ** 2 for k in column) / T for column in (whole - m).T])
    d = (S - T * m) / T
    return np.concatenate([mean, np.ldexp(np.sqrt(q - d * d), -digits)])


def diagonal(own: DiagonalReservoir, u: Array) -> Array:
    drawn = own.wiring
    a, b = drawn.eigenvalues
    k, P = len(a), len(drawn.leak) - drawn.M.shape[1]
    re, im, q, rows = np.zeros(k), np.zeros(k), np.zeros(len(drawn.leak)), []
    for now in np.clip(u, -8.0, 8.0):
        v = to(now, 24)
        drive = np.clip(v @ drawn.W, -8.0, 8.0)
        re, im = (np.clip(to(x, 28), -8.0, 8.0) for x in (a * re - b * im + drive, b * re + a * im))
        s = to(np.concatenate([re, im]), 23)
        products = [
            s * (v[np.arange(2 * k) % len(v)] if shift < 0 else np.roll(s, -shift))
            for shift in drawn.shifts
        ]
        mixed = []
        for block, turns in enumerate(drawn.turns):
            M = drawn.M[:, 2 * k * block : 2 * k * (block + 1)]
            three = np.stack([np.roll(s, -turn)[: M.shape[1]] for turn in turns])
            x = to(np.clip((M[:3] * three).sum(axis=0) + M[3], -3.0, 3.0), 22)
            y = to(x * x, 20)
            top = 1 - 2.0**-24
            mixed.append(np.clip(to(x * (27 + y) / (27 + 9 * y), 24), -top, top))
        p = np.concatenate([to(np.concatenate([*products, []])[:P], 28), *mixed])
        q = to((1 - drawn.leak) * q + drawn.leak * p, 28)
        rows.append(np.concatenate([v, re, im, q]))
    Z = np.array(rows)[own.washout :]
    if own.pool is None:
        return Z
    away = Z - Z[0]
    first, second = (np.cumsum(x, axis=0)[-1] / len(Z) for x in (away, away * away))
    spread = np.sqrt(np.maximum(second - first * first, 0.0))
    return np.concatenate([Z[0] + first, spread])[None]


def nvar(own: NVAR, u: Array) -> Array:
    x = to(np.clip(u, -8.0, 8.0), 22)
    reach = (own.delays - 1) * own.stride
    padded = np.vstack([np.zeros((reach, x.shape[1])), x])
    ends = np.arange(len(x)) + reach
    linear = np.hstack([padded[ends - d * own.stride] for d in range(own.delays)])
    columns = [np.ones(len(x)), *linear.T]
    for order in range(2, own.order + 1):
        for which in combinations_with_replacement(range(linear.shape[1]), order):
            first = linear[:, which[0]] * linear[:, which[1]]
            columns.append(first if order == 2 else to(first, 22) * linear[:, which[2]])
    return np.column_stack(columns)[own.washout :]


def minirocket(own: MiniRocket, u: Array) -> Array:
    T, I = u.shape
    nominal, scale = own.length or T, 2**own.digits
    listed = feature_list(own.features, nominal)
    subsets = channel_subsets(own.features, own.seed, I)
    biases = noise_biases(listed, subsets, nominal, own.seed, I, scale)
    x = np.rint(np.clip(u, -own.range, own.range) * scale).astype(np.int64)
    row = []
    for f in range(own.features):
        d = min(int(listed.dilation[f]), max(1, (T - 1) // 8))
        weights = np.full(9, -1)
        weights[list(KERNELS[int(listed.kernel[f])])] = 2
        around = np.pad(x[:, list(subsets[f])].sum(axis=1), 4 * d)
        found = sum(weights[g] * around[g * d : g * d + T] for g in range(9))
        inner = found if listed.padded[f] or 8 * d >= T else found[4 * d : T - 4 * d]
        row.append(np.mean(inner > biases[f]))
    return np.array([row])


def hydra_rows(own: hydra.Hydra, u: Array) -> Array:
    T, I = u.shape
    channels = hydra.group_channels(own.n_groups, own.seed, I)
    W = hydra.weights(own.n_groups, own.seed).astype(np.int64)
    scale = 2.0 ** hydra.input_digits(own.range, channels.shape[1])
    x = np.rint(np.clip(u, -own.range, own.range) * scale).astype(np.int64)
    row = []
    for g, (d, differs) in enumerate(hydra.group_list(own.n_groups, T, own.length or T)):
        line = x[:, channels[g]].sum(axis=1)
        line = np.diff(line) if differs else line
        around = np.pad(line, 4 * d)
        r = W[g] @ np.array([around[j * d : j * d + len(line)] for j in range(9)])
        largest, smallest = np.zeros((2, 8))
        np.add.at(largest, r.argmax(axis=0), r.max(axis=0))
        np.add.at(smallest, r.argmin(axis=0), 1)
        steps, unit = max(1, T - differs), scale * channels.shape[1] * 2.0**10
        row += [largest / (steps * unit), smallest / steps]
    return np.asarray(np.sqrt(np.clip(np.concatenate(row), 0.0, 1.0)))[None]


def random_fourier(own: RandomFourierFeatures, u: Array) -> Array:
    x = u if own.map is None else rows_of(own.map, u)
    W, phases = own._weights
    values = to(np.clip(x, -256.0, 256.0), 14) @ W
    if own.activation == "relu":
        return np.clip(values, 0.0, 64.0)
    turns = values + phases + 0.25
    turns = turns - np.rint(turns)
    return sine(turns * (26353589 / 2**22), 24)


def projected(own: RandomProjection, u: Array) -> Array:
    Z = rows_of(own.inner, u)
    flips, kept = own._drawn
    H = np.ones((1, 1))
    while len(H) < Z.shape[1]:
        H = np.block([[H, H], [H, -H]])
    padded = np.zeros((len(Z), len(H)))
    padded[:, : Z.shape[1]] = Z * flips
    return np.clip((padded @ H)[:, kept] / math.sqrt(len(flips)), -own.bound, own.bound)


def with_norm(own: AppendNorm, u: Array) -> Array:
    x = np.rint(np.clip(u, -64.0, 64.0) * 2**16).astype(np.int64)
    usual = math.isqrt(u.shape[1] << 32)
    length = np.array([math.isqrt(int(total)) for total in (x * x).sum(axis=1)]) - usual
    return rows_of(own.map, np.column_stack([u, length / 2.0**16]))


def concat(own: FeatureUnion, u: Array) -> Array:
    built = own.maps
    late = max(one.washout for one in built)
    found = [rows_of(one, u) for one in built]
    skips = [late - one.washout if one.per_step else 0 for one in built]
    return np.hstack([z[skip:] for z, skip in zip(found, skips, strict=True)])


def rows_of(features: FeatureMap, u: Array) -> Array:
    """Feature rows (n, F) of prepared inputs (T, I), on their grid if they have one."""
    rows = _own_rows(features, u)
    if features.feature_bits is None:
        return rows
    digits = features.feature_bits - np.ceil(np.log2(features.bounds)).astype(np.int64)
    top = 2.0**features.feature_bits
    whole = np.clip(np.rint(np.ldexp(rows, digits)), -top, top)
    return np.asarray(np.ldexp(whole, -digits))


def _own_rows(own: Any, u: Array) -> Array:
    match own:
        case EchoState():
            return echo_state(own, u)
        case DiagonalReservoir():
            return diagonal(own, u)
        case NVAR():
            return nvar(own, u)
        case MiniRocket():
            return minirocket(own, u)
        case hydra.Hydra():
            return hydra_rows(own, u)
        case RandomFourierFeatures():
            return random_fourier(own, u)
        case RandomProjection():
            return projected(own, u)
        case AppendNorm():
            return with_norm(own, u)
        case FeatureUnion():
            return concat(own, u)
    raise LookupError(f"there is no plain form of {type(own).__name__}")


def has_plain_form(features: FeatureMap) -> bool:
    """Whether all of a map is written here; spectra of window statistics are not."""
    if isinstance(features, WindowStatistics | DefaultMap):
        return False
    return all(has_plain_form(one) for one in features.inner_maps)


def prepared(preprocessing: Preprocessing, u: Array) -> list[Array]:
    """Pieces of a raw recording (T, I): gaps held, scaled, cut into windows."""
    x = u.copy()
    for channel in x.T:
        known = np.flatnonzero(~np.isnan(channel))
        for t in np.flatnonzero(np.isnan(channel)):
            before = known[known < t]
            if len(known):
                channel[t] = channel[before[-1] if len(before) else known[0]]
    if isinstance(preprocessing.scale, Scaler):
        x = (x - preprocessing.scale.mean) / preprocessing.scale.scale
    x = np.nan_to_num(x)
    if preprocessing.window is None:
        return [x]
    assert isinstance(preprocessing.window, int)
    step = preprocessing.step or preprocessing.window
    assert isinstance(step, int)
    return [
        x[k : k + preprocessing.window] for k in range(0, len(x) - preprocessing.window + 1, step)
    ]
