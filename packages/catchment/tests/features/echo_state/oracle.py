"""Reservoirs by the textbook loop in plain numpy, to compare the compiled code with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from catchment import Array
from catchment.features import Reservoir
from catchment.features.echo_state import ACTIVATIONS, LayerWeights, SparseRows

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": lambda p: 1 / (1 + np.exp(-p)),
    "relu": lambda p: np.maximum(p, 0.0),
    "sin": np.sin,
    "identity": lambda p: p,
}


def activate(p: Array, activation: NDArray[np.uint8]) -> Array:
    """Return each unit's activation of its own pre-activation (N,)."""
    f = np.empty_like(p)
    for code, name in enumerate(ACTIVATIONS):
        f[activation == code] = FUNCTIONS[name](p[activation == code])
    return f


def layer_states(layer: LayerWeights, u: Array, x: Array) -> Array:
    """Return the states (T, N) of one layer started from x (N,)."""
    W, W_in, a = layer.W.to_dense(), layer.W_in.to_dense(), layer.leak
    states = np.empty((len(u), layer.n_units))
    for t in range(len(u)):
        drive = W_in @ u[t] + W @ x + layer.bias
        x = (1 - a) * x + a * activate(layer.gain * drive + layer.shift, layer.activation)
        states[t] = x
    return states


def states(reservoir: Reservoir, u: Array, x0: Array | None = None) -> Array:
    """Return the states (T, N) of all layers, each driven by the one below."""
    edges = np.cumsum([layer.n_units for layer in reservoir.layers])[:-1]
    starts = np.split(np.zeros(reservoir.n_units) if x0 is None else x0, edges)
    parts, below = [], u
    for layer, start in zip(reservoir.layers, starts, strict=True):
        below = layer_states(layer, below, start)
        parts.append(below)
    return np.hstack(parts)


def extended(reservoir: Reservoir, u: Array) -> Array:
    """Return [1, u, x] (T, 1 + I + N)."""
    return np.hstack([np.ones((len(u), 1)), u, states(reservoir, u)])


def random_layer(
    rng: np.random.Generator,
    n_units: int,
    n_inputs: int,
    *,
    density: float = 0.2,
    radius: float = 0.9,
    leak: float | Array = 0.4,
    activations: Sequence[str] = ("tanh",),
    plastic: bool = False,
) -> LayerWeights:
    """Return a layer; several activations alternate from unit to unit."""
    W = rng.uniform(-1, 1, (n_units, n_units)) * (rng.random((n_units, n_units)) < density)
    largest = np.abs(np.linalg.eigvals(W)).max()
    W *= radius / largest if largest > 1e-6 else 1.0
    codes = [ACTIVATIONS.index(activations[k % len(activations)]) for k in range(n_units)]
    return LayerWeights(
        SparseRows.from_dense(W),
        SparseRows.from_dense(rng.uniform(-0.5, 0.5, (n_units, n_inputs))),
        rng.uniform(-0.2, 0.2, n_units),
        np.array(np.broadcast_to(leak, (n_units,)), dtype=np.float64),
        rng.uniform(0.6, 1.1, n_units) if plastic else np.ones(n_units),
        rng.uniform(-0.1, 0.1, n_units) if plastic else np.zeros(n_units),
        np.array(codes, dtype=np.uint8),
    )


def random_reservoir(
    seed: int = 0,
    n_units: int = 24,
    n_inputs: int = 2,
    *,
    density: float = 0.2,
    radius: float = 0.9,
    leak: float = 0.4,
) -> Reservoir:
    """Return a reservoir of one plain tanh layer."""
    rng = np.random.default_rng(seed)
    return Reservoir.of_layers(
        (random_layer(rng, n_units, n_inputs, density=density, radius=radius, leak=leak),)
    )


def sequences(lengths: Sequence[int], n_inputs: int = 2, seed: int = 1) -> list[Array]:
    """Return inputs (T_k, I) of the given lengths."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, (length, n_inputs)) for length in lengths]
