"""Feature rows of an echo state map, computed by torch on any device.

Sequences, or in fixed point segments of them, run side by side through the layers of a reservoir;
their steps are the rows, or are pooled. In fixed point everything but the activation is exact, so
matrix products, sparse products and compiled kernels give the same numbers here as on the CPU, in
whichever order a device adds. Without one they agree to rounding. Activations in fixed point follow
`kernels`, one operation after the other: nothing here may be fused by a compiler that is free to
reorder additions, because the roundings are written as additions of a large number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from catchment import Array, Integers
from catchment.features import EchoState, form
from catchment.features.echo_state import (
    ACTIVATIONS,
    DENSE_FROM,
    LINEAR_BOUND,
    ROUND,
    Program,
    cut_places,
    kernels,
)
from catchment_gpu import cuda
from catchment_gpu.rows import DeviceForm, DeviceRows, joined, root

LANES = {"cpu": 64, "cuda": 16384}  # at most, side by side
NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 28}  # of a block, about
GRAPH_STEPS = (32, 1024)  # least and most of a block that a GPU repeats as one graph...
GRAPH_COLUMNS = 8192  # ...where lanes are few so many steps times lanes
KEPT_FORMS = 4  # on devices, with the memory of the last shape of each
DENSE_UNITS = 1024  # up to here a dense product is no slower than a sparse one without own kernels
TANH, SIGMOID, RELU, SIN, IDENTITY = range(len(ACTIVATIONS))
ONE_BITS = 0x3FF0000000000000  # of 1.0
LOWEST = -(2**62)  # below every integer in fixed point
HALF = 32  # binary digits of the lower part of a sum of squares


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


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments (B,) of sequences, each of which runs by itself.

    Parameters
    ----------
    source
        Number of the sequence.
    begin
        Step from which it runs, at rest.
    first
        Step from which it counts.
    end
        Step before which it ends.
    """

    source: Integers
    begin: Integers
    first: Integers
    end: Integers

    def __len__(self) -> int:
        return len(self.source)

    def part(self, first: int, last: int) -> Segments:
        """Return the segments from `first` to before `last`."""
        some = slice(first, last)
        return Segments(self.source[some], self.begin[some], self.first[some], self.end[some])


def cut_into_segments(lengths: Sequence[int], cut: tuple[int, int], washout: int) -> Segments:
    """Return the segments of sequences, longest first.

    >>> segments = cut_into_segments([10], (4, 1), 2)
    >>> np.stack([segments.begin, segments.first, segments.end]).T
    array([[ 3,  4,  8],
           [ 0,  2,  4],
           [ 7,  8, 10]])
    """
    n_steps = np.asarray(lengths, dtype=np.int64)
    whole = np.flatnonzero((n_steps <= cut[0]) | (cut[0] == 0))
    rest = np.zeros(len(whole), dtype=np.int64)
    found = [np.stack([whole, rest, rest + washout, n_steps[whole]])]
    for k in np.setdiff1d(np.arange(len(n_steps)), whole).tolist():
        places = np.array(cut_places(lengths[k], cut, washout), dtype=np.int64).T
        found.append(np.concatenate([np.full((1, places.shape[1]), k), places]))
    source, begin, first, end = np.concatenate(found, axis=1)
    order = np.lexsort((begin, source, begin - end))
    return Segments(source[order], begin[order], first[order], end[order])


class Lanes:
    """Segments of sequences that lie one after another on a device, to take blocks of.

    Parameters
    ----------
    values
        (N, n) all sequences.
    lengths
        Of each.

    >>> told = torch.tensor([[1.0], [2.0], [3.0], [7.0]])
    >>> Lanes(told, [3, 1], cut_into_segments([3, 1], (0, 0), 0)).block(1, 2, fill=0.0)
    tensor([[[2., 0.],
             [3., 0.]]])
    """

    def __init__(self, values: Tensor, lengths: Sequence[int], segments: Segments) -> None:
        first = np.cumsum([0, *lengths])[segments.source]
        told = np.stack([first + segments.begin, segments.end - segments.begin])
        self.values, (self.at, self.n_steps) = values, torch.from_numpy(told).to(values.device)

    def block(self, start: int, T: int, fill: float) -> Tensor:
        """Return T steps from `start` on as (n, T, B); where a segment has ended stands `fill`."""
        t = torch.arange(start, start + T, device=self.at.device)[:, None]
        there = t < self.n_steps
        index = torch.where(there, self.at + t, 0)
        return torch.where(there[:, :, None], self.values[index], fill).permute(2, 0, 1)


