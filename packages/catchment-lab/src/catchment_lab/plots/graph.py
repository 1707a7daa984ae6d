"""Where the units of a reservoir stand in a picture, and which connections are drawn.

The spring layout is that of Fruchterman and Reingold (1991), started on a circle so that the same
reservoir always gives the same picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from catchment import Array, Integers
from catchment.features.echo_state import LayerWeights

Layout = Literal["spring", "circular"]

MOST_EDGES = 3000
MOST_ARROWS = 300


@dataclass(frozen=True, eq=False)
class Graph:
    """Positions (n, 2) of units in the unit disc, and m connections between different units."""

    positions: Array  # (n, 2)
    strength: Array  # (n,) sum of |weight| in and out, over the largest
    loops: Integers  # units with a connection to themselves
    sources: Integers  # (m,)
    targets: Integers  # (m,)
    weights: Array  # (m,)
    note: str

    @property
    def limit(self) -> float:
        """The largest |weight|, for a colour scale that is symmetric about zero."""
        return float(np.abs(self.weights).max(initial=0.0)) or 1.0

    @property
    def opacity(self) -> float:
        """How solid a connection is drawn: the more there are, the less each hides."""
        return float(np.clip(12 / np.sqrt(max(1, len(self.weights))), 0.25, 0.9))

    @property
    def has_arrows(self) -> bool:
        """Whether the connections are few enough to show their direction."""
        return len(self.weights) <= MOST_ARROWS


def graph_of(layer: LayerWeights, *, layout: Layout, max_units: int) -> Graph:
    """Return the picture's graph: the first units, the strongest connections among them.

    >>> from catchment.features.echo_state import SparseRows
    >>> W = SparseRows.from_dense(np.array([[0.0, 0.5], [0.0, 0.1]]))
    >>> one, zero = np.ones(2), np.zeros(2)
    >>> layer = LayerWeights(W, W, zero, one, one, zero, zero.astype(np.uint8))
    >>> g = graph_of(layer, layout="circular", max_units=150)
    >>> g.sources, g.targets, g.loops
    (array([1]), array([0]), array([1]))
    """
    if layout not in ("spring", "circular"):
        raise ValueError(f"layout is {layout!r}; pass 'spring' or 'circular'")
    if max_units < 1:
        raise ValueError(f"max_units is {max_units}; pass a positive number")
    n = min(layer.n_units, max_units)
    rows, columns, values = layer.W.rows(), layer.W.columns.astype(np.int64), layer.W.values
    shown = (rows < n) & (columns < n)
    loops = np.unique(rows[shown & (rows == columns)])
    between = shown & (rows != columns)
    targets, sources, weights = rows[between], columns[between], values[between]
    strength = np.bincount(targets, np.abs(weights), n) + np.bincount(sources, np.abs(weights), n)
    # Weak connections first: the strong ones are then drawn above them.
    order = np.argsort(np.abs(weights), kind="stable")[-MOST_EDGES:]
    note = _note(n, layer.n_units, len(order), len(weights))
    positions = _circle(n)
    if layout == "spring":
        positions = _spring(positions, sources, targets)
    return Graph(
        positions,
        strength / (strength.max(initial=0.0) or 1.0),
        loops,
        sources[order],
        targets[order],
        weights[order],
        note,
    )


def arrowheads(graph: Graph, *, size: float = 0.03) -> Array:
    """Return a triangle (m, 3, 2) on each connection, past its middle, towards its target."""
    start, end = graph.positions[graph.sources], graph.positions[graph.targets]
    along = end - start
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12)
    across = np.column_stack([-along[:, 1], along[:, 0]])
    middle = start + 0.6 * (end - start)
    back = middle - size * along
    return np.stack([middle, back + 0.4 * size * across, back - 0.4 * size * across], axis=1)


def _note(n: int, n_units: int, m: int, n_edges: int) -> str:
    parts = []
    if n < n_units:
        parts.append(f"first {n} of {n_units} units")
    if m < n_edges:
        parts.append(f"strongest {m} of {n_edges} connections")
    return ", ".join(parts)


def _circle(n: int) -> Array:
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _spring(x: Array, sources: Integers, targets: Integers, n_steps: int = 150) -> Array:
    """Return positions (n, 2) in which connected units attract and all units repel each other."""
    n = len(x)
    if n < 3:
        return x
    joined = np.zeros((n, n))
    joined[sources, targets] = joined[targets, sources] = 1.0
    # Units with many connections are pulled less by each, or crowded graphs collapse into a knot.
    degree = np.maximum(joined.sum(axis=1), 1.0)
    joined *= 2 / np.sqrt(np.outer(degree, degree))
    distance = 1.5 / np.sqrt(n)
    for heat in np.linspace(0.1, 0.002, n_steps):
        gap = x[:, None, :] - x[None, :, :]
        length = np.sqrt((gap**2).sum(axis=2)) + 1e-9
        push = (distance / length) ** 2 - joined * length / distance
        force = (gap * push[:, :, None]).sum(axis=1) - 0.2 * x
        size = np.linalg.norm(force, axis=1, keepdims=True) + 1e-12
        x = x + force / size * np.minimum(size, heat)
    x = x - x.mean(axis=0)
    radius = np.linalg.norm(x, axis=1, keepdims=True)
    # A few loosely tied units would otherwise fill the picture and squeeze all others together.
    return np.asarray(x / radius.max() * (radius.max() / np.maximum(radius, 1e-12)) ** 0.35)
