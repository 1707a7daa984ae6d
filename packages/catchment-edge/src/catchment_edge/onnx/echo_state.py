"""Echo states as an ONNX graph: a Scan over the steps of each layer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.features import EchoState, form
from catchment.features.echo_state import ROUND, Program
from catchment_edge.onnx.activations import mixed, rounded
from catchment_edge.onnx.pooling import pooled
from catchment_edge.onnx.sequences import Sequences, on_grid
from catchment_edge.onnx.values import Value

# Units from which a product with all weights is slow, and how many there should be for each weight
# of a unit before picking out its few states is faster.
LARGE_LAYER, FEW_WEIGHTS = 400, 16


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: recurrent weights (N, N), input weights (I, N) and offsets (N,), transposed."""

    W: NDArray[Any]
    W_in: NDArray[Any]
    offset: NDArray[Any]
    program: Program

    @classmethod
    def of(cls, program: Program) -> Layer:
        N, I = program.n_units, program.n_inputs
        matrix = np.zeros((N, N + I + 1))
        rows = np.repeat(np.arange(N), np.diff(program.starts))
        matrix[rows, program.columns] = program.values
        return cls(matrix[:, :N].T, matrix[:, N:-1].T, matrix[:, -1], program)

    def drive(self, u: Value) -> Value:
        """Return what inputs (.., I) add to the units' sums, offsets included."""
        return u @ self.W_in + self.offset

    def recurrent(self, x: Value) -> Value:
        """Return what states (B, N) add to the sums of units; few products if weights are few."""
        N = len(self.W)
        most = int(np.count_nonzero(self.W, axis=0).max())
        if N < LARGE_LAYER or FEW_WEIGHTS * most > N:
            return x @ self.W
        # Row k has the k-th weight of every unit, largest first, and whose state it multiplies.
        places = np.argsort(-np.abs(self.W), axis=0, kind="stable")[:most]
        weights = np.take_along_axis(self.W, places, axis=0)
        return (x.take(places, axis=1) * weights).sum(axis=1)

    def step(self, x: Value, drive: Value) -> Value:
        """Return the states (.., N) after one step."""
        leak = self.program.leak.astype(np.float64)
        grid = self.program.grid if x.builder.exact else ()
        y = mixed(self.program.activation, self.recurrent(x) + drive, grid)
        if (leak == 1.0).all():
            return y
        follows = x * (1.0 - leak) + y * leak
        return rounded(follows, grid[0]) if grid else follows


def layers_of(features: EchoState) -> list[Layer]:
    return [Layer.of(program) for program in features.programs]


def inputs_on_grid(features: EchoState, u: Value) -> Value:
    """Return inputs cut off at the range of the grid and rounded to it, if there is one."""
    reservoir = features.reservoir
    if reservoir.grid is None:
        return u
    cut = u.clip(-reservoir.input_range, reservoir.input_range)
    return rounded(cut, np.ldexp(ROUND, -reservoir.grid).item()) if u.builder.exact else cut


@form("onnx", EchoState)
def rows(features: EchoState, given: Sequences) -> Value:
    """Return the feature rows (B, T - washout, F), or (B, F) if pooled."""
    u = inputs_on_grid(features, given.u)
    builder, layers = u.builder, layers_of(features)
    L, M = features.reservoir.cut
    whole = L == 0 or not builder.exact or (given.steps is not None and given.steps <= L)
    states = run(layers, u) if whole else cut_states(layers, u, L, M)
    z = selected(features, u, states)
    if features.pool is None:
        return rounded_rows(features, after(z, features.washout, given))
    return on_features_grid(features, pooled_parts(features, z, given))


