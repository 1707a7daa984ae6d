"""The survey of files: each is opened by itself, then all are compared."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.data.files import find_files
from catchment.data.frames import from_frame, missing_values
from catchment.data.recording import Recording
from catchment.data.survey.roles import ClientBy, ColumnFacts, Facts, Roles, facts_of, guessed, near
from catchment.data.tables import read_columns
from catchment.errors import SettingError

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Problem:
    """A file that cannot be used as it is: what is wrong, and what to do."""

    file: Path
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file.name} {self.reason}; {self.remedy}"


@dataclass(frozen=True, eq=False)
class SeenRecording:
    """One recording, in figures.

    Parameters
    ----------
    steps
        How many rows.
    seconds
        From the first to the last, in the unit of the time column; None without times.
    interval
        The median time from row to row.
    longest
        The longest time from row to row.
    stretches
        Rows in a row with one label.
    labels
        Rows by label.
    unlabelled
        Rows without a label or target.
    """

    client: str
    file: Path
    steps: int
    seconds: float | None
    interval: float | None
    longest: float | None
    stretches: tuple[int, ...]
    labels: Mapping[str, int]
    unlabelled: int


@dataclass(frozen=True, eq=False)
class SeenChannels:
    """The inputs of one client in one file, by channel (I,): sums, extremes and gaps."""

    n: Array
    total: Array
    squares: Array
    low: Array
    high: Array
    usual: Array
    missing: int

    def __add__(self, other: SeenChannels) -> SeenChannels:
        return SeenChannels(
            self.n + other.n,
            self.total + other.total,
            self.squares + other.squares,
            np.fmin(self.low, other.low),
            np.fmax(self.high, other.high),
            np.fmax(self.usual, other.usual),
            self.missing + other.missing,
        )

    @property
    def deviation(self) -> Array:
        """Standard deviation (I,), NaN where there are no values."""
        n = np.where(self.n > 0, self.n, np.nan)
        variance = self.squares / n - (self.total / n) ** 2
        deviation: Array = np.sqrt(np.maximum(variance, 0.0))
        return deviation


@dataclass(frozen=True, eq=False)
class SeenFile:
    """What one file holds."""

    path: Path
    recordings: tuple[SeenRecording, ...]
    channels: Mapping[str, SeenChannels]
    unsorted: bool


def look_at(
    path: Path,
    columns: Columns,
    facts: Mapping[str, ColumnFacts],
    roles: Roles,
    classes: Sequence[str] | None,
    per_step: bool,
) -> SeenFile | Problem:
    """Return what a file holds, or what is wrong with it."""
    wrong = _wrong_column(path, facts, roles) or _wrong_value(path, columns, roles)
    if wrong is None and roles.label is not None and classes is not None:
        wrong = _wrong_label(path, columns, roles.label, classes)
    if wrong is not None:
        return wrong
    frame: dict[str, Any] = dict(columns)
    if roles.label is not None:
        frame[roles.label] = label_texts(columns[roles.label])
    unsorted = _is_unsorted(columns, roles)
    try:
        found = from_frame(
            frame,
            inputs=roles.inputs,
            target=roles.predicted or None,
            client=roles.client,
            recording=roles.recording,
            time=roles.time,
            classes=classes if roles.label is not None else None,
            per_step=per_step if roles.predicted else None,
        )
    except ValueError as error:
        # A survey is for somebody who has, or is about to write, a plan.
        said = error.in_plan() if isinstance(error, SettingError) else str(error)
        return _refused(path, said, roles)
    held = {_client(name, path, roles): one for name, one in found.items()}
    recordings = [_seen(name, path, one) for name, every in held.items() for one in every]
    channels = {name: _channels(every) for name, every in held.items()}
    return SeenFile(path, tuple(recordings), channels, unsorted)


def label_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return labels as text, None where missing; 1.0 is the label 1.

    >>> label_texts(np.array([1.0, np.nan, 2.0])).tolist()
    ['1', None, '2']
    """
    missing = missing_values(values)
    known = values[~missing]
    if values.dtype.kind == "f" and (known == np.floor(known)).all():
        known = known.astype(np.int64)
    texts = np.empty(len(values), dtype=object)
    texts[~missing] = [str(value) for value in known.tolist()]
    return texts


def changes_within(columns: Columns, roles: Roles) -> bool:
    """Return whether what is predicted changes within a recording of a file."""
    named = [name for name in (roles.client, roles.recording) if name is not None]
    keys = [columns[name].astype(str) for name in named if name in columns]
    groups = np.zeros(len(next(iter(columns.values()))), dtype=np.int64)
    for key in keys:
        codes = np.unique(key, return_inverse=True)[1]
        groups = groups * (int(codes.max(initial=0)) + 1) + codes
    for name in roles.predicted:
        if name not in columns:
            continue
        known = ~missing_values(columns[name])
        values = np.unique(columns[name][known].astype(str), return_inverse=True)[1]
        pairs = np.unique(np.stack([groups[known], values]), axis=1)
        if len(np.unique(pairs[0])) < pairs.shape[1]:
            return True
    return False


def client_name(path: Path, roles: Roles) -> str:
    """Return whom a file belongs to, where no column says it."""
    if roles.client_by == "folder":
        return path.resolve().parent.name
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def _client(name: str, path: Path, roles: Roles) -> str:
    return name if roles.client is not None else client_name(path, roles)