def counted(first: Integers, end: Integers, T: int, device: torch.device) -> Tensor | None:
    """Return which of T steps (T, B) lie from `first` (B,) to before `end` (B,), None if all do.

    >>> counted(np.array([0, 1]), np.array([3, 2]), 2, torch.device("cpu")).tolist()
    [[True, False], [True, True]]
    """
    if first.max() <= 0 and end.min() >= T:
        return None
    t = torch.arange(T, device=device)[:, None]
    above: Tensor = t >= torch.from_numpy(first).to(device)
    return above & (t < torch.from_numpy(end).to(device))


@dataclass(frozen=True, eq=False)
class _Part:
    """The lanes of a block with steps of one part of their sequences."""

    lanes: Tensor | None  # None: all
    places: Tensor  # of their sums
    first: Integers  # step of the block, below zero if the part began before it
    end: Integers  # likewise beyond the block if it goes on
    begun: Integers  # whether the part begins with `first`
    ended: Integers  # whether it ends with `end`

    def of(self, z: Tensor) -> Tensor:
        """Return the lanes of the features (F, T, B) of a block."""
        return z if self.lanes is None else z[:, :, self.lanes]


def _parts_of(edges: Integers, block: TorchBlock, T: int, device: torch.device) -> Iterator[_Part]:
    """Yield the parts that a block of T steps has a share in."""
    source, low, high = block.segments.source, block.segments.first, block.segments.end
    begin = block.segments.begin + block.start
    segments = edges.shape[1] - 1
    for part in range(segments):
        left, right = edges[source, part], edges[source, part + 1]
        first, end = np.maximum(low, left) - begin, np.minimum(high, right) - begin
        here = np.flatnonzero((first < T) & (end > 0) & (first < end))
        if not len(here):
            continue
        yield _Part(
            None if len(here) == len(source) else torch.from_numpy(here).to(device),
            torch.from_numpy(source[here] * segments + part).to(device),
            first[here],
            end[here],
            (first == left - begin)[here],
            (end == right - begin)[here],
        )


def _joined(values: Sequence[Tensor], segments: int) -> Tensor:
    """Return values (F, n segments) as rows (segments values F, n)."""
    found = torch.stack([v.view(len(v), -1, segments) for v in values])
    return found.permute(3, 0, 1, 2).reshape(-1, found.shape[2])


