"""Maps without states on a device: delayed inputs, and maps of maps.

Their rows have the bits of the CPU where they are in fixed point: sums are exact, or made in one
order, and what is not exact is one IEEE operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np
import torch
from torch import Tensor

from catchment import Array
from catchment.features import (
    DIGITS,
    FARTHEST,
    LARGEST_RELU,
    LIMIT,
    NVAR,
    R_DELAY,
    R_SINE,
    RANGE,
    TOP,
    TURN,
    VALUE_DIGITS,
    AppendNorm,
    FeatureUnion,
    RandomFourierFeatures,
    RandomProjection,
    form,
    inputs_with_norm,
)
from catchment.features.echo_state import ROUND
from catchment_gpu.echo_state import sin
from catchment_gpu.rows import (
    NUMBERS,
    DeviceForm,
    DeviceRows,
    block_numbers,
    form_of,
    joined,
    limited,
    root,
)

PASSES = 4  # a block has so many times fewer numbers than it might: what makes it is as large

Mixing = Callable[[Tensor], Tensor]


@form("torch", NVAR)
class NVARForm(DeviceForm):
    """Monomials of delayed inputs: every product is exact."""

    features: NVAR
    by_length = False

    def __init__(self, features: NVAR, device: torch.device) -> None:
        super().__init__(features, device)
        factors = range(features.delays * features.known_inputs)
        # Which inputs each product of two, and of three, multiplies: (factors, products).
        self.products = [
            torch.tensor(list(combinations_with_replacement(factors, order)), device=device).T
            for order in range(2, features.order + 1)
        ]

    def compute_blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        washout = self.features.washout
        u = limited(self.features, inputs, LIMIT, self.device).add_(R_DELAY).sub_(R_DELAY)
        counts = np.array([len(one) - washout for one in inputs])
        ends = torch.from_numpy(np.cumsum(counts)).to(self.device)
        begin = torch.from_numpy(np.cumsum(counts) - counts).to(self.device)
        n = int(counts.sum())
        most = max(1, block_numbers(self.device) // (PASSES * self.features.n_features))
        for first in range(0, n, most):
            row = torch.arange(first, min(first + most, n), device=self.device)
            recording = torch.searchsorted(ends, row, right=True)
            step = row + (recording + 1) * washout  # among all
            row = row - begin[recording]
            yield DeviceRows(self._rows(u, row + washout, step), recording, row)

    def _rows(self, u: Tensor, t: Tensor, step: Tensor) -> Tensor:
        """Return the rows (F, n) of steps t (n,) of their recordings, which are `step` of u."""
        delayed = []
        for d in range(self.features.delays):
            back = d * self.features.stride
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


@form("torch", AppendNorm)
class AppendNormForm(DeviceForm):
    """A map of inputs and norm."""

    def __init__(self, features: AppendNorm, device: torch.device) -> None:
        super().__init__(features, device)
        self.inner = form_of(features.map, device)
        self.by_length = self.inner.by_length

    def together(self, u: Tensor) -> Tensor:
        return self.inner.checked(self.inner.together(normed(u)))

    def compute_blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        if self.by_length:
            return super().compute_blocks(inputs)
        return self.inner.blocks([inputs_with_norm(u) for u in inputs])


def normed(u: Tensor) -> Tensor:
    """Return what `AppendNorm` does, of inputs (.., I) on any device.

    >>> normed(torch.tensor([[3.0, 4.0]]).double()).round(decimals=3).tolist()
    [[3.0, 4.0, 3.586]]
    """
    unit = 2.0**DIGITS
    x = (u.clamp(-RANGE, RANGE) * unit).round_().to(torch.int64)
    squares = x.mul_(x).sum(-1, keepdim=True).to(torch.float64)
    usual = math.isqrt(u.shape[-1] << 2 * DIGITS)
    length = root(squares).floor_().sub_(usual).div_(unit)
    return torch.cat([u, length], dim=-1)


@form("torch", FeatureUnion)
class FeatureUnionForm(DeviceForm):
    """Maps side by side; if their rows come in blocks of any order, put together by recordings."""

    features: FeatureUnion

    def __init__(self, features: FeatureUnion, device: torch.device) -> None:
        super().__init__(features, device)
        self.members = [form_of(one, device) for one in features.maps]
        self.by_length = all(one.by_length for one in self.members)

    def together(self, u: Tensor) -> Tensor:
        return torch.cat([one.checked(one.together(u)) for one in self.members])

    def compute_blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        if self.by_length:
            yield from super().compute_blocks(inputs)
            return
        features, at = self.features, 0
        n_rows = np.array([len(u) - features.washout if features.per_step else 1 for u in inputs])
        most = max(1, NUMBERS[self.device.type] // features.n_features)
        ends = np.cumsum(n_rows)
        while at < len(inputs):
            before = int(ends[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(ends, before + most, side="right")))
            starts = torch.from_numpy(ends - n_rows - before)[at:stop].to(self.device)
            z = self._side_by_side(inputs[at:stop], starts, int(ends[stop - 1]) - before)
            yield DeviceRows.in_order(z, n_rows[at:stop], at)
            at = stop

    def _side_by_side(self, inputs: Sequence[Array], starts: Tensor, n: int) -> Tensor:
        """Return the n rows (F, n) of some recordings, in order, each from its start on."""
        features, first = self.features, 0
        z = torch.empty((features.n_features, n), dtype=torch.float64, device=self.device)
        for one, member in zip(features.maps, self.members, strict=True):
            # Rows of a map before the longest washout's end are nobody's.
            late = features.washout - one.washout if features.per_step else 0
            part = z[first : first + one.n_features]
            for block in member.blocks(inputs):
                row = block.row - late
                kept = row >= 0 if block.used is None else (row >= 0) & block.used
                part[:, (starts[block.recording] + row)[kept]] = block.z[:, kept]
            first += one.n_features
        return z


@form("torch", RandomProjection, RandomFourierFeatures)
class MixedForm(DeviceForm):
    """Mixed rows of another map, at most so many together; a map without a form is on the CPU."""

    features: RandomProjection | RandomFourierFeatures

    def __init__(
        self, features: RandomProjection | RandomFourierFeatures, device: torch.device
    ) -> None:
        super().__init__(features, device)
        inner = features.inner_maps[0] if features.inner_maps else None
        self.inner = None if inner is None else form_of(inner, device)
        self.by_length = self.inner is not None and self.inner.by_length
        match features:
            case RandomProjection():
                self.mixed = projection(features, device)
            case RandomFourierFeatures():
                self.mixed = random_features(features, device)

    def together(self, u: Tensor) -> Tensor:
        assert self.inner is not None
        return self.mixed(self.inner.checked(self.inner.together(u)))

    def compute_blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        if self.by_length:
            yield from super().compute_blocks(inputs)
            return
        most = max(1, block_numbers(self.device) // (PASSES * self.features.n_features))
        if self.inner is None:
            u = joined(inputs, self.device).T
            blocks = iter([DeviceRows.in_order(u, [len(one) for one in inputs])])
        else:
            blocks = self.inner.blocks(inputs)
        for block in blocks:
            for first in range(0, block.z.shape[1], most):
                some = slice(first, first + most)
                used = None if block.used is None else block.used[some]
                z = self.mixed(block.z[:, some])
                yield DeviceRows(z, block.recording[some], block.row[some], used)


def projection(outer: RandomProjection, device: torch.device) -> Mixing:
    """Return how rows (F, n) are projected, by the additions of `hadamard_sums` in their order."""
    flips, kept = (torch.from_numpy(one.copy()).to(device) for one in outer._drawn)
    F, p, bound = len(flips), outer._padded, outer.bound
    # A tensor, because a GPU multiplies by the inverse of a plain number, which rounds twice.
    divisor = torch.tensor([math.sqrt(F)], dtype=torch.float64, device=device)

    def mixed(z: Tensor) -> Tensor:
        n, half = z.shape[1], 1
        rows = z.new_zeros((p, n))
        torch.mul(z, flips[:, None], out=rows[:F])
        while half < p:
            pairs = rows.view(p // (2 * half), 2, half, n)
            sums = torch.empty_like(pairs)
            torch.add(pairs[:, 0], pairs[:, 1], out=sums[:, 0])
            torch.sub(pairs[:, 0], pairs[:, 1], out=sums[:, 1])
            rows, half = sums.view(p, n), 2 * half
        return (rows[kept] / divisor).clamp_(-bound, bound)

    return mixed


def random_features(outer: RandomFourierFeatures, device: torch.device) -> Mixing:
    """Return how rows (F, n) become random features; every sum is exact."""
    W, phases = (torch.from_numpy(one.T.copy()).to(device) for one in outer._weights)
    unit = 2.0**VALUE_DIGITS

    def mixed(x: Tensor) -> Tensor:
        values = W @ (x.clamp(-FARTHEST, FARTHEST) * unit).round_().div_(unit)
        if outer.activation == "relu":
            return values.clamp_(0.0, LARGEST_RELU)
        v = values.add_(phases[:, None]).add_(0.25)
        v -= (v + ROUND).sub_(ROUND)
        return sin(v.mul_(TURN), R_SINE, TOP)

    return mixed
