"""How the pictures of the studies look: one palette, type that a phone can show, direct labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from catchment.report import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.2  # inches: two panels side by side are still read on a phone
TITLES = {
    "fsdd": "FSDD",
    "hhar": "HHAR",
    "motionsense": "MotionSense",
    "uci_har": "UCI HAR",
    "wesad": "WESAD",
    "wisdm_watch": "WISDM watch",
}


def dress(ax: Axes, colors: Theme) -> None:
    """Give axes the colors of a page, and a grid."""
    ax.set_facecolor(colors.page)
    ax.set_axisbelow(True)
    ax.grid(color=colors.grid, lw=0.6)
    ax.tick_params(colors=colors.text)
    for spine in ax.spines.values():
        spine.set_color(colors.grid)


def say(ax: Axes, text: str, at: tuple[float, float], color: str, *, above: bool = True) -> None:
    """Write a line's name at one of its points, to the left of it and above or below."""
    shift, va = (4, "bottom") if above else (-6, "top")
    ax.annotate(
        *(text, at), xytext=(0, shift), textcoords="offset points", color=color, ha="right", va=va
    )


def key(figure: Figure, axes: Iterable[Axes], colors: Theme, columns: int = 3) -> None:
    """Put one legend of all axes below the figure, each name once."""
    found = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        *(list(found.values()), list(found)),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        labelcolor=colors.text,
    )
