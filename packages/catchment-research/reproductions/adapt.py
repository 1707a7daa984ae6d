"""Learning a new person without a label: `python -m reproductions adapt`.

People are dealt to five folds (UCI HAR has its publisher's split), windows are scaled person by
person, and the map is the default one of 510 columns. Who is tested has no part in any choice: the
ridge is chosen by training people left out, and so is the rule of self-training, one for all sets.
In every fold each training person in turn is taken out of the sums, and all rules of a grid adapt
to them. Of the rules under which, in every set, at most three in a hundred of these people lose
more than a point, over seeds, that fold uses the one with the largest mean gain.

What a person's windows say of a readout is in two matrices: their scores S0 (n, K), and Q (n, n) =
z' (G + r I)^-1 z between them. Every method here that changes the readout is a function of both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array, Integers, single_blas_thread
from catchment.features import DefaultMap
from catchment.readout import (
    Readout,
    RidgeStatistics,
    SelfTraining,
    accumulate,
    choose_by_blocks,
    scale_of,
    self_train,
    solve_readout,
)
from catchment.wire import replace_file
from reproductions.adapt_methods import (
    BASELINES,
    SECONDS,
    Person,
    online,
    shifted,
    with_labels,
)
from reproductions.map_sets import PEOPLE, FoldedSet, folded
from reproductions.map_values import class_counts
from reproductions.maps import Prepared
from reproductions.people import SYNTHETIC
from reproductions.study import Began, environment

COLUMNS = 510
LOSERS = 0.03  # of a set's training people left out: a rule under which more lose is not taken
SHARES, WEIGHTS, RENAMED = (0.5, 0.7, 0.9), (0.06, 0.1, 0.2), (0, 2, 3)
AS_TRAINED, ADAPTED, FIRST = "as trained", "adapted, no labels", "first form: half, weight 5"
DEFAULT, UNGATED = "the library's default", "as chosen before, without the gate"
LABELED_SHARE = 0.2
FEWEST_LABELED = 2
DRAWS = 2
WHOLE = 5  # seeds under which labels, minutes, shifts and few labels are looked at, too
Right = dict[str, list[float]]  # by method: right windows of each person
Classes = dict[str, list[list[list[int]]]]  # by method: of every draw what `class_counts` counts


@dataclass(frozen=True, eq=False)
class Rows:
    """Feature rows of one set under one seed, by person; the map is frozen, so they are kept."""

    data: FoldedSet
    seed: int
    z: Mapping[str, Array]
    label: Mapping[str, Integers]

    @property
    def n_classes(self) -> int:
        return len(self.data.classes)

    def sums(self, name: str) -> RidgeStatistics:
        return RidgeStatistics.from_states(self.z[name], np.eye(self.n_classes)[self.label[name]])


def rows_of(data: FoldedSet, seed: int, kept: Path | None = None) -> Rows:
    """Return the feature rows of everybody, from a folder if they are kept there."""
    path = None if kept is None else kept / f"{data.name}-{seed}-{COLUMNS}.npz"
    names = sorted(data.clients)
    if path is not None and path.is_file():
        held = np.load(path)
        z, label = ({n: held[f"{what}.{n}"] for n in names} for what in ("z", "label"))
        return Rows(data, seed, z, label)
    prepared = Prepared.of(data)
    features = DefaultMap(COLUMNS, seed=seed).build(data.n_inputs, per_step=False, classes=True)
    z, label = {}, {}
    for name in names:
        own = prepared.clients[name]
        rows: list[Array] = []
        accumulate(features, own, threads=1, classes=True, rows=rows)
        z[name] = np.concatenate(rows)
        label[name] = prepared.labels(name)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {f"z.{name}": one for name, one in z.items()}
        arrays |= {f"label.{name}": one for name, one in label.items()}
        np.savez(path, allow_pickle=False, **arrays)
    return Rows(data, seed, z, label)


@dataclass(frozen=True, eq=False)
class Trained:
    """A federation's sum, its ridge, and the readout of both."""

    total: RidgeStatistics
    readout: Readout

    @classmethod
    def of(cls, parts: Sequence[RidgeStatistics], ridge: float | None = None) -> Trained:
        """Return what people learn together, the ridge by people left out if it is not given."""
        if ridge is None:
            ridge = float(np.mean(choose_by_blocks(parts, standardize=True, threads=1).best))
        return cls.solved(reduce(add, parts), ridge)

    @classmethod
    def solved(cls, total: RidgeStatistics, ridge: float) -> Trained:
        return cls(total, solve_readout(total, ridge, scale=scale_of(total, True)))

    def without(self, own: RidgeStatistics) -> Trained:
        """Return it without somebody, at the ridge of all."""
        return Trained.solved(self.total - own, float(np.mean(self.readout.ridge)))

    def adapted(self, z: Array, rule: SelfTraining) -> Readout:
        return self_train(self.total, self.readout, z, rule, standardize=True).readout

    def person(self, z: Array, label: Integers) -> Person:
        return Person.of(self.total, self.readout, z, label)


