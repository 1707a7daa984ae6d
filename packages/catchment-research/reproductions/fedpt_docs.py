"""The figures of FedPT in the documentation, made from `results/fedpt.json`.

    python -m reproductions.fedpt_docs    # write them into the pages again

A block begins with `<!-- fedpt: NAME -->` and ends with `<!-- end -->`; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from reproductions.fedpt_findings import (
    at_edge,
    by_percent,
    crossover,
    difference,
    differences,
    spreads,
)
from reproductions.fedpt_tables import f1, load, memory_table, part_of, search_table
from reproductions.fedpt_values import FedptResult, Row
from reproductions.grids import grid
from reproductions.intervals import deviation

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("fedpt.md", "fedpt-private.md", "fedpt-rounds.md")
PAGES = tuple(ROOT / "docs" / "research" / name for name in NAMES)
RESULT = ROOT / "results" / "fedpt.json"
BEYOND = (
    "The whole network's rate is the smallest or largest that was tried for it: it may do better "
    "with another, so that **its place in the order is open** whatever the intervals say. "
    "`python -m reproductions fedpt --sets cifar_many --merge --resume` adds rates and seeds that "
    "are missing."
)
_BLOCK = re.compile(r"(<!-- fedpt: (\w+) -->\n\n)(.*?)(\n\n<!-- end -->)", re.DOTALL)


def writers(result: FedptResult) -> str:
    return _by_writer(result, "writers")


def digits(result: FedptResult) -> str:
    return _by_writer(result, "digits")


def _by_writer(result: FedptResult, part: str) -> str:
    rows, lines = _rows(result, part), []
    for percent, same in by_percent(rows).items():
        lines.append(
            (
                f"{percent:g} %",
                f"{same[0].bytes_up_per_client / 1e6:.2f} MB",
                _accuracy(same),
                *_f1(same),
                *_clients(same),
                f"{_seconds(same):.2f}",
                _mebibytes(same),
            )
        )
    head = ["trained", "sent up per client and round", "test accuracy"]
    head += ["macro-F1"] * len(_f1(rows))
    head += ["deviation over writers", "worst tenth"] if rows[0].by_client else []
    return _joined(
        grid((*head, "seconds a round", "GPU memory"), lines),
        f"The largest class alone is right in {100 * result.baselines[part]:.1f} %. "
        + _differences(rows),
    )


def cifar(result: FedptResult) -> str:
    return _images(result, "cifar")


def cifar_many(result: FedptResult) -> str:
    return _images(result, "cifar_many")


def fashion(result: FedptResult) -> str:
    return _images(result, "fashion")


def _images(result: FedptResult, part: str) -> str:
    rows, lines = _rows(result, part), []
    points = sorted({k for row in rows for k, _ in row.curve})
    shown = [k for k in points if k in (points[len(points) // 3], points[2 * len(points) // 3])]
    for percent, same in by_percent(rows).items():
        curve = [
            f"{np.mean([100 * a for row in same for k, a in row.curve if k == at]):.1f}"
            for at in shown
        ]
        lines.append(
            (
                f"{percent:g} %",
                f"{same[0].reduction:.2g}" if percent == 100 else f"{same[0].reduction:.1f}",
                f"{same[0].rate:g}",
                *curve,
                _accuracy(same),
                *_f1(same),
                *_clients(same),
                *([f"{_seconds(same):.2f}"] if part == "cifar" else []),
                _mebibytes(same),
            )
        )
    head = ["trained", "times less sent", "rate", *(f"after {k} rounds" for k in shown)]
    head += ["test accuracy", *["macro-F1"] * len(_f1(rows))]
    head += ["deviation over clients", "worst tenth"] if rows[0].by_client else []
    head += ["seconds a round"] if part == "cifar" else []
    seeds = sorted({len(same) for same in by_percent(rows).values()})
    told = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    edges = "".join(f" {line[0].upper()}{line[1:]}." for line in at_edge(result, part))
    return _joined(
        grid((*head, "GPU memory"), lines),
        f"{rows[0].rounds} rounds, {told} seeds; the largest class alone is "
        f"right in {100 * result.baselines[part]:.1f} %. " + _differences(rows) + edges,
    )


def text(result: FedptResult) -> str:
    speeches = [100 * np.mean([r.accuracy for r in of]) for of in _shares(result, "speeches")]
    naive = 100 * result.baselines["speeches"]
    return (
        f"{_next_word(result, 'text')} With rates chosen in the same way the speeches of "
        f"Shakespeare's 298 roles end at {min(speeches):.1f} to {max(speeches):.1f} %, **where "
        f"their most frequent word has {naive:.1f} %**: a role has 170 words in the median, and "
        "five roles a round are far too few."
    )


def words(result: FedptResult) -> str:
    return _next_word(result, "words")


def _next_word(result: FedptResult, part: str) -> str:
    rows = _rows(result, part)
    points = sorted({k for row in rows for k, _ in row.curve})
    shown = points[:-1:2]
    lines = [
        (
            f"{percent:g} %",
            f"{same[0].reduction:.1f}",
            f"{same[0].rate:g}",
            *(
                f"{np.mean([100 * a for row in same for k, a in row.curve if k == at]):.1f}"
                for at in shown
            ),
            _accuracy(same, 2),
            f"{_seconds(same):.2f}",
            _mebibytes(same),
        )
        for percent, same in by_percent(rows).items()
    ]
    head = ["trained", "times less sent", "rate", *(f"after {k} rounds" for k in shown)]
    head += ["test accuracy", "seconds a round", "GPU memory"]
    edges = "".join(f" {line[0].upper()}{line[1:]}." for line in at_edge(result, part))
    return _joined(
        grid(head, lines),
        f"{rows[0].rounds} rounds; the most frequent word is right in "
        f"{100 * result.baselines[part]:.2f} % of places. {_differences(rows)}{edges}",
    )


def private(result: FedptResult) -> str:
    return _noises(result, "private")


def hundred(result: FedptResult) -> str:
    return _noises(result, "hundred")


def long(result: FedptResult) -> str:
    return _noises(result, "long")


def addresses(result: FedptResult) -> str:
    return _noises(result, "addresses")


def _noises(result: FedptResult, part: str) -> str:
    rows, lines, naive = _rows(result, part), [], result.baselines[part]
    shares = list(by_percent(rows))
    levels = differences(rows, naive)
    for noise, found in levels:
        same = [row for row in rows if row.noise == noise]
        cells = []
        for of in by_percent(same).values():
            nothing = np.mean([row.accuracy for row in of]) <= naive
            cells += [_accuracy(of) + (" †" if nothing else ""), *_f1(of), f"{of[0].rate:g}"]
        epsilons = ([row.epsilon for row in same], [row.strict_epsilon for row in same])
        gain = "-" if found is None else _gain(found.value, found.over_seeds)
        lines.append((f"{noise:g}", *(_range(e) for e in epsilons), *cells, gain))
    score = ["macro-F1"] * len(_f1(rows))
    trained = [word for share in shares for word in (f"{share:g} % trained", *score, "rate")]
    head = ("noise", "epsilon", "at a delta of 0.000001", *trained, "partial less full")
    where = crossover(levels)
    times = sorted({row.participations or 0 for row in rows})
    ending = (
        "No change of sign is settled."
        if where is None
        else f"Partial training is behind at noise {where[0]:g} and ahead from {where[1]:g} on, "
        "and both are settled."
    )
    if any("†" in cell for line in lines for cell in line):
        ending += f" †: no better than the most frequent answer, {100 * naive:.1f} %."
    return _joined(
        grid(head, lines),
        f"{len({row.seed for row in rows})} seeds; of {rows[0].n_clients} clients the one drawn "
        f"most takes part {times[0]} to {times[-1]} times in {rows[0].rounds} rounds. {ending}",
    )


def memory(result: FedptResult) -> str:
    said = [note.partition(": ")[2] for note in result.notes if part_of(note) == "memory"]
    return _joined(memory_table(result.memory), *(f"{s[0].upper()}{s[1:]}." for s in said))


def order(result: FedptResult) -> str:
    """Return the sentences about the order of shares with many clients."""
    groups = by_percent(_rows(result, "cifar_many"))
    full = groups.pop(100.0)
    longer = _rows(result, "cifar_long")
    beyond = any("of 100 %" in line for line in at_edge(result, "cifar_many"))
    told = (
        f"After {full[0].rounds} rounds the shares differ from the whole network "
        f"({_accuracy(full)} %, rate {full[0].rate:g}) by: {_order(groups, full)}."
    )
    if longer:
        told += (
            f" By images held out the whole network does better with {longer[0].rate:g} after all "
            f"rounds, though not after {_searched(result)}. Tested with it "
            f"({_accuracy(longer)} %), the shares differ from it by: {_order(groups, longer)}."
        )
    return told + (" " + BEYOND if beyond else "")


def _searched(result: FedptResult) -> int:
    rounds = {row.rounds for row in result.search if row.part == "cifar_many"}
    return max(one for one in rounds if one is not None)


def _order(groups: Mapping[float, Sequence[Row]], full: Sequence[Row]) -> str:
    found = {percent: difference(same, full) for percent, same in groups.items()}
    return "; ".join(
        f"{percent:.2f} % {one.value:+.2f} points over {one.n_seeds} seeds "
        f"({'settled' if one.settled else 'not settled'})"
        for percent, one in found.items()
    )


def cifar_long(result: FedptResult) -> str:
    """Return the held-out accuracies by rate after as many rounds as the table has."""
    return search_table([row for row in result.search if row.part == "cifar_long"])


BLOCKS: dict[str, Callable[[FedptResult], str]] = {
    "writers": writers,
    "digits": digits,
    "cifar": cifar,
    "cifar_many": cifar_many,
    "cifar_long": cifar_long,
    "fashion": fashion,
    "order": order,
    "memory": memory,
    "text": text,
    "words": words,
    "private": private,
    "hundred": hundred,
    "long": long,
    "addresses": addresses,
}


def page(text: str, result: FedptResult) -> str:
    """Return a page with all its blocks made again."""
    return _BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]](result) + found[4], text)


def _rows(result: FedptResult, part: str) -> list[Row]:
    return [row for row in result.rows if row.part == part]


def _shares(result: FedptResult, part: str) -> list[list[Row]]:
    return list(by_percent(_rows(result, part)).values())


def _accuracy(rows: Sequence[Row], digits: int = 1) -> str:
    values = [100 * row.accuracy for row in rows]
    shown = f"{np.mean(values):.{digits}f}"
    return shown if len(values) < 2 else f"{shown} ± {deviation(values):.{digits}f}"


def _f1(rows: Sequence[Row]) -> list[str]:
    """Return the mean macro-F1 over seeds; nothing where it was not counted."""
    return [f1(rows)] if any(row.classes for row in rows) else []


def _clients(rows: Sequence[Row]) -> list[str]:
    if not rows[0].by_client:
        return []
    found = spreads(rows)
    return [f"{found.deviation:.1f}", f"{found.worst_tenth:.1f}"]


def _seconds(rows: Sequence[Row]) -> float:
    return float(np.median([row.seconds_per_round for row in rows]))


def _mebibytes(rows: Sequence[Row]) -> str:
    known = [row.peak_mebibytes for row in rows if row.peak_mebibytes is not None]
    return f"{np.median(known):.0f} MiB" if known else "-"


def _range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{min(known):.1f} to {max(known):.1f}" if known else "∞"


def _gain(value: float, within: tuple[float, float]) -> str:
    return f"{value:+.1f} ({within[0]:+.1f} to {within[1]:+.1f})"


def _differences(rows: Sequence[Row]) -> str:
    """Return how far each share is from the whole, with its interval over seeds."""
    groups = by_percent(rows)
    full, told = groups.pop(100.0), []
    for percent, same in groups.items():
        found = difference(same, full)
        told.append(f"{percent:g} % {found.shown()}{'' if found.settled else ', not settled'}")
    return f"Against the whole network: {'; '.join(told)}."


def _joined(*parts: str) -> str:
    return "\n\n".join(parts)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path.read_text("utf-8"), load(RESULT)), "utf-8")
