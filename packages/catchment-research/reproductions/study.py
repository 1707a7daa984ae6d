"""What an experiment leaves behind: cells, choices, traffic, and how it was run."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import catchment
from catchment.features import Reservoir
from catchment.federation import Record
from catchment.wire import replace_file
from catchment_lab.search import Adaptation
from reproductions.cells import Cell
from reproductions.intervals import Interval, deviation, over_people, paired
from reproductions.people import People

R = TypeVar("R")
Began = Callable[[str], None]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]


@dataclass(frozen=True)
class Selected:
    """A configuration, and what it scored on the validation subjects."""

    method: str
    recipe: str
    validation: float
    pool: str
    adaptation: dict[str, Value] | None = None
    fold: int = 0
    train: float = float("nan")
    wiring: dict[str, Value] | None = None  # what the recipe does not say of its connections

    @classmethod
    def of(
        cls,
        method: str,
        recipe: Reservoir,
        validation: float,
        pool: str,
        adaptation: Adaptation | None = None,
        fold: int = 0,
    ) -> Selected:
        settings = None if adaptation is None else asdict(adaptation)
        return cls(method, recipe.to_json(), validation, pool, settings, fold)


@dataclass(frozen=True)
class Measure:
    """A number beside the cells: what it is, of which method, and in which repetition and fold."""

    name: str
    method: str
    value: float
    repetition: int = 0
    fold: int = 0


@dataclass(frozen=True)
class Traffic:
    """What one run of a plan cost: bytes between all clients and the server, and seconds.

    `bytes_back` are those of the trained model on its way to the clients; 0 where nobody counted.
    """

    method: str
    n_clients: int
    rounds: int
    bytes_up: int
    bytes_down: int
    seconds: float
    bytes_back: int = 0

    @classmethod
    def of(cls, method: str, records: Sequence[Record], delivery: Sequence[Record] = ()) -> Traffic:
        """Return what the rounds of a plan cost, and those in which the model was sent back."""
        return cls(
            method,
            max((record.n_asked for record in records), default=0),
            len(records),
            sum(record.bytes_up for record in records),
            sum(record.bytes_down for record in records),
            sum(record.seconds for record in records),
            sum(record.bytes_down for record in delivery),
        )


@dataclass(frozen=True, kw_only=True)
class SetResult:
    """One data set's part of an experiment.

    `tried` are cells from which those of the table were chosen, by validation, once all were there.
    """

    name: str
    notes: tuple[str, ...]
    subjects: dict[str, int]
    n_sequences: int
    classes: tuple[str, ...]
    cells: tuple[Cell, ...]
    selected: tuple[Selected, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    tried: tuple[Cell, ...] = ()
    measures: tuple[Measure, ...] = ()

    @classmethod
    def about(cls, people: People, cells: Sequence[Cell]) -> SetResult:
        """Return a result that so far knows the people and the cells."""
        parts = {"train": people.train, "validation": people.validation, "test": people.test}
        return cls(
            name=people.name,
            notes=people.notes,
            subjects={name: len(part) for name, part in parts.items()},
            n_sequences=people.n_sequences,
            classes=people.classes,
            cells=tuple(cells),
        )

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.method for cell in self.cells))

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(sorted({cell.share for cell in self.cells}))

    def of(self, method: str, share: float) -> tuple[Cell, ...]:
        """Return the repetitions of one method at one share."""
        return tuple(c for c in self.cells if c.method == method and c.share == share)

    def values(self, method: str, share: float, what: str = "test") -> list[float]:
        """Return a number of each repetition, the mean over folds."""
        cells = self.of(method, share)
        return [
            float(np.mean([getattr(cell, what) for cell in cells if cell.repetition == k]))
            for k in sorted({cell.repetition for cell in cells})
        ]

    def mean(self, method: str, share: float, what: str = "test") -> float:
        """Return the mean over repetitions, NaN if there are none."""
        values = self.values(method, share, what)
        return float(np.mean(values)) if values else float("nan")

    def deviation(self, method: str, share: float, what: str = "test") -> float:
        """Return the standard deviation over repetitions, NaN of fewer than two."""
        return deviation(self.values(method, share, what))

    def counts(self, method: str, share: float) -> list[dict[str, tuple[float, float]]]:
        """Return for each repetition every test subject's right sequences, and all of them."""
        cells = self.of(method, share)
        return [
            {
                name: (float(np.trace(c)), float(np.sum(c)))
                for cell in cells
                if cell.repetition == k
                for name, c in cell.confusions.items()
            }
            for k in sorted({cell.repetition for cell in cells})
        ]

    def interval(self, method: str, share: float) -> Interval:
        """Return the accuracy over all test subjects, with an interval over them and repetitions.

        It counts sequences, not folds: with unequal subjects it is not quite `mean`.
        """
        return over_people(self.counts(method, share))

    def difference(self, method: str, other: str, share: float) -> Interval:
        """Return how far a method is ahead of another, over the same subjects and repetitions."""
        return paired(self.counts(method, share), self.counts(other, share))

    @property
    def largest_gap(self) -> float:
        """Largest difference between exact federated scores and those of the pooled rows."""
        gaps = [cell.gap for cell in self.cells if not np.isnan(cell.gap)]
        return max(gaps, default=float("nan"))


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """An experiment on several data sets, with all that is needed to run it again."""

    name: str
    settings: dict[str, Value]
    sets: tuple[SetResult, ...]
    quick: bool = False
    environment: dict[str, Value] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.sets)

    def save(self, path: Path) -> None:
        """Write the result as JSON; NaN becomes null."""
        content = plain({**asdict(self), "seconds": self.seconds})
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (_lines(content, levels=4) + "\n").encode())


