"""A picture of IncFed: accuracy by the share of people, and by rounds beside one round."""

from __future__ import annotations

import numpy as np

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import TITLES, WIDTH, dress, say
from reproductions.incfed_tables import AVERAGE, BASELINES, EXACT, ROUNDS, rounds_of
from reproductions.published import printed
from reproductions.study import SetResult, StudyResult

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error

NAMES = {EXACT: "exact sum", AVERAGE: "average", BASELINES[1]: "most frequent class"}


def draw_incfed(study: StudyResult, *, dark: bool = False) -> Figure:
    """Return a picture with a row for each set: accuracy by share, and by rounds."""
    colors = theme(dark)
    n = len(study.sets)
    figure = Figure(figsize=(WIDTH, 2.3 * n + 0.4), layout="constrained", facecolor=colors.page)
    axes = figure.subplots(n, 2, squeeze=False, sharex="col", sharey="row")
    for (left, right), one in zip(axes, study.sets, strict=True):
        _shares(left, one, colors)
        _rounds(right, one, colors)
        left.set_title(TITLES.get(one.name, one.name), loc="left", color=colors.text)
        left.set_ylabel("test accuracy (%)", color=colors.text)
        low, high = left.get_ylim()
        left.set_ylim(low, high + 0.15 * (high - low))  # room for the names of lines
    axes[-1, 0].set_xlabel("training people (%); dotted: the paper", color=colors.text)
    axes[-1, 1].set_xlabel("rounds of averaging", color=colors.text)
    return figure


def _shares(ax: Axes, one: SetResult, colors: Theme) -> None:
    dress(ax, colors)
    x = 100 * np.array(one.shares)
    for k, (method, name) in enumerate(NAMES.items()):
        if method not in one.methods:
            continue
        color = colors.muted if method in BASELINES else colors.series[k]
        y = np.array([100 * one.mean(method, share) for share in one.shares])
        e = np.array([100 * one.deviation(method, share) for share in one.shares])
        ax.errorbar(x, y, e, color=color, marker="o", ms=4, capsize=2)
        paper = [printed("incfed", one.name, method, share) for share in one.shares]
        known = [(a, b) for a, b in zip(x, paper, strict=True) if b is not None]
        below = method == AVERAGE and (not known or known[-1][1] > y[-1])
        say(ax, name, (x[-1], y[-1]), color, above=not below)
        if known:
            ax.plot(*zip(*known, strict=True), color=color, ls=":", marker="x", ms=4, lw=1)


def _rounds(ax: Axes, one: SetResult, colors: Theme) -> None:
    dress(ax, colors)
    x = rounds_of(one)
    if x:
        y = [100 * one.mean(f"{ROUNDS}{n}", 1.0) for n in x]
        ax.semilogx(x, y, color=colors.series[1], marker="o", ms=4)
        at, color = ax.transAxes, colors.series[1]
        ax.text(0.97, 0.06, "averaging by rounds", color=color, ha="right", transform=at)
    for level in one.values(EXACT, 1.0)[:1]:
        ax.axhline(100 * level, color=colors.series[0])
        if x:
            say(ax, "exact sum, one round", (x[-1], 100 * level), colors.series[0])
