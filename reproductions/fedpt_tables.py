"""FedPT's rows as Markdown tables beside the paper's figures, as findings, a picture and a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from catchment.errors import IntegrityError, MissingExtraError
from catchment.report.theme import Theme, theme
from reproductions.fedpt_values import FedptResult, Row

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
except ImportError as error:
    raise MissingExtraError("plot", needed_for="pictures of results") from error

# The paper's accuracies in per cent, by the percentage trained; its 26.25 % is a misprint.
PAPER = {
    "writers": {100.0: 85.47, 4.96: 83.75},
    "cifar": {100.0: 83.65, 26.45: 83.57, 8.07: 82.82, 3.47: 80.76, 2.16: 79.49},
    "text": {100.0: 24.50, 91.28: 24.09, 82.56: 23.71, 73.84: 23.23},
}
TITLES = {
    "writers": "Table 1: the EMNIST network on digits by writer",
    "cifar": "Tables 2 and 4: ResNet-18 with group normalisation on CIFAR-10",
    "text": "Table 3: the Transformer on text by author, next word",
    "speeches": "Table 3 again, on speeches by role",
    "private": "Table 5: DP-FTRL by tree aggregation, the EMNIST network on digits by writer",
    "hundred": "Table 5 with the paper's 100 clients a round, digits by writer",
    "addresses": "Table 5 again: DP-FTRL, the Transformer on text by address, next word",
}
# The paper's Table 5, on Stack Overflow with 100 clients a round: all trained, and in part.
PAPER_PRIVATE = {
    0.0: (23.22, 22.44),
    1.13: (19.67, 19.58),
    4.03: (17.28, 17.03),
    6.21: (16.24, 16.28),
    8.83: (14.60, 15.01),
}
PRIVATE = ("private", "hundred", "addresses")
UP, DOWN = 0.25e6, 0.75e6  # bytes a second, the paper's model of a mobile network


def markdown(result: FedptResult) -> str:
    """Return a whole result as a Markdown document."""
    e = result.environment
    kind = "A quick run" if result.quick else "Put together from full runs, the last"
    head = (
        f"Accuracy in per cent, mean ± standard deviation over seeds; in brackets the paper's "
        "figure, which is on other data and many more rounds. Minutes of traffic are a client's "
        "for 100 rounds at 0.25 MB/s up and 0.75 MB/s down.\n\n"
        f"{kind} of {result.seconds:.0f} s on {e.get('device')}, {str(e.get('date'))[:10]}: "
        f"catchment {e.get('catchment')}, torch {e.get('torch')}. Settings: "
        + ", ".join(f"{key} {value}" for key, value in flat(result.settings))
        + "."
    )
    parts = ["# Partially trainable networks", head]
    parts += ["\n".join(f"- {note}" for note in result.notes)] if result.notes else []
    for part in TITLES:
        rows = [row for row in result.rows if row.part == part]
        if not rows:
            continue
        if part in PRIVATE:
            table = private_table(part, rows, dict(flat(result.settings)))
        else:
            table = share_table(part, rows)
        parts += [f"## {TITLES[part]}", table]
        parts += [curve_table(rows)] if any(row.curve for row in rows) else []
        search = [row for row in result.search if row.part == part]
        shown = private_search_table if part in PRIVATE else search_table
        parts += [shown(search)] if search else []
    parts += ["## What it shows", "\n".join(f"- {line}" for line in findings(result.rows))]
    return "\n\n".join(parts) + "\n"


def share_table(part: str, rows: Sequence[Row]) -> str:
    """Return accuracy and cost by the share that is trained."""
    head = ("trained", "times less sent", "accuracy", "MB up", "min traffic", "s a round", "MiB")
    lines = []
    for percent, same in by_percent(rows).items():
        paper = PAPER.get(part, {}).get(percent)
        shown = spread([100 * row.accuracy for row in same])
        up = same[0].bytes_up_per_client
        memory = [row.peak_mebibytes for row in same if row.peak_mebibytes is not None]
        lines.append(
            (
                f"{percent:.2f} %",
                f"{same[0].reduction:.1f}",
                shown if paper is None else f"{shown} ({paper:.2f})",
                f"{up / 1e6:.2f}",
                f"{100 * (up / UP + up / DOWN) / 60:.1f}",
                f"{np.median([row.seconds_per_round for row in same]):.2f}",
                f"{np.median(memory):.0f}" if memory else "-",
            )
        )
    return grid(head, lines)


def curve_table(rows: Sequence[Row]) -> str:
    """Return the mean test accuracy after some of the rounds, by the share that is trained."""
    rounds = sorted({k for row in rows for k, _ in row.curve})
    head = ("after rounds", *(str(k) for k in rounds))
    lines = []
    for percent, same in by_percent(rows).items():
        found = [[100 * a for row in same for k, a in row.curve if k == point] for point in rounds]
        rates = ", ".join(f"{rate:g}" for rate in sorted({row.rate or 0.0 for row in same}))
        cells = [f"{np.mean(values):.2f}" if values else "-" for values in found]
        lines.append((f"{percent:.2f} %, rate {rates}", *cells))
    return grid(head, lines)


def search_table(rows: Sequence[Row]) -> str:
    """Return the accuracy on held-out training images, by share and learning rate."""
    rates = sorted({row.rate or 0.0 for row in rows})
    rounds = ", ".join(str(k) for k in sorted({row.rounds or 0 for row in rows}))
    head = (f"held-out images, {rounds} rounds", *(f"rate {rate:g}" for rate in rates))
    lines = []
    for percent, same in by_percent(rows).items():
        by_rate = {row.rate or 0.0: f"{100 * row.accuracy:.1f}" for row in same}
        lines.append((f"{percent:.2f} %", *(by_rate.get(rate, "-") for rate in rates)))
    return grid(head, lines)


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings one by one, inner ones with the names of the outer before them.

    >>> list(flat({"a": 1, "b": {"c": 2}}))
    [('a', 1), ('b_c', 2)]
    """
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}_")
        else:
            yield f"{before}{key}", value


