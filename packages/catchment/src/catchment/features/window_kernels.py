"""The compiled loops of window statistics, and of the norm of inputs.

All of them add whole numbers, so no order matters.

A batch is n recordings of equal length with I channels, as whole numbers (n, I, T). Spectra come
from two matrix products outside: of the sums and of the differences of values that lie equally far
from either end of a block with a table of cosines and one of sines. Every product and every sum in
them is a whole number below 2^53, so float64 and any order give the same.
"""

from __future__ import annotations

import numpy as np

from catchment.compiling import njit

FRACTION = 12  # binary digits of a logarithm after the point


@njit(nogil=True, cache=True, error_model="numpy")
def rounded(u, x, unit, most):
    """Put inputs u (T, I) into x (I, T) as whole numbers of 1 / unit; return how many were cut."""
    clipped = 0
    for t in range(u.shape[0]):
        for i in range(u.shape[1]):
            value = np.rint(u[t, i] * unit)
            if value > most or value < -most:
                clipped += 1
                value = min(max(value, -most), most)
            x[i, t] = np.int32(value)
    return clipped


@njit(nogil=True, cache=True, error_model="numpy")
def moments(x, center, sums, steps, products, pairs):
    """Sums about a whole number near the mean, of a batch x (n, I, T) that becomes centred.

    Fills center (n, I), sums (n, I), steps (n, I) of absolute differences, and products: (n, I)
    squares, then (n, I (I - 1) / 2) of pairs of channels if they are wanted.
    """
    n, I, T = x.shape
    for r in range(n):
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
            steps[r, i] = step
            for t in range(T):
                row[t] -= middle
        place = I
        for i in range(I):
            products[r, i] = _dot(x[r, i], x[r, i], T)
        if pairs:
            for i in range(I):
                for j in range(i + 1, I):
                    products[r, place] = _dot(x[r, i], x[r, j], T)
                    place += 1


@njit(error_model="numpy")
def _dot(one, other, T):
    total = np.int64(0)
    for t in range(T):
        total += np.int64(one[t]) * np.int64(other[t])
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def folded(x, n_blocks, even, odd):
    """Cut rows x (m, T) into blocks and fold each: even (m B, (L + 1) // 2), odd (m B, L // 2).

    A whole number near the mean of the block is taken off first.
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


@njit(nogil=True, cache=True, error_model="numpy")
def logs_of(values, floor, out):
    """Put the logarithms of whole numbers, with a floor added to each, into out."""
    for r in range(values.shape[0]):
        for i in range(values.shape[1]):
            out[r, i] = log2_of(values[r, i] + floor)


@njit(nogil=True, cache=True, error_model="numpy")
def log2_of(value):
    """The logarithm of a whole number from 1 on, in units of 2^-FRACTION, rounded down.

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
def beside_norm(u, unit, largest, usual, out):
    """Put inputs u (T, I), and the length of each less `usual` / unit, into out (T, I + 1).

    Inputs are cut off at `largest` and rounded to whole numbers of 1 / unit before they are
    squared.
    """
    T, I = u.shape
    for t in range(T):
        total = np.int64(0)
        for i in range(I):
            x = np.int64(np.rint(min(max(u[t, i], -largest), largest) * unit))
            total += x * x
            out[t, i] = u[t, i]
        out[t, I] = (np.floor(np.sqrt(np.float64(total))) - usual) / unit
