"""Pictures of results: accuracy by share with intervals over people, and each subject's own."""

from __future__ import annotations

import numpy as np

from catchment.errors import MissingExtraError
from catchment.report import Theme, theme
from reproductions.axes import TITLES, WIDTH, dress, key
from reproductions.incfed_pictures import draw_incfed
from reproductions.intervals import over_people
from reproductions.per_class import interval, majority
from reproductions.published import printed
from reproductions.skew_pictures import draw_skew
from reproductions.study import SetResult, StudyResult

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("lab", needed_for="pictures of results") from error


OWN = {"incfed": draw_incfed, "skew": draw_skew}


def draw(study: StudyResult, *, dark: bool = False) -> Figure:
    """Return a picture with two rows per set: accuracy by share, and each subject's accuracy."""
    if study.name in OWN:
        return OWN[study.name](study, dark=dark)
    colors = theme(dark)
    n = len(study.sets)
    if study.name == "fedip" or all(len(one.shares) == 1 for one in study.sets):
        return _of_one_share(study, colors)
    figure = Figure(figsize=(4.2 * n + 1.2, 7), layout="constrained", facecolor=colors.page)
    axes = figure.subplots(2, n, squeeze=False)
    for column, one in enumerate(study.sets):
        _shares(axes[0, column], study.name, one, colors)
        _subjects(axes[1, column], one, colors)
    axes[0, 0].set_ylabel("test accuracy (%)", color=colors.text)
    axes[1, 0].set_ylabel("accuracy of each test subject (%)", color=colors.text)
    key(figure, axes[0, :1], colors, columns=4)
    return figure


def _of_one_share(study: StudyResult, colors: Theme) -> Figure:
    """Return each subject's accuracy with all training people: of one share, or of many methods.

    With one share there is no curve to draw, and curves of a dozen methods lie on each other.
    """
    rows = max(len(_rows(one)) for one in study.sets)
    size = (WIDTH, 0.42 * rows + 1.4)
    figure = Figure(figsize=size, layout="constrained", facecolor=colors.page)
    axes = figure.subplots(1, len(study.sets), squeeze=False, sharey=True)[0]
    for ax, one in zip(axes, study.sets, strict=True):
        dress(ax, colors)
        ax.set_title(TITLES.get(one.name, one.name), loc="left", color=colors.text)
        _of_rows(ax, one, colors)
    axes[0].invert_yaxis()
    alone = all(len(one.methods) == 1 for one in study.sets)
    bar = "line: of all their windows together" if alone else "bar: of the mean person"
    axes[len(axes) // 2].set_xlabel(f"accuracy of each test person (%); {bar}", color=colors.text)
    if axes[0].get_legend_handles_labels()[0]:
        key(figure, axes, colors)
    return figure


def _rows(one: SetResult) -> list[str]:
    """Return what a picture of one share has rows for: methods without pooling, or subjects."""
    if len(one.methods) > 1:
        return list(dict.fromkeys(_parts(method)[0] for method in one.methods))
    means = _by_subject(one, one.methods[0])
    return sorted(means, key=means.__getitem__)


def _parts(method: str) -> tuple[str, str]:
    """Return a method's name without its pooling, and that.

    >>> _parts("fedip / mean"), _parts("fedip-paper-mean_std"), _parts("random")
    (('fedip', 'mean'), ('fedip-paper', 'mean_std'), ('random', ''))
    """
    name, mark, pool = method.partition(" / ")
    if not mark:
        first, _, last = method.rpartition("-")
        return (first, last) if last in ("last", "mean", "mean_std") and first else (method, "")
    return name, pool


def _by_subject(one: SetResult, method: str) -> dict[str, float]:
    """Return each subject's mean accuracy with all training people, in per cent."""
    cells = one.of(method, one.shares[-1])
    return {
        name: 100 * float(np.mean([c.by_subject[name] for c in cells if name in c.by_subject]))
        for name in sorted({name for c in cells for name in c.by_subject})
    }


def _of_rows(ax: Axes, one: SetResult, colors: Theme) -> None:
    rows = _rows(one)
    ax.set_yticks(range(len(rows)), rows)
    if len(one.methods) == 1:
        means = _by_subject(one, one.methods[0])
        ax.plot([means[name] for name in rows], range(len(rows)), "o", color=colors.series[0])
        ax.axvline(100 * one.mean(one.methods[0], one.shares[-1]), color=colors.series[0])
        return
    pools = list(dict.fromkeys(_parts(method)[1] for method in one.methods))
    for method in one.methods:
        name, pool = _parts(method)
        k = pools.index(pool)
        found = list(_by_subject(one, method).values())
        y = rows.index(name) + 0.27 * (k - (len(pools) - 1) / 2)
        label = f"{pool} pooled" if pool and name == rows[0] else None
        ax.plot(found, [y] * len(found), "o", ms=3, color=colors.series[k], alpha=0.7, label=label)
        ax.vlines(float(np.mean(found)), y - 0.13, y + 0.13, color=colors.series[k], lw=2)


def _shares(ax: Axes, study: str, one: SetResult, colors: Theme) -> None:
    dress(ax, colors)
    ax.set_title(one.name, loc="left", color=colors.text)
    for k, method in enumerate(one.methods):
        color = colors.muted if method == "random" else colors.series[k % len(colors.series)]
        x = 100 * np.array(one.shares)
        y = np.array([100 * one.mean(method, share) for share in one.shares])
        e = np.array([_bar(one, method, share) for share in one.shares]).T
        style = "--" if k >= len(colors.series) else "-"
        ax.errorbar(x, y, e, color=color, marker="o", ms=4, ls=style, capsize=2, label=method)
        paper = [printed(study, one.name, method, share) for share in one.shares]
        if any(value is not None for value in paper):
            known = [(a, b) for a, b in zip(x, paper, strict=True) if b is not None]
            ax.plot(*zip(*known, strict=True), color=color, ls=":", marker="x", ms=4, lw=0.8)
    ax.set_xlabel("training subjects (%); dotted: the paper", color=colors.text)
    always = majority(one, one.shares[-1])
    if always and "majority" not in one.methods:
        ax.axhline(100 * over_people(always).value, color=colors.muted, lw=0.8, ls="--")


def _bar(one: SetResult, method: str, share: float) -> tuple[float, float]:
    """Return how far an accuracy could be below and above, in points: over people if known."""
    known, mean = interval(one, method, share), one.mean(method, share)
    if known is None:
        deviation = 100 * one.deviation(method, share)
        return deviation, deviation
    # The interval is of all sequences, the point the mean over folds: it may lie a little outside.
    return max(0.0, 100 * (mean - known.low)), max(0.0, 100 * (known.high - mean))


def _subjects(ax: Axes, one: SetResult, colors: Theme) -> None:
    dress(ax, colors)
    methods = [method for method in one.methods if method != "random"]
    for k, method in enumerate(methods):
        color = colors.series[one.methods.index(method) % len(colors.series)]
        means = list(_by_subject(one, method).values())
        place = k + np.linspace(-0.2, 0.2, len(means)) if len(means) > 1 else np.array([float(k)])
        ax.plot(place, means, "o", ms=4, color=color, alpha=0.8)
        ax.hlines(float(np.mean(means)), k - 0.3, k + 0.3, color=color)
    ax.set_xticks(range(len(methods)), methods, rotation=60, ha="right", fontsize=8)
