"""Feature rows of an echo state map, computed by torch on any device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from catchment import Array
from catchment.features import EchoState, form
from catchment_gpu.echo_state import cuda
from catchment_gpu.echo_state.layers import TorchLayer, through_layers
from catchment_gpu.echo_state.sequences import (
    Lanes,
    Segments,
    counted,
    cut_into_segments,
    pooled_rows,
)
from catchment_gpu.rows import DeviceForm, DeviceRows, joined

LANES = {"cpu": 64, "cuda": 16384}  # at most, side by side
NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 28}  # of a block, about
GRAPH_STEPS = (32, 1024)  # least and most of a block that a GPU repeats as one graph...
GRAPH_COLUMNS = 8192  # ...where lanes are few so many steps times lanes
KEPT_FORMS = 4  # on devices, with the memory of the last shape of each


@dataclass(frozen=True, eq=False)
class TorchBlock:
    """Some steps of some segments: rows (1 + I + N, T, B) of which `used` (T, B) count."""

    rows: Tensor
    used: Tensor | None  # None if all do
    segments: Segments
    start: int  # steps after each segment's beginning


class _Memory:
    """The rows (height, T, B) of a block and the states before it, advanced by repeated work."""

    def __init__(self, form: EchoStateForm, T: int, B: int) -> None:
        height = 1 + form.features.known_inputs + form.features.reservoir.n_units
        self.shape = (T, B)
        self.rows = torch.empty((height, T, B), dtype=torch.float64, device=form.device)
        self.rows[0] = 1.0
        self.states = [self.rows.new_zeros((layer.n_units, B)) for layer in form.layers]
        layers, states, rows, fused = form.layers, self.states, self.rows, form.fused

        def work() -> None:
            through_layers(layers, states, rows, fused=fused)

        self.advance = cuda.Repeated(work, form.device) if form.by_graph(B) else work


class EchoStateForm(DeviceForm):
    """An echo state map on one device; `form_on` keeps those that were used last.

    Parameters
    ----------
    fused
        Whether compiled kernels advance the states; where they can if not given. In fixed point the
        numbers are the same.

    >>> features = EchoState(10).build(1, per_step=True)
    >>> (block,) = EchoStateForm(features, torch.device("cpu")).blocks([np.zeros((4, 1))])
    >>> tuple(block.z.shape), block.row.tolist()
    ((11, 4), [0, 1, 2, 3])
    """

    features: EchoState
    by_length = False

    def __init__(
        self, features: EchoState, device: torch.device, *, fused: bool | None = None
    ) -> None:
        super().__init__(features, device)
        self.digits = features.reservoir.bits
        self.fused = cuda.available(device) if fused is None else fused
        self.layers = [TorchLayer.of(p, self.digits, device) for p in features.programs]
        self._free: list[_Memory] = []

    def checked_inputs(self, inputs: Sequence[ArrayLike]) -> list[Array]:
        return self.features.checked_all(inputs) if len(inputs) else []

    def checked(self, z: Tensor, *, whole: bool = False) -> Tensor:
        """Return features in fixed point; states are within their bounds."""
        return self.rounded(z, whole=whole)

    def compute_blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        if not self.features.per_step:
            yield DeviceRows.in_order(pooled_rows(self, inputs), np.ones(len(inputs), dtype=int))
            return
        for block in self.state_blocks(inputs):
            z = self.select(block.rows)
            told = np.stack([block.segments.source, block.segments.begin + block.start])
            source, first = torch.from_numpy(told).to(self.device)
            row = torch.arange(z.shape[1], device=self.device)[:, None] + first
            yield DeviceRows(
                z.reshape(len(z), -1),
                source.expand_as(row).reshape(-1),
                row.reshape(-1) - self.features.washout,
                None if block.used is None else block.used.reshape(-1),
            )

    def by_graph(self, n_lanes: int) -> bool:
        """Whether blocks are repeated as one graph: many launches, of nothing that allocates."""
        stepwise = [layer for layer in self.layers if not layer.sparse_lanes(n_lanes)]
        dense = all(not layer.recurrent.is_sparse for layer in stepwise)
        return self.fused and bool(stepwise) and dense

    def state_blocks(self, inputs: Sequence[Array]) -> Iterator[TorchBlock]:
        """Yield the steps of checked inputs (T, I), those of a washout left out.

        A block is valid until the next one is taken.
        """
        reservoir = self.features.reservoir
        lengths = [len(u) for u in inputs]
        segments = cut_into_segments(lengths, reservoir.cut, self.features.washout)
        height = 1 + reservoir.n_inputs + reservoir.n_units
        lanes = min(LANES[self.device.type], max(1, NUMBERS[self.device.type] // height))
        values = joined(inputs, self.device)
        for k in range(0, len(segments), lanes):
            some = segments.part(k, k + lanes)
            yield from self._batch(Lanes(values, lengths, some), some, height)

    def _batch(self, inputs: Lanes, segments: Segments, height: int) -> Iterator[TorchBlock]:
        B, I = len(segments), self.features.known_inputs
        firsts, ends = segments.first - segments.begin, segments.end - segments.begin
        longest = int(ends.max())
        memory = self._memory(longest, B, height)
        T = memory.shape[0]
        for start in range(0, longest, T):
            memory.rows[1 : 1 + I] = inputs.block(start, T, 0.0)
            memory.advance()
            if start + T > firsts.min():
                used = counted(firsts - start, ends - start, T, self.device)
                yield TorchBlock(memory.rows, used, segments, start)
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
            memory = None
        if memory is None or memory.shape != (T, B):
            memory = _Memory(self, T, B)
        for X in memory.states:
            X.zero_()
        return memory

    def select(self, rows: Tensor) -> Tensor:
        """Return the rows (F, ..) of a block that are features of a step."""
        one, reservoir = self.features, self.features.reservoir
        sizes = (1, reservoir.n_inputs, reservoir.n_units)
        places = np.flatnonzero(np.repeat([one.bias, one.input, one.state], sizes))
        first, last = int(places[0]), int(places[-1]) + 1
        together = len(places) == last - first
        return rows[first:last] if together else rows[torch.from_numpy(places).to(self.device)]


@form("torch", EchoState)
@lru_cache(KEPT_FORMS)
def form_on(features: EchoState, device: torch.device) -> EchoStateForm | None:
    """Return the form of a map on a device; of those that were asked for last it is the same one.

    Its weights and the memory of its blocks then stay on the device from client to client.
    """
    return None if features.precision == "float32" else EchoStateForm(features, device)
