"""Pictures of reservoirs and results with matplotlib.

Every function returns a Figure of its own, drawn without pyplot: nothing is shown, kept open or set
globally. Save with `figure.savefig("name.png")`; a notebook displays the returned figure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from catchment.errors import MissingExtraError
from catchment.features.echo_state import LayerWeights
from catchment.report import Theme, theme
from catchment_lab.plots import graph as graphs
from catchment_lab.plots import plot_inputs as values

try:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise MissingExtraError("lab", needed_for="plots") from error


def reservoir_graph(
    layer: LayerWeights,
    *,
    layout: graphs.Layout = "spring",
    max_units: int = 150,
    dark: bool = False,
) -> Figure:
    """Return a picture of the units and the connections between them, coloured by weight.

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
    colours, g = theme(dark), graphs.graph_of(layer, layout=layout, max_units=max_units)
    figure = Figure(figsize=(7, 6), layout="constrained", facecolor=colours.page)
    ax = figure.add_subplot()
    _dress(ax, colours, f"Reservoir graph: {layer.n_units} units, {layer.W.n_nonzero} connections")
    scale, shade = Normalize(-g.limit, g.limit), _colourmap("weight", colours.diverging)
    faint = np.abs(g.weights) / g.limit
    lines = LineCollection(
        list(np.stack([g.positions[g.sources], g.positions[g.targets]], axis=1)),
        array=g.weights,
        norm=scale,
        cmap=shade,
        linewidths=0.4 + 1.2 * faint,
        alpha=g.opacity,
        zorder=1,
    )
    ax.add_collection(lines)
    if g.has_arrows:
        heads = list(graphs.arrowheads(g))
        ax.add_collection(PolyCollection(heads, array=g.weights, norm=scale, cmap=shade, zorder=2))
    x, y = g.positions.T
    ax.scatter(x, y, s=12 + 50 * g.strength, color=colours.text, lw=0, zorder=3)
    if len(g.loops):
        x, y, label = x[g.loops], y[g.loops], "connected to itself"
        ax.scatter(x, y, s=120, fc="none", ec=colours.muted, lw=0.8, zorder=3, label=label)
        _paint(ax.legend(loc="lower left"), colours)
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    if g.note:
        ax.set_xlabel(g.note, color=colours.muted)
    _colourbar(figure, ax, ScalarMappable(scale, shade), colours, "weight")
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
    colours, (real, imaginary) = theme(dark), values.eigenvalues(layer, leaky=leaky)
    radius = float(np.hypot(real, imaginary).max())
    figure = Figure(figsize=(5.6, 5.6), layout="constrained", facecolor=colours.page)
    ax = figure.add_subplot()
    name = "(1 - a) I + a W" if leaky else "W"
    _dress(ax, colours, f"Spectrum of {name}: radius {radius:.3f}")
    angle = np.linspace(0, 2 * np.pi, 361)
    circle, farthest = np.cos(angle), np.sin(angle)
    ax.plot(circle, farthest, color=colours.muted, lw=1.2, label="unit circle")
    label = "spectral radius"
    ax.plot(radius * circle, radius * farthest, color=colours.series[1], lw=1, ls="--", label=label)
    ax.scatter(real, imaginary, s=14, color=colours.series[0], alpha=0.75, lw=0, label="eigenvalue")
    reach = 1.08 * max(1.0, radius)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xlabel="real part", ylabel="imaginary part")
    _paint(figure.legend(loc="outside lower center", ncols=3), colours)
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
    colours, (x, u) = theme(dark), values.state_values(x, inputs)
    time, T, N = step * np.arange(len(x)), len(x), x.shape[1]
    heights = [1.2, 1.6, 2.4] if u is not None else [1.6, 2.4]
    figure = Figure((9, 1.1 + sum(heights)), layout="constrained", facecolor=colours.page)
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    if u is not None:
        _dress(axes[0], colours, "Input")
        for i in range(u.shape[1]):
            axes[0].plot(time, u[:, i], lw=1, color=colours.series[i % len(colours.series)])
        axes[0].set_ylabel("input")
    _dress(axes[-2], colours, f"States of {N} units")
    for i, k in enumerate(values.shown_units(N, units)):
        colour = colours.series[i % len(colours.series)]
        axes[-2].plot(time, x[:, k], lw=1, color=colour, label=f"unit {k}")
    axes[-2].set_ylabel("state")
    if len(axes[-2].lines) <= 8:
        place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 8}
        _paint(axes[-2].legend(**place, borderpad=0, columnspacing=1, handlelength=1), colours)
    limit = float(np.abs(x).max()) or 1.0
    image = axes[-1].imshow(
        x.T,
        aspect="auto",
        interpolation="nearest",
        cmap=_colourmap("state", colours.diverging),
        norm=Normalize(-limit, limit),
        extent=(-0.5 * step, (T - 0.5) * step, N - 0.5, -0.5),
    )
    _dress(axes[-1], colours, "", grid=False)
    axes[-1].set(xlabel=time_label, ylabel="unit")
    axes[-1].yaxis.set_major_locator(MaxNLocator(6, integer=True))
    _colourbar(figure, axes[-1], image, colours, "state")
    return figure


