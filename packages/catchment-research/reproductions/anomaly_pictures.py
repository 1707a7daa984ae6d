"""A picture of the anomaly study: scores of one run over time, and F1 of families by learner."""

from __future__ import annotations

import numpy as np

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.anomaly_values import AnomalyResult, figures
from reproductions.axes import WIDTH, dress

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error

SHOWN = ("local", "federated", "personal")


def draw(result: AnomalyResult, *, dark: bool = False) -> Figure:
    """Return a picture: one run's scores above, all families' F1 on SKAB below."""
    colors = theme(dark)
    figure = Figure(figsize=(WIDTH, 9), layout="constrained", facecolor=colors.page)
    above, middle, below = figure.subplots(3, 1, height_ratios=(1, 2, 3))
    _flow(above, result, colors)
    _scores(middle, result, colors)
    _families(below, result, colors)
    return figure


def _mark(ax: Axes, run: dict[str, list[float]], colors: Theme) -> None:
    dress(ax, colors)
    ax.axvspan(*run["window"], color=colors.series[1], alpha=0.15, lw=0)
    ax.axvline(run["learned"][0], color=colors.muted, lw=0.8, ls="--")
    ax.set_xlim(0, len(run["flow"]))


def _flow(ax: Axes, result: AnomalyResult, colors: Theme) -> None:
    run = result.traces["run"]
    _mark(ax, run, colors)
    ax.plot(run["flow"], color=colors.text, lw=0.8)
    ax.set_ylabel("flow, l/min", color=colors.text)
    title = "SKAB, one run: trained left of the dashed line; shaded: valve closed"
    ax.set_title(title, loc="left", color=colors.text, fontsize=11)


def _scores(ax: Axes, result: AnomalyResult, colors: Theme) -> None:
    _mark(ax, result.traces["run"], colors)
    names = [name for name in result.traces if name != "run"]
    for name, color in zip(names, colors.series, strict=False):
        trace = result.traces[name]
        scores = np.maximum(np.array(trace["scores"]), 1e-3) / trace["threshold"][0]
        ax.plot(scores, color=color, lw=0.8, label=name)
    ax.axhline(1.0, color=colors.text, lw=1)
    ax.set_yscale("log")
    ax.set_ylim(1e-2, None)
    ax.set_ylabel("score over its threshold", color=colors.text)
    ax.set_xlabel("row, about a second each; above 1 is an alarm", color=colors.text)
    legend = ax.legend(loc="upper left", frameon=False)
    for text in legend.get_texts():
        text.set_color(colors.text)


def _families(ax: Axes, result: AnomalyResult, colors: Theme) -> None:
    dress(ax, colors)
    families = list(
        dict.fromkeys(c.family for c in result.cells if c.data == "skab" and c.learner != "-")
    )
    for k, learner in enumerate(SHOWN):
        found = [result.of("skab", family, learner) for family in families]
        shown = [figures(cells) for cells in found if cells]
        x = [one.f1 for one in shown]
        spread = [[one.f1 - one.low for one in shown], [one.high - one.f1 for one in shown]]
        y = np.arange(len(shown)) + 0.22 * (k - 1)
        ax.errorbar(
            x,
            y,
            xerr=np.maximum(spread, 0),
            fmt="o",
            ms=5,
            capsize=2,
            color=colors.series[k],
            label=learner,
        )
    always = figures(result.of("skab", "always alarmed", "-")).f1
    ax.axvline(always, color=colors.muted, lw=1, ls="--")
    ax.text(always, -0.75, " always alarmed", color=colors.muted, va="bottom")
    ax.set_yticks(range(len(families)), families)
    ax.invert_yaxis()
    ax.set_xlabel("F1 on SKAB, 95 % over runs", color=colors.text)
    legend = ax.legend(loc="center left", bbox_to_anchor=(-0.02, 0.35), frameon=False)
    for text in legend.get_texts():
        text.set_color(colors.text)
