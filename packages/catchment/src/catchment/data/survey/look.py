"""The survey of files: each is opened by itself, then all are compared."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from pathlib import Path

import numpy as np

from catchment.data.files import find_files
from catchment.data.survey.column_facts import facts_of
from catchment.data.survey.one_file import (
    Columns,
    Problem,
    SeenChannels,
    SeenFile,
    SeenRecording,
    changes_within,
    label_texts,
    look_at,
)
from catchment.data.survey.roles import ClientBy, Facts, Roles, guessed
from catchment.data.tables import read_columns

_SAME_RATE = 0.05  # rates that differ by less are one


@dataclass(frozen=True, eq=False)
class SeenClient:
    """One person or machine: its recordings and the figures of its channels."""

    name: str
    recordings: tuple[SeenRecording, ...]
    channels: SeenChannels

    @property
    def steps(self) -> int:
        """Rows in all."""
        return sum(one.steps for one in self.recordings)

    @property
    def labels(self) -> Counter[str]:
        """Rows by label."""
        return reduce(add, (Counter(one.labels) for one in self.recordings), Counter())

    @property
    def unlabelled(self) -> int:
        """Rows without a label or target."""
        return sum(one.unlabelled for one in self.recordings)


@dataclass(frozen=True, eq=False)
class Survey:
    """What files hold, and what is wrong with some.

    Parameters
    ----------
    paths
        All files that were looked at.
    roles
        Which column is what.
    tables
        By file that could be opened: what its columns are like.
    files
        Those that can be used.
    problems
        Those that cannot, with the reason and the remedy.
    classes
        The labels that occur.
    per_step
        Whether what is predicted changes within a recording.
    numeric_classes
        Whether labels are whole numbers in all files.
    kinds
        By file: what separates its fields, and whether it has decimal commas.
    same
        Files with the same content.
    """

    paths: tuple[Path, ...]
    roles: Roles
    tables: Mapping[Path, Facts]
    files: tuple[SeenFile, ...]
    problems: tuple[Problem, ...]
    classes: tuple[str, ...] | None = None
    per_step: bool = False
    numeric_classes: bool = False
    kinds: Mapping[Path, str] = field(default_factory=dict)
    same: tuple[tuple[Path, ...], ...] = ()

    @cached_property
    def clients(self) -> tuple[SeenClient, ...]:
        """Everyone in the files that can be used, by name."""
        recordings: dict[str, list[SeenRecording]] = {}
        channels: dict[str, SeenChannels] = {}
        for file in self.files:
            for one in file.recordings:
                recordings.setdefault(one.client, []).append(one)
            for name, seen in file.channels.items():
                channels[name] = channels[name] + seen if name in channels else seen
        return tuple(
            SeenClient(name, tuple(recordings[name]), channels[name]) for name in sorted(recordings)
        )

    @property
    def recordings(self) -> Iterator[SeenRecording]:
        """All recordings."""
        return (one for client in self.clients for one in client.recordings)

    @property
    def n_steps(self) -> int:
        """Rows in all."""
        return sum(client.steps for client in self.clients)

    @cached_property
    def interval(self) -> float | None:
        """The commonest time from row to row, in the unit of the column; None without times."""
        weights: Counter[float] = Counter()
        for one in self.recordings:
            if one.interval:
                weights[float(f"{one.interval:.3g}")] += one.steps
        if not weights:
            return None
        common = weights.most_common(1)[0][0]
        near = [
            one.interval for one in self.recordings if one.interval and alike(one.interval, common)
        ]
        return float(np.median(near))

    @cached_property
    def other_rates(self) -> dict[str, float]:
        """By file whose recordings have another interval than the commonest: that interval."""
        found: dict[str, float] = {}
        for one in self.recordings:
            if self.interval and one.interval and not alike(one.interval, self.interval):
                name = one.file.name if self.roles.client is None else one.client
                found.setdefault(name, one.interval)
        return found

    @cached_property
    def unit(self) -> float:
        """Seconds that one unit of the time column has, as far as its numbers tell."""
        return _unit(self)

    @property
    def rate(self) -> float | None:
        """Rows per second; None without times."""
        return None if self.interval is None else 1 / (self.interval * self.unit)

    @property
    def gaps(self) -> float:
        """Share of the inputs that are missing."""
        missing = sum(client.channels.missing for client in self.clients)
        return missing / max(1, self.n_steps * len(self.roles.inputs))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What may spoil the result, most important first."""
        from catchment.data.survey.remarks import warnings_of

        return tuple(warnings_of(self))


