"""The layers of a reservoir as torch tensors, on any device.

On a grid everything but the activation is exact, so matrix products, sparse products and compiled
kernels give the same numbers here as on the CPU, in whichever order a device adds. Without one they
agree to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment.features.echo_state import DENSE_FROM, Program, rounder
from catchment_gpu.echo_state import cuda_kernels
from catchment_gpu.echo_state.activations import activate

DENSE_UNITS = 1024  # up to here a dense product is no slower than a sparse one without own kernels


@dataclass(frozen=True, eq=False)
class TorchLayer:
    """One layer on a device: rows over [x; u; 1], rounded, and per-unit values."""

    digits: int | None  # of the grid, if it is on one
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

        With `fused` the kernels of `cuda_kernels` do it, else torch operations.
        """
        N, T, B = S.shape
        lanes = self.sparse_lanes(B) if fused else 0
        if lanes:
            parts = (self.rows, self.leak, self.code, U, X, S, self.digits, lanes)
            cuda_kernels.run_sparse(*parts)
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
        return cuda_kernels.lanes_of_a_block(self.n_units + self.n_inputs + 1, n_lanes)

    def _step(self, X: Tensor, S: Tensor, *, fused: bool) -> None:
        """Turn S (N, B), what drives a step, into the states after it; X are those before."""
        if fused and not self.recurrent.is_sparse:
            S.addmm_(self.recurrent, X)
            cuda_kernels.step_into(X, S, (self.bias, self.leak, self.code), self.digits)
            return
        P = torch.mm(self.recurrent, X).add_(S).add_(self.bias)
        S.copy_(self._leaked(X, self._activated(P)))

    def _activated(self, P: Tensor) -> Tensor:
        code, units = self.groups[0]
        if units is None:
            return activate(code, P, self.digits)
        Y = torch.empty_like(P)
        for code, units in self.groups:
            assert units is not None
            Y[units] = activate(code, P[units], self.digits)
        return Y

    def _leaked(self, X: Tensor, Y: Tensor) -> Tensor:
        a = self.leak[:, None]
        Z = ((1.0 - a) * X).add_(Y.mul_(a))
        if self.digits is None:
            return Z
        G = rounder(self.digits)
        return Z.add_(G).sub_(G)


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
