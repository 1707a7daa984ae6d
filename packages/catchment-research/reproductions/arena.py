"""Activity sets as WHAR Arena has them: ten groups of people, windows of 3 s, macro-F1.

Its protocol (arXiv 2606.13194, `evaluation/protocol.yaml` of teco-kit/whar-arena): windows overlap
by half, channels are standardized by the mean and deviation of those who train, and every group of
people is tested by a model that the others made. That is what `federate` does with nothing set:
each person is a client, the scale is federated, the ridge is chosen by training people left out.
Which person is in which group is not theirs but a seed's, and the files here are other excerpts
than theirs where a note says so, so figures are beside each other and not on the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
from catchment import Array, Integers
from catchment.data import Recording
from catchment.features import FeatureMap
from catchment.wire import replace_file
from reproductions.arena_files import prepared_people, prepared_sets
from reproductions.intervals import DRAWS
from reproductions.map_sets import label_of, people_folds
from reproductions.map_values import class_counts
from reproductions.places import find, load
from reproductions.study import environment

STEM = "arena"
SECONDS = 3.0
GROUPS = 10
SEEDS = 3
RATES = {"uci_har": 50.0, "motionsense": 50.0, "hhar": 50.0, "wisdm_watch": 20.0}
# Macro-F1 as `paper-benchmark.json` of the Arena's repository has it: the best of 17 networks.
PUBLISHED = {
    "uci_har": ("TinyHAR", 0.961),
    "motionsense": ("DynamicWHAR", 0.935),
    "hhar": ("the best of 17", 0.825),
    "wisdm_watch": ("the best of 17, all 18 activities", 0.713),
}
NOTES = {
    "uci_har": "continuous segments of the official windows",
    "motionsense": "all trials",
    "hhar": "another excerpt: one phone model, accelerometer only, windows of 2.56 s side by side",
    "wisdm_watch": "another task: six of the 18 activities",
}
METHODS: dict[str, Callable[[int], FeatureMap]] = {
    "default, nothing set": lambda seed: ct.DefaultMap(seed=seed),
    "window statistics": lambda seed: ct.WindowStatistics(),
}


@dataclass(frozen=True, kw_only=True)
class ArenaCell:
    """One map with one seed on one set: of every person and class, what `class_counts` counts."""

    set: str
    method: str
    seed: int
    groups: tuple[tuple[str, ...], ...]
    counts: Mapping[str, Sequence[Sequence[int]]]
    up: float  # bytes of one client, the mean
    columns: int

    @property
    def windows(self) -> int:
        return int(self.table.sum(axis=(0, 1))[2])

    @property
    def table(self) -> Array:
        """Counts (people, K, 3)."""
        return np.array([self.counts[name] for name in sorted(self.counts)], float)

    @property
    def macro_f1(self) -> float:
        """The mean over groups, each tested by the others: as the Arena has it."""
        each = [np.sum([self.counts[name] for name in one], axis=0) for one in self.groups]
        return float(np.mean([macro_f1(counts) for counts in each]))

    @property
    def accuracy(self) -> float:
        total = self.table.sum(axis=(0, 1))
        return float(total[0] / total[2])


def macro_f1(counts: Any) -> float:
    """Return the mean of F1 over the classes that are there, of counts (K, 3).

    >>> round(macro_f1([[1, 1, 2], [1, 2, 1], [0, 0, 0]]), 3)
    0.667
    """
    right, said, are = np.asarray(counts, float).T
    there = are > 0
    return float(np.mean(2 * right[there] / (said + are)[there]))


def f1_of_one(share: float, n_classes: int) -> float:
    """Return the macro-F1 of one answer to everything, right in a share of all cases.

    >>> f1_of_one(0.5, 2) == macro_f1([[2, 4, 2], [0, 0, 2]])
    True
    """
    return 2 * share / (1 + share) / n_classes


@dataclass(frozen=True)
class ArenaResult:
    """All cells so far."""

    cells: tuple[ArenaCell, ...] = ()
    environment: dict[str, Any] = field(default_factory=environment)

    def of(self, name: str, method: str) -> list[ArenaCell]:
        return [cell for cell in self.cells if (cell.set, cell.method) == (name, method)]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self), indent=None) + "\n").encode())


def load_arena(path: Path) -> ArenaResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text(encoding="utf-8"))
    cells = [
        ArenaCell(**{**one, "groups": tuple(map(tuple, one["groups"]))}) for one in content["cells"]
    ]
    return ArenaResult(tuple(cells), content["environment"])


def arena(
    *,
    sets: Sequence[str] | None = None,
    seeds: int = SEEDS,
    directory: Path | None = None,
    prepared: Path | None = None,
    earlier: ArenaResult | None = None,
    kept: Callable[[ArenaResult], object] = lambda result: None,
    began: Callable[[str], object] = lambda text: None,
) -> ArenaResult:
    """Return the cells of the sets that are here, those of an earlier result as they are.

    Parameters
    ----------
    prepared
        Folder into which the Arena's own package has written its sets, in the place of ours.
    """
    result = earlier or ArenaResult()
    known = {(cell.set, cell.method, cell.seed) for cell in result.cells}
    theirs = {} if prepared is None else prepared_sets(prepared)
    for name in sets or tuple(theirs or RATES):
        if name in theirs:
            clients, classes = prepared_people(theirs[name])
        elif theirs or find(name, directory=directory) is None:
            continue
        else:
            clients, classes = people_of(name, directory)
        for method, make in METHODS.items():
            for seed in range(seeds if method != "window statistics" else 1):
                if (name, method, seed) in known:
                    continue
                began(f"{name}, {method}, seed {seed}")
                cell = arena_cell(name, clients, classes, method, make(seed), seed)
                result = ArenaResult((*result.cells, cell), result.environment)
                kept(result)
    return result


def people_of(
    name: str, directory: Path | None = None
) -> tuple[dict[str, list[Recording]], tuple[str, ...]]:
    """Return everybody's windows of 3 s, half overlapping, and the classes; HHAR's as they are."""
    if name == "hhar":
        data = load(name, directory=directory)
    else:
        steps = round(SECONDS * RATES[name])
        data = load(name, directory=directory, window=steps, step=steps // 2)
    return {who: list(own) for who, own in data.clients.items()}, data.classes


def arena_cell(
    name: str,
    clients: Mapping[str, list[Recording]],
    classes: tuple[str, ...],
    method: str,
    features: FeatureMap,
    seed: int,
) -> ArenaCell:
    """Return what every group's people get from a model that the others made."""
    groups = people_folds(list(clients), min(GROUPS, len(clients)))
    counts, up, columns = {}, [], 0
    for tested in groups:
        training = {who: own for who, own in clients.items() if who not in tested}
        run = ct.federate(features, training, classes=classes, threads=1)
        sent = sum(record.bytes_up for records in run.stages.values() for record in records)
        up.append(sent / len(training))
        columns = run.model.features.n_features
        for who in tested:
            label = np.array([label_of(one) for one in clients[who]])
            answers = run.model.predict([one.u for one in clients[who]])
            said: Integers = np.array([classes.index(str(one)) for one in answers])
            counts[who] = class_counts(label, said, len(classes)).tolist()
    return ArenaCell(
        set=name,
        method=method,
        seed=seed,
        groups=groups,
        counts=counts,
        up=float(np.mean(up)),
        columns=columns,
    )


