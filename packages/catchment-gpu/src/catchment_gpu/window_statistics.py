"""Window statistics by torch, on any device: the sums of integers that the CPU makes.

Sums are int64, or products of float64 matrices of integers in which no sum passes 2^53, so
that no order matters. What follows them is done by the very operations of `window_statistics`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from catchment.features import (
    BLOCK,
    FRACTION,
    KINDS,
    LONGEST,
    LOWEST_LOG,
    N_BANDS,
    OR_WIDER,
    ORDER,
    TABLE_DIGITS,
    WindowStatistics,
    band_ends,
    form,
    tables,
    warn_of_clipping,
)
from catchment.features.window_statistics import DIGITS
from catchment_gpu.rows import DeviceForm, quotient, root

EXACT = 1 << 53  # integers that float64 holds


@form("torch", WindowStatistics)
class WindowStatisticsForm(DeviceForm):
    """Window statistics on one device."""

    features: WindowStatistics

    def together(self, u: Tensor) -> Tensor:
        n, T, I = u.shape
        if not 0 < T <= LONGEST:
            raise ValueError(
                f"a recording has {T} steps; window statistics take 1 to {LONGEST} of them"
            )
        unit = 2.0**DIGITS
        x = self._whole(u)
        center, sums, steps = moments(x)
        x -= center[..., None]
        pairs = bool(self.features.correlations) and self.features.known_inputs > 1
        products = _products(x, math.floor(self.features.range * unit), pairs=pairs)
        squares = products.diagonal(dim1=1, dim2=2) if pairs else products
        variance = quotient(squares - quotient((sums * sums).double(), T), T)
        one = torch.empty((n, I, len(KINDS)), dtype=torch.float64, device=self.device)
        one[..., 0] = quotient((center * T + sums).double(), T * unit)
        one[..., 1] = root(variance) / unit
        place = 2 + len(ORDER)
        one[..., 2:place] = (_order(x) + 4 * center[..., None]).double() / (4 * unit)
        scale = DIGITS + 4
        step = torch.div(16 * steps, max(T - 1, 1), rounding_mode="floor")
        logs = log2_of(step + 2 ** (scale - LOWEST_LOG // 2)).double()
        one[..., place] = logs * 2.0**-FRACTION - scale
        one[..., place + 1 :] = _bands(x.view(n * I, T)).view(n, I, N_BANDS)
        rows = one.view(n, -1)
        if pairs:  # correlations (n, pairs) of channels, 0 where one of them is constant
            i, j = torch.triu_indices(I, I, 1, device=sums.device)
            shift = quotient((sums[:, i] * sums[:, j]).double(), T)
            covariance = quotient(products[:, i, j] - shift, T)
            size = root(variance)[:, i] * root(variance)[:, j]
            found = torch.where(size > 0, covariance / size, 0.0).clamp_(-1.0, 1.0)
            rows = torch.cat([rows, found], dim=1)
        return rows.T

    def _whole(self, u: Tensor) -> Tensor:
        """Return inputs (n, T, I) as integers (n, I, T) of 2^-DIGITS, cut off; int64."""
        most = math.floor(self.features.range * 2.0**DIGITS)
        value = (u * 2.0**DIGITS).round_()
        clipped = int((value.abs() > most).sum())
        warn_of_clipping(clipped, u.numel(), self.features.range, OR_WIDER)
        return value.clamp_(-most, most).transpose(1, 2).contiguous().to(torch.int64)


def moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return integers near the means, sums about them, and sums of steps, of rows (.., T)."""
    T = x.shape[-1]
    total = x.sum(-1)
    center = torch.div(2 * total + T, 2 * T, rounding_mode="floor")
    steps = x.diff(dim=-1).abs_().sum(-1)
    return center, total - T * center, steps


