"""The figure of the study of what to freeze, and all its files."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from reproductions.freeze_tables import how, markdown, rows_of
from reproductions.freeze_values import ALL, ECHO, PAPER, RIDGE, WHOLE, FreezeResult


def write(result: FreezeResult, out: Path) -> list[Path]:
    """Write the result, its tables and its figure; return their paths."""
    stem = "freeze-quick" if result.quick else "freeze"
    paths = [out / f"{stem}.{kind}" for kind in ("json", "md")]
    result.save(paths[0])
    paths[1].write_text(markdown(result))
    drawn = picture(result, out / f"{stem}.png")
    return [*paths, *([drawn] if drawn else [])]


def picture(result: FreezeResult, path: Path) -> Path | None:
    """Draw accuracy against bytes and, of the limit case, rounds; None without matplotlib."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError:
        return None
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4))
    _points(left, result, "layers")
    _points(middle, result, "sent")
    _curves(right, result)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _points(axis: Any, result: FreezeResult, part: str) -> None:
    for (of, trained, bits, shares, order), own in result.found().items():
        if (of == "layers") != (part == "layers") and not (
            part == "sent" and of == "layers" and trained in (ALL, PAPER)
        ):
            continue
        if of == "echo":
            continue
        x, y = fmean(row.bytes_up for row in own), 100 * fmean(row.accuracy for row in own)
        colour = "C0" if trained == ALL else "C1" if trained == PAPER else "C7"
        mark = {32: "o" if shares == WHOLE else "^" if order == "random" else "v"}.get(bits, "s")
        axis.plot(x, y, mark, color=colour)
        name = "all" if trained == ALL else "paper" if trained == PAPER else trained
        label = name if part == "layers" else how(own[0]).replace(" of the units", "")
        axis.annotate(label, (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
    axis.set_xscale("log")
    axis.set_xlabel("bytes up, per client and round")
    axis.set_ylabel("test accuracy, %")
    title = "One layer or group trained" if part == "layers" else "Few bits and parts of the units"
    axis.set_title(f"{title}\n(blue: all, orange: 4.96 %)" if part != "layers" else title)


def _curves(axis: Any, result: FreezeResult) -> None:
    for k, trained in enumerate(ECHO):
        own = [row for row in rows_of(result, "echo", trained) if row.curve]
        if own:
            mean = [100 * fmean(at) for at in zip(*(row.curve for row in own), strict=True)]
            axis.plot(range(1, len(mean) + 1), mean, color=f"C{k}", label=f"{trained} trained")
    exact = rows_of(result, "echo", RIDGE)
    if exact:
        level = 100 * fmean(row.accuracy for row in exact)
        axis.axhline(level, color="black", linestyle="--", label="exact ridge, one round")
    axis.set_xscale("log")
    axis.set_xlabel("rounds")
    axis.set_ylabel("test accuracy, %")
    axis.set_title("Echo state network on UCI HAR")
    axis.legend(fontsize=7)
