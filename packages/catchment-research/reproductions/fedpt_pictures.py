"""A picture of FedPT's rows: accuracy, round time and memory by the share trained, and by noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import WIDTH, dress, key
from reproductions.fedpt_findings import by_percent, crossover, differences, mean
from reproductions.fedpt_values import FedptResult, Row
from reproductions.intervals import deviation

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error

NAMES = {
    "writers": "handwritten digits",
    "cifar": "CIFAR-10, 10 clients",
    "cifar_many": "CIFAR-10, 100 clients",
    "text": "next words, addresses",
    "speeches": "next words, plays",
}


def draw(result: FedptResult, *, dark: bool = False) -> Figure:
    """Return a picture: accuracy, round time and memory by the share trained, and by noise."""
    colors = theme(dark)
    figure = Figure(figsize=(WIDTH, 6.2), layout="constrained", facecolor=colors.page)
    (accuracy, private), (seconds, memory) = figure.subplots(2, 2)
    for ax, title in (
        (accuracy, "accuracy (%)"),
        (private, "digits, with DP noise (%)"),
        (seconds, "seconds per round"),
        (memory, "peak GPU memory (MiB)"),
    ):
        _dress(ax, title, colors)
    for k, part in enumerate(NAMES):
        if not any(row.part == part for row in result.rows):
            continue
        groups = by_percent([row for row in result.rows if row.part == part])
        style = {"marker": "o", "color": colors.series[k], "label": NAMES[part]}
        x = list(groups)
        accuracy.plot(x, [100 * mean(same) for same in groups.values()], **style)
        times = [float(np.median([r.seconds_per_round for r in of])) for of in groups.values()]
        seconds.plot(x, times, **style)
        known = {p: [r.peak_mebibytes for r in of if r.peak_mebibytes] for p, of in groups.items()}
        peaks = {p: float(np.median(values)) for p, values in known.items() if values}
        memory.plot(list(peaks), list(peaks.values()), **style)
    for ax in (accuracy, seconds, memory):
        ax.set_xlabel("parameters trained (%)", color=colors.text)
    seconds.set_yscale("log")
    seconds.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    seconds.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    seconds.yaxis.set_minor_formatter(NullFormatter())
    accuracy.set_ylim(bottom=0)
    if accuracy.lines:
        key(figure, [accuracy], colors)
    _private(private, [row for row in result.rows if row.part == "private"], colors)
    return figure


def _private(ax: Axes, rows: Sequence[Row], colors: Theme) -> None:
    for k, (percent, same) in enumerate(by_percent(rows).items()):
        noises = sorted({row.noise or 0.0 for row in same})
        values = [[100 * r.accuracy for r in same if (r.noise or 0.0) == n] for n in noises]
        y = [float(np.mean(v)) for v in values]
        e = [deviation(v) if len(v) > 1 else 0.0 for v in values]
        label = f"{percent:g} % trained"
        ax.errorbar(noises, y, e, marker="o", capsize=2, color=colors.series[k], label=label)
    if rows and (where := crossover(differences(rows))) is not None:
        ax.axvspan(*where, color=colors.muted, alpha=0.2, lw=0)
    ax.set_xlabel("noise multiplier (shaded: lines cross)", color=colors.text)
    if rows:
        ax.legend(frameon=False, labelcolor=colors.text)


def _dress(ax: Axes, title: str, colors: Theme) -> None:
    ax.set_title(title, loc="left", color=colors.text)
    dress(ax, colors)
