"""A picture of uneven clients: what methods gain or lose, their deviation, and how gains drift."""

from __future__ import annotations

from collections.abc import Sequence

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import TITLES, WIDTH, dress, key
from reproductions.skew_tables import ANY, dealings, gain, measured, pools
from reproductions.study import SetResult, StudyResult

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error


def draw_skew(study: StudyResult, *, dark: bool = False) -> Figure:
    """Return a picture with a row for each set: gains, deviations and drift by dealing."""
    colors = theme(dark)
    n = len(study.sets)
    figure = Figure(figsize=(WIDTH, 2.9 * n + 0.8), layout="constrained", facecolor=colors.page)
    axes = figure.subplots(n, 3, squeeze=False, sharey="row", width_ratios=(4, 3, 3))
    for row, one in zip(axes, study.sets, strict=True):
        names = dealings(one)
        for ax in row:
            dress(ax, colors)
        row[0].set_yticks(range(len(names)), names)
        row[0].invert_yaxis()
        row[0].set_title(TITLES.get(one.name, one.name), loc="left", color=colors.text)
        _gains(row[0], one, names, colors)
        _deviations(row[1], one, names, colors)
        drift = [measured(one, "drift of gains", name) for name in names]
        row[2].barh(range(len(names)), drift, color=colors.series[2], height=0.6)
    titles = "points gained by plasticity", "deviation (points)", "drift of gains"
    for ax, title in zip(axes[-1], titles, strict=True):
        ax.set_xlabel(title, color=colors.text)
    key(figure, axes[0], colors)
    return figure


def _gains(ax: Axes, one: SetResult, names: Sequence[str], colors: Theme) -> None:
    for k, pool in enumerate(pools(one)):
        found = [gain(one, f"fedip / {name}", pool) for name in names]
        x = [100 * one.value for one in found]
        low = [100 * (one.value - one.low) for one in found]
        high = [100 * (one.high - one.value) for one in found]
        y = [row + 0.3 * k - 0.15 for row in range(len(names))]
        color, label = colors.series[k], f"FedIP, {pool} pooled"
        ax.errorbar(x, y, xerr=[low, high], color=color, fmt="o", ms=4, capsize=2, label=label)
        level = 100 * gain(one, f"moments / {ANY}", pool).value
        ax.axvline(level, color=color, ls=":", label=f"moments, {pool} pooled")
    ax.axvline(0, color=colors.muted, lw=0.8)


def _deviations(ax: Axes, one: SetResult, names: Sequence[str], colors: Theme) -> None:
    for k, pool in enumerate(pools(one)):
        x = [100 * one.deviation(f"fedip / {name} / {pool}", 1.0) for name in names]
        ax.plot(x, range(len(names)), color=colors.series[k], marker="o", ms=4, ls="")
        plain = 100 * one.deviation(f"incfed / {ANY} / {pool}", 1.0)
        label = f"as drawn, {pool} pooled"
        ax.axvline(plain, color=colors.series[k], ls="--", lw=1, label=label)
    ax.set_xlim(left=0)