def private_table(part: str, rows: Sequence[Row], settings: Mapping[str, Any]) -> str:
    """Return the accuracy of full and of partial training at every noise, and what epsilon is."""
    shares = list(by_percent(rows))
    trained = (name for p in shares for name in (f"{p:.2f} % trained", "rate"))
    deltas = (
        f"epsilon at delta {settings[f'{part}_{name}']:g}" for name in ("delta", "strict_delta")
    )
    head = ("noise", *deltas, *trained, "seeds")
    lines = []
    for noise in sorted({row.noise or 0.0 for row in rows}):
        same = [row for row in rows if (row.noise or 0.0) == noise]
        cells = []
        for k, percent in enumerate(shares):
            of = by_percent(same).get(percent, [])
            paper = PAPER_PRIVATE.get(noise) if part == "addresses" else None
            shown = spread([100 * row.accuracy for row in of]) if of else "-"
            cells.append(f"{shown} ({paper[min(k, 1)]:.2f})" if paper and of else shown)
            cells.append(", ".join(f"{r:g}" for r in sorted({row.rate or 0.0 for row in of})))
        epsilons = (
            _epsilon([row.epsilon for row in same]),
            _epsilon([row.strict_epsilon for row in same]),
        )
        lines.append((f"{noise:g}", *epsilons, *cells, str(len({row.seed for row in same}))))
    return grid(head, lines)


