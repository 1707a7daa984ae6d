"""The survey of files: each is opened by itself, all are compared, and what was found is said."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.data.files import Table, find_files, targets_change, whole_labels
from catchment.data.frames import from_frame, listed, missing_values
from catchment.data.recording import Recording
from catchment.data.survey.roles import ClientBy, ColumnFacts, Facts, Roles, facts_of, guessed, near
from catchment.data.tables import delimiter_of, read_columns
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
    """One recording, in figures; times are in the unit of their column, None without any."""

    client: str
    file: Path
    steps: int
    interval: float | None  # the median time from row to row
    longest: float | None  # the longest one
    stretches: tuple[int, ...]  # rows in a row with one label
    labels: Mapping[str, int]  # rows by label
    unlabelled: int  # rows without a label or target


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
    table: Table,
    facts: Mapping[str, ColumnFacts],
    roles: Roles,
    classes: Sequence[str] | None,
    per_step: bool,
) -> SeenFile | Problem:
    """Return what a file holds, or what is wrong with it."""
    path, columns = table.path, table.columns
    wrong = _wrong_column(path, facts, roles) or _wrong_value(path, columns, roles)
    if wrong is not None:
        return wrong
    frame: dict[str, Any] = dict(columns)
    if roles.label is not None and classes is not None:
        frame[roles.label] = texts = label_texts(columns[roles.label])
        unknown = sorted({text for text in texts if text is not None} - set(classes))
        if unknown:
            meant = near(unknown[0], list(classes))
            remedy = f"write {meant!r}" if meant else f"choose from {', '.join(classes)}"
            return Problem(
                path,
                f"has the label {unknown[0]!r}, which is not among the classes",
                f"{remedy}, or add it to classes in [data]",
            )
    unsorted = False
    if roles.time is not None and roles.client is None and roles.recording is None:
        times = columns[roles.time]
        with suppress(TypeError):
            unsorted = bool((times[1:] < times[:-1]).any())
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
        return _refused(path, error, roles)
    if roles.client is None:
        (own,) = found.values()
        found = {table.client: own}
    seen = [_seen(name, path, one) for name, every in found.items() for one in every]
    channels = {name: _channels_of(every) for name, every in found.items()}
    return SeenFile(path, tuple(seen), channels, unsorted)


def _refused(path: Path, error: ValueError, roles: Roles) -> Problem:
    """Return the problem that reading the file met, with a remedy of the files."""
    # A survey is for somebody who has, or is about to write, a plan.
    said = error.in_plan() if isinstance(error, SettingError) else str(error)
    reason, _, remedy = said.removeprefix("client 'all': ").partition("; ")
    if "occurs twice" in reason:
        named = "" if roles.recording else ", or name the column of recordings with --recording"
        return Problem(path, f"has a repeated time ({reason})", f"keep one row per time{named}")
    return Problem(path, f"cannot be used: {reason}", remedy or "mend it or leave it out")


def label_texts(values: NDArray[Any]) -> list[str | None]:
    """Return labels as text, None where missing; 1.0 is the label 1.

    >>> label_texts(np.array([1.0, np.nan, 2.0]))
    ['1', None, '2']
    """
    return [None if label is None else str(label) for label in whole_labels(values)]


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
            return Problem(
                path,
                f"has {found.kind} in column {name!r}, where numbers are expected",
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
        None if gaps is None else float(np.median(gaps)),
        None if gaps is None else float(gaps.max()),
        stretches,
        labels,
        unlabelled,
    )


def _channels_of(every: Sequence[Recording]) -> SeenChannels:
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
    """What files hold, and what is wrong with some."""

    paths: tuple[Path, ...]  # all files that were looked at
    roles: Roles
    tables: Mapping[Path, Facts]  # by file that could be opened
    files: tuple[SeenFile, ...]  # those that can be used
    problems: tuple[Problem, ...]  # those that cannot, with the reason and the remedy
    classes: tuple[str, ...] | None = None  # the labels that occur
    per_step: bool = False  # whether what is predicted changes within a recording
    kinds: Mapping[Path, str] = field(default_factory=dict)  # delimiter and decimal mark by file
    same: tuple[tuple[Path, ...], ...] = ()  # files with the same content

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
    def numeric_classes(self) -> bool:
        """Whether labels are whole numbers in all files that have rows."""
        having = [table for table in self.tables.values() if any(one.n for one in table.values())]
        labels = [table.get(self.roles.label or "") for table in having]
        return all(one is not None and one.kind == "numbers" and one.whole for one in labels)

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
        """Seconds of one unit of the time column: 1, or less where its numbers plainly say so."""
        name = self.roles.time or ""
        tables = [table[name] for table in self.tables.values() if name in table]
        if self.interval is None or all(one.kind != "numbers" for one in tables):
            return 1.0
        plain = name.casefold()
        for word, seconds in _UNITS.items():
            if plain == word or plain.endswith((f"_{word}", f"({word})", f"[{word}]")):
                return seconds
        # Clocks that count from 1970 on tell by their size.
        latest = max(one.high for one in tables)
        return next((unit for least, unit in _SINCE_1970 if latest > least), 1.0)

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
        if not self.clients:
            return ()
        subjects = (_people, _labels, _times, _channels, _files)
        return tuple(one for subject in subjects for one in subject(self))


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
    opened, problems = _opened(paths, client_by)
    tables = {
        table.path: {name: facts_of(values) for name, values in table.columns.items()}
        for table in opened
    }
    by: ClientBy = "column" if client is not None else client_by
    roles = Roles(tuple(listed(inputs)), label, tuple(listed(target)), client, by, recording, time)
    filled = [facts for facts in tables.values() if facts and next(iter(facts.values())).n]
    if guess:
        roles = guessed(roles, filled)
    elif not roles.inputs:
        roles = replace(roles, inputs=guessed(roles, filled).inputs)
    named = None if classes is None or label is None else tuple(map(str, classes))
    occurring = named
    if named is None and label is not None:
        having = [label_texts(one.columns[label]) for one in opened if label in one.columns]
        occurring = _in_order({text for texts in having for text in texts if text is not None})
    if per_step is None:
        per_step = targets_change(opened, roles.predicted, roles.client, roles.recording)
    looked = [look_at(one, tables[one.path], roles, occurring, per_step) for one in opened]
    seen = [one for one in looked if isinstance(one, SeenFile)]
    problems += [one for one in looked if isinstance(one, Problem)]
    if named is None and label is not None:
        named = _in_order({name for file in seen for one in file.recordings for name in one.labels})
    return Survey(
        tuple(paths),
        roles,
        tables,
        tuple(seen),
        tuple(sorted(problems, key=lambda problem: problem.file)),
        named,
        per_step,
        {path: _kind(path) for path in paths},
        _same(paths),
    )


def _opened(paths: Sequence[Path], client_by: str) -> tuple[list[Table], list[Problem]]:
    """Return the files that can be read, and what is wrong with the others."""
    opened: list[Table] = []
    problems = []
    for path in paths:
        try:
            opened.append(Table(path, read_columns(path), client_by))
        except (ValueError, OSError) as error:
            problems.append(_unreadable(path, error))
    return opened, problems


def _unreadable(path: Path, error: Exception) -> Problem:
    said = str(error).removeprefix(f"{path.name} ").removeprefix("cannot be read: ")
    if path.stat().st_size == 0 or "mpty" in said:
        return Problem(path, "is empty", "record it again, or delete it")
    with path.open("rb") as file:
        header, row = file.readline(1 << 16), file.readline(1 << 16)
    if header.count(b",") < row.count(b",") and b";" not in header:
        return Problem(
            path,
            f"has {row.count(b',') + 1} fields in a row and {header.count(b',') + 1} in the header",
            "if numbers have decimal commas, save it with semicolons between the fields",
        )
    reason = " ".join(said.split())
    return Problem(path, f"cannot be read ({reason})", "save it again as CSV with one header line")


def _in_order(labels: set[str]) -> tuple[str, ...]:
    """Return labels sorted, numbers by their size.

    >>> _in_order({"10", "9"}), _in_order({"b", "10"})
    (('9', '10'), ('10', 'b'))
    """
    whole = all(text.lstrip("-").isdecimal() for text in labels)
    return tuple(sorted(labels, key=int) if whole else sorted(labels))


def _kind(path: Path) -> str:
    """Return what separates the fields of a text file, as its first lines show."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return path.suffix.lower().lstrip(".")
    with path.open("rb") as file:
        head = file.read(4096)
    delimiter = delimiter_of(head)
    comma = delimiter != "," and re.search(rb"\d,\d", head) is not None
    return f"{_MARKS[delimiter]}, decimal commas" if comma else _MARKS[delimiter]