def load_result(path: Path) -> StudyResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text())
    sets = tuple(_set_result(one) for one in content["sets"])
    return StudyResult(
        name=content["name"],
        settings=content["settings"],
        sets=sets,
        quick=content["quick"],
        environment=content["environment"],
    )


def merged(old: StudyResult, new: StudyResult) -> StudyResult:
    """Return the old result with the new one's sets in place of those of the same name."""
    sets = {one.name: one for one in (*old.sets, *new.sets)}
    return replace(new, sets=tuple(sets.values()))


def joined(old: SetResult, new: SetResult) -> SetResult:
    """Return two results of one set, of different folds or repetitions, as one."""
    both = _where(old) & _where(new)
    if old.name != new.name or both:
        raise ValueError(
            f"{old.name} and {new.name} share (fold, repetition) {sorted(both)}; join each once"
        )
    return replace(
        old,
        cells=tuple(sorted(old.cells + new.cells, key=_place)),
        tried=tuple(sorted(old.tried + new.tried, key=_place)),
        selected=tuple(sorted(old.selected + new.selected, key=lambda one: one.fold)),
        traffic=old.traffic or new.traffic,
        remarks=old.remarks + new.remarks,
        measures=old.measures + new.measures,
        seconds=old.seconds + new.seconds,
    )


def _place(cell: Cell) -> tuple[int, int]:
    return cell.fold, cell.repetition


def _where(one: SetResult) -> set[tuple[int, int]]:
    return {_place(cell) for cell in (*one.cells, *one.tried)}


def environment() -> dict[str, Value]:
    """Return versions and the machine, as far as results may depend on them.

    >>> environment()["catchment"] == catchment.__version__
    True
    """
    packages = {}
    for name in ("numpy", "scipy", "numba", "optuna"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    return {
        "catchment": catchment.__version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **packages,
    }


def _set_result(content: dict[str, Any]) -> SetResult:
    cells, tried = (
        tuple(Cell(**{key: _number(value) for key, value in row.items()}) for row in rows)
        for rows in (content["cells"], content.get("tried", []))
    )
    return SetResult(
        **{
            **content,
            "cells": cells,
            "tried": tried,
            "selected": _rows(Selected, content["selected"]),
            "measures": _rows(Measure, content.get("measures", ())),
            "traffic": tuple(Traffic(**row) for row in content["traffic"]),
            **{name: tuple(content[name]) for name in ("notes", "classes", "remarks")},
        }
    )


def _rows(kind: type[R], rows: Iterable[dict[str, Any]]) -> tuple[R, ...]:
    """Return saved rows as values; a number that was NaN is null on the disk."""
    numbers = ("train", "validation", "value")
    return tuple(
        kind(**{key: _number(item) if key in numbers else item for key, item in row.items()})
        for row in rows
    )


def _lines(value: Value, *, levels: int) -> str:
    """Return JSON with an entry per line down to a level: a cell is one line, not hundreds."""
    if not levels or not value or not isinstance(value, (dict, list)):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, dict):
        entries = [f"{json.dumps(k)}: {_lines(v, levels=levels - 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(entries) + "\n}"
    return "[\n" + ",\n".join(_lines(item, levels=levels - 1) for item in value) + "\n]"


def _number(value: object) -> Any:
    return float("nan") if value is None else value


def plain(value: object) -> Value:
    """Return a value as JSON has it: NaN is None, a tuple a list, a float of ten digits.

    >>> plain({"shares": (0.5, 1.0), "gap": float("nan")})
    {'shares': [0.5, 1.0], 'gap': None}
    """
    match value:
        case float() if not np.isfinite(value):
            return None
        case float():
            return float(f"{value:.10g}")
        case None | bool() | int() | str():
            return value
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case tuple() | list():
            return [plain(item) for item in value]
    raise TypeError(f"a result cannot hold a {type(value).__name__}")
