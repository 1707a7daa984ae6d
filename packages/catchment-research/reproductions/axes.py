"""How the axes of the studies' pictures look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.report import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def dress(ax: Axes, colours: Theme) -> None:
    """Give axes the colours of a page, and a grid."""
    ax.set_facecolor(colours.page)
    ax.grid(color=colours.grid, lw=0.6)
    ax.tick_params(colors=colours.text)
    for spine in ax.spines.values():
        spine.set_color(colours.grid)
