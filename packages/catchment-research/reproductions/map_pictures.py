"""A picture of the maps: accuracy on unseen people against what a client sends."""

from __future__ import annotations

from collections.abc import Sequence

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import TITLES, WIDTH, dress, key
from reproductions.map_methods import MAJORITY, NOTHING_SET
from reproductions.map_tables import MEGABYTE
from reproductions.map_values import MapsResult, Row

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patheffects import withStroke
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error

NAMED = {
    NOTHING_SET: "default",
    "default, 510": "scaled alone",
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
    pooled = [row.accuracy for row in rows if "pooled" in row.method]
    if pooled:  # such data are not sent: a line, not a point
        ax.axhline(100 * max(pooled), color=colors.muted, ls="--", label="best with pooled data")
    for row in rows:
        if "pooled" not in row.method:
            _point(ax, row, colors)
    ax.margins(x=0.12, y=0.1)


def _point(ax: Axes, row: Row, colors: Theme) -> None:
    y = 100 * row.accuracy
    x = row.largest("largest_up") / MEGABYTE
    said = NAMED.get(row.method)
    if said is None:
        ax.plot([x], [y], "o", color=colors.muted, ms=4, alpha=0.6, label="other maps")
        return
    color = colors.series[max(0, list(NAMED).index(row.method) - 1)]  # both of the default alike
    ax.plot([x], [y], "o", color=color, ms=9 if said == "default" else 6)
    if said == "default":
        low, high = row.interval
        label = "the default over people, 95 %"
        ax.vlines(x, 100 * low, 100 * high, color=color, lw=1, alpha=0.5, label=label)
    # Names are beside their points, near the edge to the left; those of one place apart.
    left, right = ((-7, 0), "right", "center"), ((2, -4), "left", "top")
    places = {
        "default": ((0, -9), "center", "top"),
        "scaled alone": ((0, 7), "center", "bottom"),
        "statistics": ((-8, -5), "left", "top"),
        "Inception": ((5, -5), "right", "top"),
        "CNN": left,
    }
    offset, across, along = places.get(said, right)
    ax.annotate(
        *(said, (x, y)),
        xytext=offset,
        textcoords="offset points",
        color=color,
        ha=across,
        va=along,
        path_effects=[withStroke(linewidth=3, foreground=colors.page)],  # over points and lines
        weight="bold" if said == "default" else "normal",
    )
