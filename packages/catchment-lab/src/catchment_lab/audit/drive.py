"""The reservoir as an attacker runs it: any state, one step or many, with derivatives by inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from catchment import Array
from catchment.features import EchoState
from catchment.features.echo_state import ACTIVATIONS, LayerWeights

_VALUE: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": lambda v: 0.5 * (1 + np.tanh(v / 2)),
    "relu": lambda v: np.maximum(v, 0.0),
    "sin": np.sin,
    "identity": lambda v: v,
}
_SLOPE: dict[str, Callable[[Array], Array]] = {
    "tanh": lambda v: 1 - np.tanh(v) ** 2,
    "sigmoid": lambda v: 0.25 * (1 - np.tanh(v / 2) ** 2),
    "relu": lambda v: (v > 0).astype(np.float64),
    "sin": np.cos,
    "identity": np.ones_like,
}


@dataclass(frozen=True, eq=False)
class _Layer:
    weights: LayerWeights
    W: Array  # (N, N)
    W_in: Array  # (N, I)

    def activate(self, table: dict[str, Callable[[Array], Array]], v: Array) -> Array:
        out = np.empty_like(v)
        for code in np.unique(self.weights.activation):
            of = self.weights.activation == code
            out[of] = table[ACTIVATIONS[code]](v[of])
        return out


@dataclass(frozen=True, eq=False)
class Drive:
    """Rows (1, z) of features from any state, and their derivatives by the inputs.

    >>> from catchment import Reservoir
    >>> features = EchoState.of(Reservoir(units=20, inputs=2, seed=1))
    >>> row, by_input, x, _ = Drive(features).step(np.zeros(20), np.array([0.5, -0.5]))
    >>> bool(np.allclose(row[1:], features(np.array([[0.5, -0.5]]))))
    True
    >>> by_input.shape
    (23, 2)
    """

    features: EchoState

    @cached_property
    def layers(self) -> list[_Layer]:
        return [
            _Layer(layer, layer.W.to_dense(), layer.W_in.to_dense())
            for layer in self.features.reservoir.layers
        ]

    def step(
        self, x: Array, u: Array, dx: Array | None = None, du: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Return the row (1 + F,), its derivative, the next state (N,) and its derivative.

        Parameters
        ----------
        x, dx
            State (N,) before the step and its derivative (N, n) by n unknowns; zero if not given.
        u, du
            Input (I,) and its derivative (I, n); the input itself is the unknown if not given.
        """
        by = np.eye(len(u)) if du is None else du
        dx = np.zeros((len(x), by.shape[1])) if dx is None else dx
        drive, d_drive = u, by
        states, slopes, at = [], [], 0
        for layer in self.layers:
            w = layer.weights
            part = slice(at, at + w.n_units)
            at += w.n_units
            v = w.gain * (layer.W_in @ drive + layer.W @ x[part] + w.bias) + w.shift
            dv = w.gain[:, None] * (layer.W_in @ d_drive + layer.W @ dx[part])
            slope = layer.activate(_SLOPE, v)[:, None]
            drive = (1 - w.leak) * x[part] + w.leak * layer.activate(_VALUE, v)
            d_drive = (1 - w.leak)[:, None] * dx[part] + w.leak[:, None] * slope * dv
            states.append(drive)
            slopes.append(d_drive)
        state, d_state = np.concatenate(states), np.concatenate(slopes)
        row, d_row = [np.ones(1)], [np.zeros((1, by.shape[1]))]
        chosen = (
            (self.features.bias, np.ones(1), np.zeros((1, by.shape[1]))),
            (self.features.input, u, by),
            (self.features.state, state, d_state),
        )
        for kept, value, derivative in chosen:
            if kept:
                row.append(value)
                d_row.append(derivative)
        return np.concatenate(row), np.concatenate(d_row), state, d_state

    def window(self, u: Array) -> tuple[Array, Array]:
        """Return the pooled row (1 + F,) of a window (T, I) and its derivative (1 + F, T I)."""
        T, I = u.shape
        x, dx = np.zeros(self.features.reservoir.n_units), None
        rows, slopes = [], []
        for t in range(T):
            du = np.zeros((I, T * I))
            du[:, t * I : (t + 1) * I] = np.eye(I)
            row, d_row, x, dx = self.step(x, u[t], dx, du)
            rows.append(row[1:])
            slopes.append(d_row[1:])
        kept = np.array(rows[self.features.washout :])
        d_kept = np.array(slopes[self.features.washout :])
        segments = self.features.segments
        edges = [len(kept) * k // segments for k in range(segments + 1)]
        out, d_out = [np.ones(1)], [np.zeros((1, T * I))]
        for first, last in pairwise(edges):
            for value, slope in _pooled(self.features.pool, kept[first:last], d_kept[first:last]):
                out.append(value)
                d_out.append(slope)
        return np.concatenate(out), np.concatenate(d_out)


def _pooled(pool: str | None, rows: Array, slopes: Array) -> list[tuple[Array, Array]]:
    """Return the pooled parts of rows (T, F) and of their derivatives (T, F, n)."""
    if pool == "last":
        return [(rows[-1], slopes[-1])]
    if pool == "max":
        top = rows.argmax(axis=0)
        column = np.arange(rows.shape[1])
        return [(rows[top, column], slopes[top, column])]
    mean, d_mean = rows.mean(axis=0), slopes.mean(axis=0)
    if pool == "mean":
        return [(mean, d_mean)]
    centered = rows - mean
    std = np.sqrt(np.mean(centered**2, axis=0))
    d_std = np.einsum("tf,tfn->fn", centered, slopes) / len(rows)
    return [(mean, d_mean), (std, d_std / np.maximum(std, 1e-12)[:, None])]
