"""The tables and the picture of the study of forecasts from autocovariances."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproductions.axes import WIDTH, dress, key
from reproductions.lags_study import (
    AHEAD,
    COMPARED,
    CONTENDERS,
    EPSILONS,
    FEW,
    LONG_SETS,
    REPEATS,
    STEPS,
    Cell,
)

INTRODUCTION = """# Forecasts from autocovariances

    python -m reproductions lags

One round. Every channel, region or company is a client and sends the autocovariances of its series
once; every horizon below is solved from that one upload, its lookback, trailing mean and ridge
chosen by clients left out of the sum. Beside it: the exact Gram matrix of the same lags and its
products with all steps ahead, with the same trailing means, ridges and choice; a reservoir of 300
units likewise; every client by its own sums alone; the last value, and that of a season before.
"""
RULE = """## The rule

Of every series 70 % are learned from, 10 % are left alone and the last 20 % are tested on (ETTh1:
8,640, 2,880 and 2,880 hours, as is usual), each standardized by its training part; every test step
with enough steps after it is an origin. Targets are differences from a trailing mean. Without one
is tried only where the mean autocorrelation over the second half of the lags is below 0.1, so that
the level is forgotten within them: clients of one time agree on a level and cannot say whether it
stays. This rule, lookbacks and the grid of ridges were fixed on training parts; exchange rates and
weather were tested on after that, and tweets, which came last, with nothing changed. A trial of
three rows came first, with the same figures but for the seasonal naive one, whose season on ETTh1
was then taken as 24 hours and not 48, to its advantage. Bytes of the Gram matrix and the reservoir
are 8 for each number. **ETTh1's test hours had been looked at before**, in other studies and in a
trial of the equations: its validation hours prefer no trailing mean, its test hours do prefer one,
and whoever chose by validation would print the first.

