"""Statistics of a window: location, spread, order, change, spectrum and correlation of channels.

The plain baseline that any other map has to beat, and a good companion of maps that see shapes. It
needs no data, no seed and no weights. Whatever a feature is, up to one last division or root it is
a sum of integers, so every machine gets the same bits:

    x = round(4096 u), cut off at 4096 range                   integers
    mean, sd, correlation: sums of x, x^2 and x x' about an integer near the mean
    order:   the sorted x, at (T - 1) k / 4, between neighbors by quarters (as numpy.quantile)
    step:    log2(mean |u_t+1 - u_t| + 2^-7)
    bands:   B = ceil(T / 256) blocks of L = floor(T / B) steps; in each, with s_t = t + 1/2,
             X_k = sum_t sin(pi s_t / L) e^(-2 pi i k s_t / L) (u_t - m), of which the cosines and
             sines, taper and all, are rounded to 14 binary digits; log2(E + 2^-14), where E is the
             mean of 2 |X_k|^2 / L over the frequencies k of a band and over the blocks

Logarithms are taken by squaring integers. The ends of the bands, the taper, the logarithm of
the step and what is added before a logarithm were chosen by leaving out training people.

A batch is n recordings of equal length with I channels, as integers (n, I, T). Spectra come
from two matrix products outside: of the sums and of the differences of values that lie equally far
from either end of a block with a table of cosines and one of sines. Every product and every sum in
them is an integer below 2^53, so float64 and any order give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray

from catchment.arrays import Array, Integers
from catchment.compiling import njit
from catchment.features.base import OR_WIDER, FeatureMap, in_batches, warn_of_clipping

DIGITS = 12  # of inputs, after the point
TABLE_DIGITS = 14  # of cosines and sines
BLOCK = 256  # most steps in a block of the spectrum
LONGEST = 2**22  # steps whose sums are sure to fit
WIDEST = 64.0
MANY_CHANNELS = 12  # more have no correlations unless they are asked for
LOWEST_LOG = 14  # 2^-14 is added to energies
BATCH = 2**17  # values worked on at a time
ORDER = ("min", "q1", "median", "q3", "max")
# Ends of the bands as shares of half the sampling rate.
EDGES = (0.0, 1 / 64, 1 / 32, 1 / 16, 3 / 32, 1 / 8, 3 / 16, 1 / 4, 1 / 2, 1.0)
N_BANDS = len(EDGES) - 1
KINDS = ("mean", "sd", *ORDER, "log_step", *(f"band{k}" for k in range(N_BANDS)))
FRACTION = 12  # binary digits of a logarithm after the point


@dataclass(frozen=True)
class WindowStatistics(FeatureMap):
    """Mean, deviation, quartiles, extremes, step, nine bands of frequency, and correlations.

    One row per recording: 17 numbers for each channel, and one for each pair of channels. There is
    nothing to draw and nothing to learn. Inputs should have a standard deviation of about 1; they
    are rounded to 2^-12 and cut off at `range`.

    Parameters
    ----------
    correlations
        Whether pairs of channels have their correlation; "auto": up to 12 channels. It is 0 where a
        channel is constant.
    range
        Where inputs are cut off, at most 64.
    bits
        Bits of the features; "auto" for 8 where targets are classes, 24 where they are numbers;
        None for float64.
    n_inputs
        Channels, filled in by `build`.

    >>> statistics = WindowStatistics().build(3, per_step=False, classes=True)
    >>> statistics.n_features, statistics.names()[:3]
    (54, ['mean_u0', 'sd_u0', 'min_u0'])
    >>> row = statistics.rows([np.arange(12.0).reshape(4, 3) / 4])[0]
    >>> row.shape, row[0, :7].tolist()
    ((1, 54), [1.125, 0.84375, 0.0, 0.5625, 1.125, 1.6875, 2.25])
    """

    correlations: bool | Literal["auto"] = "auto"
    range: Annotated[float, Gt(0), Le(WIDEST)] = 8.0
    bits: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    pools_always = True
    standardize = True
    version = 1

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        pairs = n_inputs <= MANY_CHANNELS if self.correlations == "auto" else self.correlations
        return {"correlations": pairs}

    @property
    def n_features(self) -> int:
        I = self.known_inputs
        return I * len(KINDS) + (I * (I - 1) // 2 if self.correlations else 0)

    @property
    def bounds(self) -> Array:
        one = [float(self.range)] * (2 + len(ORDER)) + [8.0] + [16.0] * N_BANDS
        alone = one * self.known_inputs
        return np.array(alone + [1.0] * (self.n_features - len(alone)))

    @property
    def cost(self) -> float:
        return float(self.known_inputs * (BLOCK // 2) + 2 * self.n_features)

    def names(self) -> list[str]:
        pairs = combinations(range(self.known_inputs), 2) if self.correlations else ()
        return [f"{kind}_u{i}" for i in range(self.known_inputs) for kind in KINDS] + [
            f"correlation_u{i}_u{j}" for i, j in pairs
        ]

    def compute_rows(self, us: Sequence[Array], threads: int | None) -> list[Array]:
        for k, u in enumerate(us):
            if not 0 < len(u) <= LONGEST:
                raise ValueError(
                    f"recording {k} has {len(u)} steps; window statistics take 1 to {LONGEST}"
                )
        clipped: list[int] = []
        work = partial(self._batch_rows, clipped)
        rows = in_batches(work, us, threads, BATCH // self.known_inputs)
        if any(clipped):
            warn_of_clipping(sum(clipped), sum(map(np.size, us)), self.range, OR_WIDER)
        return rows

    def _batch_rows(self, clipped: list[int], us: list[Array]) -> Array:
        """Return rows (n, F) of recordings of equal length; note how many values were cut off."""
        n, (T, I) = len(us), us[0].shape
        n_pairs = I * (I - 1) // 2 if self.correlations else 0
        x = np.empty((n, I, T), dtype=np.int32)
        unit = 2.0**DIGITS
        center, sums, logs = np.empty((3, n, I), dtype=np.int64)
        products = np.empty((n, I + n_pairs), dtype=np.int64)
        most = np.floor(self.range * unit)
        clipped.append(moments(np.stack(us), unit, most, x, center, sums, logs, products))
        one = np.empty((n, I, len(KINDS)))
        one[..., 0] = (center * T + sums) / (T * unit)
        # About an integer near the mean, whose distance to the mean is taken off here.
        variance = (products[:, :I] - sums * sums / T) / T
        one[..., 1] = np.sqrt(variance) / unit
        ranked = np.sort(x, axis=-1).astype(np.int64)
        for k in range(len(ORDER)):
            place, quarters = divmod((T - 1) * k, 4)
            above = ranked[..., min(place + 1, T - 1)]
            order = (4 - quarters) * ranked[..., place] + quarters * above + 4 * center
            one[..., 2 + k] = order / (4 * unit)
        place = 2 + len(ORDER)
        one[..., place] = logs * 2.0**-FRACTION - (DIGITS + 4)
        one[..., place + 1 :] = _bands(x.reshape(n * I, T)).reshape(n, I, N_BANDS)
        rows = [one.reshape(n, -1)]
        if n_pairs:  # correlations (n, pairs) of channels, 0 where one of them is constant
            i, j = np.triu_indices(I, 1)
            covariance = (products[:, I:] - sums[:, i] * sums[:, j] / T) / T
            size = np.sqrt(variance[:, i]) * np.sqrt(variance[:, j])
            found = np.divide(covariance, size, out=np.zeros_like(size), where=size > 0)
            rows.append(np.clip(found, -1.0, 1.0))
        return np.hstack(rows)


def _bands(x: NDArray[np.int32]) -> Array:
    """Return the logarithms (m, bands) of the energies of rows (m, T)."""
    m, T = x.shape
    n_blocks = -(-T // BLOCK)
    L = T // n_blocks
    cosines, sines = tables(L)
    even = np.empty((m * n_blocks, len(cosines)))
    odd = np.empty((m * n_blocks, len(sines)))
    folded(x, n_blocks, even, odd)
    shape = (m, n_blocks, L // 2)
    first, last = band_ends(L)
    found = np.empty((m, N_BANDS), dtype=np.int64)
    scale = 2 * DIGITS + 4  # energies are sixteenths of squares of 2^-DIGITS
    band_logs(
        (even @ cosines).reshape(shape),
        (odd @ sines).reshape(shape),
        2.0**-TABLE_DIGITS,
        L,
        first,
        last,
        2 ** (scale - LOWEST_LOG),
        found,
    )
    return np.asarray(np.minimum(found * 2.0**-FRACTION - scale, 16.0), dtype=np.float64)


@lru_cache(maxsize=64)
def tables(length: int) -> tuple[Array, Array]:
    """Return tapered cosines ((L + 1) // 2, L // 2) and sines (L // 2, L // 2) as integers.

    Column k - 1 is of frequency k / L. No entry of a length up to 256 is near enough to a tie for
    the mathematical library to matter.

    >>> tables(2)[0].tolist(), tables(2)[1].tolist()
    ([[0.0]], [[11585.0]])
    """
    s, k = np.arange((length + 1) // 2) + 0.5, np.arange(1, length // 2 + 1)
    taper = 2.0**TABLE_DIGITS * np.sin(np.pi * s / length)[:, None]
    angle = 2 * np.pi * np.outer(s, k) / length
    cosine, sine = (np.rint(taper * wave(angle)) + 0.0 for wave in (np.cos, np.sin))
    return cosine, sine[: length // 2]


@lru_cache(maxsize=64)
def band_ends(length: int) -> tuple[Integers, Integers]:
    """Return the first frequency of each band and the one after its last, less one.

    Where a block is too short to tell two bands apart, both have the same frequency.

    >>> [list(map(int, ends)) for ends in band_ends(128)]
    [[0, 1, 2, 4, 6, 8, 12, 16, 32], [1, 2, 4, 6, 8, 12, 16, 32, 64]]
    >>> [list(map(int, ends)) for ends in band_ends(1)]
    [[0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0]]
    """
    half = length // 2
    at = np.floor(np.array(EDGES) * half).astype(np.int64)
    first = np.minimum(at[:-1], max(half - 1, 0))
    return first, np.minimum(np.maximum(at[1:], first + 1), half)


@njit(nogil=True, cache=True, error_model="numpy")
def log2_of(value):
    """The logarithm of an integer from 1 on, in units of 2^-FRACTION, rounded down.

    The mantissa is squared again and again; each time it passes 2 gives one binary digit.
    """
    whole = 0
    while value >> (whole + 1):
        whole += 1
    mantissa = value >> (whole - 30) if whole > 30 else value << (30 - whole)
    found = np.int64(whole)
    for _ in range(FRACTION):
        mantissa = (mantissa * mantissa) >> 30
        found <<= 1
        if mantissa >> 31:
            mantissa >>= 1
            found |= 1
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def moments(U, unit, most, x, center, sums, logs, products):
    """Sums about an integer near the mean, of a batch U (n, T, I); return how many were cut off.

    Inputs become integers of 1 / unit, up to `most`, and x (n, I, T) those about the integer. Fills
    center (n, I), sums (n, I), logs (n, I) of sixteenths of the mean absolute difference from one
    step to the next, and products: (n, I) squares, then (n, I (I - 1) / 2) of pairs of channels if
    they are wanted.
    """
    n, I, T = x.shape
    clipped, floor = 0, 2 ** (DIGITS + 4 - LOWEST_LOG // 2)
    for r in range(n):
        for t in range(T):
            for i in range(I):
                value = np.rint(U[r, t, i] * unit)
                if value > most or value < -most:
                    clipped += 1
                    value = min(max(value, -most), most)
                x[r, i, t] = np.int32(value)
        for i in range(I):
            row = x[r, i]
            total = np.int64(0)
            for t in range(T):
                total += row[t]
            middle = np.int32((2 * total + T) // (2 * T))
            center[r, i], sums[r, i] = middle, total - T * np.int64(middle)
            step = np.int64(0)
            for t in range(T - 1):
                step += abs(row[t + 1] - row[t])
            logs[r, i] = log2_of(16 * step // max(T - 1, 1) + floor)
            for t in range(T):
                row[t] -= middle
        place = I
        for i in range(I):
            products[r, i] = _dot(x[r, i], x[r, i], T)
            for j in range(i + 1, I if products.shape[1] > I else 0):
                products[r, place] = _dot(x[r, i], x[r, j], T)
                place += 1
    return clipped


@njit(error_model="numpy")
def _dot(one, other, T):
    total = np.int64(0)
    for t in range(T):
        total += np.int64(one[t]) * np.int64(other[t])
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def folded(x, n_blocks, even, odd):
    """Cut rows x (m, T) into blocks and fold each: even (m B, (L + 1) // 2), odd (m B, L // 2).

    An integer near the mean of the block is taken off first.
    """
    m, T = x.shape
    L = T // n_blocks
    for r in range(m):
        for b in range(n_blocks):
            block, k = x[r, b * L : (b + 1) * L], r * n_blocks + b
            total = np.int64(0)
            for t in range(L):
                total += block[t]
            middle = np.int32((2 * total + L) // (2 * L))
            for t in range(L // 2):
                even[k, t] = block[t] + block[L - 1 - t] - 2 * middle
                odd[k, t] = block[t] - block[L - 1 - t]
            if L % 2:
                even[k, L // 2] = block[L // 2] - middle


@njit(nogil=True, cache=True, error_model="numpy")
def band_logs(cosine, sine, down, L, first, last, floor, out):
    """Put the logarithms of the mean energies of bands into out (m, bands).

    cosine, sine (m, B, H) are the transforms of blocks, `down` the factor that takes the tables'
    scale off, first and last (bands,) the frequencies of each band. An energy is in sixteenths of
    the square of a step of the inputs, twice what the taper left of it; `floor` is added to it.
    """
    m, n_blocks, _ = cosine.shape
    for r in range(m):
        for k in range(len(first)):
            width = L * (last[k] - first[k])
            total = np.int64(0)
            for b in range(n_blocks):
                energy = 0.0
                for h in range(first[k], last[k]):
                    c, s = np.rint(cosine[r, b, h] * down), np.rint(sine[r, b, h] * down)
                    energy += c * c + s * s
                if width > 0:
                    total += 32 * np.int64(energy) // width
            out[r, k] = log2_of(total // n_blocks + floor)
