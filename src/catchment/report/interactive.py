"""The same pictures as `catchment.report.plots`, with plotly: hover to read values, drag to zoom.

Every function returns a plotly Figure. A notebook displays it; `figure.write_html("name.html")`
makes a page that needs no server.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from catchment.arrays import Array
from catchment.errors import MissingExtraError
from catchment.features.echo_state.weights import LayerWeights
from catchment.report import graph as graphs
from catchment.report import plot_inputs as values
from catchment.report.theme import Theme, theme

try:
    import plotly.graph_objects as go
    from plotly.colors import sample_colorscale
    from plotly.subplots import make_subplots
except ImportError as error:
    raise MissingExtraError("plot", needed_for="interactive plots") from error

N_SHADES = 11


def reservoir_graph(
    layer: LayerWeights,
    *,
    layout: graphs.Layout = "spring",
    max_units: int = 150,
    dark: bool = False,
) -> go.Figure:
    """Return a picture of the units and the connections between them, coloured by weight.

    Parameters are those of `catchment.report.plots.reservoir_graph`.

    >>> from catchment import Reservoir
    >>> layer = Reservoir.from_matrices(np.diag([0.5, 0.2], 1), np.ones((3, 1))).layers[0]
    >>> reservoir_graph(layer).layout.title.text
    'Reservoir graph: 3 units, 2 connections'
    """
    colours, g = theme(dark), graphs.graph_of(layer, layout=layout, max_units=max_units)
    figure = go.Figure()
    scale = _colourscale(colours.diverging)
    # A line has one colour, so the connections are drawn shade by shade.
    shade = np.round((g.weights / g.limit + 1) / 2 * (N_SHADES - 1)).astype(int)
    palette = sample_colorscale(scale, np.linspace(0, 1, N_SHADES).tolist())
    for k in sorted(range(N_SHADES), key=lambda k: abs(2 * k - N_SHADES + 1)):
        if (shade == k).any():
            figure.add_trace(_edges(g, shade == k, palette[k]))
    if g.has_arrows and len(g.weights):
        figure.add_trace(_arrows(g, scale))
    figure.add_trace(_units(g, colours))
    key = {"color": [0.0], "cmin": -g.limit, "cmax": g.limit, "colorscale": scale}
    bar = {"title": {"text": "weight"}, "thickness": 12, "outlinewidth": 0}
    marker = {**key, "colorbar": bar, "showscale": True, "size": 0.1, "opacity": 0}
    figure.add_scatter(x=[0], y=[0], mode="markers", marker=marker, hoverinfo="skip")
    title = f"Reservoir graph: {layer.n_units} units, {layer.W.n_nonzero} connections"
    _dress(figure, colours, title, height=640)
    hidden = {"visible": False, "range": [-1.1, 1.1]}
    figure.update_xaxes(**hidden).update_yaxes(**hidden, scaleanchor="x")
    if g.note:
        place = {"x": 0.5, "y": -0.04, "xref": "paper", "yref": "paper", "showarrow": False}
        figure.add_annotation(text=g.note, font={"color": colours.muted}, **place)
    return figure


def spectrum(layer: LayerWeights, *, leaky: bool = False, dark: bool = False) -> go.Figure:
    """Return the eigenvalues of the recurrent matrix in the complex plane, with the unit circle.

    Parameters are those of `catchment.report.plots.spectrum`.

    >>> from catchment import Reservoir
    >>> layer = Reservoir.from_matrices(np.eye(2) * 0.5, np.ones((2, 1))).layers[0]
    >>> spectrum(layer).layout.title.text
    'Spectrum of W: radius 0.500'
    """
    colours, (real, imaginary) = theme(dark), values.eigenvalues(layer, leaky=leaky)
    radius = float(np.hypot(real, imaginary).max())
    angle = np.linspace(0, 2 * np.pi, 181)
    figure = go.Figure()
    for r, name, line in (
        (1.0, "unit circle", {"color": colours.muted, "width": 1.5}),
        (radius, "spectral radius", {"color": colours.series[1], "width": 1.2, "dash": "dash"}),
    ):
        x, y = r * np.cos(angle), r * np.sin(angle)
        figure.add_scatter(x=x, y=y, mode="lines", line=line, name=name, hoverinfo="skip")
    figure.add_scatter(
        x=real,
        y=imaginary,
        mode="markers",
        marker={"color": colours.series[0], "size": 6, "opacity": 0.75},
        name="eigenvalue",
        customdata=np.hypot(real, imaginary),
        hovertemplate="%{x:.4f} %{y:+.4f}i<br>modulus %{customdata:.4f}<extra></extra>",
    )
    name = "(1 - a) I + a W" if leaky else "W"
    _dress(figure, colours, f"Spectrum of {name}: radius {radius:.3f}", height=600, legend=True)
    reach = 1.08 * max(1.0, radius)
    figure.update_xaxes(title_text="real part", range=[-reach, reach])
    figure.update_yaxes(title_text="imaginary part", range=[-reach, reach], scaleanchor="x")
    return figure


def states(
    x: ArrayLike,
    *,
    inputs: ArrayLike | None = None,
    units: int | Sequence[int] = 6,
    step: float = 1.0,
    time_label: str = "time (steps)",
    dark: bool = False,
) -> go.Figure:
    """Return states over time: some units as lines, and all of them as a map.

    Parameters are those of `catchment.report.plots.states`.

    >>> len(states(np.zeros((50, 4)), units=[0, 2]).data)
    3
    """
    colours, (x, u) = theme(dark), values.state_values(x, inputs)
    time, N = step * np.arange(len(x)), x.shape[1]
    shares = [0.2, 0.3, 0.5] if u is not None else [0.4, 0.6]
    rows = len(shares)
    figure = make_subplots(rows, 1, shared_xaxes=True, row_heights=shares, vertical_spacing=0.05)
    if u is not None:
        for i in range(u.shape[1]):
            line = {"color": colours.series[i % len(colours.series)], "width": 1.2}
            figure.add_scatter(
                x=time, y=u[:, i], name=f"input {i}", line=line, showlegend=False, row=1, col=1
            )
        figure.update_yaxes(title_text="input", row=1, col=1)
    for i, k in enumerate(values.shown_units(N, units)):
        line = {"color": colours.series[i % len(colours.series)], "width": 1.2}
        figure.add_scatter(x=time, y=x[:, k], name=f"unit {k}", line=line, row=rows - 1, col=1)
    limit = float(np.abs(x).max()) or 1.0
    bar = {"title": {"text": "state"}, "thickness": 12, "outlinewidth": 0}
    bar |= {"len": shares[-1], "y": 0, "yanchor": "bottom"}
    figure.add_heatmap(
        x=time,
        z=x.T,
        zmin=-limit,
        zmax=limit,
        colorscale=_colourscale(colours.diverging),
        colorbar=bar,
        hovertemplate="time %{x}<br>unit %{y}<br>state %{z:.4f}<extra></extra>",
        row=rows,
        col=1,
    )
    _dress(figure, colours, f"States of {N} units", height=620, legend=True)
    figure.update_yaxes(title_text="state", row=rows - 1, col=1)
    figure.update_yaxes(title_text="unit", autorange="reversed", showgrid=False, row=rows, col=1)
    figure.update_xaxes(title_text=time_label, row=rows, col=1)
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
) -> go.Figure:
    """Return a forecast with its interval, after the history and beside the truth, if given.

    Parameters are those of `catchment.report.plots.forecast`.

    >>> figure = forecast([1.0, 1.5], history=[0.0, 0.5], lower=[0.5, 1.0], upper=[1.5, 2.0])
    >>> [trace.name for trace in figure.data]
    ['interval', 'history', 'forecast']
    """
    colours, f = theme(dark), values.forecast_values(mean, history, truth, lower, upper)
    H, K = f.mean.shape
    labels = values.output_names(names, K)
    before, after = f.times(step)
    figure = make_subplots(rows=K, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for k in range(K):
        where, first = {"row": k + 1, "col": 1}, k == 0
        if f.lower is not None and f.upper is not None:
            band = _band(after, f.lower[:, k], f.upper[:, k], colours.series[0], interval_label)
            figure.add_trace(band.update(showlegend=first), **where)
        lines = (
            ("history", before, f.history, {"color": colours.muted, "width": 1.5}),
            ("truth", after, f.truth, {"color": colours.text, "width": 1.5}),
            ("forecast", after, f.mean, {"color": colours.series[0], "width": 2.2}),
        )
        for name, time, value, line in lines:
            if value is not None and len(value):
                trace = go.Scatter(x=time, y=value[:, k], name=name, line=line, mode="lines")
                figure.add_trace(trace.update(legendgroup=name, showlegend=first), **where)
        if len(before):
            figure.add_vline(0, line={"color": colours.muted, "width": 1, "dash": "dot"}, **where)
        figure.update_yaxes(title_text=labels[k], **where)
    _dress(figure, colours, f"Forecast of {H} steps", height=200 + 220 * K, legend=True)
    figure.update_layout(hovermode="x unified")
    figure.update_xaxes(title_text=time_label, row=K, col=1)
    return figure


def confusion_matrix(
    counts: ArrayLike, *, classes: Sequence[str] | None = None, dark: bool = False
) -> go.Figure:
    """Return the table of true against predicted classes, shaded by share of the true class.

    Parameters are those of `catchment.report.plots.confusion_matrix`.

    >>> confusion_matrix([[9, 1], [2, 8]]).layout.title.text
    'Confusion: 17 of 20 right (85.0 %)'
    """
    colours, (table, shares, names) = theme(dark), values.confusion_values(counts, classes)
    K, right, total = len(table), int(np.trace(table)), int(table.sum())
    rate = f" ({100 * right / total:.1f} %)" if total else ""
    bar = {"title": {"text": "share of the<br>true class"}, "thickness": 12, "outlinewidth": 0}
    heat = go.Heatmap(
        z=shares,
        x=list(range(K)),
        y=list(range(K)),
        zmin=0,
        zmax=1,
        colorscale=_colourscale(colours.sequential),
        colorbar=bar,
        text=table,
        customdata=np.array([[(i, j) for j in names] for i in names]),
        hovertemplate="true %{customdata[0]}<br>predicted %{customdata[1]}"
        "<br>%{text} (%{z:.1%})<extra></extra>",
    )
    if K <= 16:
        heat.update(texttemplate="%{text}")
    figure = go.Figure(heat)
    title = f"Confusion: {right} of {total} right{rate}"
    _dress(figure, colours, title, height=320 + 30 * min(K, 24))
    ticks = {"tickvals": list(range(K)), "ticktext": list(names), "showgrid": False}
    ticks["constrain"] = "domain"
    figure.update_xaxes(title_text="predicted class", **ticks)
    figure.update_yaxes(title_text="true class", autorange="reversed", scaleanchor="x", **ticks)
    return figure


def ridge_path(
    ridges: ArrayLike,
    errors: ArrayLike,
    *,
    chosen: float | None = None,
    error_label: str = "validation error",
    dark: bool = False,
) -> go.Figure:
    """Return the error against the ridge, with the chosen ridge marked.

    Parameters are those of `catchment.report.plots.ridge_path`.

    >>> ridge_path([1e-6, 1e-3, 1.0], [0.3, 0.2, 0.5]).layout.title.text
    'Ridge path: 0.001 chosen'
    """
    colours, path = theme(dark), values.path_values(ridges, errors, chosen)
    S = path.errors.shape[1]
    figure = go.Figure()
    thin = {"color": colours.muted, "width": 0.8}
    for s in range(S if S > 1 else 0):
        name = f"each of {S}"
        figure.add_scatter(
            x=path.ridges,
            y=path.errors[:, s],
            mode="lines",
            line=thin,
            opacity=0.6,
            name=name,
            legendgroup=name,
            showlegend=s == 0,
        )
    figure.add_scatter(
        x=path.ridges,
        y=path.mean,
        mode="lines+markers",
        line={"color": colours.series[0], "width": 2},
        name="mean" if S > 1 else error_label,
        hovertemplate="ridge %{x:.3g}<br>error %{y:.5g}<extra></extra>",
    )
    mark = {"color": colours.series[1], "width": 1.5, "dash": "dash"}
    figure.add_vline(path.chosen, line=mark, name="chosen", showlegend=True)
    _dress(figure, colours, f"Ridge path: {path.chosen:.3g} chosen", height=440, legend=True)
    figure.update_xaxes(title_text="ridge", type="log", exponentformat="power")
    figure.update_yaxes(title_text=error_label, type="log" if path.spans_decades else "linear")
    return figure


def _dress(
    figure: go.Figure, colours: Theme, title: str, *, height: int, legend: bool = False
) -> None:
    figure.update_layout(
        template="none",
        title={"text": title, "x": 0.01, "xanchor": "left", "font": {"size": 17}},
        paper_bgcolor=colours.page,
        plot_bgcolor=colours.page,
        font={"color": colours.text, "size": 13},
        height=height,
        margin={"l": 70, "r": 30, "t": 70, "b": 60},
        showlegend=legend,
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.01, "yanchor": "bottom"},
    )
    axis = {"gridcolor": colours.grid, "linecolor": colours.grid, "zeroline": False}
    figure.update_xaxes(**axis, automargin=True).update_yaxes(**axis, automargin=True)


def _colourscale(colours: Sequence[str]) -> list[list[float | str]]:
    return [[k / (len(colours) - 1), colour] for k, colour in enumerate(colours)]


def _edges(g: graphs.Graph, chosen: Array, colour: str) -> go.Scatter:
    ends = g.positions[np.stack([g.sources[chosen], g.targets[chosen]], axis=1)]
    # A NaN lifts the pen between two connections.
    path = np.concatenate([ends, np.full((len(ends), 1, 2), np.nan)], axis=1).reshape(-1, 2)
    line = {"color": colour, "width": 1}
    x, y = path.T
    return go.Scatter(x=x, y=y, mode="lines", line=line, opacity=g.opacity, hoverinfo="skip")


def _arrows(g: graphs.Graph, scale: list[list[float | str]]) -> go.Scatter:
    start, end = g.positions[g.sources], g.positions[g.targets]
    middle, along = start + 0.6 * (end - start), end - start
    marker = {
        "symbol": "triangle-up",
        "size": 7,
        "angle": np.degrees(np.arctan2(along[:, 0], along[:, 1])),
        "color": g.weights,
        "colorscale": scale,
        "cmin": -g.limit,
        "cmax": g.limit,
    }
    text = [f"{s} to {t}: {w:.4g}" for s, t, w in zip(g.sources, g.targets, g.weights, strict=True)]
    return go.Scatter(
        x=middle[:, 0], y=middle[:, 1], mode="markers", marker=marker, text=text, hoverinfo="text"
    )


def _units(g: graphs.Graph, colours: Theme) -> go.Scatter:
    loops = set(g.loops.tolist())
    text = [
        f"unit {k}{', connected to itself' if k in loops else ''}" for k in range(len(g.positions))
    ]
    marker = {
        "color": colours.text,
        "size": 5 + 6 * g.strength,
        "line": {"color": colours.page, "width": 0.5},
    }
    x, y = g.positions.T
    return go.Scatter(x=x, y=y, mode="markers", marker=marker, text=text, hoverinfo="text")


def _band(time: Array, lower: Array, upper: Array, colour: str, name: str) -> go.Scatter:
    r, g, b = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return go.Scatter(
        x=np.concatenate([time, time[::-1]]),
        y=np.concatenate([upper, lower[::-1]]),
        fill="toself",
        fillcolor=f"rgba({r}, {g}, {b}, 0.22)",
        line={"width": 0},
        mode="lines",
        name=name,
        legendgroup=name,
        hoverinfo="skip",
    )
