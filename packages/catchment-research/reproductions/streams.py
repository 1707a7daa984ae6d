"""Labels for every step of a stream, on people nobody has seen: where a reservoir should win.

MotionSense as streams (`reproductions.streams_data`), five folds over people. Every contender has
the same ridge, the library's own, over the same judged steps; which of its settings is used and how
strong the ridge is, is decided by leaving out groups of training people in turn, in each fold anew.
The test people choose nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catchment import Integers
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.readout import RidgeStatistics
from catchment.wire import replace_file
from reproductions.arena import macro_f1
from reproductions.map_values import class_counts
from reproductions.streams_contenders import CONTENDERS, Option
from reproductions.streams_data import SETTLED, TASKS, People, Stream, Task
from reproductions.study import environment

if TYPE_CHECKING:
    from reproductions.streams_network import Labels

FOLDS = 5
GRU = "GRU by FedAvg"
Predictions = dict[str, Integers]  # person -> a label for each judged step


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """How far to go: seeds of streams and maps, streams of each person, and their steps."""

    seeds: tuple[int, ...] = (0, 1, 2)
    n_streams: int = 2
    steps: int = 6000
    most_people: int | None = None
    most_options: int | None = None
    rounds: int = 60
    hidden: int = 64


QUICK = StreamSettings(
    seeds=(0,), n_streams=1, steps=1500, most_people=10, most_options=1, rounds=5, hidden=16
)


@dataclass(frozen=True, kw_only=True)
class StreamCell:
    """One contender on one task with one seed; test people of all folds together.

    `classes` has, of every class, how many steps were rightly said to be of it, how many were said
    to be, and how many are; a cell without them is computed again.
    """

    task: Task
    contender: str
    seed: int
    accuracy: float
    settled: float  # 1.5 s or more after a change
    silent: float | None  # within gaps
    worst: float
    people: dict[str, float]
    chosen: tuple[str, ...]  # option of each fold
    columns: int
    state_bytes: int
    work: float  # operations of a label, if every step has one
    microseconds: float  # of a label, if every step has one
    upload_bytes: int  # of one client, all rounds
    seconds: float
    classes: tuple[tuple[int, int, int], ...] = ()

    @property
    def macro_f1(self) -> float:
        """Mean over classes of F1 on everybody's labels together; NaN if it was not counted."""
        return macro_f1(self.classes) if self.classes else float("nan")


@dataclass(frozen=True)
class StreamsResult:
    """All cells so far, and how they were run."""

    settings: dict[str, Any]
    cells: tuple[StreamCell, ...] = ()
    quick: bool = False
    environment: dict[str, Any] = field(default_factory=environment)

    def of(self, task: str, contender: str) -> tuple[StreamCell, ...]:
        return tuple(c for c in self.cells if (c.task, c.contender) == (task, contender))

    def has(self, task: str, contender: str, seed: int) -> bool:
        return any(cell.seed == seed and cell.classes for cell in self.of(task, contender))

    def plus(self, cell: StreamCell) -> StreamsResult:
        """Return the result with a cell, in place of one of an earlier run."""
        key = cell.task, cell.contender, cell.seed
        others = [one for one in self.cells if (one.task, one.contender, one.seed) != key]
        return replace(self, cells=(*others, cell))

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())


def load_streams(path: Path) -> StreamsResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text(encoding="utf-8"))
    cells = tuple(
        StreamCell(**{**cell, "chosen": tuple(cell["chosen"]), "classes": _counts(cell)})
        for cell in content.pop("cells")
    )
    return StreamsResult(**content, cells=cells)


def _counts(cell: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, cell.get("classes", ())))


def folds(names: Sequence[str], n: int = FOLDS) -> list[tuple[str, ...]]:
    """Return test people of each fold, drawn once for all seeds.

    >>> sorted(sum(folds(["a", "b", "c"], 2), ()))
    ['a', 'b', 'c']
    """
    order = np.random.default_rng(16).permutation(len(names))
    ordered = [sorted(names)[k] for k in order]
    return [tuple(ordered[k::n]) for k in range(n)]


def streams(
    make: Callable[[Task, int], People],
    n_classes: int,
    settings: StreamSettings,
    *,
    contenders: Sequence[str] | None = None,
    tasks: Sequence[Task] = TASKS,
    device: str = "cpu",
    labels: Labels | None = None,
    earlier: StreamsResult | None = None,
    kept: Callable[[StreamsResult], object] | None = None,
    began: Callable[[str], None] | None = None,
    quick: bool = False,
) -> StreamsResult:
    """Return the cells of all contenders, those of an earlier result as they are.

    Parameters
    ----------
    make
        Gives the streams of all people for a task and a seed.
    device
        Where the recurrent network trains...
    labels
        ...unless it was trained elsewhere, and these are its labels.
    kept
        Called with the result so far after each cell.
    """
    result = StreamsResult(json.loads(json.dumps(asdict(settings))), quick=quick)
    if earlier is not None and earlier.settings | {"seeds": 0} == result.settings | {"seeds": 0}:
        result = replace(earlier, settings=result.settings)
    for task in tasks:
        for seed in settings.seeds:
            missing = [
                name
                for name in contenders or (*CONTENDERS, GRU)
                if not result.has(task, name, seed)
            ]
            people = make(task, seed) if missing else {}
            for name in missing:
                if began is not None:
                    began(f"{task}, seed {seed}: {name}")
                cell = _cell(name, people, n_classes, settings, task, seed, device, labels)
                result = result.plus(cell)
                if kept is not None:
                    kept(result)
    return result


