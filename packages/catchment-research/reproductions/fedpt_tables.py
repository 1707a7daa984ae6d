"""FedPT's rows as Markdown tables beside the paper's figures, and as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from catchment.errors import IntegrityError
from catchment.wire import replace_file
from reproductions.arena import f1_of_one
from reproductions.fedpt_findings import PRIVATE, by_percent, findings, mean, spread, spreads
from reproductions.fedpt_pictures import draw
from reproductions.fedpt_values import FedptResult, MemoryRow, Row
from reproductions.grids import grid

# The paper's accuracies in per cent, by the percentage trained; its 26.25 % is a misprint.
PAPER = {
    "writers": {100.0: 85.47, 4.96: 83.75},
    "cifar": {100.0: 83.65, 26.45: 83.57, 8.07: 82.82, 3.47: 80.76, 2.16: 79.49},
    "cifar_many": {100.0: 83.65, 26.45: 83.57, 8.07: 82.82, 3.47: 80.76, 2.16: 79.49},
    "cifar_long": {100.0: 83.65},
    "text": {100.0: 24.50, 91.28: 24.09, 82.56: 23.71, 73.84: 23.23},
}
# Peak memory in MiB and seconds of a round on a desktop's CPU.
PAPER_MEMORY = {100.0: 565.43, 26.45: 520.43, 8.07: 506.37, 3.47: 506.37, 2.16: 505.94}
PAPER_SECONDS = {100.0: 20.51, 26.45: 17.89, 8.07: 16.96, 3.47: 16.58, 2.16: 16.22}
# What the figures in brackets were measured on.
OTHER_DATA = {
    "writers": "federated EMNIST (62 classes, 3400 writers)",
    "cifar": "all 50 000 training images",
    "cifar_many": "all 50 000 training images",
    "cifar_long": "all 50 000 training images",
    "text": "Stack Overflow (342 477 users)",
    "addresses": "Stack Overflow with 100 of its users in each of 1600 rounds, who take part once",
}
NAIVE = dict.fromkeys(("text", "words", "speeches", "addresses"), "most frequent word")
PAPER |= {"digits": PAPER["writers"], "words": PAPER["text"]}
OTHER_DATA |= {"digits": OTHER_DATA["writers"], "words": OTHER_DATA["text"]}
TITLES = {
    "writers": "Table 1: the EMNIST network on digits by writer",
    "digits": "Table 1 over 1500 rounds of ten clients",
    "cifar": "Tables 2 and 4: ResNet-18 with group normalization on CIFAR-10",
    "cifar_many": "Tables 2 and 4 again: CIFAR-10 with many clients and rounds",
    "cifar_long": "The rates of CIFAR-10 with many clients after all rounds",
    "fashion": "Table 2 on other images: Fashion-MNIST with many clients",
    "text": "Table 3: the Transformer on text by author, next word",
    "words": "Table 3 over 200 rounds",
    "speeches": "Table 3 again, on speeches by role",
    "private": "Table 5: DP-FTRL by tree aggregation, the EMNIST network on digits by writer",
    "hundred": "Table 5 with the paper's 100 clients a round, digits by writer",
    "long": "Table 5 over the paper's 1600 rounds, digits by writer",
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
UNCOUNTED = (
    "Macro-F1 was not counted here: these runs, on a GPU, kept which answers are right, not what "
    "the others were; `python -m reproductions fedpt --sets {} --merge` trains again, on a GPU, "
    "and counts it."
)
UP, DOWN = 0.25e6, 0.75e6  # bytes a second, the paper's model of a mobile network


def markdown(result: FedptResult) -> str:
    """Return a whole result as a Markdown document."""
    e = result.environment
    kind = "A quick run" if result.quick else "Put together from full runs, the last"
    head = (
        f"Accuracy in per cent, mean ± standard deviation (n - 1) over seeds. Minutes of traffic "
        "are a client's for 100 rounds at 0.25 MB/s up and 0.75 MB/s down. Macro-F1 is of all test "
        "images, mean over seeds; of the next of 10 000 words it would say nothing, since most of "
        "them are never said.\n\n"
        f"{kind} of {result.seconds:.0f} s on {e.get('device')}, {str(e.get('date'))[:10]}: "
        f"catchment {e.get('catchment')}, torch {e.get('torch')}. Settings: "
        + ", ".join(f"{key} {value}" for key, value in flat(result.settings))
        + "."
    )
    parts = ["# Partially trainable networks", head]
    parts += ["\n".join(f"- {note}" for note in result.notes)] if result.notes else []
    for part in TITLES:
        if any(row.part == part for row in result.rows):
            parts += [f"## {TITLES[part]}", *_tables(part, result)]
    if result.memory:
        parts += ["## Table 4 on a CPU: one client's round", memory_table(result.memory)]
    parts += ["## What it shows", "\n".join(f"- {line}" for line in findings(result))]
    return "\n\n".join(parts) + "\n"


def _tables(part: str, result: FedptResult) -> Iterator[str]:
    """Yield everything under a part's title."""
    rows = [row for row in result.rows if row.part == part]
    search = [row for row in result.search if row.part == part]
    naive = result.baselines.get(part)
    if part in OTHER_DATA and all(row.data != "synthetic" for row in rows):
        yield f"In brackets the paper's figure, on other data: {OTHER_DATA[part]}."
    if part in PRIVATE:
        yield private_table(part, rows, dict(flat(result.settings)), naive)
    else:
        yield share_table(part, rows, naive)
    if part not in NAIVE and not any(row.classes for row in rows):
        yield UNCOUNTED.format(part)
    if any(row.curve for row in rows):
        yield curve_table(rows)
    if part not in PRIVATE and all(row.by_client for row in rows):
        yield client_table(rows)
    if search:
        yield private_search_table(search) if part in PRIVATE else search_table(search)


