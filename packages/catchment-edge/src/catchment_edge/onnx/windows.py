"""MiniRocket, Hydra and window statistics as nodes: integers, exact in float64 or int64.

Kernels with one dilation are one matrix product: the nine taps of every channel, d steps apart,
times a matrix that has a kernel's weights at the channels that it adds up.
"""

from __future__ import annotations

import numpy as np

from catchment import Array, Integers
from catchment.features import (
    BLOCK,
    FRACTION,
    LOWEST_LOG,
    N_BANDS,
    ORDER,
    TABLE_DIGITS,
    MiniRocket,
    WindowStatistics,
    band_ends,
    form,
    hydra,
    tables,
)
from catchment.features.hydra import KERNELS as RIVALS
from catchment.features.hydra import TAPS
from catchment.features.minirocket import POSITIONS, Schedule, _schedule
from catchment.features.window_statistics import DIGITS
from catchment_edge.onnx.builder import INT64, Sequences, Value


def whole_inputs(u: Value, scale: float, limit: float, pad: int) -> Value:
    """Return inputs (B, T, I) as integers (B, I, pad + T + pad), zeros on either side."""
    x = (u * scale).clip(-limit, limit).rint().transpose(0, 2, 1)
    return padded(x, pad)


def padded(x: Value, pad: int) -> Value:
    """Return rows (B, n, T) with zeros on either side."""
    sizes = x.builder.constant(np.array([0, 0, pad, 0, 0, pad]))
    return x.builder.op("Pad", x, sizes, x.builder.constant(np.zeros((), dtype=x.dtype)))


