"""A map in integers computed in float64, with numpy's products and the library's activations.

Straight from the definition: one sequence, one step after another, no blocks and no lanes.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numba import njit

from catchment import Array, Integers
from catchment.features.echo_state import (
    ACTIVATIONS,
    fixed_linear,
    fixed_sigmoid,
    fixed_sin,
    fixed_tanh,
    rounder,
)
from tools.portable.dump import IntegerMap, IntegerRows, IntegerSequence

TANH, SIGMOID, RELU, SIN = (ACTIVATIONS.index(name) for name in ("tanh", "sigmoid", "relu", "sin"))


@njit
def activated(codes, p, G, top):  # type: ignore[no-untyped-def]
    """Activations of p (n,) by their codes (n,)."""
    y = np.empty_like(p)
    for i in range(len(p)):
        if codes[i] == TANH:
            y[i] = fixed_tanh(p[i], G, top)
        elif codes[i] == SIGMOID:
            y[i] = fixed_sigmoid(p[i], G, top)
        elif codes[i] == SIN:
            y[i] = fixed_sin(p[i], G, top)
        elif codes[i] == RELU:
            y[i] = max(fixed_linear(p[i], G), 0.0)
        else:
            y[i] = fixed_linear(p[i], G)
    return y


def activation_integers(code: int, p: Integers, p_digits: int, digits: int) -> Integers:
    """Activations (n,) of p 2^-p_digits in steps of the grid."""
    x, codes = np.ldexp(p.astype(np.float64), -p_digits), np.full(len(p), code)
    y = activated(codes, x, rounder(digits), 1.0 - math.ldexp(1.0, -digits))
    found: Integers = np.ldexp(y, digits).astype(np.int64)
    return found


def states(map_: IntegerMap, u: Integers) -> Integers:
    """States (T, N) in steps of the grid."""
    length, warmup = map_.cut
    T = len(u)
    length = length or T
    found = np.empty((T, map_.n_units), dtype=np.int64)
    for begin in range(0, T, length):
        start, end = max(0, begin - warmup), min(T, begin + length)
        run = _from_rest(map_, np.ldexp(u[start:end].astype(np.float64), -map_.digits))
        found[begin:end] = np.ldexp(run[begin - start :], map_.digits).astype(np.int64)
    return found


def _from_rest(map_: IntegerMap, u: Array) -> Array:
    G, top = rounder(map_.digits), 1.0 - math.ldexp(1.0, -map_.digits)
    drive = u
    runs = []
    for layer in map_.layers:
        N = layer.n_units
        W, W_in = (
            np.ldexp(_dense(rows, N, width), -layer.weight_digits)
            for rows, width in ((layer.recurrent, N), (layer.input, drive.shape[1]))
        )
        b = np.ldexp(layer.bias.astype(np.float64), -layer.weight_digits)
        a = np.ldexp(layer.leak.astype(np.float64), -map_.leak_digits)
        x, xs = np.zeros(N), np.empty((len(u), N))
        for t, step in enumerate(drive):
            y = activated(layer.activation, W @ x + W_in @ step + b, G, top)
            x = ((1.0 - a) * x + a * y + G) - G
            xs[t] = x
        runs.append(xs)
        drive = xs
    return np.concatenate(runs, axis=1)


def _dense(rows: IntegerRows, n_rows: int, n_columns: int) -> Array:
    matrix = np.zeros((n_rows, n_columns))
    matrix[np.repeat(np.arange(n_rows), np.diff(rows.starts)), rows.columns] = rows.values
    return matrix


def feature_rows(map_: IntegerMap, sequence: IntegerSequence) -> Integers:
    """Feature rows, in steps of each feature's grid."""
    u, T = sequence.u, len(sequence.u)
    chosen = [
        np.full((T, int(map_.bias)), 1 << map_.digits),
        u if map_.input else u[:, :0],
        states(map_, u)[:, : map_.n_units * map_.state],
    ]
    Z = np.concatenate(chosen, axis=1)[map_.washout :]
    if map_.pool is None:
        return _in_fixed_point(map_, Z.astype(np.float64))
    edges = [len(Z) * k // map_.segments for k in range(map_.segments + 1)]
    parts = [Z[first:last] for first, last in pairwise(edges)]
    return np.concatenate([_in_fixed_point(map_, pooled(map_, part)) for part in parts]).reshape(
        1, -1
    )


def pooled(map_: IntegerMap, Z: Integers) -> Array:
    """Return pooled rows (1 or 2, base) of Z (T, base), in steps of the states' grid."""
    T = len(Z)
    mean = Z.sum(0).astype(np.float64) / T
    if map_.pool == "mean_std":
        m = Z.sum(0) // T
        squares = [float(sum(int(v) ** 2 for v in column)) for column in (Z - m).T]
        d = (Z.sum(0) - T * m) / T
        return np.stack([mean, np.sqrt(np.array(squares) / T - d * d)])
    picked = {"mean": mean, "last": Z[-1], "max": Z.max(0)}[str(map_.pool)]
    return np.asarray(picked, dtype=np.float64)[None]


def _in_fixed_point(map_: IntegerMap, rows: Array) -> Integers:
    scaled = np.rint(np.ldexp(rows, map_.feature_digits - map_.digits))
    top = 2.0**map_.feature_bits
    return np.clip(scaled, -top, top).astype(np.int64)