_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "nanoseconds": 1e-9, "milliseconds": 1e-3}
_SINCE_1970 = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs"}


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


MOST_WARNINGS = 12
MOST_CHANNELS = 6


def summary_lines(found: Survey, *, most: int = MOST_WARNINGS) -> list[str]:
    """Return what a survey found: one line of figures, then warnings, then files left out.

    Parameters
    ----------
    most
        Show so many warnings, and say how many more there are.
    """
    lines = [_figures(found)]
    lines += [f"  ! {warning}" for warning in found.warnings[:most]]
    if len(found.warnings) > most:
        lines.append(f"  ! and {len(found.warnings) - most} more warnings")
    lines += [f"  x {problem}" for problem in found.problems]
    return lines


def counted(n: int, what: str, many: str = "") -> str:
    """Return a number and what it counts.

    >>> counted(1, "channel"), counted(2, "channel"), counted(2, "person", "people")
    ('1 channel', '2 channels', '2 people')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {many or what + 's'}"


def _figures(found: Survey) -> str:
    inputs, roles = found.roles.inputs, found.roles
    shown = ", ".join(inputs[:MOST_CHANNELS]) + (", ..." if len(inputs) > MOST_CHANNELS else "")
    by = {"file": "one per file", "folder": "one per folder", "column": f"by {roles.client!r}"}
    said = [
        counted(len(found.paths), "file"),
        f"{counted(len(found.clients), 'person', 'people')} ({by[roles.client_by]})",
        f"{counted(len(inputs), 'channel')} ({shown})",
    ]
    if found.rate is not None:
        said.append(hertz(found.rate))
    if found.classes is not None:
        said.append(f"{counted(len(found.classes), 'class', 'classes')}")
    elif roles.target:
        said.append(f"to predict {', '.join(roles.target)}")
    rest = [f"{_percent(found.gaps)} gaps"] if found.gaps else []
    if found.problems:
        rest.append(f"{counted(len(found.problems), 'file')} left out")
    return "; ".join([", ".join(said), *rest])


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= 1e-3 else "under 0.1 %"


FEW_PEOPLE = 5
FEW_ROWS = 10
MOST_NAMED = 4
_OTHER_UNIT = 20.0  # times the usual deviation
_MARK = 50.0  # times what 99 of 100 values stay below


def _some(names: Sequence[str], one: str = "", many: str = "") -> str:
    """Return names in a sentence, not too many, and what follows one name, or many.

    >>> _some(["a", "b", "c"]), _some(["a"], "has"), _some(list("abcdef"), "has", "have")
    ('a, b and c', 'a has', 'a, b, c, d and 2 more have')
    """
    shown = list(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown.append(f"{len(names) - MOST_NAMED} more")
    said = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{said} {one if len(names) == 1 else many}".strip()


def _people(found: Survey) -> Iterator[str]:
    usual = float(np.median([client.steps for client in found.clients]))
    for client in found.clients:
        few = client.steps < max(FEW_ROWS, usual / 50)
        if few and client.steps < usual:
            rows = counted(client.steps, "row")
            yield f"{client.name} has {rows}, the others about {usual:,.0f}"
    counts = {client.name: len(client.recordings) for client in found.clients}
    median = float(np.median(list(counts.values())))
    short = [name for name, n in counts.items() if n * 4 <= median]
    if short:
        said = _some(short, f"has {counted(counts[short[0]], 'recording')}", "have few recordings")
        yield f"{said}, the others about {median:.0f}"
    if len(found.clients) < FEW_PEOPLE:
        people = counted(len(found.clients), "person", "people")
        yield f"only {people}: how well new people are served is hardly known"


def _labels(found: Survey) -> Iterator[str]:
    if found.roles.predicted:
        name = found.roles.predicted[0]
        for client in found.clients:
            if client.unlabelled == client.steps:
                yield f"{client.name} has no value in {name!r}, and counts neither way"
        some = {c.name: c.unlabelled for c in found.clients if 0 < c.unlabelled < c.steps}
        if some:
            share = 100 * sum(some.values()) / found.n_steps
            yield (
                f"{sum(some.values())} rows of {_some(list(some))} have no {name} "
                f"({share:.2g} %), and do not count"
            )
    if found.classes is None or len(found.classes) < 2:
        return
    holders: Counter[str] = Counter()
    for client in found.clients:
        holders.update(client.labels.keys())
    alone = [client.name for client in found.clients if len(client.labels) == 1]
    if alone:
        yield f"{_some(alone, 'has', 'have')} one class only"
    for name in found.classes:
        if holders[name] == 1 and len(found.clients) > 1:
            (client,) = (c for c in found.clients if name in c.labels)
            meant = near(name, [other for other in found.classes if holders[other] > 1])
            typo = f"; a slip for {meant!r}?" if meant else ", and cannot be learned from others"
            yield f"only {client.name} has the class {name!r} ({client.labels[name]} rows){typo}"


def _times(found: Survey) -> Iterator[str]:
    others = found.other_rates
    if others and found.interval is not None:
        per = found.unit
        rates = sorted({float(f"{1 / (interval * per):.3g}") for interval in others.values()})
        at = _some([hertz(rate) for rate in rates])
        who = _some(list(others), "has", "have")
        yield f"{who} {at}, the others {hertz(1 / (found.interval * per))}"
    unsorted = [file.path.name for file in found.files if file.unsorted]
    if unsorted:
        yield f"{_some(unsorted, 'has', 'have')} times out of order, which are sorted"
    pauses = {
        one.client: one.longest * found.unit
        for one in found.recordings
        if one.longest and one.interval and one.longest > 20 * one.interval
    }
    if pauses:
        worst = max(pauses, key=pauses.__getitem__)
        most = "for" if len(pauses) == 1 else f"{worst} for"
        who = _some(list(pauses), "pauses", "pause")
        yield f"{who} within a recording, {most} {length(pauses[worst])}"
    if found.roles.time is None:
        yield "no column of times was found, so that nothing is known of rates and pauses (--time)"


def _channels(found: Survey) -> Iterator[str]:
    names = found.roles.inputs
    deviation = np.array([client.channels.deviation for client in found.clients])
    for k, name in enumerate(names):
        silent = [client.name for client in found.clients if not client.channels.n[k]]
        own = zip(found.clients, deviation[:, k], strict=True)
        still = [client.name for client, d in own if d == 0]
        if silent:
            yield f"{name} is empty for {_some(silent)}"
        if still and len(still) == len(found.clients) - len(silent):
            yield f"{name} never changes within anybody's rows: leave it out by --inputs"
        elif still:
            yield f"{name} never changes for {_some(still)}"
    yield from _other_units(found, deviation)
    for client in found.clients:
        yield from _marks(client, names)
    for name, reason in found.roles.unused.items():
        yield f"column {name!r} is not used: {reason} (--inputs overrules)"


def _other_units(found: Survey, deviation: Array) -> Iterator[str]:
    """Yield who has channels of quite another size than the others."""
    if len(deviation) < 3:
        return
    known = np.where(deviation > 0, deviation, np.nan)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a channel may be empty for everybody
        ratio = known / np.nanmedian(known, axis=0)
    for client, own in zip(found.clients, ratio, strict=True):
        for more, far in (("more", own > _OTHER_UNIT), ("less", own < 1 / _OTHER_UNIT)):
            names = [name for name, one in zip(found.roles.inputs, far, strict=True) if one]
            if names:
                size = float(np.median(own[far]))
                times = size if more == "more" else 1 / size
                yield (
                    f"{_some(names)} of {client.name} {'varies' if len(names) == 1 else 'vary'} "
                    f"{times:,.0f} times {more} than the others': other units?"
                )


def _marks(client: SeenClient, names: Sequence[str]) -> Iterator[str]:
    """Yield numbers so far from all others that they may stand for missing values."""
    seen = client.channels
    for k, name in enumerate(names):
        far = max(abs(float(seen.low[k])), abs(float(seen.high[k])))
        usual = float(seen.usual[k])
        if np.isfinite(far) and usual > 0 and far > _MARK * usual and far > 100:
            value = seen.low[k] if abs(seen.low[k]) == far else seen.high[k]
            yield (
                f"{name} of {client.name} has {value:g}, most stay below {usual:.3g}: "
                "a mark for a missing value?"
            )
        elif np.isfinite(far) and far > 1e9:
            yield f"{name} of {client.name} reaches {far:.3g}: is it a signal? (--inputs)"


def _files(found: Survey) -> Iterator[str]:
    for group in found.same:
        yield f"{_some([path.name for path in group])} have the same content: delete all but one"
    kinds = Counter(found.kinds[file.path] for file in found.files)
    if len(kinds) > 1:
        common = kinds.most_common(1)[0][0]
        for kind in kinds:
            names = [file.path.name for file in found.files if found.kinds[file.path] == kind]
            if kind != common:
                yield f"{_some(names)}: written with {kind}, and read so"


def hertz(rate: float) -> str:
    """Return a rate in words: rows per second, or the time between them where it is long.

    >>> hertz(50.0), hertz(1 / 3600)
    ('50 Hz', 'a row every 1 h')
    """
    if rate >= 0.5:
        return f"{rate:.3g} Hz"
    return f"a row every {length(1 / rate)}"


def length(seconds: float) -> str:
    """Return a duration in words.

    >>> length(2.5), length(90.0), length(7200.0)
    ('2.5 s', '1.5 min', '2 h')
    """
    for most, unit, size in ((90, "s", 1), (3600, "min", 60), (172_800, "h", 3600)):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"
