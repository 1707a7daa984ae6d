"""A picture of the maps: accuracy on unseen people against what a client sends."""

from __future__ import annotations

from collections.abc import Sequence

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import dress
from reproductions.map_methods import MAJORITY, RULES
from reproductions.map_tables import AEON, MEGABYTE, TARGETS
from reproductions.map_values import MapsResult, Row

try:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error

MARKERS = "osD^v<>PX*hp"
TITLES = {
    "uci_har": "UCI HAR",
    "motionsense": "MotionSense",
    "hhar": "HHAR",
    "wisdm_watch": "WISDM watch",
}


def draw(result: MapsResult, names: Sequence[str], *, dark: bool = False) -> Figure:
    """Return a picture with one panel for each set of people."""
    colors = theme(dark)
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(
        figsize=(5.6 * columns, 4.2 * rows + 1.4), layout="constrained", facecolor=colors.page
    )
    axes = figure.subplots(rows, columns, squeeze=False)
    methods = list(dict.fromkeys(row.method for name in names for row in result.rows(name)))
    for ax in axes.ravel()[len(names) :]:
        ax.set_visible(False)
    for ax, name in zip(axes.ravel(), names, strict=False):
        _panel(ax, result, name, methods, colors)
    handles: dict[str, Artist] = {}
    for ax in axes.ravel():
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    legend = figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=3, frameon=False
    )
    for text in legend.get_texts():
        text.set_color(colors.text)
    return figure


def _panel(ax: Axes, result: MapsResult, name: str, methods: list[str], colors: Theme) -> None:
    dress(ax, colors)
    ax.set_xscale("log")
    ax.set_title(TITLES.get(name, name), loc="left", color=colors.text)
    ax.set_xlabel("MB up, largest client, all rounds", color=colors.text)
    ax.set_ylabel("accuracy on unseen people (%)", color=colors.text)
    for row in result.rows(name):
        if row.method != MAJORITY:
            _point(ax, row, methods.index(row.method), colors)
    for target in TARGETS:
        if target.set == name and target.megabytes < float("inf"):
            ax.plot(
                [target.megabytes, target.megabytes],
                [100 * target.accuracy, ax.get_ylim()[1]],
                color=colors.muted,
                lw=1,
                ls=":",
            )
            ax.axhline(100 * target.accuracy, color=colors.muted, lw=1, ls=":")


def _point(ax: Axes, row: Row, number: int, colors: Theme) -> None:
    color = colors.series[number % len(colors.series)]
    if row.method.startswith(AEON):
        # Pooled data are not sent: a line, not a point.
        ax.axhline(100 * row.accuracy, color=color, lw=1, ls="--", label=row.method)
        return
    ax.plot(
        [row.largest("largest_up") / MEGABYTE],
        [100 * row.accuracy],
        # After all markers have had a turn they go on with other colors.
        marker=MARKERS[(number + 5 * (number // len(MARKERS))) % len(MARKERS)],
        color=color,
        ls="",
        ms=13 if row.method in RULES else 7,
        label=row.method,
    )