def forecast(
    mean: ArrayLike,
    *,
    history: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    interval_label: str = "interval",
    names: Sequence[str] | None = None,
    step: float = 1.0,
    time_label: str = "time since the last observation (steps)",
    dark: bool = False,
) -> Figure:
    """Return a forecast with its interval, after the history and beside the truth, if given.

    Parameters
    ----------
    mean
        (H,) or (H, K) forecast; every output has a panel.
    history
        (T, K) values before the forecast.
    truth
        (H, K) what really came; NaN leaves a gap.
    lower, upper
        (H, K) bounds of the interval, both or neither.
    interval_label
        What the interval is, as in "90 % interval".
    names
        K names of the outputs, with their units.

    >>> figure = forecast([1.0, 1.5], history=[0.0, 0.5], lower=[0.5, 1.0], upper=[1.5, 2.0])
    >>> [text.get_text() for text in figure.legends[0].texts]
    ['history', 'forecast', 'interval']
    """
    colours, f = theme(dark), values.forecast_values(mean, history, truth, lower, upper)
    H, K = f.mean.shape
    labels = values.output_names(names, K)
    before, after = f.times(step)
    figure = Figure((9, 1.2 + 2.4 * K), layout="constrained", facecolor=colours.page)
    axes = figure.subplots(K, 1, sharex=True, squeeze=False)[:, 0]
    for k, ax in enumerate(axes):
        _dress(ax, colours, f"Forecast of {H} steps" if k == 0 else "")
        if len(before):
            ax.plot(before, f.history[:, k], color=colours.muted, lw=1.2, label="history")
            ax.axvline(0, color=colours.muted, lw=0.8, ls=":")
        if f.truth is not None:
            ax.plot(after, f.truth[:, k], color=colours.text, lw=1.2, label="truth")
        ax.plot(after, f.mean[:, k], color=colours.series[0], lw=1.8, label="forecast")
        if f.lower is not None and f.upper is not None:
            bounds = f.lower[:, k], f.upper[:, k]
            shade = colours.series[0]
            ax.fill_between(after, *bounds, color=shade, alpha=0.22, lw=0, label=interval_label)
        ax.set_ylabel(labels[k])
        ax.margins(x=0.01)
    axes[-1].set_xlabel(time_label)
    handles, texts = axes[0].get_legend_handles_labels()
    _paint(figure.legend(handles, texts, loc="outside upper right", ncols=4), colours)
    return figure


