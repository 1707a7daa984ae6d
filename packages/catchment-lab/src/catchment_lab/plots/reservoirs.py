"""Pictures of reservoirs with matplotlib: their graph, their spectrum, their states.

Every function returns a Figure of its own, drawn without pyplot: nothing is shown, kept open or set
globally. Save with `figure.savefig("name.png")`; a notebook displays the returned figure.

The spring layout is that of Fruchterman and Reingold (1991), started on a circle so that the same
reservoir always gives the same picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from catchment import Array, Integers, as_matrix, refuse_nonfinite
from catchment.errors import MissingExtraError
from catchment.features.echo_state import LayerWeights
from catchment.report import Theme, theme

try:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise MissingExtraError("lab", needed_for="plots") from error

Layout = Literal["spring", "circular"]

MOST_EDGES = 3000
MOST_ARROWS = 300
MOST_EIGENVALUES = 3000


def reservoir_graph(
    layer: LayerWeights,
    *,
    layout: Layout = "spring",
    max_units: int = 150,
    dark: bool = False,
) -> Figure:
    """Return a picture of the units and the connections between them, colored by weight.

    Parameters
    ----------
    layer
        One layer of a reservoir, as in `reservoir.layers[0]`.
    layout
        "spring" pulls connected units together; "circular" puts them in order on a circle.
    max_units
        Only the first units, this many, are drawn, and the title says so.

    >>> from catchment import Reservoir
    >>> layer = Reservoir.from_matrices(np.diag([0.5, 0.2], 1), np.ones((3, 1))).layers[0]
    >>> reservoir_graph(layer).axes[0].get_title(loc="left")
    'Reservoir graph: 3 units, 2 connections'
    """
    colors, g = theme(dark), graph_of(layer, layout=layout, max_units=max_units)
    figure = Figure(figsize=(7, 6), layout="constrained", facecolor=colors.page)
    ax = figure.add_subplot()
    _dress(ax, colors, f"Reservoir graph: {layer.n_units} units, {layer.W.n_nonzero} connections")
    scale = Normalize(-g.limit, g.limit)
    shade = LinearSegmentedColormap.from_list("weight", list(colors.diverging))
    faint = np.abs(g.weights) / g.limit
    lines = LineCollection(
        list(np.stack([g.positions[g.sources], g.positions[g.targets]], axis=1)),
        array=g.weights,
        norm=scale,
        cmap=shade,
        linewidths=0.4 + 1.2 * faint,
        alpha=np.clip(12 / np.sqrt(max(1, len(g.weights))), 0.25, 0.9),  # the more, the less each
        zorder=1,
    )
    ax.add_collection(lines)
    if len(g.weights) <= MOST_ARROWS:
        heads = list(arrowheads(g))
        ax.add_collection(PolyCollection(heads, array=g.weights, norm=scale, cmap=shade, zorder=2))
    x, y = g.positions.T
    ax.scatter(x, y, s=12 + 50 * g.strength, color=colors.text, lw=0, zorder=3)
    if len(g.loops):
        x, y, label = x[g.loops], y[g.loops], "connected to itself"
        ax.scatter(x, y, s=120, fc="none", ec=colors.muted, lw=0.8, zorder=3, label=label)
        _paint(ax.legend(loc="lower left"), colors)
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    if g.note:
        ax.set_xlabel(g.note, color=colors.muted)
    _colorbar(figure, ax, ScalarMappable(scale, shade), colors, "weight")
    return figure


def spectrum(layer: LayerWeights, *, leaky: bool = False, dark: bool = False) -> Figure:
    """Return the eigenvalues of the recurrent matrix in the complex plane, with the unit circle.

    Parameters
    ----------
    layer
        One layer of a reservoir.
    leaky
        Draw the eigenvalues of (1 - a) I + a W, which govern a leaky unit near rest.

    >>> from catchment import Reservoir
    >>> layer = Reservoir.from_matrices(np.eye(2) * 0.5, np.ones((2, 1))).layers[0]
    >>> spectrum(layer).axes[0].get_title(loc="left")
    'Spectrum of W: radius 0.500'
    """
    colors, (real, imaginary) = theme(dark), eigenvalues(layer, leaky=leaky)
    radius = float(np.hypot(real, imaginary).max())
    figure = Figure(figsize=(5.6, 5.6), layout="constrained", facecolor=colors.page)
    ax = figure.add_subplot()
    name = "(1 - a) I + a W" if leaky else "W"
    _dress(ax, colors, f"Spectrum of {name}: radius {radius:.3f}")
    angle = np.linspace(0, 2 * np.pi, 361)
    circle, farthest = np.cos(angle), np.sin(angle)
    ax.plot(circle, farthest, color=colors.muted, lw=1.2, label="unit circle")
    label = "spectral radius"
    ax.plot(radius * circle, radius * farthest, color=colors.series[1], lw=1, ls="--", label=label)
    ax.scatter(real, imaginary, s=14, color=colors.series[0], alpha=0.75, lw=0, label="eigenvalue")
    reach = 1.08 * max(1.0, radius)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xlabel="real part", ylabel="imaginary part")
    _paint(figure.legend(loc="outside lower center", ncols=3), colors)
    return figure


def states(
    x: ArrayLike,
    *,
    inputs: ArrayLike | None = None,
    units: int | Sequence[int] = 6,
    step: float = 1.0,
    time_label: str = "time (steps)",
    dark: bool = False,
) -> Figure:
    """Return states over time: some units as lines, and all of them as a map.

    Parameters
    ----------
    x
        (T, N) states.
    inputs
        (T, I) inputs, drawn above if given.
    units
        How many units to draw as lines, or which.
    step
        Time between two steps, in the unit that `time_label` names.

    >>> figure = states(np.zeros((50, 4)), step=0.02, time_label="time (s)")
    >>> figure.axes[1].get_xlabel()
    'time (s)'
    """
    colors, (x, u) = theme(dark), state_values(x, inputs)
    time, T, N = step * np.arange(len(x)), len(x), x.shape[1]
    heights = [1.2, 1.6, 2.4] if u is not None else [1.6, 2.4]
    figure = Figure((9, 1.1 + sum(heights)), layout="constrained", facecolor=colors.page)
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    if u is not None:
        _dress(axes[0], colors, "Input")
        for i in range(u.shape[1]):
            axes[0].plot(time, u[:, i], lw=1, color=colors.series[i % len(colors.series)])
        axes[0].set_ylabel("input")
    _dress(axes[-2], colors, f"States of {N} units")
    for i, k in enumerate(shown_units(N, units)):
        color = colors.series[i % len(colors.series)]
        axes[-2].plot(time, x[:, k], lw=1, color=color, label=f"unit {k}")
    axes[-2].set_ylabel("state")
    if len(axes[-2].lines) <= 8:
        place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 8}
        _paint(axes[-2].legend(**place, borderpad=0, columnspacing=1, handlelength=1), colors)
    limit = float(np.abs(x).max()) or 1.0
    image = axes[-1].imshow(
        x.T,
        aspect="auto",
        interpolation="nearest",
        cmap=LinearSegmentedColormap.from_list("state", list(colors.diverging)),
        norm=Normalize(-limit, limit),
        extent=(-0.5 * step, (T - 0.5) * step, N - 0.5, -0.5),
    )
    _dress(axes[-1], colors, "", grid=False)
    axes[-1].set(xlabel=time_label, ylabel="unit")
    axes[-1].yaxis.set_major_locator(MaxNLocator(6, integer=True))
    _colorbar(figure, axes[-1], image, colors, "state")
    return figure


def _dress(ax: Axes, colors: Theme, title: str, *, grid: bool = True) -> None:
    ax.set_facecolor(colors.page)
    if title:
        ax.set_title(title, loc="left", color=colors.text, fontsize=12, fontweight="bold")
    ax.tick_params(colors=colors.muted, labelcolor=colors.text, labelsize=9)
    ax.xaxis.label.set_color(colors.text)
    ax.yaxis.label.set_color(colors.text)
    ax.spines[:].set_color(colors.grid)
    ax.spines[["top", "right"]].set_visible(False)
    if grid:
        ax.grid(color=colors.grid, lw=0.8)
    ax.set_axisbelow(True)


def _paint(legend: Legend, colors: Theme) -> None:
    legend.set_frame_on(False)
    for text in legend.get_texts():
        text.set(color=colors.text, fontsize=9)


def _colorbar(figure: Figure, ax: Axes, drawn: ScalarMappable, colors: Theme, label: str) -> None:
    bar = figure.colorbar(drawn, ax=ax, shrink=0.85, aspect=28, pad=0.02)
    bar.set_label(label, color=colors.text)
    bar.ax.tick_params(colors=colors.muted, labelcolor=colors.text, labelsize=9)
    bar.outline.set_visible(False)


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
        """The largest |weight|, for a color scale that is symmetric about zero."""
        return float(np.abs(self.weights).max(initial=0.0)) or 1.0


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
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    positions = np.column_stack([np.cos(angle), np.sin(angle)])
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
    """Return a triangle (m, 3, 2) on each connection, past its middle, toward its target."""
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


def eigenvalues(layer: LayerWeights, *, leaky: bool) -> tuple[Array, Array]:
    """Return real and imaginary parts (N,) of the eigenvalues of W, or of (1 - a) I + a W.

    >>> from catchment.features.echo_state import SparseRows
    >>> W = SparseRows.from_dense(np.array([[0.0, -0.5], [0.5, 0.0]]))
    >>> one, zero = np.ones(2), np.zeros(2)
    >>> layer = LayerWeights(W, W, zero, one, one, zero, zero.astype(np.uint8))
    >>> np.sort(eigenvalues(layer, leaky=False)[1])
    array([-0.5,  0.5])
    """
    if layer.n_units > MOST_EIGENVALUES:
        raise ValueError(
            f"the spectrum of {layer.n_units} units would take minutes; "
            f"draw a layer of at most {MOST_EIGENVALUES} units"
        )
    W = layer.W.to_dense()
    if leaky:
        W = np.diag(1 - layer.leak) + layer.leak[:, None] * W
    values = np.linalg.eigvals(W)
    return np.real(values), np.imag(values)


def shown_units(n_units: int, units: int | Sequence[int]) -> list[int]:
    """Return the units to draw as lines: those named, or this many spread over all.

    >>> shown_units(100, 4)
    [0, 33, 66, 99]
    """
    if isinstance(units, int):
        if units < 1:
            raise ValueError(f"units is {units}; pass how many to draw, or which")
        return sorted({int(k) for k in np.linspace(0, n_units - 1, min(units, n_units))})
    outside = [k for k in units if not 0 <= k < n_units]
    if outside or len(units) == 0:
        raise ValueError(f"units {list(units)} are not all within 0..{n_units - 1}")
    return list(units)


def state_values(x: ArrayLike, inputs: ArrayLike | None) -> tuple[Array, Array | None]:
    """Return states (T, N) and inputs (T, I) or None, with equally many steps."""
    states = as_matrix(x, "states")
    if states.size == 0:
        raise ValueError(f"states have shape {states.shape}; pass at least one step and one unit")
    refuse_nonfinite(states, "states")
    if inputs is None:
        return states, None
    u = as_matrix(inputs, "inputs")
    if len(u) != len(states):
        raise ValueError(f"{len(u)} steps of input and {len(states)} of states; pass equally many")
    return states, u
