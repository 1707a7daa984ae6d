"""Maps that mix another map's rows: projections, random features and layers on a device.

Projections and random features on a grid have the bits of the CPU: their sums are exact, or made in
one order, and what is not exact is one IEEE operation. Layers are plain float64 there and here, and
their last digits may differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment import Array
from catchment.features import (
    FARTHEST,
    LARGEST_RELU,
    R_SINE,
    TOP,
    TURN,
    VALUE_DIGITS,
    FeatureMap,
    Layers,
    Projected,
    RandomFourier,
    form,
)
from catchment.features.echo_state import ROUND
from catchment_gpu.arrays import block_numbers, joined
from catchment_gpu.concat import HostForm
from catchment_gpu.echo_state import activations as torch_activations
from catchment_gpu.rows import (
    DeviceForm,
    DeviceRows,
    Span,
    WindowBlocks,
    WindowForm,
    form_of,
    spans_of_columns,
)

PASSES = 4  # a block has so many times fewer numbers than it might: what makes it is as large

Mixing = Callable[[Tensor], Tensor]


@form("torch", Layers, Projected, RandomFourier)
def mixing_form(
    outer: Layers | Projected | RandomFourier, device: torch.device
) -> DeviceForm | WindowForm:
    """Return the form of a map that mixes rows; rows that have none are made on the CPU."""
    inner: FeatureMap | None
    match outer:
        case Projected():
            inner, mixed = outer.inner, projection(outer, device)
        case RandomFourier():
            inner = outer.map
            mixed = random_features(outer, device)
        case Layers():
            inner, mixed = outer.map, layers(outer, device)
    most = max(1, block_numbers(device) // (PASSES * outer.n_features))
    if inner is None:
        return MixedBlocks(InputsForm(device), mixed, most)
    form = form_of(inner, device)
    if isinstance(form, WindowBlocks):
        return MixedWindows(form.form, mixed)
    return MixedBlocks(HostForm(inner, device) if form is None else form, mixed, most)


@dataclass(frozen=True, eq=False)
class MixedWindows:
    """Mixed rows of a map with one per recording."""

    inner: WindowForm
    mixed: Mixing

    def together(self, u: Tensor) -> Tensor:
        return self.mixed(self.inner.together(u))


@dataclass(frozen=True, eq=False)
class MixedBlocks:
    """Mixed rows of any map, at most so many together."""

    inner: DeviceForm
    mixed: Mixing
    most: int

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        for block in self.inner.blocks(inputs):
            for first in range(0, block.z.shape[1], self.most):
                z = self.mixed(block.z[:, first : first + self.most])
                spans = spans_of_columns(block.spans, first, first + z.shape[1])
                yield DeviceRows(z, spans)


@dataclass(frozen=True, eq=False)
class InputsForm:
    """The inputs of every step, as they are."""

    device: torch.device

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        spans = tuple(Span(k, 0, len(u)) for k, u in enumerate(inputs))
        yield DeviceRows(joined(inputs, self.device).T, spans)


def projection(outer: Projected, device: torch.device) -> Mixing:
    """Return how rows (F, n) are projected, by the additions of `hadamard_sums` in their order."""
    flips, kept = (torch.from_numpy(one.copy()).to(device) for one in outer._drawn)
    F, p, bound = len(flips), outer._padded, outer.bound
    # A tensor, because a GPU multiplies by the inverse of a plain number, which rounds twice.
    root = torch.tensor([math.sqrt(F)], dtype=torch.float64, device=device)

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
        return (rows[kept] / root).clamp_(-bound, bound)

    return mixed


def random_features(outer: RandomFourier, device: torch.device) -> Mixing:
    """Return how rows (F, n) become random features; every sum is exact."""
    W, phases = (torch.from_numpy(one.T.copy()).to(device) for one in outer._weights)
    unit = 2.0**VALUE_DIGITS

    def mixed(x: Tensor) -> Tensor:
        values = W @ (x.clamp(-FARTHEST, FARTHEST) * unit).round_().div_(unit)
        if outer.activation == "relu":
            return values.clamp_(0.0, LARGEST_RELU)
        v = values.add_(phases[:, None]).add_(0.25)
        v -= (v + ROUND).sub_(ROUND)
        return torch_activations.sin(v.mul_(TURN), R_SINE, TOP)

    return mixed


def layers(outer: Layers, device: torch.device) -> Mixing:
    """Return how rows (F, n) go through residual layers, in plain float64."""
    width, random, n_steps = outer.width, outer.random, len(outer.steps)
    sizes = [(outer.map.n_features, width)] + [(width, random)] * (n_steps + outer.beside)
    drawn = [outer.weights(t, *size) for t, size in enumerate(sizes)]
    there = [tuple(torch.from_numpy(one.T.copy()).to(device) for one in pair) for pair in drawn]
    steps = torch.from_numpy(np.array(outer.steps, dtype=np.float64)).to(device)

    def activated(x: Tensor, layer: int) -> Tensor:
        A, b = there[layer]
        return torch.tanh(A @ x + b[:, None])

    def mixed(z: Tensor) -> Tensor:
        x = activated(z * outer.scale, 0)
        for t, step in enumerate(steps):
            x = x + step.T @ activated(x, t + 1)
        return torch.cat([x, activated(x, n_steps + 1)]) if outer.beside else x

    return mixed
