"""A picture of the maps: accuracy on unseen people against what a client sends."""

from __future__ import annotations

from collections.abc import Sequence

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import TITLES, WIDTH, dress, key
from reproductions.map_methods import MAJORITY
from reproductions.map_tables import AEON, MEGABYTE
from reproductions.map_values import MapsResult, Row

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error

NAMED = {
    "default, 510": "default",
    "window statistics": "statistics",
    "MiniRocket, 1008": "MiniRocket",
    "reservoir, chosen": "reservoir",
    "CNN by FedAvg": "CNN",
    "InceptionTime by FedAvg": "Inception",
}


def draw(result: MapsResult, names: Sequence[str], *, dark: bool = False) -> Figure:
    """Return a picture with one panel for each set of people."""
    colors = theme(dark)
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    size = (WIDTH, 3.3 * rows + 0.7)
    figure = Figure(figsize=size, layout="constrained", facecolor=colors.page)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.ravel()[len(names) :]:
        ax.set_visible(False)
    for ax, name in zip(axes.ravel(), names, strict=False):
        _panel(ax, result, name, colors)
    for ax in axes[:, 0]:
        ax.set_ylabel("accuracy on unseen people (%)", color=colors.text)
    for ax in axes[-1]:
        ax.set_xlabel("MB sent by the largest client", color=colors.text)
    key(figure, axes.ravel()[: len(names)], colors)
    return figure


def _panel(ax: Axes, result: MapsResult, name: str, colors: Theme) -> None:
    dress(ax, colors)
    ax.set_xscale("log")
    ax.set_title(TITLES.get(name, name), loc="left", color=colors.text)
    rows = [row for row in result.rows(name) if row.method != MAJORITY]
    for row in rows:
        _point(ax, row, colors)
    ax.margins(x=0.12, y=0.1)


def _point(ax: Axes, row: Row, colors: Theme) -> None:
    y = 100 * row.accuracy
    if row.method.startswith(AEON):
        # Pooled data are not sent: a line, not a point.
        ax.axhline(y, color=colors.muted, ls="--", label="aeon's MiniRocket, pooled data")
        return
    x = row.largest("largest_up") / MEGABYTE
    said = NAMED.get(row.method)
    if said is None:
        ax.plot([x], [y], "o", color=colors.muted, ms=4, alpha=0.6, label="other maps")
        return
    color = colors.series[list(NAMED).index(row.method)]
    ax.plot([x], [y], "o", color=color, ms=9 if said == "default" else 6)
    side = -1 if x > 2 or said == "default" else 1
    ax.annotate(
        *(said, (x, y)),
        xytext=(-7, 0) if side < 0 else (2, -4),
        textcoords="offset points",
        color=color,
        ha="left" if side > 0 else "right",
        va="center" if side < 0 else "top",
        weight="bold" if said == "default" else "normal",
    )