Tweets are how often ten companies were named in five minutes (NAB), as the logarithm of one more.
"""
CLASSICAL = """Both are fitted to each series anew at four origins, spread evenly over the test
part, by statsforecast in an environment of its own (`reproductions/lags_classical.py`); all others
have their errors at the same four origins beside them. Four origins tell little.
"""
LONG = """What differs from the exact Gram are products at both ends of a series: little in sums of
ten times as many steps as lookback and horizon have together. ETTh1 and exchange rates are so long
where the farthest horizon is left out; with it they are not.
"""
FIGURES = {
    "mse": "MSE",
    "mase": "MASE",
    "pinball": "quantile loss",
    "inside": "share inside 90 % intervals",
}
MARKS = {  # the color's place in the palette, none of what is naive; and mark or line
    "last value": (None, ":"),
    "seasonal naive": (None, "--"),
    "autocovariances, each alone": (1, "--"),
    "reservoir": (2, "^"),
    "exact Gram": (5, "o"),
    "autocovariances": (0, "D"),
}


def of(cells: Sequence[Cell], set_: str, contender: str) -> list[Cell]:
    """Return the cells of a contender on a set, by horizon."""
    found = [one for one in cells if (one["set"], one["contender"]) == (set_, contender)]
    return sorted(found, key=lambda one: int(one.get("horizon", 0)))


def sets_of(cells: Sequence[Cell]) -> list[str]:
    """Return the sets that were forecast by all, in their order."""
    return list(dict.fromkeys(one["set"] for one in cells if one["contender"] == "last value"))


def mean(cells: Sequence[Cell], figure: str) -> float:
    """Return the mean of a figure over horizons."""
    return float(np.mean([one[figure] for one in cells]))


def markdown(result: dict[str, Any]) -> str:
    """Return the page of a result."""
    cells: list[Cell] = result["cells"]
    machine = f"{result['machine']}; Python {result['python']}, numpy {result['numpy']}"
    parts = [INTRODUCTION, f"CPU, {machine}.", RULE]
    for name in sets_of(cells):
        parts += [f"## {name}", _errors(cells, name), _beside(cells, name)]
    if not result["quick"]:
        parts += ["## Series ten times as long as their lags", LONG, _long(cells)]
    parts += ["## Noise", _noise_text(), _noise(cells)]
    if result.get("classical"):
        parts[3:3] = ["## AutoETS and AutoTheta", CLASSICAL, _classical(result)]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _classical(result: dict[str, Any]) -> str:
    rows = [["MSE at four origins, mean over horizons", *sets_of(result["cells"])]]
    cells = [*result["cells"], *result["classical"]]
    for contender in (*dict.fromkeys(one["contender"] for one in result["classical"]), *CONTENDERS):
        found = [of(cells, name, contender) for name in rows[0][1:]]
        rows.append([contender, *(f"{mean(own, 'few'):.3f}" if own else "" for own in found)])
    return _table(rows)


def _errors(cells: Sequence[Cell], name: str) -> str:
    horizons = [one["horizon"] for one in of(cells, name, "last value")]
    rows = [["MSE", *map(str, horizons), "mean", "numbers", "bytes a client"]]
    for contender in CONTENDERS:
        own = of(cells, name, contender)
        if not own:
            continue
        shown = [f"{one['mse']:.3f}" for one in own]
        sent = f"{own[0]['bytes']:,.0f}" if own[0]["numbers"] else "0"
        numbers = f"{own[0]['numbers']:,}"
        rows.append([contender, *shown, f"{mean(own, 'mse'):.4f}", numbers, sent])
    return _table(rows)


def _beside(cells: Sequence[Cell], name: str) -> str:
    rows = [["mean over horizons", *FIGURES.values()]]
    for contender in CONTENDERS:
        own = of(cells, name, contender)
        if own:
            rows.append([contender, *(f"{mean(own, figure):.3f}" for figure in FIGURES)])
    return _table(rows)


def _long(cells: Sequence[Cell]) -> str:
    rows = [["mean MSE", *COMPARED, "difference"]]
    for name in LONG_SETS:
        gram, ours = (mean(of(cells, name, one), "mse") for one in COMPARED)
        rows.append([name, f"{gram:.4f}", f"{ours:.4f}", f"{100 * (ours / gram - 1):+.2f} %"])
    return _table(rows)


def _noise_text() -> str:
    return (
        f"Synthetic clients of {STEPS} steps of an autoregression with two lags whose least error "
        f"is known; {FEW} lags, {AHEAD} steps ahead. Mean squared error over the least possible "
        f"one, mean of {REPEATS} draws of the noise (in brackets the largest); delta 1e-5, clipped "
        "at a length of 3 in units of the variance, settings chosen from the noisy sum."
    )


def _noise(cells: Sequence[Cell]) -> str:
    rows = [["clients", "no noise", *(f"epsilon {one:g}" for one in reversed(EPSILONS))]]
    own = [one for one in cells if one["set"] == "private"]
    for n in sorted({one["n_clients"] for one in own}):
        found = {one["epsilon"]: one for one in own if one["n_clients"] == n}
        shown = [f"{found[None]['ratio']:.3f}"]
        for epsilon in reversed(EPSILONS):
            one = found[epsilon]
            shown.append(f"{one['ratio']:.3f} ({max(one['all']):.3f})")
        rows.append([str(n), *shown])
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---", *("---:" for _ in head[1:])], *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read(path: Path) -> dict[str, Any]:
    """Return a result, with that of the classical models if it is beside it."""
    result: dict[str, Any] = json.loads(path.read_text())
    beside = path.with_name("lags_classical.json")
    if beside.is_file() and not result["quick"]:
        result["classical"] = json.loads(beside.read_text())["cells"]
    return result


def written(path: Path) -> list[Path]:
    """Write the page and the picture beside a result, and return their paths."""
    result = read(path)
    page = path.with_suffix(".md")
    page.write_text(markdown(result))
    return [page, drawn(result, path.with_suffix(".png"))]


def drawn(result: dict[str, Any], path: Path) -> Path:
    """Draw errors against what a client sends, a panel for each set."""
    from matplotlib.figure import Figure

    from catchment.report import theme

    cells, colors = result["cells"], theme(False)
    names = sets_of(cells)
    rows = -(-len(names) // 2)
    size = (WIDTH, 2.7 * rows + 0.8)
    figure = Figure(figsize=size, layout="constrained", facecolor=colors.page)
    panels = figure.subplots(rows, 2, squeeze=False)
    for ax in panels.ravel()[len(names) :]:
        ax.set_visible(False)
    for ax, name in zip(panels.ravel(), names, strict=False):
        dress(ax, colors)
        for contender, (color, mark) in MARKS.items():
            own = of(cells, name, contender)
            if not own:
                continue
            drawn_in = colors.muted if color is None else colors.series[color]
            level = mean(own, "mse")
            if own[0]["numbers"]:
                ax.plot(own[0]["bytes"], level, mark, color=drawn_in, ms=8, label=contender)
            else:
                ax.axhline(level, color=drawn_in, ls=mark, lw=1.4, label=contender)
        ax.set_xscale("log")
        ax.margins(x=0.12, y=0.12)
        ax.set_title(name, loc="left", color=colors.text)
    for ax in panels[:, 0]:
        ax.set_ylabel("MSE, mean over horizons", color=colors.text)
    for ax in panels[-1]:
        ax.set_xlabel("bytes a client sends", color=colors.text)
    key(figure, panels.ravel()[: len(names)], colors, columns=2)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path