class TorchFold:
    """Sums over the parts of sequences: of integers in int64 in fixed point, else of float64.

    In float64 sums are about the first step of each part, for accuracy.

    Parameters
    ----------
    edges
        (n, segments + 1) first step of each part of each sequence, and the end of the last.
    n_base
        Features of a step.
    digits
        Binary digits after the point of the steps; None in float64.
    """

    def __init__(
        self, edges: Integers, n_base: int, digits: int | None, device: torch.device
    ) -> None:
        n, self.segments = len(edges), edges.shape[1] - 1
        self.edges, self.digits, self.device = edges, digits, device
        size, kind = (n_base, n * self.segments), torch.float64 if digits is None else torch.int64
        self.reference, self.first, self.low, self.high, self.last = torch.zeros(
            (5, *size), dtype=kind, device=device
        )
        self.lowest = -torch.inf if digits is None else LOWEST
        self.most = torch.full(size, self.lowest, dtype=kind, device=device)

    def add(self, pool: str, z: Tensor, block: TorchBlock) -> None:
        """Add the features (F, T, B) of a block's steps."""
        k = z if self.digits is None else (z * 2.0**self.digits).to(torch.int64)
        for part in _parts_of(self.edges, block, z.shape[1], self.device):
            self._add_part(pool, part.of(k), part)

    def _add_part(self, pool: str, k: Tensor, part: _Part) -> None:
        if pool == "last":
            lanes = np.flatnonzero((part.end <= k.shape[1]) & part.ended)
            b = torch.from_numpy(lanes).to(k.device)
            step = torch.from_numpy(part.end[lanes] - 1).to(k.device)
            self.last[:, part.places[b]] = k[:, step, b]
            return
        used = counted(part.first, part.end, k.shape[1], self.device)
        if pool == "max":
            k = k if used is None else torch.where(used, k, self.lowest)
            places = part.places.expand(len(k), -1)
            self.most.scatter_reduce_(1, places, k.amax(1), reduce="amax")
            return
        if self.digits is None:
            begun = np.flatnonzero(part.begun & (part.first >= 0))
            b = torch.from_numpy(begun).to(self.device)
            step = torch.from_numpy(part.first[begun]).to(self.device)
            self.reference[:, part.places[b]] = k[:, step, b]
            k = k - self.reference[:, part.places][:, None]
        k = k if used is None else torch.where(used, k, 0)
        self.first.index_add_(1, part.places, k.sum(1))
        if pool == "mean_std":
            square = k * k
            if self.digits is not None:
                self.high.index_add_(1, part.places, (square >> HALF).sum(1))
                square &= (1 << HALF) - 1
            self.low.index_add_(1, part.places, square.sum(1))

    def rows(self, pool: str) -> Tensor:
        """Return the rows (F, n), not yet in fixed point."""
        unit = 1.0 if self.digits is None else 2.0**-self.digits
        if pool in ("last", "max"):
            sums = self.last if pool == "last" else self.most
            return _joined([sums.double() * unit], self.segments)
        T = torch.from_numpy(np.diff(self.edges).reshape(-1)).to(self.device)
        shift = self.first.double() / T.double()
        mean = (self.reference + shift) * unit
        if pool == "mean":
            return _joined([mean], self.segments)
        if self.digits is None:
            deviations = (self.low / T - shift * shift).clamp_(min=0.0).sqrt_()
        else:
            deviations = self._deviations(T) * unit
        return _joined([mean, deviations], self.segments)

    def _deviations(self, T: Tensor) -> Tensor:
        """Return standard deviations from exact sums, as `Totals` defines them."""
        if bool((self.high >> 28).any()):
            sums = (part.cpu().numpy() for part in (self.first, self.low, self.high, T))
            return torch.from_numpy(_long_deviations(*sums)).to(self.device)
        m = torch.div(self.first, T, rounding_mode="floor")
        total = self.high * (1 << HALF) + self.low
        squares = total - 2 * m * self.first + T * m * m
        d = (self.first - T * m).double() / T.double()
        return root(squares.double() / T.double() - d * d)


def _long_deviations(S1: Integers, low: Integers, high: Integers, T: Integers) -> Array:
    """Return standard deviations (F, n) from exact sums of which some pass 63 bits.

    They are of wide inputs or long recordings; these rows are done in Python's integers.
    """
    m, squares = S1 // T, np.empty(S1.shape)
    long = (high.max(axis=1, initial=0) >> 28) > 0
    for rows, kind in ((~long, np.int64), (long, object)):
        upper, lower, first, near = (part[rows].astype(kind) for part in (high, low, S1, m))
        total = upper * (1 << HALF) + lower
        squares[rows] = total - 2 * near * first + T.astype(kind) * near * near
    d = (S1 - T * m) / T
    return np.sqrt(squares / T - d * d)


def pooled_rows(form: EchoStateForm, inputs: Sequence[Array]) -> Tensor:
    """Return one feature row per sequence of checked inputs, (F, n), not yet in fixed point."""
    features = form.features
    assert features.pool is not None
    n_rows = np.array([len(u) - features.washout for u in inputs])[:, None]
    edges = features.washout + n_rows * np.arange(features.segments + 1) // features.segments
    fold = TorchFold(edges, features.n_base, form.digits, form.device)
    for block in form.state_blocks(inputs):
        fold.add(features.pool, form.select(block.rows), block)
    return fold.rows(features.pool)