def _epsilon(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{min(known):.2f} to {max(known):.2f}" if known else "∞"


def private_search_table(rows: Sequence[Row]) -> str:
    """Return the mean accuracy on held-out clients, by noise, share and the server's rate.

    A rate with which a training failed has none.
    """
    rates = sorted({row.rate or 0.0 for row in rows})
    head = ("noise, held-out clients", "trained", *(f"rate {rate:g}" for rate in rates))
    lines = []
    for noise in sorted({row.noise or 0.0 for row in rows}):
        for percent, same in by_percent(r for r in rows if (r.noise or 0.0) == noise).items():
            tried = [[row for row in same if row.rate == rate] for rate in rates]
            cells = (
                "-" if not of or any(row.failed for row in of) else f"{100 * mean(of):.1f}"
                for of in tried
            )
            lines.append((f"{noise:g}", f"{percent:.2f} %", *cells))
    return grid(head, lines)


def findings(rows: Sequence[Row]) -> list[str]:
    """Return what the rows show, one sentence each."""
    lines = []
    for part in dict.fromkeys(row.part for row in rows if row.part not in PRIVATE):
        groups = by_percent([row for row in rows if row.part == part])
        if 100.0 not in groups:
            continue
        full = 100 * mean(groups[100.0])
        for percent, same in groups.items():
            if percent < 100:
                lines.append(
                    f"{part}: {same[0].reduction:.1f} times less sent, "
                    f"{100 * mean(same) - full:+.2f} points, {len(same)} against "
                    f"{len(groups[100.0])} seeds"
                )
    for part in PRIVATE:
        levels = differences([row for row in rows if row.part == part])
        if not levels:
            continue
        lines.append(
            f"{part}: partial less full training "
            + ", ".join(f"{gain:+.2f} points at noise {noise:g}" for noise, gain in levels)
        )
        where = crossover(levels)
        lines.append(
            f"{part}: no crossover between the noises tried"
            if where is None
            else f"{part}: partial training is behind at noise {where[0]:g} and ahead from "
            f"{where[1]:g} on"
        )
    return lines


def differences(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Return, by noise, how many points partial training is ahead of full training."""
    found = []
    for noise in sorted({row.noise or 0.0 for row in rows}):
        groups = by_percent([row for row in rows if (row.noise or 0.0) == noise])
        if len(groups) > 1 and 100.0 in groups:
            least = min(groups)
            found.append((noise, 100 * (mean(groups[least]) - mean(groups[100.0]))))
    return found


def crossover(levels: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the noises between which a difference turns positive for good, None if it does not.

    >>> crossover([(0.0, -1.0), (1.0, 3.0), (4.0, 5.0)])
    (0.0, 1.0)
    >>> crossover([(0.0, 1.0), (1.0, 3.0)]) is None
    True
    """
    for (low, below), (high, above) in reversed(list(pairwise(levels))):
        if above <= 0:
            return None
        if below <= 0:
            return low, high
    return None


def by_percent(rows: Iterable[Row]) -> dict[float, list[Row]]:
    """Return rows by the percentage trained, in two digits, the largest first."""
    groups: dict[float, list[Row]] = {}
    for row in rows:
        groups.setdefault(round(row.percent, 2), []).append(row)
    return dict(sorted(groups.items(), reverse=True))


def mean(rows: Sequence[Row]) -> float:
    return float(np.mean([row.accuracy for row in rows]))


def spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def draw(result: FedptResult, *, dark: bool = False) -> Figure:
    """Return a picture: accuracy, round time and memory by the share trained, and by noise."""
    colours = theme(dark)
    figure = Figure(figsize=(15, 3.6), layout="constrained", facecolor=colours.page)
    accuracy, seconds, memory, private = figure.subplots(1, 4)
    for ax, title in (
        (accuracy, "accuracy (%)"),
        (seconds, "seconds a round"),
        (memory, "peak memory on the GPU (MiB)"),
        (private, "accuracy with noise (%)"),
    ):
        _dress(ax, title, colours)
    for k, part in enumerate(("writers", "cifar", "text", "speeches")):
        if not any(row.part == part for row in result.rows):
            continue
        groups = by_percent([row for row in result.rows if row.part == part])
        style = {"marker": "o", "color": colours.series[k], "label": part}
        x = list(groups)
        accuracy.plot(x, [100 * mean(same) for same in groups.values()], **style)
        times = [float(np.median([r.seconds_per_round for r in of])) for of in groups.values()]
        seconds.plot(x, times, **style)
        known = {p: [r.peak_mebibytes for r in of if r.peak_mebibytes] for p, of in groups.items()}
        peaks = {p: float(np.median(values)) for p, values in known.items() if values}
        memory.plot(list(peaks), list(peaks.values()), **style)
    for ax in (accuracy, seconds, memory):
        ax.set_xlabel("trained (%)", color=colours.text)
    seconds.set_yscale("log")
    seconds.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    seconds.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    seconds.yaxis.set_minor_formatter(NullFormatter())
    accuracy.legend(frameon=False, labelcolor=colours.text)
    _private(private, [row for row in result.rows if row.part == "private"], colours)
    return figure


def _private(ax: Axes, rows: Sequence[Row], colours: Theme) -> None:
    for k, (percent, same) in enumerate(by_percent(rows).items()):
        noises = sorted({row.noise or 0.0 for row in same})
        values = [[100 * r.accuracy for r in same if (r.noise or 0.0) == n] for n in noises]
        y, e = [float(np.mean(v)) for v in values], [float(np.std(v)) for v in values]
        label = f"{percent:g} % trained"
        ax.errorbar(noises, y, e, marker="o", capsize=2, color=colours.series[k], label=label)
    if rows and (where := crossover(differences(rows))) is not None:
        ax.axvspan(*where, color=colours.muted, alpha=0.2, lw=0)
    ax.set_xlabel("noise multiplier; shaded: the crossover", color=colours.text)
    if rows:
        ax.legend(frameon=False, labelcolor=colours.text)


def _dress(ax: Axes, title: str, colours: Theme) -> None:
    ax.set_title(title, loc="left", color=colours.text)
    ax.set_facecolor(colours.page)
    ax.grid(color=colours.grid, lw=0.6)
    ax.tick_params(colors=colours.text)
    for spine in ax.spines.values():
        spine.set_color(colours.grid)


def load(path: Path) -> FedptResult:
    """Return a result that was written."""
    try:
        content = json.loads(path.read_text())
        rows, search = (_rows(content.pop(name, ())) for name in ("rows", "search"))
        notes = tuple(content.pop("notes"))
        return FedptResult(rows=rows, search=search, notes=notes, **content)
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(f"{path} holds no result of fedpt ({error})") from error


def path_of(folder: Path, *, quick: bool) -> Path:
    """Return the file of a folder's result."""
    return folder / ("fedpt-quick.json" if quick else "fedpt.json")


def _rows(plain: Iterable[Any]) -> tuple[Row, ...]:
    rows = (Row(**row) for row in plain)
    return tuple(replace(row, curve=tuple((k, a) for k, a in row.curve)) for row in rows)


def part_of(note: str) -> str:
    return note.split(":")[0]


def write(result: FedptResult, folder: Path, *, merge: bool = False) -> list[Path]:
    """Write a result's figures, tables and picture into a folder, and return their paths.

    Parameters
    ----------
    merge
        Keep the parts that an earlier result in the folder has beyond these.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = path_of(folder, quick=result.quick)
    text, picture = (data.with_suffix(end) for end in (".md", ".png"))
    if merge and data.is_file():
        new = {row.part for row in result.rows}
        noted = {part_of(note) for note in result.notes}
        earlier = load(data)
        kept = tuple(row for row in earlier.rows if row.part not in new)
        notes = tuple(n for n in earlier.notes if part_of(n) not in noted)
        searched = {row.part for row in result.search}
        search = tuple(row for row in earlier.search if row.part not in searched)
        result = replace(
            result,
            rows=kept + result.rows,
            notes=notes + result.notes,
            search=search + result.search,
        )
    data.write_text(json.dumps(asdict(result), indent=1, allow_nan=False) + "\n")
    text.write_text(markdown(result))
    draw(result).savefig(picture, dpi=110)
    return [data, text, picture]
