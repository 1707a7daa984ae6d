"""The activations of a grid as torch operations: the definition in `activations`, one by one.

Nothing here may be fused by a compiler that is free to reorder additions: the roundings are written
as additions of a large number. Fused multiply-adds are harmless, because the products are exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

from catchment.features.echo_state import ACTIVATIONS, LINEAR_BOUND, ROUND
from catchment.features.echo_state import kernels as grid

TANH, SIGMOID, RELU, SIN, IDENTITY = range(len(ACTIVATIONS))
ONE_BITS = 0x3FF0000000000000  # of 1.0


def _round(x: Tensor, rounder: float) -> Tensor:
    return x.add_(rounder).sub_(rounder)


def _horner(p: Tensor, r: Tensor, constant: float | Tensor, rounder: float) -> Tensor:
    """p = round(p r + constant), in place; one addition, so that there is one rounding."""
    return p.mul_(r).add_(constant + rounder).sub_(rounder)


def growth(y: Tensor) -> Tensor:
    """Return e^y - 1 for y in 0..20 with 26 binary digits after the point."""
    shifted = (y * grid.LOG2E).add_(ROUND)
    r = y - (shifted - ROUND).mul_(grid.LN2)
    p = torch.full_like(r, grid.C4)
    for constant in (grid.C3, grid.C2, grid.C1, grid.C0, 0.0, r):
        p = _horner(p, r, constant, grid.R27)
    scale = (shifted.view(torch.int64) << 52).add_(ONE_BITS).view(torch.float64)
    return p.mul_(scale).add_(scale.sub_(1.0))


def tanh(x: Tensor, rounder: float, top: float) -> Tensor:
    """Return tanh on the grid of a rounder, at most `top`."""
    y = _round((x + x).abs_(), grid.R26).clamp_(max=grid.LARGEST)
    e = growth(y)
    return _round(e / (e + 2.0), rounder).clamp_(max=top).copysign_(x)


def sigmoid(x: Tensor, rounder: float, top: float) -> Tensor:
    """Return the logistic function on the grid of a rounder."""
    e = growth(_round(x.abs(), grid.R26).clamp_(max=grid.LARGEST))
    upper = _round((e + 1.0) / (e + 2.0), rounder).clamp_(max=top)
    return torch.where(x >= 0.0, upper, 1.0 - upper)


def sin(x: Tensor, rounder: float, top: float) -> Tensor:
    """Return sin on the grid of a rounder; arguments beyond 64 count as 64."""
    a = x.abs().clamp_(max=grid.FARTHEST)
    shifted = _round(a.clone(), grid.R26).mul_(grid.OVER_PI).add_(ROUND)
    r = _round(a - (shifted - ROUND).mul_(grid.PI), grid.R25)
    z = _round(r * r, grid.R24)
    p = _horner(torch.full_like(z, grid.S4), z, grid.S3, grid.R36)
    p = _horner(p, z, grid.S2, grid.R30)
    p = _horner(p, z, grid.S1, grid.R30)
    p = _horner(p, z, grid.S0, grid.R29)
    p = _horner(p, z, 0.0, grid.R27)
    p = _horner(p, r, r, grid.R27)
    odd = (shifted.view(torch.int64) & 1).to(torch.float64)
    p = _round(p, rounder).clamp_(-top, top)
    return p.mul_(odd.mul_(-2.0).add_(1.0)).mul_(torch.ones_like(x).copysign_(x))


def linear(x: Tensor, rounder: float) -> Tensor:
    """Return x on the grid of a rounder, cut off where linear units end."""
    return _round(x.clone(), rounder).clamp_(-LINEAR_BOUND, LINEAR_BOUND)


def plain(code: int, p: Tensor) -> Tensor:
    """Return the activation of pre-activations by torch's own functions, on no grid.

    >>> plain(RELU, torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if code == IDENTITY:
        return p.clone()
    return {TANH: torch.tanh, SIGMOID: torch.sigmoid, RELU: torch.relu, SIN: torch.sin}[code](p)


def activate(code: int, p: Tensor, digits: int | None) -> Tensor:
    """Return the activation of pre-activations, as float64 numbers on a grid of so many digits.

    Without digits they are plain float64 numbers.

    >>> activate(TANH, torch.tensor([0.0, 0.5, -9.0], dtype=torch.float64), 8) * 256
    tensor([   0.,  118., -255.], dtype=torch.float64)
    """
    if digits is None:
        return plain(code, p)
    rounder, top = grid.rounder(digits), 1.0 - 2.0**-digits
    if code == TANH:
        return tanh(p, rounder, top)
    if code == SIGMOID:
        return sigmoid(p, rounder, top)
    if code == SIN:
        return sin(p, rounder, top)
    found = linear(p, rounder)
    return found.clamp_(min=0.0) if code == RELU else found
