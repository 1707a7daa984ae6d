"""What `python -m reproductions maps` leaves behind: one cell per set, method and seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Integers
from catchment.wire import replace_file
from reproductions.intervals import over_people
from reproductions.study import Value

Key = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True)
class MapsSettings:
    """How far to go.

    Parameters
    ----------
    seeds
        Draws of every map.
    methods
        Names of `reproductions.map_methods.METHODS`; all of them if empty.
    windows
        Of every client, at most.
    """

    seeds: int = 3
    methods: tuple[str, ...] = ()
    windows: int = 1_000_000


QUICK = MapsSettings(
    seeds=1,
    methods=(
        "majority",
        "window statistics",
        "reservoir, default",
        "MiniRocket, 504",
        "default, 510",
    ),
    windows=60,
)
QUICK_SETS = ("uci_har", "hhar", "GunPoint")


@dataclass(frozen=True, kw_only=True)
class MapCell:
    """One method on one set with one seed: who was classified right, what it cost, what was chosen.

    `windows` and `correct` count those of every test person. Bytes up are of one training client's
    message, the largest and the mean one; `least_up` is the largest one as `upload="auto"` sends
    it. CPU seconds are of all clients' features and statistics together, and of one fold's choice
    of the ridge and solution. `classes` has, of every class, how many test windows were rightly
    said to be of it, how many were said to be, and how many are.
    """

    set: str
    method: str
    seed: int
    windows: Mapping[str, int]
    correct: Mapping[str, int]
    columns: int = 0
    largest_up: float = 0.0
    mean_up: float = 0.0
    least_up: float = 0.0
    rounds: float = 1.0
    client_seconds: float = float("nan")
    server_seconds: float = float("nan")
    fingerprint: str = ""
    chosen: tuple[str, ...] = ()
    remark: str = ""
    classes: tuple[tuple[int, int, int], ...] = ()

    @property
    def key(self) -> Key:
        return self.set, self.method, self.seed

    @property
    def accuracy(self) -> float:
        """Share of all test windows whose class is found."""
        return sum(self.correct.values()) / sum(self.windows.values())

    @property
    def macro_f1(self) -> float:
        """Mean over classes of F1 on all test windows together, NaN if it was not counted."""
        if not self.classes:
            return float("nan")
        return float(np.mean([2 * right / max(said + are, 1) for right, said, are in self.classes]))


def class_counts(label: Integers, said: Integers, n_classes: int) -> Integers:
    """Return how often each class (K, 3) was rightly said, was said, and is there.

    >>> class_counts(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1, 2], [1, 2, 1]]
    """
    parts = (label[label == said], said, label)
    return np.stack([np.bincount(part, minlength=n_classes) for part in parts], axis=1)


def counted(label: Integers, said: Integers) -> tuple[tuple[int, ...], ...]:
    """Return `class_counts` of as many classes as there are or were said, as results keep them.

    >>> counted(np.array([0, 0, 1]), np.array([0, 1, 1]))
    ((1, 1, 2), (1, 2, 1))
    """
    n_classes = int(max(label.max(), said.max())) + 1
    return tuple(map(tuple, class_counts(label, said, n_classes).tolist()))


@dataclass(frozen=True, kw_only=True)
class Row:
    """The cells of one method on one set, one for each seed, as one line of a table."""

    cells: tuple[MapCell, ...]

    @property
    def method(self) -> str:
        return self.cells[0].method

    @property
    def accuracy(self) -> float:
        return float(np.mean([cell.accuracy for cell in self.cells]))

    @property
    def macro_f1(self) -> float:
        return float(np.mean([cell.macro_f1 for cell in self.cells]))

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds, NaN of one."""
        if len(self.cells) < 2:
            return float("nan")
        return float(np.std([cell.accuracy for cell in self.cells], ddof=1))

    @property
    def people(self) -> dict[str, float]:
        """Every test person's accuracy, the mean over seeds."""
        return {
            name: float(np.mean([cell.correct[name] / n for cell in self.cells]))
            for name, n in self.cells[0].windows.items()
        }

    @property
    def worst(self) -> tuple[str, float]:
        """The person with the lowest accuracy of the first seed, and the mean over seeds of that.

        The lowest is found within each seed: whoever uses a model has one seed, and somebody is
        worst with it.
        """
        lowest = []
        for cell in self.cells:
            lowest.append(min((cell.correct[name] / n, name) for name, n in cell.windows.items()))
        return lowest[0][1], float(np.mean([accuracy for accuracy, _ in lowest]))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % of the accuracies of as many people drawn from these, with replacement.

        It says how far another group of people like these may be from this one.
        """
        windows = self.cells[0].windows
        found = over_people([{k: (windows[k] * v, windows[k]) for k, v in self.people.items()}])
        return found.low, found.high

    def mean(self, what: str) -> float:
        """Return the mean over seeds of a number of the cells."""
        return float(np.mean([getattr(cell, what) for cell in self.cells]))

    def largest(self, what: str) -> float:
        """Return the largest of a number of the cells."""
        return float(max(getattr(cell, what) for cell in self.cells))


@dataclass(frozen=True, kw_only=True)
class MapsResult:
    """All cells so far, and what is needed to run them again."""

    settings: dict[str, Value]
    cells: tuple[MapCell, ...]
    folds: Mapping[str, tuple[tuple[str, ...], ...]]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quick: bool = False
    environment: dict[str, Value] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def sets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.set for cell in self.cells))

    def rows(self, name: str) -> list[Row]:
        """Return a set's rows, methods in the order of their first cells."""
        by_method: dict[str, list[MapCell]] = {}
        for cell in self.cells:
            if cell.set == name:
                by_method.setdefault(cell.method, []).append(cell)
        return [Row(cells=tuple(cells)) for cells in by_method.values()]

    def row(self, name: str, method: str) -> Row | None:
        """Return a method's row on a set, None if there is none."""
        return next((row for row in self.rows(name) if row.method == method), None)

    def save(self, path: Path) -> None:
        """Write the result as JSON; NaN becomes null."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(_plain(asdict(self)), indent=1, allow_nan=False) + "\n"
        replace_file(path, content.encode())


def load_maps(path: Path) -> MapsResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text())
    return MapsResult(
        **{
            **content,
            "cells": tuple(cell_of(row) for row in content["cells"]),
            "folds": {k: tuple(map(tuple, v)) for k, v in content["folds"].items()},
            "notes": {k: tuple(v) for k, v in content["notes"].items()},
        }
    )


def cell_of(content: Mapping[str, Any]) -> MapCell:
    """Return a cell from what JSON has of it."""
    known: dict[str, Any] = {k: float("nan") if v is None else v for k, v in content.items()}
    known["chosen"] = tuple(content.get("chosen", ()))
    known["classes"] = tuple(map(tuple, content.get("classes", ())))
    return MapCell(**known)


def network_cells(content: Iterable[Mapping[str, Any]]) -> list[MapCell]:
    """Return cells of what `reproductions.stacked_fedavg` writes, one for each seed."""
    cells = []
    for one in content:
        rounds, up = float(np.mean(one["rounds"])), [float(b) for b in one["bytes_up"]]
        search = one["settings"]
        remark = (
            f"chosen from rates {search['rates']}, local epochs {search['local_epochs']}, epochs "
            f"{search['epochs']}; {one['seconds']:.0f} s of one {one['device']} for the search and "
            "all seeds"
        )
        if "again_seconds" in one:
            remark += (
                f"; the row is of training anew with these choices, {one['again_seconds']:.0f} s, "
                "counted by class"
            )
        chosen = tuple(
            "rate {:g}, {} local epochs of {}".format(*one["folds"][k]["choice"])
            for k in sorted(one["folds"], key=int)
        )
        cells += [
            MapCell(
                set=one["set"],
                method=NETWORKS[one["network"] + (" pooled" if search.get("pooled") else "")],
                seed=seed,
                windows=one["windows"],
                correct={name: counts[seed] for name, counts in one["correct"].items()},
                columns=one["numbers"],
                largest_up=max(up),
                mean_up=float(np.mean(up)),
                rounds=rounds,
                chosen=chosen,
                remark=remark,
                classes=tuple(map(tuple, one["classes"][seed])) if "classes" in one else (),
            )
            for seed in range(search["seeds"])
        ]
    return cells


NETWORKS = {
    "cnn": "CNN by FedAvg",
    "inception": "InceptionTime by FedAvg",
    "cnn pooled": "CNN, pooled",
    "inception pooled": "InceptionTime, pooled",
}


def _plain(value: object) -> Any:
    match value:
        case float() if not np.isfinite(value):
            return None
        case float():
            return float(f"{value:.10g}")
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case tuple() | list():
            return [_plain(item) for item in value]
    return value
