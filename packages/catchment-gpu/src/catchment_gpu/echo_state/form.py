"""Feature rows of an echo state map, computed by torch on any device.

form = form_on(features, "cuda")
for block in form.blocks(inputs): ...     # (1 + I + N, steps, lanes) on the device
form.rows(inputs)                         # what features.rows(inputs) returns, on a grid to the bit
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from catchment import Array, Integers
from catchment.features import EchoState
from catchment_gpu.echo_state import cuda_kernels
from catchment_gpu.echo_state.cuda_graphs import Repeated
from catchment_gpu.echo_state.layers import TorchLayer, through_layers
from catchment_gpu.echo_state.sequences import Lanes, Pieces, Uploaded, cut_into_pieces

LANES = {"cpu": 64, "cuda": 16384}  # at most, side by side
NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 28}  # of a block, about
GRAPH_STEPS = (32, 1024)  # least and most of a block that a GPU repeats as one graph...
GRAPH_COLUMNS = 8192  # ...where lanes are few so many steps times lanes
KEPT_FORMS = 4  # on devices, with the memory of the last shape of each


@dataclass(frozen=True, eq=False)
class TorchBlock:
    """Some steps of some pieces: rows (1 + I + N, T, B) of which `used` (T, B) count."""

    rows: Tensor
    used: Tensor | None  # None if all do
    pieces: Pieces
    start: int  # steps after each piece's beginning


class _Memory:
    """The rows (height, T, B) of a block and the states before it, advanced by repeated work."""

    def __init__(self, form: TorchForm, T: int, B: int) -> None:
        height = 1 + form.features.known_inputs + form.features.reservoir.n_units
        self.shape = (T, B)
        self.rows = torch.empty((height, T, B), dtype=torch.float64, device=form.device)
        self.rows[0] = 1.0
        self.states = [self.rows.new_zeros((layer.n_units, B)) for layer in form.layers]
        layers, states, rows, fused = form.layers, self.states, self.rows, form.fused

        def work() -> None:
            through_layers(layers, states, rows, fused=fused)

        self.advance = Repeated(work, form.device) if form.by_graph(B) else work

    def from_rest(self) -> None:
        for X in self.states:
            X.zero_()


class _Counted:
    """Which steps of pieces count: those from `firsts` (B,) to before `ends` (B,)."""

    def __init__(self, firsts: Integers, ends: Integers, device: torch.device) -> None:
        self.all = (int(firsts.max()), int(ends.min()))
        self.firsts, self.ends = torch.from_numpy(np.stack([firsts, ends])).to(device)

    def steps(self, start: int, T: int) -> Tensor | None:
        """Return which of T steps from `start` on count (T, B), None if all do."""
        if self.all[0] <= start and start + T <= self.all[1]:
            return None
        t = torch.arange(start, start + T, device=self.ends.device)[:, None]
        counted: Tensor = (t >= self.firsts) & (t < self.ends)
        return counted


class TorchForm:
    """An echo state map on one device; `form_on` keeps those that were used last.

    Parameters
    ----------
    features
        A map in float64; on a grid its rows are those of the CPU to the bit.
    device
        As torch names it: "cpu", "cuda", "cuda:1".
    fused
        Whether compiled kernels advance the states; where they can if not given. On a grid the
        numbers are the same.
    """

    def __init__(
        self, features: EchoState, device: str | torch.device, *, fused: bool | None = None
    ) -> None:
        if features.precision == "float32":
            raise ValueError(
                "the map computes in float32, and devices in float64; build it with "
                "precision='float64', or leave the device out"
            )
        self.features, self.digits = features, features.reservoir.grid
        self.device = torch.device(device)
        on_gpu = self.device.type == "cuda"
        self.fused = on_gpu and cuda_kernels.available() if fused is None else fused
        self.layers = [TorchLayer.of(p, self.digits, self.device) for p in features.programs]
        self._free: list[_Memory] = []

    def by_graph(self, n_lanes: int) -> bool:
        """Whether blocks are repeated as one graph: many launches, of nothing that allocates."""
        stepwise = [layer for layer in self.layers if not layer.sparse_lanes(n_lanes)]
        dense = all(not layer.recurrent.is_sparse for layer in stepwise)
        return self.fused and bool(stepwise) and dense

    def blocks(self, inputs: Sequence[Array]) -> Iterator[TorchBlock]:
        """Yield the steps of checked inputs (T, I), those of a washout left out.

        A block is valid until the next one is taken.
        """
        reservoir = self.features.reservoir
        lengths = [len(u) for u in inputs]
        pieces = cut_into_pieces(lengths, reservoir.cut or (0, 0), self.features.washout)
        height = 1 + reservoir.n_inputs + reservoir.n_units
        lanes = min(LANES[self.device.type], max(1, NUMBERS[self.device.type] // height))
        uploaded = Uploaded(inputs, self.device)
        for k in range(0, len(pieces), lanes):
            some = pieces.part(k, k + lanes)
            yield from self._batch(uploaded.lanes(some), some, height)

    def _batch(self, inputs: Lanes, pieces: Pieces, height: int) -> Iterator[TorchBlock]:
        B, I = len(pieces), self.features.known_inputs
        firsts, ends = pieces.first - pieces.begin, pieces.end - pieces.begin
        longest = int(ends.max())
        memory = self._memory(longest, B, height)
        T = memory.shape[0]
        counted = _Counted(firsts, ends, self.device)
        for start in range(0, longest, T):
            memory.rows[1 : 1 + I] = inputs.block(start, T, 0.0)
            memory.advance()
            if start + T > firsts.min():
                yield TorchBlock(memory.rows, counted.steps(start, T), pieces, start)
        if self.by_graph(B) and not self._free:
            self._free.append(memory)

    def _memory(self, longest: int, B: int, height: int) -> _Memory:
        """Return the memory of blocks that are equally long, at rest; the last one's if it fits."""
        most = NUMBERS[self.device.type] // (height * B)
        if self.by_graph(B):
            fewest, many = GRAPH_STEPS
            most = min(most, many, max(fewest, GRAPH_COLUMNS // B))
        n_blocks = -(-longest // max(1, most))
        T = -(-longest // n_blocks)
        # Taken out while in use: another thread that runs the form makes its own.
        try:
            memory = self._free.pop()
        except IndexError:
            memory = _Memory(self, T, B)
        if memory.shape != (T, B):
            memory = _Memory(self, T, B)
        memory.from_rest()
        return memory

    def select(self, rows: Tensor) -> Tensor:
        """Return the rows (F, ..) of a block that are features of a step."""
        I, N = self.features.known_inputs, self.features.reservoir.n_units
        chosen = (
            (self.features.bias, 0, 1),
            (self.features.input, 1, 1 + I),
            (self.features.state, 1 + I, 1 + I + N),
        )
        parts = [rows[first:last] for wanted, first, last in chosen if wanted]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def whole(self, z: Tensor) -> Tensor:
        """Return features (F, ..) as whole numbers of their grid, float64."""
        bits = self.features.feature_grid
        if not isinstance(bits, int):
            raise ValueError("the features have no grid; build the map with one (feature_grid=8)")
        scale = torch.from_numpy(np.ldexp(1.0, self.features.grid_digits)).to(self.device)
        shape = (-1, *[1] * (z.ndim - 1))
        return (z * scale.view(shape)).round_().clamp_(-(2.0**bits), 2.0**bits)

    def rows(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the feature rows of each sequence of checked inputs, those of `features.rows`."""
        features = self.features
        if not features.per_step:
            from catchment_gpu.echo_state.pooling import pooled_rows

            found = pooled_rows(self, inputs).T.cpu().numpy()
            return [self.features.rounded(row[None]) for row in found]
        out = [np.empty((len(u) - features.washout, features.n_features)) for u in inputs]
        for block in self.blocks(inputs):
            z = self.select(block.rows).permute(2, 1, 0).cpu().numpy()
            pieces, at = block.pieces, block.pieces.begin + block.start
            firsts = np.maximum(pieces.first, at)
            lasts = np.minimum(pieces.end, at + z.shape[1])
            for b in np.flatnonzero(firsts < lasts).tolist():
                place = slice(firsts[b] - features.washout, lasts[b] - features.washout)
                out[pieces.source[b]][place] = z[b, firsts[b] - at[b] : lasts[b] - at[b]]
        return [self.features.rounded(z) for z in out]


def form_on(features: EchoState, device: str | torch.device) -> TorchForm:
    """Return the form of a map on a device; of those that were asked for last it is the same one.

    Its weights and the memory of its blocks then stay on the device from client to client.
    """
    place = torch.device(device)
    key = (features.fingerprint, place)
    with _KEPT_LOCK:
        form = _KEPT.pop(key, None)
    form = form or TorchForm(features, place)
    with _KEPT_LOCK:
        _KEPT[key] = form
        while len(_KEPT) > KEPT_FORMS:
            del _KEPT[next(iter(_KEPT))]
    return form


_KEPT: dict[tuple[str, torch.device], TorchForm] = {}
_KEPT_LOCK = Lock()
