"""The maps' result as text: a table for every set of people, one for UCR, and the targets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reproductions.data import ucr
from reproductions.grids import grid
from reproductions.map_methods import ANY_SIZE, MAJORITY, OVER_ROUNDS, RULES
from reproductions.map_sets import PEOPLE
from reproductions.map_values import NETWORKS, MapsResult, Row

AEON = "MiniRocket of aeon, pooled"
MEGABYTE = 1e6
WITHIN = 0.005  # of the mean of the published MiniRocket
PUBLISHED = ("MiniRocket", "Hydra", "Rocket", "MR-Hydra", "InceptionTime")
FROCKS = {"FROCKS": (72.3, 78.6, 81.2), "its FedAvg of heads": (74.0, 77.5, 78.1)}


@dataclass(frozen=True)
class Target:
    """An accuracy to be reached on a set by one of some methods, with at most so many megabytes."""

    set: str
    accuracy: float
    megabytes: float = math.inf
    methods: tuple[str, ...] = RULES


TARGETS = (
    Target("uci_har", 0.970, 1.1),
    Target("uci_har", 0.978, methods=(ANY_SIZE,)),
    Target("motionsense", 0.958, 1.1),
    Target("hhar", 0.845, 1.1),
    Target("wisdm_watch", 0.885, 1.1),
    Target("ArrowHead", 0.85, methods=(*RULES, OVER_ROUNDS)),
)


def markdown(result: MapsResult, published: Mapping[tuple[str, str], float] | None = None) -> str:
    """Return a whole result as a Markdown document.

    Parameters
    ----------
    published
        Accuracies of others by problem and method, as `reproductions.data.ucr.published` has them.
    """
    parts = ["# Feature maps on unseen people", _preamble(result)]
    for name in result.sets:
        if name not in ucr.SETS:
            parts += [f"## {name}", _about(result, name), people_table(result.rows(name))]
            remarks = [*_remarks(result.rows(name)), *_not_there(result, name)]
            parts += ["\n".join(f"- {line}" for line in remarks)]
    problems = [name for name in result.sets if name in ucr.SETS]
    if problems:
        known = published or {}
        parts += ["## UCR archive, four clients", _ucr_about(), ucr_table(result, problems, known)]
    parts += ["## Targets", target_table(result, published), "## Folds", _folds(result)]
    return "\n\n".join(part for part in parts if part) + "\n"


def people_table(rows: Sequence[Row]) -> str:
    """Return one set's rows: accuracy, people, bytes and seconds."""
    head = [
        "method",
        "columns",
        "accuracy",
        "macro-F1",
        "over people, 95 %",
        "worst person",
        "MB up, largest",
        "mean",
        "largest, as sent",
        "rounds",
        "CPU s, clients",
        "CPU s, server",
    ]
    return grid(head, [_line(row) for row in rows])


def _line(row: Row) -> list[str]:
    low, high = row.interval
    network = row.method in NETWORKS.values()
    pooled = "pooled" in row.method
    up = [row.largest("largest_up"), row.mean("mean_up"), row.largest("least_up")]
    sizes = ["-"] * 3 if pooled else [_megabytes(b) for b in up]
    if network:
        sizes[2] = "-"
    return [
        row.method,
        f"{row.cells[0].columns:,}" + (" numbers" if network else ""),
        _accuracy(row),
        "-" if math.isnan(row.macro_f1) else f"{row.macro_f1:.3f}",
        f"{100 * low:.1f} to {100 * high:.1f}",
        f"{100 * row.worst[1]:.1f} ({row.worst[0]})",
        *sizes,
        "-" if pooled else f"{row.mean('rounds'):.0f}",
        _seconds(row.mean("client_seconds")),
        _seconds(row.mean("server_seconds")),
    ]


def _accuracy(row: Row) -> str:
    spread = "" if math.isnan(row.deviation) else f" ± {100 * row.deviation:.2f}"
    return f"{100 * row.accuracy:.2f}{spread}"


def _megabytes(n_bytes: float) -> str:
    return f"{n_bytes / MEGABYTE:.3f}" if n_bytes < 10 * MEGABYTE else f"{n_bytes / MEGABYTE:.0f}"


def _seconds(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds:.1f}"