def grid() -> list[SelfTraining]:
    """Return the rules that are tried.

    >>> len(grid())
    27
    """
    every = product(SHARES, WEIGHTS, RENAMED)
    return [SelfTraining(share=s, weight=w, renamed=k) for s, w, k in every]


@dataclass(frozen=True)
class Cell:
    """What was found of one set under one seed.

    Parameters
    ----------
    kind
        "choice" (gains of training people left out, under every rule) or "test".
    rules
        By fold: for each rule of the grid how many points everybody left out gained.
    people
        Who is tested, in the order of the folds, and how many windows each has.
    right
        By method: right windows of each of these people, in the order of `people`.
    of
        By method: of how many windows, where these are not all.
    rule
        By fold: the rule that was used.
    others
        By fold, of the first seed: for each method that it is compared with, and each of its
        settings, the mean gain of training people left out.
    labeled
        By method of a federation in which few have labels: right windows, mean over draws.
    classes
        By method, where all windows are scored: for each draw of who has labels (one where nobody
        is drawn) what `class_counts` counts of everybody who is tested.
    """

    kind: str
    set: str
    seed: int
    rules: list[list[list[float]]] = field(default_factory=list)
    people: dict[str, int] = field(default_factory=dict)
    right: Right = field(default_factory=dict)
    of: Right = field(default_factory=dict)
    rule: list[dict[str, float]] = field(default_factory=list)
    labeled: Right = field(default_factory=dict)
    classes: Classes = field(default_factory=dict)
    ridge: list[float] = field(default_factory=list)
    others: list[dict[str, list[float]]] = field(default_factory=list)


@dataclass(frozen=True)
class AdaptResult:
    """All cells, and how they were computed."""

    cells: tuple[Cell, ...]
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    quick: bool = False

    def of(self, kind: str, name: str = "") -> list[Cell]:
        return [one for one in self.cells if one.kind == kind and name in ("", one.set)]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = asdict(self)
        lines = ",\n".join(json.dumps(one) for one in content.pop("cells"))
        head = json.dumps(content, indent=1)[:-2]
        replace_file(path, f'{head},\n "cells": [\n{lines}\n]}}\n'.encode())


def load_adapt(path: Path) -> AdaptResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text())
    return AdaptResult(**{**content, "cells": tuple(Cell(**one) for one in content["cells"])})


def adapt(
    names: Sequence[str],
    *,
    seeds: int = 5,
    directory: Path | None = None,
    kept_rows: Path | None = None,
    earlier: AdaptResult | None = None,
    kept: Callable[[AdaptResult], object] | None = None,
    began: Began | None = None,
    quick: bool = False,
) -> AdaptResult:
    """Return the cells of every set and seed: first those that choose, then those that test."""
    say, start = began or (lambda text: None), time.perf_counter()
    held = {name: folded(name, directory=directory) for name in names}
    done = {(c.kind, c.set, c.seed): c for c in (earlier.cells if earlier else ())}
    about: dict[str, Any] = {"environment": environment(), "quick": quick}
    about["notes"] = {name: data.notes for name, data in held.items()}

    def so_far() -> AdaptResult:
        seconds = time.perf_counter() - start + (earlier.seconds if earlier else 0.0)
        return AdaptResult(cells=tuple(done.values()), seconds=seconds, **about)

    for kind in ("choice", "test"):
        for seed, name in product(range(seeds), names):
            if (kind, name, seed) in done:
                continue
            rows = rows_of(held[name], seed, kept_rows)
            with single_blas_thread():
                made = choice_cell(rows) if kind == "choice" else test_cell(rows, so_far())
            done[kind, name, seed] = made
            say(f"{kind}: {name}, seed {seed}, {time.perf_counter() - start:.0f} s")
            if kept:
                kept(so_far())
    return so_far()


def trained_by(rows: Rows, fold: int) -> tuple[Trained, dict[str, RidgeStatistics]]:
    """Return the federation of a fold's training people, and the sums of each."""
    parts = {name: rows.sums(name) for name in rows.data.training(fold)}
    return Trained.of(list(parts.values())), parts