def alike(one: float, other: float) -> bool:
    """Return whether two intervals are the same to a twentieth.

    >>> alike(0.02, 0.0201), alike(0.02, 0.04)
    (True, False)
    """
    return abs(one - other) <= _SAME_RATE * other


def survey(
    files: str | Path | Iterable[str | Path],
    *,
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    client: str | None = None,
    recording: str | None = None,
    time: str | None = None,
    inputs: str | Sequence[str] | None = None,
    classes: Sequence[object] | None = None,
    per_step: bool | None = None,
    client_by: ClientBy = "file",
    guess: bool = False,
) -> Survey:
    """Return what files hold; each is opened by itself, so that a bad one does not hide the others.

    Parameters
    ----------
    files, label, target, client, recording, time, inputs, per_step
        As for `read`.
    classes
        The labels that may occur; those that occur, if not given.
    client_by
        What tells people apart where no column does: the "file", or the "folder" it is in.
    guess
        Whether to guess the columns of time, client and recording where they are not named, and
        to leave out inputs that are no signals.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("ann", "bob"):
    ...         _ = Path(folder, f"{name}.csv").write_text("t,ax\\n0.0,1.5\\n0.1,1.7\\n")
    ...     _ = Path(folder, "cy.csv").write_text("t,ax\\n0.0,1.5\\n0.1,fast\\n0.2,1.0\\n")
    ...     found = survey(folder, guess=True)
    >>> found.roles.time, found.rate, [str(problem) for problem in found.problems]
    ... # doctest: +NORMALIZE_WHITESPACE
    ('t', 10.0, ["cy.csv has 'fast' in column 'ax', row 2, where numbers are expected; write a
    number there, or leave the cell empty, which is a gap"])
    """
    paths = find_files(files)
    opened, problems = _opened(paths)
    tables = {
        path: {name: facts_of(values) for name, values in columns.items()}
        for path, columns in opened.items()
    }
    by: ClientBy = "column" if client is not None else client_by
    given = Roles(_listed(inputs), label, _listed(target), client, by, recording, time)
    filled = [table for table in tables.values() if table and next(iter(table.values())).n]
    roles = guessed(given, filled) if guess or not given.inputs else given
    if not guess:
        roles = Roles(roles.inputs, label, given.target, client, by, recording, time)
    named = None if classes is None else tuple(map(str, classes))
    found = named if named is not None else _classes(opened.values(), label)
    changes = per_step if per_step is not None else _changes(opened.values(), roles)
    files_seen = []
    for path, columns in opened.items():
        seen = look_at(path, columns, tables[path], roles, found, changes)
        if isinstance(seen, Problem):
            problems.append(seen)
        else:
            files_seen.append(seen)
    return Survey(
        tuple(paths),
        roles,
        tables,
        tuple(files_seen),
        tuple(sorted(problems, key=lambda problem: problem.file)),
        _occurring(files_seen, named) if label is not None else None,
        changes,
        label is not None and all(_is_whole(table, label) for table in filled),
        {path: _kind(path) for path in paths},
        _same(paths),
    )