def confusion_matrix(
    counts: ArrayLike, *, classes: Sequence[str] | None = None, dark: bool = False
) -> Figure:
    """Return the table of true against predicted classes, shaded by share of the true class.

    Parameters
    ----------
    counts
        (K, K) counts, a row per true class and a column per predicted one.
    classes
        K names; numbers if not given.

    >>> confusion_matrix([[9, 1], [2, 8]]).axes[0].get_title(loc="left")
    'Confusion: 17 of 20 right (85.0 %)'
    """
    colours, (table, shares, names) = theme(dark), values.confusion_values(counts, classes)
    K, right, total = len(table), int(np.trace(table)), int(table.sum())
    size = 2.6 + 0.62 * min(K, 16)
    figure = Figure((size + 0.9, size), layout="constrained", facecolor=colours.page)
    ax = figure.add_subplot()
    rate = f" ({100 * right / total:.1f} %)" if total else ""
    _dress(ax, colours, f"Confusion: {right} of {total} right{rate}", grid=False)
    shade = _colourmap("share", colours.sequential)
    image = ax.imshow(shares, cmap=shade, norm=Normalize(0, 1))
    if K <= 16:
        for i, j in np.ndindex(K, K):
            colour = colours.page if shares[i, j] > 0.55 else colours.text
            ax.text(j, i, str(table[i, j]), ha="center", va="center", color=colour, size=9)
    every = range(0, K, max(1, K // 24))
    turned = max(len(name) for name in names) > 3
    ax.set_xticks(list(every), [names[k] for k in every], rotation=40 if turned else 0)
    for tick in ax.get_xticklabels():
        tick.set(ha="right" if turned else "center", rotation_mode="anchor")
    ax.set_yticks(list(every), [names[k] for k in every])
    ax.tick_params(length=0)
    ax.set(xlabel="predicted class", ylabel="true class")
    _colourbar(figure, ax, image, colours, "share of the true class")
    return figure


def ridge_path(
    ridges: ArrayLike,
    errors: ArrayLike,
    *,
    chosen: float | None = None,
    error_label: str = "validation error",
    dark: bool = False,
) -> Figure:
    """Return the error against the ridge, with the chosen ridge marked.

    Parameters
    ----------
    ridges
        (R,) positive ridges in any order.
    errors
        (R,) errors, or (R, S) for S folds or clients: thin lines, and their mean.
    chosen
        The ridge to mark; the one with the smallest mean error if not given.

    >>> ridge_path([1e-6, 1e-3, 1.0], [0.3, 0.2, 0.5]).axes[0].get_title(loc="left")
    'Ridge path: 0.001 chosen'
    """
    colours, path = theme(dark), values.path_values(ridges, errors, chosen)
    figure = Figure((7, 4), layout="constrained", facecolor=colours.page)
    ax = figure.add_subplot()
    _dress(ax, colours, f"Ridge path: {path.chosen:.3g} chosen")
    S = path.errors.shape[1]
    if S > 1:
        ax.plot(path.ridges, path.errors, color=colours.muted, lw=0.7, alpha=0.6)
        ax.lines[0].set_label(f"each of {S}")
    label = "mean" if S > 1 else error_label
    ax.plot(path.ridges, path.mean, color=colours.series[0], lw=1.8, marker="o", ms=4, label=label)
    ax.axvline(path.chosen, color=colours.series[1], lw=1.4, ls="--", label="chosen")
    ax.set(xscale="log", xlabel="ridge", ylabel=error_label)
    if path.spans_decades:
        ax.set_yscale("log")
    _paint(ax.legend(loc="best"), colours)
    return figure


def _dress(ax: Axes, colours: Theme, title: str, *, grid: bool = True) -> None:
    ax.set_facecolor(colours.page)
    if title:
        ax.set_title(title, loc="left", color=colours.text, fontsize=12, fontweight="bold")
    ax.tick_params(colors=colours.muted, labelcolor=colours.text, labelsize=9)
    ax.xaxis.label.set_color(colours.text)
    ax.yaxis.label.set_color(colours.text)
    ax.spines[:].set_color(colours.grid)
    ax.spines[["top", "right"]].set_visible(False)
    if grid:
        ax.grid(color=colours.grid, lw=0.8)
    ax.set_axisbelow(True)


def _paint(legend: Legend, colours: Theme) -> None:
    legend.set_frame_on(False)
    for text in legend.get_texts():
        text.set(color=colours.text, fontsize=9)


def _colourbar(figure: Figure, ax: Axes, drawn: ScalarMappable, colours: Theme, label: str) -> None:
    bar = figure.colorbar(drawn, ax=ax, shrink=0.85, aspect=28, pad=0.02)
    bar.set_label(label, color=colours.text)
    bar.ax.tick_params(colors=colours.muted, labelcolor=colours.text, labelsize=9)
    bar.outline.set_visible(False)


def _colourmap(name: str, colours: Sequence[str]) -> Colormap:
    return LinearSegmentedColormap.from_list(name, list(colours))