def over_people(cells: Sequence[ArenaCell]) -> tuple[float, float]:
    """Return 95 % of the macro-F1 of all windows of as many people drawn with replacement."""
    table = np.mean([cell.table for cell in cells], axis=0)
    picks = np.random.default_rng(0).integers(len(table), size=(DRAWS, len(table)))
    drawn = [macro_f1(table[pick].sum(axis=0)) for pick in picks]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def markdown(result: ArenaResult) -> str:
    """Return the table beside the Arena's best."""
    lines = [
        "# Activity sets by the protocol of WHAR Arena",
        "",
        "`python -m reproductions arena`. Macro-F1, the mean over ten groups of people (nine of",
        "HHAR), each tested by a model that the others made in one exact round after one for the",
        "scale; brackets: 95 % over people drawn with replacement, of all windows together; ± over",
        "seeds of the map. The ridge is chosen by training people left out. *Arena* is the best of",
        "its 17 networks, as its repository has it (arXiv 2606.13194): groups are not the same,",
        "and of HHAR and WISDM the rows are not either.",
        "",
        "| set | people | windows | map | macro-F1 | accuracy, % | MB up | Arena's best | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(cell.set for cell in result.cells):
        for method in METHODS:
            if cells := result.of(name, method):
                lines.append(_line(name, method, cells))
    return "\n".join(lines) + "\n"


def _line(name: str, method: str, cells: Sequence[ArenaCell]) -> str:
    values = [cell.macro_f1 for cell in cells]
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    low, high = over_people(cells)
    beside = f"{PUBLISHED[name][1]:.3f} ({PUBLISHED[name][0]})" if name in PUBLISHED else "-"
    first = cells[0]
    said = [
        *(name, str(len(first.counts)), f"{first.windows:,}".replace(",", " "), method),
        f"{np.mean(values):.3f}{spread} ({low:.3f} to {high:.3f})",
        f"{100 * np.mean([cell.accuracy for cell in cells]):.1f}",
        *(f"{first.up / 1e6:.2f}", beside, NOTES.get(name, "as its package has it")),
    ]
    return "| " + " | ".join(said) + " |"
