"""What one file holds, once it is known which column is what; or why it cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.data.frames import from_frame, missing_values
from catchment.data.recording import Recording
from catchment.data.survey.column_facts import ColumnFacts
from catchment.data.survey.roles import Roles, near
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
