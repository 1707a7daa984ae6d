"""Feature rows of an echo state map on a grid, computed by torch on any device.

form = TorchForm(features, "cuda")
for block in form.blocks(inputs): ...     # (F, steps, lanes) whole numbers on the device
form.rows(inputs)                         # what features.rows(inputs) returns, to the bit
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment.arrays import Array
from catchment.features.echo_state import cuda_kernels
from catchment.features.echo_state.segments import cut_places
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.echo_state.torch_layers import TorchLayer, through_layers
from catchment.features.grid import digits_after_point, on_grid

LANES = {"cpu": 64, "cuda": 16384}  # at most, side by side
NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 28}  # of a block, about


@dataclass(frozen=True)
class Piece:
    """A stretch of a sequence that runs by itself: from `begin`, counted from `first`, to `end`."""

    source: int
    begin: int
    first: int
    end: int


@dataclass(frozen=True, eq=False)
class TorchBlock:
    """Some steps of some pieces: rows (1 + I + N, T, B) of which `used` (T, B) count."""

    rows: Tensor
    used: Tensor | None  # None if all do
    pieces: tuple[Piece, ...]
    start: int  # steps after each piece's beginning


def cut_into_pieces(lengths: Sequence[int], cut: tuple[int, int], washout: int) -> list[Piece]:
    """Return the pieces of sequences, longest first.

    >>> [(p.begin, p.first, p.end) for p in cut_into_pieces([10], (4, 1), 2)]
    [(3, 4, 8), (0, 2, 4), (7, 8, 10)]
    """
    found = [
        Piece(source, *place)
        for source, n_steps in enumerate(lengths)
        for place in cut_places(n_steps, cut, washout)
    ]
    return sorted(found, key=lambda p: (p.begin - p.end, p.source, p.begin))


class TorchForm:
    """An echo state map on a grid, on one device.

    Parameters
    ----------
    features
        A map whose reservoir has a grid.
    device
        As torch names it: "cpu", "cuda", "cuda:1".
    fused
        Whether compiled kernels advance the states; where they can if not given. The numbers are
        the same.
    """

    def __init__(
        self, features: EchoStateMap, device: str | torch.device, *, fused: bool | None = None
    ) -> None:
        grid = features.reservoir.grid
        if grid is None:
            raise ValueError(
                "the reservoir has no grid, so its states depend on the machine; give it one "
                "(grid=20), or leave the device out"
            )
        self.features, self.digits = features, grid
        self.device = torch.device(device)
        on_gpu = self.device.type == "cuda"
        self.fused = on_gpu and cuda_kernels.available() if fused is None else fused
        self.layers = [TorchLayer.of(p, grid, self.device) for p in features.programs]

    def blocks(self, inputs: Sequence[Array]) -> Iterator[TorchBlock]:
        """Yield the steps of checked inputs (T, I) on the grid, those of a washout left out.

        A block is valid until the next one is taken.
        """
        reservoir = self.features.reservoir
        lengths = [len(u) for u in inputs]
        pieces = cut_into_pieces(lengths, reservoir.cut or (0, 0), self.features.washout)
        height = 1 + reservoir.n_inputs + reservoir.n_units
        lanes = min(LANES[self.device.type], max(1, NUMBERS[self.device.type] // height))
        for k in range(0, len(pieces), lanes):
            yield from self._batch(inputs, tuple(pieces[k : k + lanes]), height)

    def _batch(
        self, inputs: Sequence[Array], pieces: tuple[Piece, ...], height: int
    ) -> Iterator[TorchBlock]:
        B, I = len(pieces), self.features.n_inputs
        longest = max(piece.end - piece.begin for piece in pieces)
        steps = min(longest, max(1, NUMBERS[self.device.type] // (height * B)))
        memory = torch.empty(height * steps * B, dtype=torch.float64, device=self.device)
        states = [memory.new_zeros((layer.n_units, B)) for layer in self.layers]
        firsts = np.array([piece.first - piece.begin for piece in pieces])
        ends = np.array([piece.end - piece.begin for piece in pieces])
        for start in range(0, longest, steps):
            T = min(steps, longest - start)
            rows = memory[: height * T * B].view(height, T, B)
            rows[0] = 1.0
            rows[1 : 1 + I] = self.side_by_side(inputs, (pieces, start, T), 0.0)
            through_layers(self.layers, states, rows, fused=self.fused)
            if start + T > firsts.min():
                used = self._between(firsts - start, ends - start, T)
                yield TorchBlock(rows, used, pieces, start)

    def side_by_side(
        self, sequences: Sequence[Array], block: tuple[tuple[Piece, ...], int, int], fill: float
    ) -> Tensor:
        """Return steps of (T, n) sequences, or of constants (n,), as (n, steps, lanes).

        `block` is its pieces, its first step and its number of steps; where a piece has ended
        stands `fill`.
        """
        pieces, start, T = block
        n = sequences[0].shape[-1]
        if all(sequences[piece.source].ndim == 1 for piece in pieces):
            constant = np.stack([sequences[piece.source] for piece in pieces], axis=1)
            return torch.from_numpy(constant).to(self.device)[:, None].expand(n, T, len(pieces))
        side = np.full((len(pieces), T, n), fill)
        for b, piece in enumerate(pieces):
            first = piece.begin + start
            part, last = sequences[piece.source], min(first + T, piece.end)
            if first < last:
                side[b, : last - first] = part if part.ndim == 1 else part[first:last]
        return torch.from_numpy(side).to(self.device).permute(2, 1, 0)

    def _between(self, low: Array, high: Array, T: int) -> Tensor | None:
        """Return which of T steps (T, B) are in low..high (B,), None if all are."""
        if low.max() <= 0 and high.min() >= T:
            return None
        t = torch.arange(T, device=self.device)[:, None]
        above = t >= torch.from_numpy(low).to(self.device)
        return above & (t < torch.from_numpy(high).to(self.device))

    def select(self, rows: Tensor) -> Tensor:
        """Return the rows (F, ..) of a block that are features of a step."""
        I, N = self.features.n_inputs, self.features.reservoir.n_units
        chosen = (
            (self.features.bias, 0, 1),
            (self.features.input, 1, 1 + I),
            (self.features.state, 1 + I, 1 + I + N),
        )
        parts = [rows[first:last] for wanted, first, last in chosen if wanted]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def whole(self, z: Tensor) -> Tensor:
        """Return features (F, ..) as whole numbers of their grid, float64."""
        bits = self.features.grid
        assert bits is not None
        digits = digits_after_point(self.features.bounds, bits)
        scale = torch.from_numpy(np.ldexp(1.0, digits)).to(self.device)
        shape = (-1, *[1] * (z.ndim - 1))
        return (z * scale.view(shape)).round_().clamp_(-(2.0**bits), 2.0**bits)

    def rows(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the feature rows of each sequence of checked inputs, those of `features.rows`."""
        features = self.features
        if not features.per_step:
            from catchment.features.echo_state.torch_pooling import pooled_rows

            return [self._rounded(row[None]) for row in pooled_rows(self, inputs)]
        out = [np.empty((len(u) - features.washout, features.n_features)) for u in inputs]
        for block in self.blocks(inputs):
            z = self.select(block.rows).permute(2, 1, 0).cpu().numpy()
            for b, piece in enumerate(block.pieces):
                first = max(piece.first, piece.begin + block.start)
                last = min(piece.end, piece.begin + block.start + z.shape[1])
                if first < last:
                    place = slice(first - features.washout, last - features.washout)
                    at = piece.begin + block.start
                    out[piece.source][place] = z[b, first - at : last - at]
        return [self._rounded(z) for z in out]

    def _rounded(self, rows: Array) -> Array:
        """Return rows (n, F) on the grid of the features, if they have one."""
        bits = self.features.grid
        if bits is None:
            return rows
        return on_grid(rows, digits_after_point(self.features.bounds, bits), bits)
