"""Run lanes through a stack of layers, in blocks of steps, with the kernel that fits the shape.

A lane is one sequence, or one segment of a long one. Lanes run side by side: every block of steps
yields an array (1 + I + N, steps, lanes) whose rows are the constant one, the inputs, and the
states of all layers, so that any choice of features is a slice of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from catchment.arrays import Array
from catchment.features.echo_state.weights import LayerWeights
from catchment.features.echo_state.whole_weights import (
    ROUND,
    leak_on_grid,
    rounded,
    state_bounds,
    weight_digits,
)

BLOCK_COLUMNS = 512  # steps times lanes of a block: it should stay in the cache
LONE_STEPS = 480  # steps of a block with one lane: there a power of two slows the Gram product
WINDOW = 1 << 17  # numbers rearranged ahead of the blocks
LINE = 64  # bytes of a cache line: a lane's numbers that straddle two cost twice
DENSE_FROM = 0.25  # density from which a dense product beats the sparse rows...
DENSE_UNITS = 300  # ...when there are at least this many units to fill a matrix product

Rows = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Program:
    """One layer as the kernels want it: sparse (or dense) rows over [x; u; 1], gain folded in.

    On a grid `bits` are the digits of its states and `weight_digits` those of its values.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.uint32]
    values: NDArray[np.floating[Any]]
    leak: NDArray[np.floating[Any]]
    activation: NDArray[np.uint8]
    n_inputs: int
    uniform: bool
    dense: NDArray[np.floating[Any]] | None
    bits: int | None = None
    weight_digits: int = 0

    @classmethod
    def of(
        cls,
        layer: LayerWeights,
        dtype: type[np.floating[Any]] = np.float64,
        *,
        bits: int | None = None,
        input_bounds: Array | None = None,
    ) -> Program:
        """Return the program of a layer.

        Parameters
        ----------
        bits
            Digits of its grid, if it is on one.
        input_bounds
            (I,) largest absolute value of each input, on a grid.
        """
        N, I = layer.n_units, layer.n_inputs
        rows = np.concatenate([layer.W.rows(), layer.W_in.rows(), np.arange(N)])
        columns = np.concatenate(
            [
                layer.W.columns.astype(np.int64),
                layer.W_in.columns.astype(np.int64) + N,
                np.full(N, N + I),
            ]
        )
        offset = layer.gain * layer.bias + layer.shift
        values = np.concatenate(
            [
                layer.W.values * layer.gain[layer.W.rows()],
                layer.W_in.values * layer.gain[layer.W_in.rows()],
                offset,
            ]
        )
        leak, w = layer.leak, 0
        if bits is not None:
            inputs = np.ones(I) if input_bounds is None else input_bounds
            bounds = np.concatenate([state_bounds(layer), inputs, np.ones(1)])
            w = weight_digits(rows, values, bounds[columns], bits)
            values, leak = rounded(values, w), leak_on_grid(leak, bits)
        order = np.argsort(rows, kind="stable")
        starts = np.zeros(N + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=N), out=starts[1:])
        dense = None
        if layer.W.density >= DENSE_FROM:
            dense = aligned((N, N + I + 1), dtype)
            dense[:] = 0
            dense[rows, columns] = values
        return cls(
            starts,
            columns[order].astype(np.uint32),
            values[order].astype(dtype),
            leak.astype(dtype),
            layer.activation,
            I,
            len(set(leak)) == 1 and len(set(layer.activation)) == 1,
            dense,
            bits,
            w,
        )

    @property
    def n_units(self) -> int:
        return len(self.leak)

    @property
    def grid(self) -> tuple[()] | tuple[float, float]:
        """Rounder and largest number below 1 of states on a grid, as the kernels want them."""
        return () if self.bits is None else (math.ldexp(ROUND, -self.bits), 1 - 0.5**self.bits)

    @property
    def by_matrix(self) -> bool:
        """Whether a step of many lanes is best done as one dense matrix product."""
        return self.dense is not None and self.n_units >= DENSE_UNITS


def programs_on_grid(
    layers: Sequence[LayerWeights], bits: int, input_range: float
) -> tuple[Program, ...]:
    """Return the programs of layers whose states have this many digits after the point."""
    programs, bounds = [], np.full(layers[0].n_inputs, input_range)
    for layer in layers:
        programs.append(Program.of(layer, bits=bits, input_bounds=bounds))
        bounds = state_bounds(layer)
    return tuple(programs)


