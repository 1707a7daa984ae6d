"""Which scale serves whoever sets nothing: by training people, and by how long a new file is.

Test people of the first fold of `maps` are not looked at. Those who train in it are dealt to five
groups, and each group is tested by the default map's model of the others, scaled in every way that
`Preprocessing` has. A scale of one's own depends on what is handed in together: a model that was
trained with it is therefore also asked about files of a window, a minute and five minutes, of one
activity, as short files are, and of windows drawn from everything that a person did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path

import numpy as np

from catchment import Array, Integers, single_blas_thread
from catchment.data import Preprocessing, Recording
from catchment.features import DefaultMap, FeatureMap
from catchment.readout import (
    Readout,
    RidgeStatistics,
    accumulate,
    choose_by_blocks,
    scale_of,
    solve_readout,
)
from catchment.wire import replace_file
from reproductions.grids import grid
from reproductions.map_sets import PEOPLE, FoldedSet, folded, label_of, people_folds
from reproductions.map_values import class_counts
from reproductions.study import environment

STEM = "scales"
SCALES = ("federated", "own", "recording", "none")
GROUPS = 5
SEEDS = 3
# Seconds from the start of a window to that of the next.
STEPS = {"uci_har": 1.28, "motionsense": 2.56, "hhar": 2.56, "wisdm_watch": 10.0}
LENGTHS = {"one window": 0.0, "a minute": 60.0, "five minutes": 300.0}
KINDS = ("one activity", "mixed")
Held = dict[str, tuple[RidgeStatistics, Array]]


@dataclass(frozen=True)
class Cell:
    """Windows of training people left out that were found with a scale, and of how many.

    `classes` has for each class what `class_counts` counts.
    """

    set: str
    seed: int
    scale: str
    files: str = "everything"
    right: int = 0
    windows: int = 0
    classes: Sequence[Sequence[int]] = ()

    @property
    def accuracy(self) -> float:
        return self.right / self.windows

    @property
    def macro_f1(self) -> float:
        right, said, there = np.array(self.classes, float).T
        return float(np.mean(2 * right / np.maximum(said + there, 1)))


def scales(
    *,
    sets: Sequence[str] = PEOPLE,
    seeds: int = SEEDS,
    directory: Path | None = None,
    began: Callable[[str], object] = lambda text: None,
) -> list[Cell]:
    """Return the cells of every set and seed; those of short files of the first seed."""
    cells = []
    for name in sets:
        data = folded(name, directory=directory)
        for seed in range(seeds):
            began(f"{name}, seed {seed}")
            cells += scale_cells(data, seed, files=seed == 0)
    return cells


def scale_cells(data: FoldedSet, seed: int, *, files: bool) -> list[Cell]:
    """Return one seed's cells, with those of short files if asked."""
    features = DefaultMap(seed=seed).build(data.n_inputs, per_step=False, classes=True)
    training = data.training(0)
    held = {how: _rows(features, data, training, training, how) for how in SCALES[1:]}
    n_classes = len(data.classes)
    label = {who: np.array([label_of(one) for one in data.clients[who]]) for who in training}
    counts: dict[tuple[str, str], Integers] = {}
    for left in people_folds(training, GROUPS):
        inside = [who for who in training if who not in left]
        held["federated"] = _rows(features, data, training, inside, "federated")
        for how in SCALES:
            readout = _readout(features, [held[how][who][0] for who in inside])
            for who in left:
                said = readout(held[how][who][1]).argmax(1)
                _count(counts, (how, "everything"), class_counts(label[who], said, n_classes))
            if how == "own" and files:
                asked = partial(_said, features, readout)
                for who in left:
                    _short(counts, asked, data.clients[who], label[who], STEPS[data.name])
    return [
        Cell(data.name, seed, *key, int(c[:, 0].sum()), int(c[:, 2].sum()), c.tolist())
        for key, c in counts.items()
    ]


def _rows(
    features: FeatureMap,
    data: FoldedSet,
    people: Sequence[str],
    inside: Sequence[str],
    how: str,
) -> Held:
    preprocessing = Preprocessing(scale=how)  # type: ignore[arg-type]
    if not preprocessing.is_fitted:
        moments = (preprocessing.moments(data.clients[who]) for who in inside)
        preprocessing = preprocessing.fitted(reduce(add, moments))
    held: Held = {}
    for who in people:
        rows: list[Array] = []
        own = preprocessing.apply(data.clients[who])
        sums = accumulate(features, own, threads=1, classes=True, rows=rows)
        held[who] = sums, np.concatenate(rows)
    return held