def _cell(
    name: str,
    people: People,
    n_classes: int,
    settings: StreamSettings,
    task: Task,
    seed: int,
    device: str,
    labels: Labels | None,
) -> StreamCell:
    start = time.perf_counter()
    if name == GRU:
        found = _network(people, n_classes, settings, (task, seed), device, labels)
    else:
        options = CONTENDERS[name][: settings.most_options]
        found = closed_form(options, people, n_classes, seed)
    return StreamCell(
        task=task,
        contender=name,
        seed=seed,
        **scores(people, found.predictions, n_classes),
        chosen=found.chosen,
        **found.costs,
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True)
class Found:
    """Labels of all people, each by a model of a fold without them; choices; what it takes."""

    predictions: Predictions
    chosen: tuple[str, ...]
    costs: dict[str, Any]


def _network(
    people: People,
    n_classes: int,
    settings: StreamSettings,
    draw: tuple[Task, int],
    device: str,
    labels: Labels | None,
) -> Found:
    from reproductions.streams_network import labels_here, network_costs

    if labels is None or labels.of(*draw) is None:
        labels = labels_here(
            people,
            folds(list(people)),
            n_classes,
            draw=draw,
            hidden=settings.hidden,
            rounds=settings.rounds,
            device=device,
        )
    of = labels.of(*draw)
    assert of is not None
    found, chosen = of
    n_inputs = next(iter(people.values()))[0].u.shape[1]
    return Found(
        {name: found[k].reshape(-1) for k, name in enumerate(sorted(people))},
        chosen,
        network_costs(n_inputs, n_classes, labels.hidden, chosen),
    )


def closed_form(options: Sequence[Option], people: People, n_classes: int, seed: int) -> Found:
    """Return what the ridge predicts with the option that training people choose in each fold."""
    parts = folds(list(people))
    errors = np.empty((len(parts), len(options)))
    predictions: list[list[Predictions]] = [[] for _ in parts]
    costs = []
    n_inputs = next(iter(people.values()))[0].u.shape[1]
    last: tuple[str, int | None] | None = None
    for j, option in enumerate(options):
        built = option.build(n_inputs, seed)
        if last != (built.fingerprint, option.window):
            uploads = {
                name: option.statistics(built, streams, n_classes)
                for name, streams in people.items()
            }
            rows = {name: option.rows(built, streams) for name, streams in people.items()}
            last = built.fingerprint, option.window
        ridge = FederatedRidge(
            features=built,
            standardize=built.standardize if option.standardize is None else option.standardize,
            classes=tuple(map(str, range(n_classes))),
        )
        for k, test in enumerate(parts):
            groups = _groups([name for name in uploads if name not in test])
            train = {names[0]: _sum([uploads[name] for name in names]) for names in groups}
            solved = ridge.solved(RidgeState(_sum(list(train.values())), train))
            assert solved.readout is not None
            assert solved.choice is not None
            errors[k, j] = float(np.nanmin(solved.choice.errors.sum(axis=1)))
            W, b = solved.readout.weights, solved.readout.intercept
            predictions[k].append({name: (rows[name] @ W + b).argmax(axis=1) for name in test})
        first = next(iter(people.values()))[0]
        costs.append(
            {
                "columns": built.n_features,
                "state_bytes": option.state_bytes(built, n_inputs),
                "work": option.work(built),
                "microseconds": option.microseconds(built, first),
                "upload_bytes": max(len(s.parts().to_bytes()) for s in uploads.values()),
            }
        )
    best = errors.argmin(axis=1)
    together = {n: p for k, j in enumerate(best) for n, p in predictions[k][j].items()}
    usual = int(np.bincount(best).argmax())
    return Found(together, tuple(options[j].label for j in best), costs[usual])


def _groups(names: Sequence[str], n: int = 5) -> list[list[str]]:
    """Return training people in groups that are left out in turn when the ridge is chosen."""
    return [group for k in range(n) if (group := sorted(names)[k::n])]


def _sum(uploads: Sequence[RidgeStatistics]) -> RidgeStatistics:
    total = uploads[0]
    for one in uploads[1:]:
        total = total + one
    return total


def scores(
    people: Mapping[str, Sequence[Stream]], predictions: Predictions, n_classes: int
) -> dict[str, Any]:
    """Return counts of classes and accuracies: of all judged, settled, silent steps, of people."""
    right, since, silent, by_person = [], [], [], {}
    classes = np.zeros((n_classes, 3), dtype=int)
    for name, streams in sorted(people.items()):
        label = np.concatenate([s.label[s.judged] for s in streams])
        right.append(predictions[name] == label)
        since.append(np.concatenate([s.since[s.judged] for s in streams]))
        silent.append(np.concatenate([s.silent[s.judged] for s in streams]))
        by_person[name] = float(right[-1].mean())
        classes += class_counts(label, predictions[name], n_classes)
    hits, after, quiet = (np.concatenate(part) for part in (right, since, silent))
    return {
        "accuracy": float(hits.mean()),
        "settled": float(hits[after >= SETTLED].mean()),
        "silent": float(hits[quiet].mean()) if quiet.any() else None,
        "worst": min(by_person.values()),
        "people": by_person,
        "classes": tuple(map(tuple, classes.tolist())),
    }