def aligned(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> Rows:
    """Return an array, not filled, that starts on a cache line.

    >>> aligned((2, 3)).ctypes.data % 64
    0
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, dtype=np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def preferred_lanes(programs: Sequence[Program], n_sequences: int) -> int:
    """Return how many of the sequences to advance side by side.

    Wide batches spend less time between the kernels, but there should be some for every core, and
    the states of a large reservoir should stay in the cache.
    """
    if all(program.by_matrix for program in programs):
        return 64
    small = max(program.n_units for program in programs) <= 400
    return 32 if small and n_sequences >= 8 * 32 else 16


def padded_lanes(n_lanes: int) -> int:
    """Return the narrowest kernel width that holds this many lanes.

    >>> [padded_lanes(n) for n in (1, 2, 8, 9, 33)]
    [1, 8, 8, 16, 64]
    """
    return 1 if n_lanes == 1 else next(width for width in (8, 16, 32, 64) if width >= n_lanes)


Step = Callable[[int, int, Rows, Rows, Rows], None]


@dataclass(frozen=True, eq=False)
class Block:
    """Steps `start` to `stop` of all lanes: `rows` (1 + I + N + spare, stop - start, lanes)."""

    start: int
    stop: int
    rows: Rows


class SideBySide:
    """Arrays (T_b, n) of several lanes, rearranged to (n, steps, B) for some blocks ahead.

    Going through the lanes is slow, so it is done for many steps at once. Where a lane has ended,
    or there is none, stands `fill`. `complete` says that no NaN is among the steps ahead.
    """

    def __init__(
        self, lanes: Sequence[Array], B: int, steps: int, dtype: DTypeLike, fill: float = 0.0
    ) -> None:
        n, longest = lanes[0].shape[1], max(len(lane) for lane in lanes)
        ahead = min(longest, max(steps, WINDOW // (n * B)))
        self.lanes, self.fill, self.complete = lanes, fill, False
        self.first, self.window = -ahead, np.full((n, ahead, B), fill, dtype=dtype)

    def block(self, start: int, stop: int) -> Rows:
        """Return steps start..stop as (n, stop - start, B), valid until the next call."""
        ahead = self.window.shape[1]
        if start < self.first or stop > self.first + ahead:
            self.first = start
            for b, lane in enumerate(self.lanes):
                part = lane[start : start + ahead]
                self.window[:, : len(part), b] = part.T
                self.window[:, len(part) :, b] = self.fill
            self.complete = not np.isnan(self.window).any()
        return self.window[:, start - self.first : stop - self.first]


def advance(
    programs: Sequence[Program],
    lanes: Sequence[Array],
    *,
    cuts: Sequence[int] = (),
    x0: Array | None = None,
    block_columns: int = BLOCK_COLUMNS,
    spare_rows: int = 0,
    n_buffers: int = 1,
    sums: bool = False,
    step: Step | None = None,
) -> Iterator[Block]:
    """Yield the blocks of all lanes, in time order.

    Parameters
    ----------
    programs
        One per layer.
    lanes
        (T, I) inputs each. A lane that has ended goes on with zero input; its later columns mean
        nothing.
    cuts
        Steps at which a block must end, besides the regular ones.
    x0
        (N, lanes) states before the first input, all layers; zeros if not given.
    spare_rows
        Rows left free after the states, for the caller to fill.
    n_buffers
        Blocks that stay valid: each overwrites the one this many before it.
    sums
        Yield the sum of each block's steps, in rows (1 + I + N + spare, 1, lanes), which saves
        writing them down; for a single layer.
    step
        What advances a layer by a block, if not its fixed weights: called with the layer's number,
        the block's first step, the extended states, the inputs (I, T, B) and the states (N, T, B)
        to write. There are at least eight lanes then.
    """
    T = max(len(u) for u in lanes)
    dtype = programs[0].values.dtype
    I, N = programs[0].n_inputs, sum(program.n_units for program in programs)
    B = padded_lanes(len(lanes) if step is None else max(2, len(lanes)))
    layers = [_Layer.of(program, B, dtype) for program in programs]
    if x0 is not None:
        _set_states(layers, x0)
    block_steps = max(1, min(T, min(block_columns, LONE_STEPS) if B == 1 else block_columns // B))
    kept_steps, kept_type = (1, np.dtype(np.float64)) if sums else (block_steps, dtype)
    height = 1 + I + N + spare_rows
    memory = [_block_memory(height, kept_steps, B, kept_type) for _ in range(n_buffers)]
    inputs = SideBySide(lanes, B, block_steps, dtype)
    edges = sorted({*range(0, T, block_steps), *(cut for cut in cuts if 0 < cut < T), T})
    for number, (start, stop) in enumerate(pairwise(edges)):
        rows = memory[number % n_buffers][:, : stop - start]
        u = inputs.block(start, stop)
        if sums:
            rows[0], rows[1 : 1 + I, 0], rows[1 + I :] = stop - start, u.sum(1, np.float64), 0
            layers[0].step(u, rows[1 + I :], sums=True)
        else:
            rows[0], rows[1 : 1 + I] = 1, u
            _through_layers(layers, rows, start, step)
        yield Block(start, stop, rows)


def _through_layers(layers: Sequence[_Layer], rows: Rows, start: int, step: Step | None) -> None:
    """Write the states of a block's steps below its inputs, each layer's below the one before."""
    first = 1
    for k, layer in enumerate(layers):
        middle = first + layer.program.n_inputs
        last = middle + layer.program.n_units
        if step is None:
            layer.step(rows[first:], rows[middle:])
        else:
            step(k, start, layer.X, rows[first:middle], rows[middle:last])
        first = middle


def _block_memory(n_rows: int, steps: int, B: int, dtype: DTypeLike) -> Rows:
    """Return (n_rows, steps, B); a lone lane is laid out step after step.

    Rows are a cache line longer than needed: with a power of two between them all rows would
    compete for the same few places in the cache.
    """
    if B == 1:
        return aligned((steps, n_rows), dtype).T[:, :, None]
    line = LINE // np.dtype(dtype).itemsize
    return aligned((n_rows, steps * B + line), dtype)[:, :-line].reshape(n_rows, steps, B)


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer under way: its program, extended states X and room for pre-activations P."""

    program: Program
    X: Rows  # (N + I + 1, B)
    P: Rows  # (N, B)

    @classmethod
    def of(cls, program: Program, B: int, dtype: DTypeLike) -> _Layer:
        X = aligned((program.n_units + program.n_inputs + 1, B), dtype)
        X[:-1], X[-1] = 0, 1
        return cls(program, X, aligned((program.n_units, B), dtype))

    def step(self, U: Rows, S: Rows, *, sums: bool = False) -> None:
        """Advance over the first I rows of U (.., T, B); write into the first N of S (.., T, B).

        With `sums` all steps are added to the first of S.

        Longer arrays are passed because one of a single row counts as another type to the
        compiler, which would compile each kernel again.
        """
        from catchment.features.echo_state import kernels

        program, X, P = self.program, self.X, self.P
        N, B = P.shape
        units, grid = (program.leak, program.activation, program.uniform), program.grid
        rows = (program.starts, program.columns, program.values)
        if B == 1:
            alone = (U[:, :, 0].T, X[:, 0], P[:, 0], S[:, :, 0].T)
            if program.dense is not None:
                kernels.serial_dense(program.dense, *units, *alone, sums, grid)
            else:
                kernels.serial(*rows, *units, *alone, sums, grid)
            return
        flat = (X.reshape(-1), P.reshape(-1))
        if program.by_matrix:
            assert program.dense is not None
            for t in range(U.shape[1]):
                X[N:-1] = U[: program.n_inputs, t]
                np.matmul(program.dense, X, out=P)
                kernels.activate_all(*units, X, flat, P, S, sums, t, grid)
        else:
            kernels.lockstep(*rows, *units, U, X, flat, P, S, sums, (0,) * (B // 4), grid)


def _set_states(layers: Sequence[_Layer], x0: Array) -> None:
    first = 0
    for layer in layers:
        N = layer.program.n_units
        layer.X[:N, : x0.shape[1]] = x0[first : first + N]
        first += N