def _readout(features: FeatureMap, blocks: Sequence[RidgeStatistics]) -> Readout:
    total = reduce(add, blocks)
    with single_blas_thread():
        choice = choose_by_blocks(blocks, standardize=features.standardize, threads=1)
        return solve_readout(total, choice.best, scale=scale_of(total, features.standardize))


def _said(features: FeatureMap, readout: Readout, recordings: Sequence[Recording]) -> Integers:
    ready = Preprocessing(scale="own").apply(recordings)
    rows = np.concatenate(features.rows([one.u for one in ready], threads=1))
    return np.asarray(readout(rows).argmax(1))


def _short(
    counts: dict[tuple[str, str], Integers],
    asked: Callable[[Sequence[Recording]], Integers],
    own: Sequence[Recording],
    label: Integers,
    step: float,
) -> None:
    """Count what is said of a person's windows in files of every length and kind."""
    for kind in KINDS:
        for length, seconds in LENGTHS.items():
            for part in files_of(label, kind, max(1, round(seconds / step))):
                said = asked([own[k] for k in part])
                key, n_classes = ("own", f"{length}, {kind}"), len(counts["own", "everything"])
                _count(counts, key, class_counts(label[part], said, n_classes))


def files_of(label: Integers, kind: str, size: int) -> Iterator[Integers]:
    """Yield the numbers of the windows of each file of at most this many.

    >>> [part.tolist() for part in files_of(np.array([0, 1, 0, 0]), "one activity", 2)]
    [[0, 2], [3], [1]]
    """
    if kind == "mixed":
        groups = [np.random.default_rng(0).permutation(len(label))]
    else:
        groups = [np.flatnonzero(label == one) for one in np.unique(label)]
    for group in groups:
        for first in range(0, len(group), size):
            yield group[first : first + size]


def _count(counts: dict[tuple[str, str], Integers], key: tuple[str, str], more: Integers) -> None:
    counts[key] = counts.get(key, 0) + more


def save(cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Write the cells and their page, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"environment": environment(), "cells": [one.__dict__ for one in cells]}
    paths = [folder / f"{STEM}.json", folder / f"{STEM}.md"]
    replace_file(paths[0], (json.dumps(content, indent=1) + "\n").encode())
    paths[1].write_text(markdown(cells), encoding="utf-8")
    return paths


def load_scales(path: Path) -> list[Cell]:
    """Return cells that were saved."""
    return [Cell(**one) for one in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def mean_of(cells: Sequence[Cell], name: str, scale: str, files: str = "everything") -> float:
    """Return the accuracy of a set with a scale, the mean over seeds."""
    key = name, scale, files
    return float(np.mean([c.accuracy for c in cells if (c.set, c.scale, c.files) == key]))


def _said_of(cells: Sequence[Cell], name: str, scale: str, files: str) -> str:
    """Return the accuracy in per cent and, where classes were counted, the macro-F1."""
    found = [c for c in cells if (c.set, c.scale, c.files) == (name, scale, files)]
    f1 = np.mean([c.macro_f1 for c in found]) if all(c.classes for c in found) else None
    said = f"{100 * mean_of(cells, name, scale, files):.1f}"
    return said if f1 is None else f"{said} ({f1:.3f})"


def markdown(cells: Sequence[Cell]) -> str:
    """Return the two tables."""
    sets = list(dict.fromkeys(cell.set for cell in cells))

    def lines(rows: Mapping[str, tuple[str, str]]) -> list[list[str]]:
        return [
            [words, *(_said_of(cells, name, *key) for name in sets)] for words, key in rows.items()
        ]

    ways = {
        "federated: by all training people (the default)": ("federated", "everything"),
        "own: by everything of one person": ("own", "everything"),
        "recording: every window by itself": ("recording", "everything"),
        "none": ("none", "everything"),
    }
    files = {
        f"files of {length}, {kind}": ("own", f"{length}, {kind}")
        for kind in KINDS
        for length in LENGTHS
    }
    everything = {"everything that the person did": ("own", "everything")}
    return "\n".join(
        [
            "# Which scale",
            "",
            "`python -m reproductions scales`. Accuracy in per cent, and macro-F1 in brackets, on",
            "*training* people of the first fold of `maps`, dealt to five groups, each tested by",
            "the default map's model of the others; whom that fold tests was not looked at. Means",
            "over seeds of the map, those of short files of the first.",
            "",
            grid(["scale", *sets], lines(ways)),
            "",
            'A scale of one\'s own ("own") is that of whatever is handed in together. The same',
            "models, asked about new people in files:",
            "",
            grid(['scale = "own"', *sets], lines(files | everything)),
            "",
            "A federated scale does not depend on the file. So it stays the default; a scale of",
            "one's own is for clients whose recordings hold everything that is to be told apart.",
            "",
        ]
    )
