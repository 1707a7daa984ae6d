"""Delayed inputs and their products on a device, those of the compiled rows to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np
import torch
from torch import Tensor

from catchment import Array
from catchment.features import LIMIT, NVAR, R_DELAY, form, warn_of_clipping
from catchment_gpu.arrays import block_numbers, joined
from catchment_gpu.rows import DeviceRows, spans_between

PASSES = 4  # a block has so many times fewer numbers than it might: what makes it is as large


@form("torch", NVAR)
class NVARForm:
    """Monomials of delayed inputs on one device: every product is exact."""

    def __init__(self, inner: NVAR, device: torch.device) -> None:
        self.inner, self.device = inner, device
        factors = range(inner.delays * inner.known_inputs)
        # Which inputs each product of two, and of three, multiplies: (factors, products).
        self.products = [
            torch.tensor(list(combinations_with_replacement(factors, order)), device=device).T
            for order in range(2, inner.order + 1)
        ]

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        """Yield the rows of checked inputs (T, I), a part of them at a time."""
        inner = self.inner
        inner.after_washout(min(inputs, key=len))
        given = joined(inputs, self.device)
        if bool((given.abs() > LIMIT).any()):
            for one in inputs:
                warn_of_clipping(one, LIMIT)
        u = given.clamp_(-LIMIT, LIMIT).add_(R_DELAY).sub_(R_DELAY)
        lengths = np.array([len(one) for one in inputs])
        counts = lengths - inner.washout
        ends = torch.from_numpy(np.cumsum(counts)).to(self.device)
        skipped = torch.from_numpy(np.cumsum(counts) - counts).to(self.device)
        n = int(counts.sum())
        most = max(1, block_numbers(self.device) // (PASSES * inner.n_features))
        for first in range(0, n, most):
            last = min(first + most, n)
            row = torch.arange(first, last, device=self.device)
            recording = torch.searchsorted(ends, row, right=True)
            t = row - skipped[recording] + inner.washout  # within its recording
            step = row + (recording + 1) * inner.washout  # among all
            yield DeviceRows(self._rows(u, t, step), spans_between(counts, first, last))

    def _rows(self, u: Tensor, t: Tensor, step: Tensor) -> Tensor:
        """Return the rows (F, n) of steps t (n,) of their recordings, which are `step` of u."""
        delayed = []
        for d in range(self.inner.delays):
            back = d * self.inner.stride
            past = u[(step - back).clamp_(min=0)]
            delayed.append(past.masked_fill_((t < back)[:, None], 0.0).T)
        x = torch.cat(delayed)
        found = [torch.ones_like(x[:1]), x]
        for pairs in self.products[:1]:
            found.append(x[pairs[0]] * x[pairs[1]])
        for triples in self.products[1:]:
            pair = (x[triples[0]] * x[triples[1]]).add_(R_DELAY).sub_(R_DELAY)
            found.append(pair.mul_(x[triples[2]]))
        return torch.cat(found)
