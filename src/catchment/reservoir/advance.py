"""Run lanes through a stack of layers, in blocks of steps, with the kernel that fits the shape.

A lane is one sequence, or one segment of a long one. Lanes run side by side: every block of steps
yields an array (1 + I + N, steps, lanes) whose rows are the constant one, the inputs, and the
states of all layers, so that any choice of features is a slice of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.reservoir.weights import LayerWeights

BLOCK_COLUMNS = 2048  # steps times lanes of a block: long enough for a good Gram product
DENSE_FROM = 0.25  # density from which a dense product beats the sparse rows...
DENSE_UNITS = 300  # ...when there are at least so many units to fill a matrix product


@dataclass(frozen=True, eq=False)
class Program:
    """One layer as the kernels want it: sparse (or dense) rows over [x; u; 1], gain folded in."""

    starts: NDArray[np.int64]
    columns: NDArray[np.uint32]
    values: NDArray[np.floating[Any]]
    leak: NDArray[np.floating[Any]]
    activation: NDArray[np.uint8]
    n_inputs: int
    uniform: bool
    dense: NDArray[np.floating[Any]] | None

    @classmethod
    def of(cls, layer: LayerWeights, dtype: type[np.floating[Any]] = np.float64) -> Program:
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
        order = np.argsort(rows, kind="stable")
        starts = np.zeros(N + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=N), out=starts[1:])
        dense = None
        if layer.W.density >= DENSE_FROM:
            dense = np.zeros((N, N + I + 1), dtype=dtype)
            dense[rows, columns] = values
        return cls(
            starts,
            columns[order].astype(np.uint32),
            values[order].astype(dtype),
            layer.leak.astype(dtype),
            layer.activation,
            I,
            len(set(layer.leak)) == 1 and len(set(layer.activation)) == 1,
            dense,
        )

    @property
    def n_units(self) -> int:
        return len(self.leak)

    @property
    def by_matrix(self) -> bool:
        """Whether a step of many lanes is best done as one dense matrix product."""
        return self.dense is not None and self.n_units >= DENSE_UNITS


def preferred_lanes(programs: Sequence[Program]) -> int:
    """Return how many sequences to advance side by side when there are plenty."""
    if all(program.by_matrix for program in programs):
        return 64
    return 32 if max(program.n_units for program in programs) <= 600 else 16


def padded_lanes(n_lanes: int) -> int:
    """Return the narrowest kernel width that holds so many lanes.

    >>> [padded_lanes(n) for n in (1, 2, 8, 9, 33)]
    [1, 8, 8, 16, 64]
    """
    return 1 if n_lanes == 1 else next(width for width in (8, 16, 32, 64) if width >= n_lanes)


Rows = NDArray[np.floating[Any]]
Step = Callable[[int, int, Rows, Rows, Rows], None]


@dataclass(frozen=True, eq=False)
class Block:
    """Steps `start` to `stop` of all lanes: `rows` (1 + I + N, stop - start, lanes)."""

    start: int
    stop: int
    rows: NDArray[np.floating[Any]]


def advance(
    programs: Sequence[Program],
    lanes: Sequence[Array],
    *,
    cuts: Sequence[int] = (),
    x0: Array | None = None,
    block_columns: int = BLOCK_COLUMNS,
    step: Step | None = None,
) -> Iterator[Block]:
    """Yield the blocks of all lanes, in time order; each block's array is overwritten by the next.

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
    step
        What advances a layer by a block, if not its fixed weights: called with the layer's number,
        the block's first step, the extended states, the inputs (I, T, B) and the states (N, T, B)
        to write. There are at least eight lanes then.
    """
    T = max(len(u) for u in lanes)
    dtype = programs[0].values.dtype
    I, N = programs[0].n_inputs, sum(program.n_units for program in programs)
    B = padded_lanes(len(lanes) if step is None else max(2, len(lanes)))
    states = _start(programs, B, x0, dtype)
    block_steps = max(1, min(T, block_columns // B))
    memory = np.empty((1 + I + N) * block_steps * B, dtype=dtype)
    edges = sorted({*range(0, T, block_steps), *(cut for cut in cuts if 0 < cut < T), T})
    for start, stop in pairwise(edges):
        rows = _rows(memory, 1 + I + N, stop - start, B)
        rows[0] = 1
        _lay_inputs(rows[1 : 1 + I], lanes, start, stop)
        below, first = rows[1 : 1 + I], 1 + I
        for k, (program, state) in enumerate(zip(programs, states, strict=True)):
            above = rows[first : first + program.n_units]
            if step is None:
                _step_layer(program, state, below, above)
            else:
                step(k, start, state, below, above)
            below, first = above, first + program.n_units
        yield Block(start, stop, rows)


def _rows(
    memory: NDArray[np.floating[Any]], n_rows: int, steps: int, B: int
) -> NDArray[np.floating[Any]]:
    """Return memory as (n_rows, steps, B); a lone lane is laid out step after step."""
    flat = memory[: n_rows * steps * B]
    return flat.reshape(steps, n_rows).T[:, :, None] if B == 1 else flat.reshape(n_rows, steps, B)


def _start(
    programs: Sequence[Program], B: int, x0: Array | None, dtype: np.dtype[Any]
) -> list[NDArray[np.floating[Any]]]:
    states, first = [], 0
    for program in programs:
        X = np.zeros((program.n_units + program.n_inputs + 1, B), dtype=dtype)
        X[-1] = 1
        if x0 is not None:
            X[: program.n_units, : x0.shape[1]] = x0[first : first + program.n_units]
        states.append(X)
        first += program.n_units
    return states


def _lay_inputs(
    target: NDArray[np.floating[Any]], lanes: Sequence[Array], start: int, stop: int
) -> None:
    for b, u in enumerate(lanes):
        part = u[start:stop]
        target[:, : len(part), b] = part.T
        target[:, len(part) :, b] = 0
    target[:, :, len(lanes) :] = 0


def _step_layer(
    program: Program,
    X: NDArray[np.floating[Any]],
    U: NDArray[np.floating[Any]],
    S: NDArray[np.floating[Any]],
) -> None:
    """Advance one layer's extended states X over the inputs U (I, T, B) into S (N, T, B)."""
    from catchment.reservoir import kernels

    N, B = program.n_units, X.shape[1]
    P = np.empty((N, B), dtype=X.dtype)
    unit = (program.leak, program.activation)
    rows = (program.starts, program.columns, program.values)
    if B == 1:
        alone = (*unit, program.uniform, U[:, :, 0].T, X[:, 0], P[:, 0], S[:, :, 0].T)
        if program.dense is not None:
            kernels.serial_dense(program.dense, *alone)
        else:
            kernels.serial(*rows, *alone)
    elif program.by_matrix:
        assert program.dense is not None
        for t in range(U.shape[1]):
            X[N:-1] = U[:, t]
            np.matmul(program.dense, X, out=P)
            kernels.activate_all(*unit, P, X, S, t)
    else:
        kernels.lockstep(*rows, *unit, U, X, P, S, (0,) * (B // 4))