def taps(x: Value, dilation: int, first: int, n: int) -> Value:
    """Return the nine taps of n steps (B, 9 rows, n) of x (B, rows, ..), one after another.

    `first` is the place of the first step's middle tap.
    """
    begins = first + (np.arange(TAPS) - TAPS // 2) * dilation
    return x.builder.concat([x.part(at, at + n, axis=2) for at in begins.tolist()], axis=1)


@form("onnx", MiniRocket)
def shares(settings: MiniRocket, given: Sequences) -> Value:
    """Return the features (B, F) of recordings (B, T, I)."""
    u, steps = given.u, given.known_steps(settings)
    schedule = _schedule(settings, steps, settings.known_inputs)
    scale = 2.0**settings.digits
    x = whole_inputs(u, scale, settings.input_range * scale, schedule.pad)
    weights, dilation, is_padded = _kernels(schedule, settings.known_inputs)
    counts, order = [], []
    for d, pads in sorted(set(zip(dilation.tolist(), is_padded.tolist(), strict=True))):
        some = np.flatnonzero((dilation == d) & (is_padded == pads))
        edge = 0 if pads else 4 * d
        seen = taps(x, d, schedule.pad + edge, steps - 2 * edge)
        outputs = x.builder.value(weights[some], x.dtype) @ seen
        bias = schedule.biases[some].astype(np.float64)[:, None]
        counts.append((outputs > bias).cast(x.dtype).sum(axis=2))
        order.append(schedule.places[some])
    together = u.builder.concat(counts, axis=1)
    back = np.argsort(np.concatenate(order), kind="stable")
    return together.take(back, axis=1) / schedule.positions.astype(np.float64)


def _kernels(schedule: Schedule, n_inputs: int) -> tuple[Array, Integers, Integers]:
    """Return weights (F, 9 I), dilations (F,) and padding (F,) in the order of a schedule."""
    F = len(schedule.places)
    weights = np.zeros((F, TAPS, n_inputs))
    dilation = np.empty(F, dtype=np.int64)
    for (d, first, begin), (_, last, end) in zip(
        schedule.groups[:-1], schedule.groups[1:], strict=True
    ):
        dilation[begin:end] = d
        for f in range(begin, end):
            kernel = np.full(TAPS, -1.0)
            kernel[POSITIONS[schedule.kinds[f, 0], :3]] = 2.0
            weights[f][:, schedule.channels[first:last]] = kernel[:, None]
    return weights.reshape(F, -1), dilation, schedule.kinds[:, 1]


@form("onnx", hydra.Hydra)
def competitions(settings: hydra.Hydra, given: Sequences) -> Value:
    """Return the features (B, F) of recordings (B, T, I): who wins, and who loses."""
    u, steps = given.u, given.known_steps(settings)
    n = settings.n_groups
    channels = hydra.group_channels(n, settings.seed, settings.known_inputs)
    groups = hydra.group_list(n, steps, settings.length or steps)
    W = hydra.weights(n, settings.seed)
    scale = 2.0 ** hydra.input_digits(settings.input_range, channels.shape[1])
    x = whole_inputs(u, scale, settings.input_range * scale, 0)
    found, order = [], []
    for d, differs in sorted({(int(a), int(b)) for a, b in groups}):
        some = np.flatnonzero((groups[:, 0] == d) & (groups[:, 1] == differs))
        weights = np.zeros((len(some), RIVALS, TAPS, settings.known_inputs))
        for k, g in enumerate(some):
            weights[k][:, :, channels[g]] = W[g][:, :, None]
        length = steps - differs
        seen = x.part(1, steps, axis=2) - x.part(0, steps - 1, axis=2) if differs else x
        unit = max(1, length) * np.array([scale * channels.shape[1] * 2.0**hydra.WEIGHT_BITS, 1.0])
        found.append(_compete(seen, weights, d, length) / unit[:, None])
        order.append(some)
    together = u.builder.concat(found, axis=1)
    back = np.argsort(np.concatenate(order), kind="stable")
    return together.take(back, axis=1).clip(0.0, 1.0).sqrt().reshape(-1, settings.n_features)


def _compete(x: Value, weights: Array, dilation: int, length: int) -> Value:
    """Return sums of largest responses and counts of smallest ones (B, groups, 2, 8)."""
    n, builder = len(weights), x.builder
    seen = taps(padded(x, 4 * dilation), dilation, 4 * dilation, length)
    responses = builder.value(weights.reshape(n * RIVALS, -1), x.dtype) @ seen
    responses = responses.reshape(-1, n, RIVALS, length)
    rivals = np.arange(RIVALS)[:, None]
    won = responses.place_of_max(axis=2).unsqueeze(2).equals(rivals)
    lost = responses.place_of_min(axis=2).unsqueeze(2).equals(rivals)
    sums = builder.where(won, responses, 0.0).sum(axis=3)
    counts = lost.cast(x.dtype).sum(axis=3)
    return builder.concat([sums.unsqueeze(2), counts.unsqueeze(2)], axis=2)


SHORT = 30  # binary digits of a mantissa whose logarithm is taken
LONGEST_LOG = 62  # binary digits of what a logarithm is taken of


@form("onnx", WindowStatistics)
def statistics(settings: WindowStatistics, given: Sequences) -> Value:
    """Return the features (B, F) of windows (B, T, I)."""
    u, T, channels = given.u, given.known_steps(settings), given.channels
    builder, unit = u.builder, 2.0**DIGITS
    most = float(np.floor(settings.input_range * unit))
    if 2 * np.log2(most + 1) + np.log2(T) >= 53:
        raise ValueError(
            f"sums over windows of {T} steps with input_range {settings.input_range:g} take more "
            "than 53 binary digits; use shorter windows, or a smaller input_range"
        )
    x = (u * unit).rint().clip(-most, most).transpose(0, 2, 1)  # (B, I, T)
    total = x.sum(axis=2, keep=True)
    steps = (x.part(1, T, axis=2) - x.part(0, T - 1, axis=2)).size().sum(axis=2)
    center = nearest(total, T)
    x = x - center
    sums = (total - center * float(T)).squeeze(2)
    products = x @ x.transpose(0, 2, 1)  # (B, I, I)
    diagonal = np.arange(channels) * (channels + 1)
    flat = products.reshape(-1, channels * channels)
    variance = (flat.take(diagonal, axis=1) - sums * sums / float(T)) / float(T)
    variance = variance.at_least(0.0)
    mean = (center.squeeze(2) * float(T) + sums) / (T * unit)
    parts = [part.unsqueeze(2) for part in (mean, variance.sqrt() / unit)]
    parts.append((order(x, T) + center * 4.0) / (4 * unit))
    scale = DIGITS + 4
    logs = log2_of(steps.cast(INT64) * 16 / max(T - 1, 1) + 2 ** (scale - LOWEST_LOG // 2))
    parts.append((logs.cast(steps.dtype) * 2.0**-FRACTION - float(scale)).unsqueeze(2))
    parts.append(bands(x, T, channels))
    rows = builder.concat(parts, axis=2).reshape(-1, channels * sum((1, 1, len(ORDER), 1, N_BANDS)))
    if not settings.correlations or channels == 1:
        return rows
    return builder.concat([rows, correlations(flat, sums, variance, T, channels)], axis=1)


def nearest(total: Value, n: int) -> Value:
    """Return integers near the means of n integers with these sums."""
    return ((total * 2.0 + float(n)) / (2.0 * n)).floor()


def order(x: Value, T: int) -> Value:
    """Return four times the extremes and quartiles (B, I, 5) of rows (B, I, T)."""
    ranked = x.sorted(T, axis=2, largest=False)
    places, quarters = np.divmod((T - 1) * np.arange(len(ORDER)), 4)
    above = np.minimum(places + 1, T - 1)
    low = ranked.take(places, axis=2) * (4.0 - quarters)
    return low + ranked.take(above, axis=2) * quarters.astype(np.float64)


def log2_of(value: Value) -> Value:
    """Return logarithms of integers from 1 on, in units of 2^-FRACTION, rounded down."""
    builder = value.builder
    powers = builder.constant(1 << np.arange(LONGEST_LOG + 1, dtype=np.int64))
    reached = value.unsqueeze(-1) >= powers.part(1, LONGEST_LOG + 1, axis=0)
    whole = reached.cast(INT64).sum(axis=-1)
    down = powers.take((whole - SHORT).at_least(0), axis=0)
    up = powers.take((SHORT - whole).at_least(0), axis=0)
    mantissa = value / down * up
    found = whole
    for _ in range(FRACTION):
        mantissa = mantissa * mantissa / (1 << SHORT)
        digit = (mantissa >= 1 << (SHORT + 1)).cast(INT64)
        mantissa = mantissa / (digit + 1)
        found = found * 2 + digit
    return found


def waves(length: int) -> Array:
    """Return tapered cosines and sines (L, 2 (L // 2)) for whole blocks, as integers."""
    cosines, sines = tables(length)
    half = length // 2
    return np.hstack(
        [
            np.vstack([cosines, cosines[:half][::-1]]),
            np.vstack([sines, np.zeros((length % 2, half)), -sines[::-1]]),
        ]
    )


def bands(x: Value, T: int, channels: int) -> Value:
    """Return the logarithms (B, I, bands) of the energies of centered rows (B, I, T)."""
    n_blocks = -(-T // BLOCK)
    L = T // n_blocks
    half = L // 2
    blocks = x.part(0, n_blocks * L, axis=2).reshape(-1, channels, n_blocks, L)
    blocks = blocks - nearest(blocks.sum(axis=3, keep=True), L)
    first, last = band_ends(L)
    width = L * (last - first)
    scale = 2 * DIGITS + 4
    if half:
        spectrum = ((blocks @ waves(L)) * 2.0**-TABLE_DIGITS).rint()
        at = np.arange(half)[:, None]
        inside = ((at >= first) & (at < last)).astype(np.float64)
        energy = (spectrum * spectrum) @ np.vstack([inside, inside])
        per_block = energy.cast(INT64) * 32 / np.maximum(width, 1)
    else:
        per_block = blocks.take(np.zeros(N_BANDS, dtype=np.int64), axis=3).cast(INT64) * 0
    mean = per_block.sum(axis=2) / n_blocks
    found = log2_of(mean + 2 ** (scale - LOWEST_LOG)).cast(x.dtype)
    return (found * 2.0**-FRACTION - float(scale)).at_most(16.0)


def correlations(flat: Value, sums: Value, variance: Value, T: int, channels: int) -> Value:
    """Return the correlations (B, pairs) of channels, 0 where one of them is constant."""
    i, j = np.triu_indices(channels, 1)
    both = sums.take(i, axis=1) * sums.take(j, axis=1)
    covariance = (flat.take(i * channels + j, axis=1) - both / float(T)) / float(T)
    spread = variance.sqrt()
    size = spread.take(i, axis=1) * spread.take(j, axis=1)
    varies = size > 0.0
    found = covariance / flat.builder.where(varies, size, 1.0)
    return flat.builder.where(varies, found.clip(-1.0, 1.0), 0.0)