def _remarks(rows: Sequence[Row]) -> list[str]:
    return [f"{row.method}: {row.cells[0].remark}" for row in rows if row.cells[0].remark]


def _not_there(result: MapsResult, name: str) -> list[str]:
    """Return which methods of other sets of people were not run, and what was not counted."""
    people = [row for one in result.sets if one not in ucr.SETS for row in result.rows(one)]
    here = result.rows(name)
    missing = dict.fromkeys(row.method for row in people)
    for row in here:
        del missing[row.method]
    lines = [f"not run on this set: {'; '.join(missing)}"] if missing else []
    if any("of aeon" in method for method in missing):
        lines.append(
            "what aeon's rows lack takes a quarter of an hour of one core and an environment with "
            "aeon: `benchmarks/aeon_maps.py`"
        )
    bare = [row.method for row in here if math.isnan(row.macro_f1)]
    return lines + ([f"macro-F1 was not counted in runs of: {'; '.join(bare)}"] if bare else [])


def ucr_table(
    result: MapsResult, problems: Sequence[str], published: Mapping[tuple[str, str], float]
) -> str:
    """Return methods by problems, ours above the published ones; means over those published."""
    compared = [name for name in problems if (name, PUBLISHED[0]) in published]
    head = ["method", *problems, f"mean of {len(compared)}", "macro-F1"]
    head += ["MB up, largest", "largest, as sent"]
    methods = dict.fromkeys(row.method for name in problems for row in result.rows(name))
    lines = []
    for method in methods:
        rows = {name: result.row(name, method) for name in problems}
        shown = [_accuracy(row) if row else "-" for row in rows.values()]
        there = [row for name, row in rows.items() if row and name in compared]
        whole = len(there) == len(compared) and bool(there)
        mean = f"{100 * np.mean([row.accuracy for row in there]):.2f}" if whole else "-"
        f1 = np.mean([row.macro_f1 for row in there]) if whole else math.nan
        known = [row for row in rows.values() if row]
        up = max(row.largest("largest_up") for row in known)
        least = max(row.largest("least_up") for row in known)
        sizes = ["-", "-"] if "pooled" in method else [_megabytes(up), _megabytes(least)]
        lines.append([method, *shown, mean, "-" if math.isnan(f1) else f"{f1:.3f}", *sizes])
    for method in PUBLISHED:
        values = [published.get((name, method)) for name in problems]
        if any(value is not None for value in values):
            shown = ["-" if value is None else f"{100 * value:.2f}" for value in values]
            mean = f"{100 * np.mean([published[name, method] for name in compared]):.2f}"
            lines.append([f"{method}, published", *shown, mean, "-", "-", "-"])
    return grid(head, lines)


def target_table(
    result: MapsResult, published: Mapping[tuple[str, str], float] | None = None
) -> str:
    """Return every target beside what the rules reach, on the sets that are there."""
    lines = []
    for target in TARGETS:
        for method in target.methods:
            row = result.row(target.set, method)
            if row is None:
                continue
            up = row.largest("largest_up") / MEGABYTE
            met = row.accuracy >= target.accuracy and up <= target.megabytes
            most = "" if math.isinf(target.megabytes) else f" at {target.megabytes:g} MB or less"
            lines.append(
                [
                    target.set,
                    f"{target.accuracy:.3f}{most}",
                    method,
                    f"{row.accuracy:.4f}",
                    f"{up:.3f}",
                    f"{row.worst[1]:.3f}",
                    "yes" if met else "no",
                ]
            )
    lines += _mean_targets(result, published or {})
    return grid(["set", "target", "rule", "accuracy", "MB up", "worst person", "met"], lines)


def _mean_targets(
    result: MapsResult, published: Mapping[tuple[str, str], float]
) -> list[list[str]]:
    """Return what the rules reach on average on all problems that MiniRocket was published on."""
    names = [name for name, method in published if method == PUBLISHED[0]]
    least = np.mean([published[name, PUBLISHED[0]] for name in names]) - WITHIN if names else 0.0
    lines = []
    for method in (*RULES, ANY_SIZE, OVER_ROUNDS):
        rows = [row for name in names if (row := result.row(name, method))]
        if not rows or len(rows) < len(names):
            continue
        mean = float(np.mean([row.accuracy for row in rows]))
        up = max(row.largest("largest_up") for row in rows) / MEGABYTE
        met = "yes" if mean >= least else "no"
        target = f"{least:.4f}, published MiniRocket less {100 * WITHIN:g} points"
        lines.append(
            [f"mean of {len(rows)} UCR", target, method, f"{mean:.4f}", f"{up:.3f}", "-", met]
        )
    return lines