def share_table(part: str, rows: Sequence[Row], naive: float | None = None) -> str:
    """Return accuracy and cost by the share that is trained, the naive guess at the end."""
    costs = ("MB up", "min traffic", "s a round", "MiB")
    counted = any(row.classes for row in rows)
    head = ("trained", "times less sent", "accuracy", *["macro-F1"] * counted, *costs)
    lines = list[tuple[str, ...]]()
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
                *[f1(same)] * counted,
                f"{up / 1e6:.2f}",
                f"{100 * (up / UP + up / DOWN) / 60:.1f}",
                f"{np.median([row.seconds_per_round for row in same]):.2f}",
                f"{np.median(memory):.0f}" if memory else "-",
            )
        )
    if naive is not None:
        lines.append((_naive(part), "-", f"{100 * naive:.2f}", *_one(rows, naive), *["-"] * 4))
    return grid(head, lines)


def f1(rows: Sequence[Row]) -> str:
    """Return the mean macro-F1 over seeds, a dash if it was not counted."""
    return f"{np.mean([row.macro_f1 for row in rows]):.3f}" if all(r.classes for r in rows) else "-"


def _one(rows: Sequence[Row], naive: float) -> list[str]:
    """Return the macro-F1 of the naive guess where classes were counted."""
    known = [sum(are > 0 for _, _, are in row.classes) for row in rows if row.classes]
    return [f"{f1_of_one(naive, known[0]):.3f}"] if known else []


def _naive(part: str) -> str:
    return NAIVE.get(part, "largest class")


def client_table(rows: Sequence[Row]) -> str:
    """Return how clients differ, by the share that is trained."""
    shares = {percent: spreads(same) for percent, same in by_percent(rows).items()}
    (n,) = {of.n_clients for of in shares.values()}
    head = (f"accuracy of {n} clients", "mean", "deviation", "worst tenth", "worst")
    return grid(
        head,
        (
            (
                f"{percent:.2f} %",
                *(f"{x:.2f}" for x in (of.mean, of.deviation, of.worst_tenth, of.worst)),
            )
            for percent, of in shares.items()
        ),
    )


def memory_table(rows: Sequence[MemoryRow]) -> str:
    """Return what a client's round takes on a CPU, medians over repetitions."""
    shares: dict[float, list[MemoryRow]] = {}
    for row in rows:
        shares.setdefault(round(row.percent, 2), []).append(row)
    head = ("trained", "MiB while training", "MiB before", "processor s", "repetitions")
    lines = []
    for percent, same in sorted(shares.items(), reverse=True):
        mebibytes, before, seconds = (
            float(np.median([getattr(row, name) for row in same]))
            for name in ("mebibytes", "mebibytes_before", "seconds")
        )
        paper = PAPER_MEMORY.get(percent), PAPER_SECONDS.get(percent)
        lines.append(
            (
                f"{percent:.2f} %",
                f"{mebibytes:.0f}" + (f" ({paper[0]:.0f} in all)" if paper[0] else ""),
                f"{before:.0f}",
                f"{seconds:.2f}" + (f" ({paper[1]:.1f})" if paper[1] else ""),
                str(len(same)),
            )
        )
    one = rows[0]
    text = (
        f"One client's {one.n_images} images in batches of {one.batch}, float32, {one.threads} "
        "threads, each in a process of its own: the largest resident size while it trains, less "
        "that before (Python, libraries, images, the network). In brackets the paper's peak of a "
        "whole simulation and its seconds, on other data and another machine. Seconds are of "
        "processor time, threads together, on a machine with other work: they are rough."
    )
    return f"{text}\n\n{grid(head, lines)}"


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
    """Return the accuracy on held-out training images or authors, by share and learning rate."""
    rates = sorted({row.rate or 0.0 for row in rows})
    rounds = ", ".join(str(k) for k in sorted({row.rounds or 0 for row in rows}))
    held = "authors" if rows[0].part in NAIVE else "images"
    head = (f"held-out {held}, {rounds} rounds", *(f"rate {rate:g}" for rate in rates))
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


