"""The figure of the study of what to freeze, and all its files."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from catchment.report import Theme, theme
from reproductions.axes import WIDTH, dress
from reproductions.freeze_tables import markdown, rows_of
from reproductions.freeze_values import ALL, ECHO, PAPER, RIDGE, TRAINED, WHOLE, FreezeResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = {
    "o": "float32",
    "s": "fewer bits per number",
    "^": "random units left out",
    "v": "last units left out",
}


def write(result: FreezeResult, out: Path) -> list[Path]:
    """Write the result, its tables and its figure; return their paths."""
    stem = "freeze-quick" if result.quick else "freeze"
    paths = [out / f"{stem}.{kind}" for kind in ("json", "md")]
    result.save(paths[0])
    paths[1].write_text(markdown(result))
    drawn = picture(result, out / f"{stem}.png")
    return [*paths, *([drawn] if drawn else [])]


def picture(result: FreezeResult, path: Path) -> Path | None:
    """Draw accuracy by layers, by bytes and, of the limit case, rounds; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    colors = theme(False)
    figure = Figure(figsize=(WIDTH, 10.5), layout="constrained", facecolor=colors.page)
    layers, sent, curves = figure.subplots(3, 1)
    for ax, title in (
        (layers, "which layers are trained, and bytes sent per client and round"),
        (sent, "fewer bits, and parts of the units"),
        (curves, "echo state network on UCI HAR"),
    ):
        dress(ax, colors)
        ax.set_title(title, loc="left", color=colors.text)
    _layers(layers, result, colors)
    _sent(sent, result, colors)
    _curves(curves, result, colors)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path


def _layers(ax: Axes, result: FreezeResult, colors: Theme) -> None:
    own = {trained: rows_of(result, "layers", trained) for trained in TRAINED}
    known = sorted((rows for rows in own.values() if rows), key=lambda rows: rows[0].bytes_up)
    names = [
        f"{'all' if rows[0].job.trained == ALL else rows[0].job.trained}, "
        f"{fmean(row.bytes_up for row in rows) / 1000:,.0f} kB"
        for rows in known
    ]
    values = [100 * fmean(row.accuracy for row in rows) for rows in known]
    ax.barh(names, values, color=[_color(rows[0].job.trained, colors) for rows in known])
    ax.set_xlim(0, 100)
    ax.set_xlabel("test accuracy (%)", color=colors.text)


def _sent(ax: Axes, result: FreezeResult, colors: Theme) -> None:
    for (part, trained, bits, shares, order), own in result.found().items():
        if part == "echo" or trained not in (ALL, PAPER):
            continue
        x, y = fmean(row.bytes_up for row in own), 100 * fmean(row.accuracy for row in own)
        mark = {32: "o" if shares == WHOLE else "^" if order == "random" else "v"}.get(bits, "s")
        color = _color(trained, colors)
        ax.plot(x, y, mark, color=color, ms=7)
        if bits < 32:
            ax.annotate(
                *(str(bits), (x, y), (0, 6)), textcoords="offset points", color=color, ha="center"
            )
    for mark, words in MARKS.items():
        ax.plot([], [], mark, color=colors.muted, label=words)
    ax.legend(frameon=False, loc="lower right", labelcolor=colors.text)
    for y, trained, words in ((0.9, ALL, "all trained"), (0.8, PAPER, "4.96 % trained")):
        ax.text(0.02, y - 0.3, words, color=_color(trained, colors), transform=ax.transAxes)
    ax.set_xscale("log")
    ax.margins(x=0.12, y=0.12)
    ax.set_xlabel("bytes sent per client and round", color=colors.text)
    ax.set_ylabel("test accuracy (%)", color=colors.text)


def _color(trained: str, colors: Theme) -> str:
    known = {ALL: colors.series[0], PAPER: colors.series[1]}
    return known.get(trained, colors.muted)


def _curves(ax: Axes, result: FreezeResult, colors: Theme) -> None:
    for trained, color in zip(ECHO, colors.series, strict=False):
        own = [row for row in rows_of(result, "echo", trained) if row.curve]
        if own:
            mean = [100 * fmean(at) for at in zip(*(row.curve for row in own), strict=True)]
            ax.plot(range(1, len(mean) + 1), mean, color=color, label=f"{trained} trained")
    exact = rows_of(result, "echo", RIDGE)
    if exact:
        level = 100 * fmean(row.accuracy for row in exact)
        ax.axhline(level, color=colors.text, ls="--", label="exact ridge, one round")
    ax.set_xscale("log")
    ax.set_xlabel("rounds", color=colors.text)
    ax.set_ylabel("test accuracy (%)", color=colors.text)
    ax.legend(frameon=False, loc="lower right", labelcolor=colors.text)