def choice_cell(rows: Rows) -> Cell:
    """Return what every rule does for every training person, taken out of the sums."""
    found, ridges, others = [], [], list[dict[str, list[float]]]()
    for fold in range(len(rows.data.folds)):
        trained, parts = trained_by(rows, fold)
        gains: list[list[float]] = []
        beside: dict[str, list[list[float]]] = {}
        for name, own in parts.items():
            person = trained.without(own).person(rows.z[name], rows.label[name])
            gains.append([round(gain, 5) for gain in person.gains(grid())])
            for method, (make, settings) in BASELINES.items() if rows.seed == 0 else ():
                own_gains = [person.gain(make(person, **one)) for one in settings]
                beside.setdefault(method, []).append(own_gains)
        found.append(np.array(gains).T.tolist())
        ridges.append(float(np.mean(trained.readout.ridge)))
        others.append({m: np.mean(each, axis=0).tolist() for m, each in beside.items()})
    return Cell("choice", rows.data.name, rows.seed, rules=found, ridge=ridges, others=others)


def left_out(result: AdaptResult, fold: int) -> list[Array]:
    """Return by set what every rule gains (rules, seeds, people), of a fold's training people.

    A set with one fold has the same training people in all.
    """
    by_set: dict[str, list[Array]] = {}
    for cell in result.of("choice"):
        gains = np.array(cell.rules[fold if len(cell.rules) > fold else 0])
        by_set.setdefault(cell.set, []).append(gains)
    return [np.stack(gains, axis=1) for gains in by_set.values()]


def chosen(result: AdaptResult, fold: int) -> SelfTraining:
    """Return the rule of largest gain under which at most `LOSERS` lose in every set.

    If there is none, the one with fewest in its worst set. Sets count alike in the gain, however
    many people they have.
    """
    each = left_out(result, fold)
    mean = np.mean([gains.mean(axis=(1, 2)) for gains in each], axis=0)
    lost = np.max([losers([gains]) for gains in each], axis=0)
    fair = np.flatnonzero(lost <= max(LOSERS, lost.min())).tolist()
    return grid()[max(fair, key=lambda k: float(mean[k]))]


def ungated(result: AdaptResult, fold: int) -> SelfTraining:
    """Return what was chosen before there was a gate: fewest losers near the largest gain.

    Near is within a standard error over people, of the difference.
    """
    plain = [k for k, rule in enumerate(grid()) if not rule.renamed]
    each = [gains[plain] for gains in left_out(result, fold)]
    by_person = [gains.mean(axis=1) for gains in each]
    mean = np.mean([gains.mean(axis=1) for gains in by_person], axis=0)
    apart = [gains - gains[mean.argmax()] for gains in by_person]
    squares = [one.var(axis=1) / max(one.shape[1] - 1, 1) for one in apart]
    error = np.sqrt(np.sum(squares, axis=0)) / len(each)
    good = np.flatnonzero(mean >= mean.max() - error).tolist()
    lost = losers(each)
    return grid()[plain[min(good, key=lambda k: (float(lost[k]), -float(mean[k])))]]


def losers(each: Sequence[Array]) -> Array:
    """Return the share (rules,) of people, over seeds, who lose more than a point."""
    every = np.concatenate([gains.reshape(len(gains), -1) for gains in each], axis=1)
    return np.asarray(np.mean(every < -0.01, axis=1))


def beside(result: AdaptResult, fold: int) -> dict[str, dict[str, float]]:
    """Return by method the setting that the first seed's training people choose, sets alike."""
    cells = [one for one in result.of("choice") if one.seed == 0]
    held = [one.others[fold if len(one.others) > fold else 0] for one in cells]
    return {
        method: settings[int(np.mean([one[method] for one in held], axis=0).argmax())]
        for method, (_, settings) in BASELINES.items()
    }


def test_cell(rows: Rows, before: AdaptResult) -> Cell:
    """Return what every method does for the people of each fold, who chose nothing."""
    right: Right = {}
    of: Right = {}
    people: dict[str, int] = {}
    rules, labeled = [], dict[str, list[float]]()
    classes: Classes = {}
    rng = np.random.default_rng(rows.seed)
    for fold, tested in enumerate(rows.data.folds):
        trained, parts = trained_by(rows, fold)
        rule, others = chosen(before, fold), beside(before, fold)
        other = ungated(before, fold)
        rules.append(asdict(rule))
        for name in tested:
            z, label = rows.z[name], rows.label[name]
            people[name] = len(z)
            person = trained.person(z, label)
            found = []
            for method, scores in measured(trained, person, z, rule, others):
                found.append((method, person.right(scores)))
                add_counts(classes, method, 0, label, scores)
            scores = person.adapted(other)
            right.setdefault(UNGATED, []).append(person.right(scores)[0])
            add_counts(classes, UNGATED, 0, label, scores)
            if rows.seed < WHOLE:
                found += further(person, rule, rng, SECONDS.get(rows.data.name, 1.0))
            for method, value in found:
                right.setdefault(method, []).append(value[0])
                of.setdefault(method, []).append(value[1])
        if rows.seed < WHOLE:
            few = few_labels(rows, fold, parts, trained, rule, rng, classes)
            for method, values in few.items():
                labeled.setdefault(method, []).extend(values)
    of = {m: n for m, n in of.items() if n != [float(k) for k in people.values()]}
    return Cell("test", rows.data.name, rows.seed, people=people, right=right, of=of, rule=rules,
                labeled=labeled, classes=classes)  # fmt: skip