def _opened(paths: Sequence[Path]) -> tuple[dict[Path, Columns], list[Problem]]:
    """Return the columns of the files that can be read, and what is wrong with the others."""
    opened: dict[Path, Columns] = {}
    problems = []
    for path in paths:
        try:
            opened[path] = read_columns(path)
        except (ValueError, OSError) as error:
            problems.append(_unreadable(path, error))
    return opened, problems


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def _unreadable(path: Path, error: Exception) -> Problem:
    said = str(error).removeprefix(f"{path.name} ").removeprefix("cannot be read: ")
    if path.stat().st_size == 0 or "mpty" in said:
        return Problem(path, "is empty", "record it again, or delete it")
    header, row = _first_lines(path)
    if header.count(b",") < row.count(b",") and b";" not in header:
        return Problem(
            path,
            f"has {row.count(b',') + 1} fields in a row and {header.count(b',') + 1} in the header",
            "if numbers have decimal commas, save it with semicolons between the fields",
        )
    reason = " ".join(said.split())
    return Problem(path, f"cannot be read ({reason})", "save it again as CSV with one header line")


def _first_lines(path: Path) -> tuple[bytes, bytes]:
    with path.open("rb") as file:
        return file.readline(1 << 16), file.readline(1 << 16)


def _classes(tables: Iterable[Columns], label: str | None) -> tuple[str, ...] | None:
    if label is None:
        return None
    found: set[str] = set()
    for columns in tables:
        if label in columns:
            found.update(text for text in label_texts(columns[label]).tolist() if text is not None)
    return in_order(found)


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels sorted, numbers by their size.

    >>> in_order(["10", "9"]), in_order(["b", "10"])
    (('9', '10'), ('10', 'b'))
    """
    every = list(labels)
    whole = all(text.lstrip("-").isdecimal() for text in every)
    return tuple(sorted(every, key=int) if whole else sorted(every))


def _occurring(files: Sequence[SeenFile], named: tuple[str, ...] | None) -> tuple[str, ...]:
    if named is not None:
        return named
    return in_order({name for file in files for one in file.recordings for name in one.labels})


def _changes(tables: Iterable[Columns], roles: Roles) -> bool:
    return any(changes_within(columns, roles) for columns in tables)


def _is_whole(table: Facts, label: str) -> bool:
    return label in table and table[label].kind == "numbers" and table[label].whole


def _kind(path: Path) -> str:
    """Return what separates the fields of a text file, as its first lines show."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return path.suffix.lower().lstrip(".")
    with path.open("rb") as file:
        head, _, rest = file.read(4096).partition(b"\n")
    counts = {name: head.count(mark) for name, mark in _MARKS.items()}
    most = max(counts, key=counts.__getitem__)
    comma = most != "commas" and any(
        part[:1].isdigit() and before[-1:].isdigit()
        for before, _, part in (cell.partition(b",") for cell in rest.split())
    )
    return f"{most}, decimal commas" if comma else most


_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "nanoseconds": 1e-9, "milliseconds": 1e-3}
_MARKS = {"commas": b",", "semicolons": b";", "tabs": b"\t"}


def _same(paths: Sequence[Path]) -> tuple[tuple[Path, ...], ...]:
    """Return groups of files with the same content, empty ones aside."""
    by_size: dict[int, list[Path]] = {}
    for path in paths:
        by_size.setdefault(path.stat().st_size, []).append(path)
    groups: dict[str, list[Path]] = {}
    for size, candidates in by_size.items():
        if size and len(candidates) > 1:
            for path in candidates:
                groups.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), []).append(path)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _unit(found: Survey) -> float:
    """Return the seconds of one unit: 1, or less where numbers are plainly of another unit."""
    name, interval = found.roles.time, found.interval
    if name is None or interval is None:
        return 1.0
    numbers = any(
        name in table and table[name].kind == "numbers" for table in found.tables.values()
    )
    if not numbers:
        return 1.0
    plain = name.casefold()
    for word, seconds in _UNITS.items():
        if plain == word or plain.endswith((f"_{word}", f"({word})", f"[{word}]")):
            return seconds
    # Clocks that count from 1970 on tell by their size.
    latest = max(table[name].high for table in found.tables.values() if name in table)
    for least, seconds in ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3)):
        if latest > least:
            return seconds
    return 1.0
