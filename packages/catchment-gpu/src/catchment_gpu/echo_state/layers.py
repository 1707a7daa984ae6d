"""The layers of a reservoir as torch tensors, on any device.

In fixed point everything but the activation is exact, so matrix products, sparse products and
compiled kernels give the same numbers here as on the CPU, in whichever order a device adds. Without
one they agree to rounding. Activations in fixed point follow `kernels`, one operation
after the other: nothing here may be fused by a compiler that is free to reorder additions, because
the roundings are written as additions of a large number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment.features.echo_state import (
    ACTIVATIONS,
    DENSE_FROM,
    LINEAR_BOUND,
    ROUND,
    Program,
    kernels,
)
from catchment_gpu.echo_state import cuda

DENSE_UNITS = 1024  # up to here a dense product is no slower than a sparse one without own kernels
TANH, SIGMOID, RELU, SIN, IDENTITY = range(len(ACTIVATIONS))
ONE_BITS = 0x3FF0000000000000  # of 1.0


def _round(x: Tensor, rounder: float) -> Tensor:
    return x.add_(rounder).sub_(rounder)


def _horner(p: Tensor, r: Tensor, constant: float | Tensor, rounder: float) -> Tensor:
    """p = round(p r + constant), in place; one addition, so that there is one rounding."""
    return p.mul_(r).add_(constant + rounder).sub_(rounder)


def growth(y: Tensor) -> Tensor:
    """Return e^y - 1 for y in 0..20 with 26 binary digits after the point."""
    shifted = (y * kernels.LOG2E).add_(ROUND)
    r = y - (shifted - ROUND).mul_(kernels.LN2)
    p = torch.full_like(r, kernels.C4)
    for constant in (kernels.C3, kernels.C2, kernels.C1, kernels.C0, 0.0, r):
        p = _horner(p, r, constant, kernels.R27)
    scale = (shifted.view(torch.int64) << 52).add_(ONE_BITS).view(torch.float64)
    return p.mul_(scale).add_(scale.sub_(1.0))


def tanh(x: Tensor, rounder: float, top: float) -> Tensor:
    """Return tanh in fixed point of a rounder, at most `top`."""
    y = _round((x + x).abs_(), kernels.R26).clamp_(max=kernels.LARGEST)
    e = growth(y)
    return _round(e / (e + 2.0), rounder).clamp_(max=top).copysign_(x)


def sigmoid(x: Tensor, rounder: float, top: float) -> Tensor:
    """Return the logistic function in fixed point of a rounder."""
    e = growth(_round(x.abs(), kernels.R26).clamp_(max=kernels.LARGEST))
    upper = _round((e + 1.0) / (e + 2.0), rounder).clamp_(max=top)
    return torch.where(x >= 0.0, upper, 1.0 - upper)


def sin(x: Tensor, rounder: float, top: float) -> Tensor:
    """Return sin in fixed point of a rounder; arguments beyond 64 count as 64."""
    a = x.abs().clamp_(max=kernels.FARTHEST)
    shifted = _round(a.clone(), kernels.R26).mul_(kernels.OVER_PI).add_(ROUND)
    r = _round(a - (shifted - ROUND).mul_(kernels.PI), kernels.R25)
    z = _round(r * r, kernels.R24)
    p = _horner(torch.full_like(z, kernels.S4), z, kernels.S3, kernels.R36)
    p = _horner(p, z, kernels.S2, kernels.R30)
    p = _horner(p, z, kernels.S1, kernels.R30)
    p = _horner(p, z, kernels.S0, kernels.R29)
    p = _horner(p, z, 0.0, kernels.R27)
    p = _horner(p, r, r, kernels.R27)
    odd = (shifted.view(torch.int64) & 1).to(torch.float64)
    p = _round(p, rounder).clamp_(-top, top)
    return p.mul_(odd.mul_(-2.0).add_(1.0)).mul_(torch.ones_like(x).copysign_(x))


def activate(code: int, p: Tensor, digits: int | None) -> Tensor:
    """Return the activation of pre-activations in fixed point of so many digits.

    Without digits it is by torch's own functions, in float64.

    >>> activate(TANH, torch.tensor([0.0, 0.5, -9.0], dtype=torch.float64), 8) * 256
    tensor([   0.,  118., -255.], dtype=torch.float64)
    """
    if digits is None:
        own = {TANH: torch.tanh, SIGMOID: torch.sigmoid, RELU: torch.relu, SIN: torch.sin}
        return p.clone() if code == IDENTITY else own[code](p)
    rounder, top = kernels.rounder(digits), 1.0 - 2.0**-digits
    if code in (TANH, SIGMOID, SIN):
        return {TANH: tanh, SIGMOID: sigmoid, SIN: sin}[code](p, rounder, top)
    # Linear units are cut off.
    low = 0.0 if code == RELU else -LINEAR_BOUND
    return _round(p.clone(), rounder).clamp_(low, LINEAR_BOUND)


@dataclass(frozen=True, eq=False)
class TorchLayer:
    """One layer on a device: rows over [x; u; 1], rounded, and per-unit values."""

    digits: int | None  # of fixed point, if states are in it
    rows: tuple[Tensor, Tensor, Tensor]  # starts, columns, values
    recurrent: Tensor  # (N, N), dense or sparse
    drive: Tensor  # (N, I), dense or sparse
    bias: Tensor  # (N, 1)
    leak: Tensor  # (N,)
    code: Tensor  # (N,) index into ACTIVATIONS
    groups: tuple[tuple[int, Tensor | None], ...]  # activations and their units; None: all
    sparse: bool

    @classmethod
    def of(cls, program: Program, digits: int | None, device: torch.device) -> TorchLayer:
        """Return the layer of a program whose weights and leaks are rounded already."""
        N, I = program.n_units, program.n_inputs
        columns = program.columns.astype(np.int64)
        rows = np.repeat(np.arange(N), np.diff(program.starts))
        density = np.count_nonzero(columns < N) / (N * N)
        sparse = program.dense is None and bool(density < DENSE_FROM)

        def part(first: int, last: int) -> Tensor:
            here = (first <= columns) & (columns < last)
            shape = (N, last - first)
            if sparse and N > DENSE_UNITS:
                places = torch.from_numpy(np.stack([rows[here], columns[here] - first]))
                with torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]
                    found = torch.sparse_coo_tensor(
                        places, torch.from_numpy(program.values[here]), shape
                    )
                    return found.to(device).coalesce()
            matrix = np.zeros(shape)
            matrix[rows[here], columns[here] - first] = program.values[here]
            return torch.from_numpy(matrix).to(device)

        bias = np.zeros(N)
        constant = columns == N + I
        bias[rows[constant]] = program.values[constant]
        codes = [int(code) for code in np.unique(program.activation)]
        groups: tuple[tuple[int, Tensor | None], ...] = ((codes[0], None),)
        if len(codes) > 1:
            units = [np.flatnonzero(program.activation == code) for code in codes]
            groups = tuple(
                (code, torch.from_numpy(k).to(device)) for code, k in zip(codes, units, strict=True)
            )
        return cls(
            digits,
            (
                torch.from_numpy(program.starts).to(device),
                torch.from_numpy(columns.astype(np.int32)).to(device),
                torch.from_numpy(program.values.astype(np.float64)).to(device),
            ),
            part(0, N),
            part(N, N + I),
            torch.from_numpy(bias[:, None]).to(device),
            torch.from_numpy(program.leak.astype(np.float64)).to(device),
            torch.from_numpy(np.ascontiguousarray(program.activation)).to(device),
            groups,
            sparse,
        )

    @property
    def n_units(self) -> int:
        return len(self.leak)

    @property
    def n_inputs(self) -> int:
        return self.drive.shape[1]

    def run(self, U: Tensor, X: Tensor, S: Tensor, *, fused: bool) -> None:
        """Advance X (N, B) over U (I, T, B), into S (N, T, B); all contiguous.

        With `fused` the kernels of `cuda` do it, else torch operations.
        """
        N, T, B = S.shape
        lanes = self.sparse_lanes(B) if fused else 0
        if lanes:
            parts = (self.rows, self.leak, self.code, U, X, S, self.digits, lanes)
            cuda.run_sparse(*parts)
            return
        flat = U.reshape(len(U), T * B)
        if self.drive.is_sparse:
            S.copy_(torch.mm(self.drive, flat).view(N, T, B))
        else:
            torch.mm(self.drive, flat, out=S.view(N, T * B))
        before = X
        for t in range(T):
            self._step(before, S[:, t], fused=fused)
            before = S[:, t]
        X.copy_(before)

    def sparse_lanes(self, n_lanes: int) -> int:
        """Return how many lanes a block of the kernel for sparse layers holds, 0 for none."""
        if not self.sparse:
            return 0
        return cuda.lanes_of_a_block(self.n_units + self.n_inputs + 1, n_lanes)

    def _step(self, X: Tensor, S: Tensor, *, fused: bool) -> None:
        """Turn S (N, B), what drives a step, into the states after it; X are those before."""
        if fused and not self.recurrent.is_sparse:
            S.addmm_(self.recurrent, X)
            cuda.step_into(X, S, (self.bias, self.leak, self.code), self.digits)
            return
        P = torch.mm(self.recurrent, X).add_(S).add_(self.bias)
        a = self.leak[:, None]
        Z = ((1.0 - a) * X).add_(self._activated(P).mul_(a))
        S.copy_(Z if self.digits is None else _round(Z, kernels.rounder(self.digits)))

    def _activated(self, P: Tensor) -> Tensor:
        code, units = self.groups[0]
        if units is None:
            return activate(code, P, self.digits)
        Y = torch.empty_like(P)
        for code, units in self.groups:
            assert units is not None
            Y[units] = activate(code, P[units], self.digits)
        return Y


def through_layers(
    layers: Sequence[TorchLayer], states: Sequence[Tensor], rows: Tensor, *, fused: bool
) -> None:
    """Advance all layers over the inputs in rows (1 + I + N + .., T, B), and write states there.

    `states` (N_l, B) are those before the first step, and afterwards those of the last.
    """
    first = 1
    for layer, X in zip(layers, states, strict=True):
        middle = first + layer.n_inputs
        last = middle + layer.n_units
        layer.run(rows[first:middle], X, rows[middle:last], fused=fused)
        first = middle