def _products(x: Tensor, most: int, *, pairs: bool) -> Tensor:
    """Return the sums of products (n, I, I) of channels of x (n, I, T), or of squares (n, I).

    They are integers as float64, made of sums that are exact and rounded once.
    """
    if not pairs:
        return (x * x).sum(-1).double()
    n, I, T = x.shape
    # About its mean a value is at most twice as large as the largest.
    step = EXACT // (2 * most + 1) ** 2
    if step >= T:
        whole = x.double()
        return torch.bmm(whole, whole.transpose(1, 2))
    total = x.new_zeros((n, I, I))
    for start in range(0, T, step):
        part = x[..., start : start + step].double()
        total += torch.bmm(part, part.transpose(1, 2)).to(torch.int64)
    return total.double()


def _order(x: Tensor) -> Tensor:
    """Return four times the extremes and quartiles (n, I, 5) of rows (n, I, T)."""
    ranked = x.to(torch.int32).sort(dim=-1).values
    T, found = x.shape[-1], []
    for k in range(len(ORDER)):
        place, quarters = divmod((T - 1) * k, 4)
        low, high = ranked[..., place].long(), ranked[..., min(place + 1, T - 1)].long()
        found.append((4 - quarters) * low + quarters * high)
    return torch.stack(found, dim=-1)


def _bands(x: Tensor) -> Tensor:
    """Return the logarithms (m, bands) of the energies of rows (m, T)."""
    m, T = x.shape
    n_blocks = -(-T // BLOCK)
    L = T // n_blocks
    half, (first, last) = L // 2, band_ends(L)
    blocks = x[:, : n_blocks * L].reshape(m * n_blocks, L)
    middle = torch.div(2 * blocks.sum(-1, keepdim=True) + L, 2 * L, rounding_mode="floor")
    blocks = (blocks - middle).double()
    back = blocks.flip(-1)[:, :half]
    even = blocks[:, : L - half].clone()
    even[:, :half] += back
    cosines, sines = (torch.from_numpy(table).to(x.device) for table in tables(L))
    energy = _energies(even, cosines) + _energies(blocks[:, :half] - back, sines)
    # By Parseval's equation no sum of them passes 2^51, so any order is exact.
    which = np.zeros((half, N_BANDS))
    for k in range(N_BANDS):
        which[first[k] : last[k], k] = 1.0
    band = (energy @ torch.from_numpy(which).to(x.device)).to(torch.int64)
    width = torch.from_numpy(np.maximum(L * (last - first), 1)).to(x.device)
    shares = torch.div(32 * band, width, rounding_mode="floor").view(m, n_blocks, N_BANDS)
    mean = torch.div(shares.sum(1), n_blocks, rounding_mode="floor")
    scale = 2 * DIGITS + 4  # energies are sixteenths of squares of 2^-DIGITS
    logs = log2_of(mean + 2 ** (scale - LOWEST_LOG)).double() * 2.0**-FRACTION - scale
    return logs.clamp_(max=16.0)


def _energies(folded: Tensor, table: Tensor) -> Tensor:
    """Return the squares of a transform, rounded to integers."""
    found = (folded @ table).mul_(2.0**-TABLE_DIGITS).round_()
    return found.mul_(found)


def log2_of(value: Tensor) -> Tensor:
    """Return the logarithms of integers from 1 on, in units of 2^-FRACTION, rounded down.

    The mantissa is squared again and again; each time it passes 2 gives one binary digit.

    >>> log2_of(torch.tensor([1, 2, 3, 1 << 40])).tolist()
    [0, 4096, 6492, 163840]
    """
    whole = torch.zeros_like(value)
    for step in (32, 16, 8, 4, 2, 1):
        whole += step * (value >> (whole + step) > 0)
    mantissa = torch.where(whole > 30, value >> (whole - 30).clamp_(min=0), value)
    mantissa <<= (30 - whole).clamp_(min=0)
    found = whole
    for _ in range(FRACTION):
        mantissa = (mantissa * mantissa) >> 30
        above = mantissa >> 31
        mantissa >>= above
        found = (found << 1) | above
    return found
