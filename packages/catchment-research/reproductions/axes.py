"""How the axes of the studies' pictures look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.report import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def dress(ax: Axes, colors: Theme) -> None:
    """Give axes the colors of a page, and a grid."""
    ax.set_facecolor(colors.page)
    ax.grid(color=colors.grid, lw=0.6)
    ax.tick_params(colors=colors.text)
    for spine in ax.spines.values():
        spine.set_color(colors.grid)