def add_counts(classes: Classes, method: str, draw: int, label: Integers, scores: Array) -> None:
    """Add what somebody's scores say to the counts of a draw."""
    own = class_counts(label, scores.argmax(1), scores.shape[1])
    draws = classes.setdefault(method, [])
    if draw < len(draws):
        own = own + draws.pop(draw)
    draws.insert(draw, own.tolist())


def measured(
    trained: Trained,
    person: Person,
    z: Array,
    rule: SelfTraining,
    others: Mapping[str, Mapping[str, float]],
) -> Iterator[tuple[str, Array]]:
    """Yield by method the scores of all windows."""
    yield AS_TRAINED, trained.readout(z)
    yield ADAPTED, trained.adapted(z, rule)(z)
    yield DEFAULT, trained.adapted(z, SelfTraining())(z)
    yield FIRST, person.first_form()
    for method, (make, _) in BASELINES.items():
        yield method, make(person, **others[method])


def further(
    person: Person, rule: SelfTraining, rng: np.random.Generator, seconds: float
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield how many windows are right, of how many, elsewhere: of others, and beside labels."""
    own, rest = person.split(rng)
    yield "half: as trained", person.right(person.S0, own)
    yield "half: adapted on the other", person.right(person.adapted(rule, rest), own)
    always = replace(rule, renamed=0)
    yield "half: without the gate", person.right(person.adapted(always, rest), own)
    for method, pair in with_labels(person, rule, rng):
        yield method, pair
    for method, pair in online(person, own, rest, rule, seconds):
        yield method, pair
    for method, pair in shifted(person, rule, rng):
        yield method, pair


def few_labels(
    rows: Rows,
    fold: int,
    parts: Mapping[str, RidgeStatistics],
    everybody: Trained,
    rule: SelfTraining,
    rng: np.random.Generator,
    classes: Classes,
) -> dict[str, list[float]]:
    """Return right windows of the tested where one in five has labels, means over draws."""
    names, draws = sorted(parts), []
    n_labeled = max(FEWEST_LABELED, round(LABELED_SHARE * len(names)))
    for draw in range(DRAWS):
        drawn = set(rng.choice(names, n_labeled, replace=False).tolist())
        first = Trained.of([parts[name] for name in names if name in drawn])
        sums = [first.total]
        for name in names:
            if name not in drawn:
                sums.append(named_sums(first, rows.z[name], rule))
        second = Trained.of(sums, float(np.mean(everybody.readout.ridge)))
        # The ridge is chosen by sums that are named by people left out, too.
        by_people = Trained.of([*(parts[name] for name in sorted(drawn)), *sums[1:]])
        found: dict[str, list[float]] = {}
        for tested in rows.data.folds[fold]:
            z, label = rows.z[tested], rows.label[tested]
            for method, readout in (
                ("labeled only", first.readout),
                ("labeled only, adapted", first.adapted(z, rule)),
                ("+ pseudo-labeled sums", by_people.readout),
                ("+ pseudo-labeled sums, ridge of all", second.readout),
                ("+ pseudo-labeled sums, adapted", by_people.adapted(z, rule)),
                ("everybody labeled", everybody.readout),
                ("everybody labeled, adapted", everybody.adapted(z, rule)),
            ):
                scores = readout(z)
                add_counts(classes, method, draw, label, scores)
                right = float((scores.argmax(1) == label).sum())
                found.setdefault(method, []).append(right)
        draws.append(found)
    return {method: np.mean([one[method] for one in draws], axis=0).tolist() for method in draws[0]}


def named_sums(model: Trained, z: Array, rule: SelfTraining) -> RidgeStatistics:
    """Return the sums of rows with the classes that the model names once it is adapted to them."""
    label = model.adapted(z, rule)(z).argmax(axis=1)
    return RidgeStatistics.from_states(z, np.eye(model.total.n_targets)[label])


def sets_of(quick: bool, names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the sets that are asked for."""
    return (SYNTHETIC,) if quick else tuple(names or PEOPLE)
