"""The figure of the study of what to freeze, and all its files."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from reproductions.freeze_tables import markdown, rows_of
from reproductions.freeze_values import ALL, ECHO, PAPER, RIDGE, TRAINED, WHOLE, FreezeResult

COLORS = ("#0072b2", "#d55e00")
MARKS = {
    "o": "float32",
    "s": "bits a number",
    "^": "some units, at random",
    "v": "some units, the first",
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
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError:
        return None
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.2))
    _layers(left, result)
    _sent(middle, result)
    _curves(right, result)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _layers(axis: Any, result: FreezeResult) -> None:
    own = {trained: rows_of(result, "layers", trained) for trained in TRAINED}
    known = sorted((rows for rows in own.values() if rows), key=lambda rows: rows[0].bytes_up)
    names = [
        f"{'all' if rows[0].job.trained == ALL else rows[0].job.trained}, "
        f"{fmean(row.bytes_up for row in rows) / 1000:,.0f} kB"
        for rows in known
    ]
    colors = [_colour(rows[0].job.trained) for rows in known]
    values = [100 * fmean(row.accuracy for row in rows) for rows in known]
    axis.barh(names, values, color=colors)
    axis.set_xlim(0, 100)
    axis.tick_params(axis="y", labelsize=8)
    axis.set_xlabel("test accuracy, %")
    axis.set_title("Which layers are trained,\nand bytes up per client and round")


def _sent(axis: Any, result: FreezeResult) -> None:
    for (part, trained, bits, shares, order), own in result.found().items():
        if part == "echo" or trained not in (ALL, PAPER):
            continue
        x, y = fmean(row.bytes_up for row in own), 100 * fmean(row.accuracy for row in own)
        mark = {32: "o" if shares == WHOLE else "^" if order == "random" else "v"}.get(bits, "s")
        axis.plot(x, y, mark, color=_colour(trained))
        if bits < 32:
            axis.annotate(str(bits), (x, y), xytext=(0, 6), textcoords="offset points", ha="center")
    for mark, words in MARKS.items():
        axis.plot([], [], mark, color="#78828e", label=words)
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    axis.set_xscale("log")
    axis.margins(x=0.12, y=0.1)
    axis.set_xlabel("bytes up, per client and round")
    axis.set_ylabel("test accuracy, %")
    axis.set_title("Few bits and parts of the units\n(blue: all trained, orange: 4.96 %)")


def _colour(trained: str) -> str:
    return "#0072b2" if trained == ALL else "#d55e00" if trained == PAPER else "#78828e"


def _curves(axis: Any, result: FreezeResult) -> None:
    for k, trained in enumerate(ECHO):
        own = [row for row in rows_of(result, "echo", trained) if row.curve]
        if own:
            mean = [100 * fmean(at) for at in zip(*(row.curve for row in own), strict=True)]
            axis.plot(range(1, len(mean) + 1), mean, color=COLORS[k], label=f"{trained} trained")
    exact = rows_of(result, "echo", RIDGE)
    if exact:
        level = 100 * fmean(row.accuracy for row in exact)
        axis.axhline(level, color="black", linestyle="--", label="exact ridge, one round")
    axis.set_xscale("log")
    axis.set_xlabel("rounds")
    axis.set_ylabel("test accuracy, %")
    axis.set_title("Echo state network on UCI HAR")
    axis.legend(fontsize=7)