def _preamble(result: MapsResult) -> str:
    e = result.environment
    kind = "quick run" if result.quick else "run"
    return (
        "Accuracy in per cent over all windows of people who did not train: mean ± standard "
        'deviation over seeds of the map. *Nothing set* is `federate("default", people)`, scaled '
        "by the moments of all who train; in the other rows every person is scaled alone, by all "
        "unlabeled data of their own, which a new person's first short file is not "
        "(`results/scales.md`). Macro-F1 is over all test windows together. The ridge, and "
        "the map where a method has several, is the one with the least "
        "error on training people left out; test people choose nothing. The interval is that of "
        "2 000 draws of people with replacement. MB up is what one client sends in all rounds "
        "together: sums in the clear, of the largest client and in the mean; and the largest as "
        '`upload="auto"` sends it, in fewer numbers that say the same. Under secure '
        "aggregation every number takes 64 bits, or 32 where these are enough: "
        "`results/maps_secure.json`. "
        "CPU seconds are of all clients' features and sums together, and of the "
        "choice of the ridge and the solution in one fold.\n\n"
        f"The last {kind} on {e.get('cores')} cores ({e.get('platform')}), "
        f"{str(e.get('date'))[:10]}: catchment {e.get('catchment')}, Python {e.get('python')}, "
        f"numpy {e.get('numpy')}; cells of earlier ones are kept where their maps are the same."
    )


def _about(result: MapsResult, name: str) -> str:
    rows = result.rows(name)
    n = sum(rows[0].cells[0].windows.values())
    notes = "; ".join(result.notes.get(name, ()))
    absent = (
        ""
        if any(r.method.startswith(AEON) for r in rows)
        else (
            " MiniRocket as aeon has it was not computed: `benchmarks/aeon_maps.py` does it, where "
            "aeon is installed."
        )
    )
    return f"{len(rows[0].people)} people tested on {n:,} windows. {notes}.{absent}"


def _ucr_about() -> str:
    frocks = "; ".join(
        f"{name} {' / '.join(f'{value:.1f}' for value in values)}"
        for name, values in FROCKS.items()
    )
    return (
        "The official split, training cases dealt evenly to four clients as FROCKS has them, one "
        "scale for all, one round. Published figures are on the same split with all cases in one "
        "place (`reference.csv` of the data). FROCKS itself (Casella et al., 2024) prints, with "
        f"100 / 1 000 / 10 000 kernels, as means of 40 binary problems of which few are here: "
        f"{frocks} per cent in about five to seven rounds, where ROCKET on pooled data has 90.5. "
        "Macro-F1 is the mean over the same problems as the mean accuracy; published figures have "
        "none, and the run with aeon kept how many cases are right, not which."
    )


def _folds(result: MapsResult) -> str:
    lines = [
        f"- {name}: " + "; ".join(", ".join(fold) for fold in folds)
        for name, folds in result.folds.items()
        if name in PEOPLE
    ]
    return "Who is tested in each fold; all others of the set train.\n\n" + "\n".join(lines)


def write(
    result: MapsResult, folder: Path, published: Mapping[tuple[str, str], float] | None = None
) -> list[Path]:
    """Write a result's cells, tables and picture into a folder, and return their paths."""
    from reproductions.map_pictures import draw

    stem = stem_of(quick=result.quick)
    paths = [folder / f"{stem}.{kind}" for kind in ("json", "md", "png")]
    result.save(paths[0])
    paths[1].write_text(markdown(result, published))
    shown = [name for name in result.sets if any(r.method != MAJORITY for r in result.rows(name))]
    people = [name for name in shown if name not in ucr.SETS]
    if not people:
        return paths[:2]
    draw(result, people).savefig(paths[2], dpi=110)
    return paths


def stem_of(*, quick: bool) -> str:
    """Return what a result's files are called.

    >>> stem_of(quick=True)
    'maps-quick'
    """
    return "maps-quick" if quick else "maps"
