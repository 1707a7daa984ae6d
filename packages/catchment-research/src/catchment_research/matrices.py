"""A reservoir's connections: taken from esnfed, measured as a graph, adapted by local rules.

Local rules change the weight w from unit j to unit i at every step, by what both units say, x_j
before and y_i after it (Oja 1982; Babinec and Pospíchal 2007; Morales, Mirasso and Soriano 2021):

    hebbian  w += r y_i x_j          oja  w += r y_i (x_j - y_i w)          anti-: with -r
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from catchment import Array, as_matrix
from catchment.data import Recording
from catchment.features import Reservoir
from catchment.features.echo_state import ACTIVATIONS as NAMES
from catchment.features.echo_state import SparseRows
from catchment_research.maps import ACTIVATIONS

Rule = Literal["hebbian", "anti-hebbian", "oja", "anti-oja"]


def from_esnfed(network: Any) -> Reservoir:
    """Return the reservoir of an esnfed EchoStateNetwork, with equal states.

    Its `harvest` puts the bias constant and the inputs in front of the states.
    """
    if callable(network.activation):
        raise ValueError("a function as activation cannot be taken over; use DenseReservoir")
    given = network.activation
    W = network.W.toarray() if hasattr(network.W, "toarray") else network.W
    return Reservoir.from_matrices(
        W,
        network.W_in[:, 1:],
        bias=network.W_in[:, 0] * network.bias,
        leak_rate=np.ravel(network.leaking_rate)
        if np.ndim(network.leaking_rate)
        else network.leaking_rate,
        activation=given if isinstance(given, str) else [str(name) for name in given],
    )


def graph_metrics(reservoir: Reservoir | ArrayLike) -> dict[str, float]:
    """Return what the connections of a reservoir's first layer, or of a matrix (N, N), look like.

    The density counts directed connections between different units; the others take a connection
    in either direction. The path length is over all pairs, infinite if some are not joined.

    >>> graph_metrics(np.roll(np.eye(6), 1, axis=0))
    {'density': 0.2, 'mean degree': 2.0, 'largest degree': 2.0, 'clustering': 0.0, ...}
    """
    given = reservoir.layers[0].W.to_dense() if isinstance(reservoir, Reservoir) else reservoir
    joined = as_matrix(given, "W") != 0
    N = len(joined)
    if joined.shape != (N, N) or N < 2:
        raise ValueError(f"W has shape {joined.shape}; pass a square matrix of two units or more")
    np.fill_diagonal(joined, False)
    A = csr_array((joined | joined.T).astype(np.float64))
    degrees = A.sum(axis=1)
    triangles = (A @ A).multiply(A).sum(axis=1)
    pairs = degrees * (degrees - 1)
    clustering = np.divide(triangles, pairs, out=np.zeros(N), where=pairs > 0)
    return {
        "density": float(joined.sum() / (N * (N - 1))),
        "mean degree": float(degrees.mean()),
        "largest degree": float(degrees.max()),
        "clustering": float(clustering.mean()),
        "path length": float(shortest_path(A, unweighted=True).sum() / (N * (N - 1))),
    }


def adapt_weights(
    reservoir: Reservoir,
    recordings: Sequence[Recording],
    *,
    rule: Rule = "oja",
    rate: float = 1e-3,
    epochs: int = 1,
) -> Reservoir:
    """Return a reservoir of one layer whose recurrent weights a local rule changed, step by step.

    Only connections that are there change. Each recording starts from rest.

    >>> u = np.sin(np.arange(50.0))
    >>> before = Reservoir(units=20, seed=1)
    >>> after = adapt_weights(before, [Recording(u)], rule="anti-oja")
    >>> graph_metrics(after) == graph_metrics(before)
    True
    """
    if reservoir.n_layers != 1:
        raise ValueError(f"the reservoir has {reservoir.n_layers} layers; pass one of one layer")
    (layer,) = reservoir.layers
    rows, columns, w = layer.W.rows(), layer.W.columns, layer.W.values.copy()
    signed = -rate if rule.startswith("anti-") else rate
    N = layer.n_units
    for one in [*recordings] * epochs:
        x = np.zeros(N)
        for drive in reservoir.checked(one.u) @ layer.W_in.to_dense().T + layer.bias:
            v = layer.gain * (drive + np.bincount(rows, w * x[columns], N)) + layer.shift
            y = (1 - layer.leak) * x + layer.leak * _activated(v, layer.activation)
            after = y[rows]
            w += signed * after * (x[columns] - (after * w if rule.endswith("oja") else 0.0))
            x = y
    if not np.isfinite(w).all():
        raise ValueError(f"the weights grew without bound at a rate of {rate}; pass a smaller one")
    W = SparseRows.from_coordinates(rows, columns, w, N, N)
    return Reservoir.of_layers([replace(layer, W=W)])


def _activated(v: Array, kinds: Any) -> Array:
    found = np.empty(len(v))
    for kind in np.unique(kinds):
        found[kinds == kind] = ACTIVATIONS[NAMES[kind]](v[kinds == kind])
    return found
