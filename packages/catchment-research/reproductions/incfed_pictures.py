"""A picture of IncFed: accuracy by the share of people, and by rounds beside one round."""

from __future__ import annotations

import numpy as np

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import dress
from reproductions.incfed_tables import EXACT, ROUNDS, in_table, rounds_of
from reproductions.published import printed
from reproductions.study import SetResult, StudyResult

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error


def draw_incfed(study: StudyResult, *, dark: bool = False) -> Figure:
    """Return a picture with two rows per set: accuracy by share, and by rounds."""
    colors = theme(dark)
    n = len(study.sets)
    figure = Figure(figsize=(3.6 * n + 1.2, 7), layout="constrained", facecolor=colors.page)
    axes = figure.subplots(2, n, squeeze=False)
    for column, one in enumerate(study.sets):
        _shares(axes[0, column], one, colors)
        _rounds(axes[1, column], one, colors)
        axes[0, column].set_title(one.name, loc="left", color=colors.text)
    for row in range(2):
        axes[row, 0].set_ylabel("test accuracy (%)", color=colors.text)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    for text in legend.get_texts():
        text.set_color(colors.text)
    return figure


def _shares(ax: Axes, one: SetResult, colors: Theme) -> None:
    dress(ax, colors)
    x = 100 * np.array(one.shares)
    methods = [m for m in in_table(one).methods if m != "centralized"]
    for k, method in enumerate(methods):
        color = colors.muted if method == "random" else colors.series[k % len(colors.series)]
        y = np.array([100 * one.mean(method, share) for share in one.shares])
        e = np.array([100 * one.deviation(method, share) for share in one.shares])
        ax.errorbar(x, y, e, color=color, marker="o", ms=4, capsize=2, label=method)
        paper = [printed("incfed", one.name, method, share) for share in one.shares]
        known = [(a, b) for a, b in zip(x, paper, strict=True) if b is not None]
        if known:
            ax.plot(*zip(*known, strict=True), color=color, ls=":", marker="x", ms=4, lw=0.8)
    ax.set_xlabel("training subjects (%); dotted: the paper", color=colors.text)


def _rounds(ax: Axes, one: SetResult, colors: Theme) -> None:
    dress(ax, colors)
    x = rounds_of(one)
    if x:
        y = [100 * one.mean(f"{ROUNDS}{n}", 1.0) for n in x]
        ax.semilogx(x, y, color=colors.series[0], marker="o", ms=4)
    exact = [100 * cell for cell in one.values(EXACT, 1.0)[:1]]
    for level in exact:
        ax.axhline(level, color=colors.series[2])  # as in the panel above
    ax.set_xlabel("rounds (line: exact sum, one round)", color=colors.text)