def run(layers: list[Layer], u: Value, going: Value | None = None) -> Value:
    """Return the states (B, T, N) of all layers, from rest.

    Parameters
    ----------
    going
        (B, T, 1) ones where states go on, zeros where they are held at rest.
    """
    found, below = [], u
    for layer in layers:
        rest = u.builder.zeros(u.length(0), len(layer.offset))

        def body(
            states: list[Value], steps: list[Value], layer: Layer = layer
        ) -> tuple[list[Value], list[Value]]:
            x = layer.step(states[0], steps[0])
            x = x if len(steps) == 1 else x * steps[1]
            return [x], [x]

        inputs = [layer.drive(below), *([] if going is None else [going])]
        _, (below,) = u.builder.over_time(body, [rest], inputs)
        found.append(below)
    return u.builder.concat(found, axis=-1)


def cut_states(layers: list[Layer], u: Value, L: int, M: int) -> Value:
    """Return the states (B, T, N) of sequences that are cut at L, 2L, ..., as the grid defines.

    Every part is a sequence of its own beside the others, started from rest M steps before it. The
    first, which has no steps before it, is held at rest for as long. A sequence of up to L steps
    is one part, without a warm-up.
    """
    builder = u.builder
    B, T, I = u.length(0), u.length(1), len(layers[0].W_in)
    several = T > L
    warm = builder.where(several, M, builder.constant(np.array(0)))
    long = builder.where(several, builder.constant(np.array(L)), T)
    n_parts = (T + long - 1) / long
    begins = (builder.arange(0, n_parts) * long - warm).unsqueeze(1)
    places = begins + builder.arange(0, warm + long)  # (parts, warm + long)
    inside = places.at_least(0).at_most(T - 1)
    lanes = u.take(inside, axis=1).reshape(-1, warm + long, I)
    going = builder.op(
        "Expand",
        (places > -1).cast(builder.real),
        builder.concat([builder.vector([B]), builder.op("Shape", places)], axis=0),
    )
    going = going.reshape(-1, warm + long, 1)
    states = run(layers, lanes, going).part(warm, warm + long, axis=1)
    n_units = sum(len(layer.offset) for layer in layers)
    return states.reshape(B, n_parts * long, n_units).part(0, T, axis=1)


def selected(features: EchoState, u: Value, states: Value) -> Value:
    """Return the features (.., n_base) of steps: the constant, the inputs, the states."""
    parts = []
    if features.bias:
        last = u.take([0], axis=-1)
        parts.append(last * 0.0 + 1.0)
    if features.input:
        parts.append(u)
    if features.state:
        parts.append(states)
    return u.builder.concat(parts, axis=-1)


def after(z: Value, washout: int, given: Sequences) -> Value:
    """Return the rows (B, T - washout, F) after the washout."""
    return z if washout == 0 else z.part(washout, given.length, axis=1)


def rounded_rows(features: EchoState, z: Value) -> Value:
    """Return the features of steps on their grid, if there is one."""
    if features.feature_grid is None:
        return z
    digits = features.grid_digits[: features.n_base]
    if z.builder.exact:
        rounder = np.ldexp(ROUND, -digits)
        return z + rounder - rounder
    unit = np.ldexp(1.0, digits)
    return (z * unit).rint() / unit


def on_features_grid(features: EchoState, z: Value) -> Value:
    bits = features.feature_grid
    return on_grid(z, features.grid_digits, bits) if isinstance(bits, int) else z


def pooled_parts(features: EchoState, z: Value, given: Sequences) -> Value:
    """Return the rows (B, F) of the features (B, T, n_base) of all steps."""
    assert features.pool is not None
    builder, skip, parts = z.builder, features.washout, features.segments
    digits = features.reservoir.grid if builder.exact else None
    if given.steps is not None:
        n_rows = given.steps - skip
        edges: list[int | Value] = [skip + n_rows * k // parts for k in range(parts + 1)]
    else:
        counted = z.length(1) - skip
        edges = [counted * k / parts + skip for k in range(parts + 1)]
    found = []
    for first, last in pairwise(edges):
        some = z.part(first, last, axis=1)
        n = builder.value(last, np.dtype(np.int64)) - first
        found.append(pooled(some, n.cast(builder.real), features.pool, digits=digits))
    return builder.concat(found, axis=-1)