def private_table(
    part: str, rows: Sequence[Row], settings: Mapping[str, Any], naive: float | None = None
) -> str:
    """Return the accuracy of full and of partial training at every noise, and what epsilon is.

    A cell no better than the naive guess is marked.
    """
    shares = list(by_percent(rows))
    counted = ["macro-F1"] * any(row.classes for row in rows)
    trained = (name for p in shares for name in (f"{p:.2f} % trained", *counted, "rate"))
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
            if of and naive is not None and mean(of) <= naive:
                shown = f"{shown} †"
            cells.append(f"{shown} ({paper[min(k, 1)]:.2f})" if paper and of else shown)
            cells += [f1(of)] * len(counted)
            cells.append(", ".join(f"{r:g}" for r in sorted({row.rate or 0.0 for row in of})))
        epsilons = (
            _epsilon([row.epsilon for row in same]),
            _epsilon([row.strict_epsilon for row in same]),
        )
        lines.append((f"{noise:g}", *epsilons, *cells, str(len({row.seed for row in same}))))
    marked = any("†" in cell for line in lines for cell in line)
    below = [] if naive is None else [_guess(part, naive, marked=marked)]
    return "\n\n".join([_epsilon_text(rows), grid(head, lines), *below])


def _epsilon_text(rows: Sequence[Row]) -> str:
    """Return whom epsilon is for."""
    (clients,) = {row.n_clients for row in rows}
    times = sorted({row.participations or 0 for row in rows})
    most = f"{times[0]} to {times[-1]}" if len(times) > 1 else str(times[0])
    return (
        f"Epsilon is for one of {clients} clients, the one drawn most ({most} times in "
        f"{rows[0].rounds} rounds), over seeds."
    )


def _guess(part: str, naive: float, *, marked: bool) -> str:
    mark = "†: nothing was learned. " if marked else ""
    return f"{mark}The {_naive(part)} alone is right in {100 * naive:.2f} per cent."


def _epsilon(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{min(known):.2f} to {max(known):.2f}" if known else "∞"


def private_search_table(rows: Sequence[Row]) -> str:
    """Return the mean accuracy on held-out clients, by noise, share and the server's rate.

    A rate with which a training failed, or that was not tried, has none.
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


def load(path: Path) -> FedptResult:
    """Return a result that was written."""
    try:
        content = json.loads(path.read_text())
        rows, search = (_rows(content.pop(name, ())) for name in ("rows", "search"))
        memory = tuple(MemoryRow(**row) for row in content.pop("memory", ()))
        notes = tuple(content.pop("notes"))
        return FedptResult(rows=rows, search=search, memory=memory, notes=notes, **content)
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(f"{path} holds no result of fedpt ({error})") from error


def path_of(folder: Path, *, quick: bool) -> Path:
    """Return the file of a folder's result."""
    return folder / ("fedpt-quick.json" if quick else "fedpt.json")


def _rows(plain: Iterable[Any]) -> tuple[Row, ...]:
    rows = (Row(**row) for row in plain)
    return tuple(
        replace(
            row,
            curve=tuple((k, a) for k, a in row.curve),
            by_client=tuple((name, right, n) for name, right, n in row.by_client),
            classes=tuple(map(tuple, row.classes)),
        )
        for row in rows
    )


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
            baselines={**earlier.baselines, **result.baselines},
            memory=result.memory or earlier.memory,
        )
    content = json.dumps(asdict(result), indent=1, allow_nan=False) + "\n"
    replace_file(data, content.encode())
    text.write_text(markdown(result))
    draw(result).savefig(picture, dpi=110)
    return [data, text, picture]
