"""Window statistics as nodes: sums of integers, exact in float64, and logarithms in int64."""

from __future__ import annotations

import numpy as np

from catchment import Array
from catchment.features import (
    BLOCK,
    FRACTION,
    LOWEST_LOG,
    N_BANDS,
    ORDER,
    TABLE_DIGITS,
    WindowStatistics,
    band_ends,
    form,
    tables,
)
from catchment.features.window_statistics import DIGITS
from catchment_edge.onnx.sequences import Sequences
from catchment_edge.onnx.values import INT64, Value

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
    middle = center.squeeze(2)
    parts = [
        (middle * float(T) + sums) / (T * unit),
        variance.sqrt() / unit,
    ]
    parts = [part.unsqueeze(2) for part in parts]
    parts.append((order(x, T) + center * 4.0) / (4 * unit))
    parts.append(log_steps(steps, T).unsqueeze(2))
    parts.append(bands(x, T, channels))
    rows = builder.concat(parts, axis=2).reshape(-1, channels * sum((1, 1, len(ORDER), 1, N_BANDS)))
    if not settings._n_pairs:
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


def log_steps(steps: Value, T: int) -> Value:
    """Return the logarithms of mean steps (B, I) from sums of them."""
    scale = DIGITS + 4
    mean = steps.cast(INT64) * 16 / max(T - 1, 1)
    found = log2_of(mean + 2 ** (scale - LOWEST_LOG // 2))
    return found.cast(steps.dtype) * 2.0**-FRACTION - float(scale)


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