def _wrong_column(path: Path, facts: Mapping[str, ColumnFacts], roles: Roles) -> Problem | None:
    for name in roles.needed:
        if name not in facts:
            meant = near(name, [other for other in facts if other not in roles.needed])
            has = f"it has {', '.join(facts)}"
            remedy = f"rename {meant!r} to {name!r}" if meant else f"add the column ({has})"
            return Problem(path, f"has no column {name!r}", remedy)
    if not next(iter(facts.values())).n:
        return Problem(path, "has no rows", "add some, or delete it")
    for name in (*roles.inputs, *roles.target):
        found = facts[name]
        if found.odd is not None:
            text, row = found.odd
            return Problem(
                path,
                f"has {text!r} in column {name!r}, row {row}, where numbers are expected",
                "write a number there, or leave the cell empty, which is a gap",
            )
        if found.kind in ("text", "times"):
            what = "text" if found.kind == "text" else "times"
            return Problem(
                path,
                f"has {what} in column {name!r}, where numbers are expected",
                "write numbers, or leave the cells empty, which are gaps",
            )
    return None


def _wrong_value(path: Path, columns: Columns, roles: Roles) -> Problem | None:
    for name in (*roles.inputs, *roles.target):
        values = columns[name]
        if values.dtype.kind != "f":
            continue
        infinite = np.flatnonzero(np.isinf(values) | (np.abs(values) > 1e100))
        if len(infinite):
            return Problem(
                path,
                f"has {values[infinite[0]]:g} in column {name!r}, row {infinite[0] + 1}",
                "leave the cell empty, which is a gap",
            )
    for key in (roles.time, roles.client, roles.recording):
        if key is None:
            continue
        missing = np.flatnonzero(missing_values(columns[key]))
        if len(missing):
            return Problem(
                path,
                f"has no value in column {key!r}, row {missing[0] + 1}",
                "fill it in, or delete the row",
            )
    return None


def _wrong_label(
    path: Path, columns: Columns, label: str, classes: Sequence[str]
) -> Problem | None:
    texts = label_texts(columns[label])
    unknown = sorted({text for text in texts.tolist() if text is not None} - set(classes))
    if not unknown:
        return None
    meant = near(unknown[0], list(classes))
    remedy = f"write {meant!r}" if meant else f"choose from {', '.join(classes)}"
    return Problem(
        path,
        f"has the label {unknown[0]!r}, which is not among the classes",
        f"{remedy}, or add it to classes in [data]",
    )


def _refused(path: Path, said: str, roles: Roles) -> Problem:
    """Return the problem that reading the file met, with a remedy of the files."""
    reason, _, remedy = said.removeprefix("client 'all': ").partition("; ")
    if "occurs twice" in reason:
        named = "" if roles.recording else ", or name the column of recordings with --recording"
        return Problem(path, f"has a repeated time ({reason})", f"keep one row per time{named}")
    return Problem(path, f"cannot be used: {reason}", remedy or "mend it or leave it out")


def _is_unsorted(columns: Columns, roles: Roles) -> bool:
    if roles.time is None or roles.client is not None or roles.recording is not None:
        return False
    times = columns[roles.time]
    try:
        return bool((times[1:] < times[:-1]).any())
    except TypeError:
        return False


def _seen(client: str, path: Path, one: Recording) -> SeenRecording:
    gaps = np.diff(one.times) if one.times is not None and one.n_steps > 1 else None
    labels: dict[str, int] = {}
    stretches: tuple[int, ...] = ()
    unlabelled = 0
    if one.y is not None:
        y = one.y if one.per_step else np.repeat(one.y[None], one.n_steps, axis=0)
        known = ~np.isnan(y).any(axis=1)
        unlabelled = int((~known).sum())
        if one.classes is not None:
            codes = np.where(known, np.nan_to_num(y).argmax(axis=1), -1)
            edges = np.flatnonzero(np.diff(codes, prepend=-2, append=-2))
            lengths, first = np.diff(edges), codes[edges[:-1]]
            stretches = tuple(lengths[first >= 0].tolist())
            counts = np.bincount(codes[known], minlength=len(one.classes))
            labels = {name: int(n) for name, n in zip(one.classes, counts, strict=True) if n}
    return SeenRecording(
        client,
        path,
        one.n_steps,
        None if one.times is None else float(one.times[-1] - one.times[0]),
        None if gaps is None else float(np.median(gaps)),
        None if gaps is None else float(gaps.max()),
        stretches,
        labels,
        unlabelled,
    )


def _channels(every: Sequence[Recording]) -> SeenChannels:
    u = np.concatenate([one.u for one in every])
    known = ~np.isnan(u)
    zeros = np.where(known, u, 0.0)
    n = known.sum(axis=0).astype(float)
    # Sums around a middle value, so that squares of large numbers do not hide small deviations.
    middle = zeros.sum(axis=0) / np.maximum(n, 1.0)
    centred = np.where(known, u - middle, 0.0)
    squares = (centred**2).sum(axis=0) + n * middle**2
    silent = n == 0
    low = np.where(silent, np.nan, np.where(known, u, np.inf).min(axis=0))
    high = np.where(silent, np.nan, np.where(known, u, -np.inf).max(axis=0))
    rows = np.abs(zeros[:: max(1, len(u) // 20_000)])
    usual = np.where(silent, np.nan, np.quantile(rows, 0.99, axis=0))
    return SeenChannels(n, n * middle, squares, low, high, usual, int((~known).sum()))


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
        from catchment.data.survey.words import warnings_of

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
