"""The length of the input vector as a further channel, computed on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from catchment import Array
from catchment.features import DIGITS, RANGE, WithNorm, form, inputs_with_norm
from catchment_gpu.exact import root
from catchment_gpu.rows import DeviceForm, DeviceRows, WindowBlocks, WindowForm, form_of


@form("torch", WithNorm)
def with_norm_form(outer: WithNorm, device: torch.device) -> DeviceForm | WindowForm | None:
    """Return the form of a map of inputs and norm, None if the map inside has none."""
    inner = form_of(outer.map, device)
    if isinstance(inner, WindowBlocks):
        return WindowsWithNorm(inner.form)
    return None if inner is None else BlocksWithNorm(inner)


@dataclass(frozen=True, eq=False)
class WindowsWithNorm:
    """A map with one row per recording, of inputs and norm."""

    inner: WindowForm

    def together(self, u: Tensor) -> Tensor:
        return self.inner.together(normed(u))


@dataclass(frozen=True, eq=False)
class BlocksWithNorm:
    """A map of inputs and norm, which is added on the CPU."""

    inner: DeviceForm

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        yield from self.inner.blocks([inputs_with_norm(u) for u in inputs])


def normed(u: Tensor) -> Tensor:
    """Return what `with_norm` does, of inputs (.., I) on any device.

    >>> normed(torch.tensor([[3.0, 4.0]]).double()).round(decimals=3).tolist()
    [[3.0, 4.0, 3.586]]
    """
    unit = 2.0**DIGITS
    x = (u.clamp(-RANGE, RANGE) * unit).round_().to(torch.int64)
    squares = x.mul_(x).sum(-1, keepdim=True).to(torch.float64)
    usual = math.isqrt(u.shape[-1] << 2 * DIGITS)
    length = root(squares).floor_().sub_(usual).div_(unit)
    return torch.cat([u, length], dim=-1)
