"""A picture of uneven clients: what methods gain or lose, their deviation, and how gains drift."""

from __future__ import annotations

from collections.abc import Sequence

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import dress
from reproductions.intervals import Interval
from reproductions.skew_tables import ANY, dealings, gain, measured, pools
from reproductions.study import SetResult, StudyResult

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error


def draw_skew(study: StudyResult, *, dark: bool = False) -> Figure:
    """Return a picture with three rows per set: gains, deviations and drift by dealing."""
    colors = theme(dark)
    n = len(study.sets)
    figure = Figure(figsize=(4.8 * n + 0.8, 8.5), layout="constrained", facecolor=colors.page)
    axes = figure.subplots(3, n, squeeze=False)
    for column, one in enumerate(study.sets):
        names = dealings(one)
        for ax in axes[:, column]:
            _dress(ax, names, colors)
        axes[0, column].set_title(one.name, loc="left", color=colors.text)
        _gains(axes[0, column], one, names, colors)
        _deviations(axes[1, column], one, names, colors)
        _drift(axes[2, column], one, names, colors)
    titles = "points that plasticity adds", "deviation over initializations", "drift of gains"
    for row, title in enumerate(titles):
        axes[row, 0].set_ylabel(title, color=colors.text)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    for text in legend.get_texts():
        text.set_color(colors.text)
    return figure


def _gains(ax: Axes, one: SetResult, names: Sequence[str], colors: Theme) -> None:
    for k, pool in enumerate(pools(one)):
        found = [gain(one, f"fedip / {name}", pool) for name in names]
        _bars(ax, found, 0.1 * k, colors.series[k], f"FedIP, {pool}")
        level = 100 * gain(one, f"moments / {ANY}", pool).value
        ax.axhline(level, color=colors.series[k], ls=":", label=f"moments, {pool}")
    ax.axhline(0, color=colors.muted, lw=0.8)


def _bars(ax: Axes, found: Sequence[Interval], at: float, color: str, label: str) -> None:
    y = [100 * one.value for one in found]
    low = [100 * (one.value - one.low) for one in found]
    high = [100 * (one.high - one.value) for one in found]
    x = [k + at for k in range(len(found))]
    ax.errorbar(x, y, [low, high], color=color, marker="o", ms=4, capsize=2, label=label)


def _deviations(ax: Axes, one: SetResult, names: Sequence[str], colors: Theme) -> None:
    for k, pool in enumerate(pools(one)):
        y = [100 * one.deviation(f"fedip / {name} / {pool}", 1.0) for name in names]
        ax.plot(range(len(names)), y, color=colors.series[k], marker="o", ms=4)
        plain = 100 * one.deviation(f"incfed / {ANY} / {pool}", 1.0)
        ax.axhline(plain, color=colors.series[k], ls="--", lw=0.8)
    ax.set_ylim(bottom=0)


def _drift(ax: Axes, one: SetResult, names: Sequence[str], colors: Theme) -> None:
    y = [measured(one, "drift of gains", name) for name in names]
    ax.bar(range(len(names)), y, color=colors.series[0], width=0.6)


def _dress(ax: Axes, names: Sequence[str], colors: Theme) -> None:
    dress(ax, colors)
    ax.set_axisbelow(True)
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
