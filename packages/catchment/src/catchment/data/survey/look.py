"""The survey of files: each is opened by itself, all are compared, and what was found is said."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data.files import Table, find_files, label_texts, targets_change
from catchment.data.frames import listed, times_of
from catchment.data.recording import Recording
from catchment.data.survey.roles import ClientBy, Facts, Roles, facts_of, guessed
from catchment.data.tables import read_columns
from catchment.errors import SettingError, near

SAME_RATE = 0.05  # rates that differ by less are one
MOST_WARNINGS, MOST_CHANNELS, MOST_NAMED = 12, 6, 4
FEW_PEOPLE, FEW_ROWS = 5, 10
OTHER_UNIT = 20.0  # times the usual deviation
MARK = 50.0  # times what 99 of 100 values stay below


@dataclass(frozen=True)
class Problem:
    """A file that cannot be used as it is: what is wrong, and what to do."""

    file: Path
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file.name}: {self.reason}; {self.remedy}"


@dataclass(frozen=True, eq=False)
class SeenRecording:
    """One recording, in figures; times are seconds, None without any."""

    file: Path
    steps: int
    interval: float | None  # the median time from row to row
    longest: float | None  # the longest one
    segments: tuple[int, ...]  # rows in a row with one label
    labels: Mapping[str, int]  # rows by label
    unlabeled: int  # rows without a label or target
    mean: Array  # (I,) of each channel, NaN without any
    deviation: Array


@dataclass(frozen=True, eq=False)
class SeenClient:
    """One person or machine: its recordings, and figures of each channel (I,), NaN without any."""

    name: str
    recordings: tuple[SeenRecording, ...]
    steps: int  # rows in all
    labels: Mapping[str, int]  # rows by label
    unlabeled: int  # rows without a label or target
    missing: int  # inputs that are
    n: Array  # values
    deviation: Array
    low: Array
    high: Array
    usual: Array  # what 99 of 100 values stay below


def _seen_client(name: str, held: Sequence[tuple[Path, Recording]]) -> SeenClient:
    seen = tuple(_seen(path, one) for path, one in held)
    labels: Counter[str] = Counter()
    for one in seen:
        labels.update(one.labels)
    u = np.concatenate([one.u for _, one in held])
    known = ~np.isnan(u)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # an empty channel
        figures = np.nanstd(u, axis=0), np.nanmin(u, axis=0), np.nanmax(u, axis=0)
        few = np.abs(u[:: max(1, len(u) // 20_000)])
        usual = np.nanquantile(few, 0.99, axis=0)
    n_missing, unlabeled = int((~known).sum()), sum(one.unlabeled for one in seen)
    n = known.sum(axis=0).astype(float)
    return SeenClient(name, seen, len(u), labels, unlabeled, n_missing, n, *figures, usual)


def _seen(path: Path, one: Recording) -> SeenRecording:
    gaps = np.diff(one.times) if one.times is not None and one.n_steps > 1 else None
    interval = None if gaps is None else float(np.median(gaps))
    longest = None if gaps is None else float(gaps.max())
    labels: dict[str, int] = {}
    segments: tuple[int, ...] = ()
    unlabeled = 0
    if one.y is not None:
        y = one.y if one.per_step else np.repeat(one.y[None], one.n_steps, axis=0)
        known = ~np.isnan(y).any(axis=1)
        unlabeled = int((~known).sum())
        if one.classes is not None:
            codes = np.where(known, np.nan_to_num(y).argmax(axis=1), -1)
            edges = np.flatnonzero(np.diff(codes, prepend=-2, append=-2))
            segments = tuple(np.diff(edges)[codes[edges[:-1]] >= 0].tolist())
            counts = np.bincount(codes[known], minlength=len(one.classes))
            labels = {name: int(n) for name, n in zip(one.classes, counts, strict=True) if n}
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # an empty channel
        figures = np.nanmean(one.u, axis=0), np.nanstd(one.u, axis=0)
    return SeenRecording(
        path, one.n_steps, interval, longest, segments, labels, unlabeled, *figures
    )


@dataclass(frozen=True, eq=False)
class Survey:
    """What files hold, and what is wrong with some."""

    paths: tuple[Path, ...]  # all files that were looked at
    roles: Roles
    tables: Mapping[Path, Facts]  # by file that could be opened
    clients: tuple[SeenClient, ...]  # everyone in the files that can be used, by name
    problems: tuple[Problem, ...]  # files that cannot be used, with the reason and the remedy
    unsorted: tuple[str, ...]  # names of files whose times are
    classes: tuple[str, ...] | None = None  # the labels that occur
    per_step: bool = False  # whether what is predicted changes within a recording

    @property
    def numeric_classes(self) -> bool:
        """Whether labels are integers in all files that have rows."""
        having = [table for table in self.tables.values() if any(one.n for one in table.values())]
        labels = [table.get(self.roles.label or "") for table in having]
        return all(one is not None and one.kind == "numbers" and one.whole for one in labels)

    @property
    def recordings(self) -> list[SeenRecording]:
        """All recordings."""
        return [one for client in self.clients for one in client.recordings]

    @property
    def n_steps(self) -> int:
        """Rows in all."""
        return sum(client.steps for client in self.clients)

    @cached_property
    def interval(self) -> float | None:
        """The commonest time from row to row in seconds; None without times."""
        weights: Counter[float] = Counter()
        for one in self.recordings:
            if one.interval:
                weights[float(f"{one.interval:.3g}")] += one.steps
        if not weights:
            return None
        common = weights.most_common(1)[0][0]
        intervals = [one.interval for one in self.recordings if one.interval]
        return float(np.median([one for one in intervals if _alike(one, common)]))

    @cached_property
    def other_rates(self) -> dict[str, float]:
        """By file whose recordings have another interval than the commonest: that interval."""
        found: dict[str, float] = {}
        for client in self.clients:
            for one in client.recordings:
                if self.interval and one.interval and not _alike(one.interval, self.interval):
                    name = one.file.name if self.roles.client is None else client.name
                    found.setdefault(name, one.interval)
        return found

    @property
    def rate(self) -> float | None:
        """Rows per second; None without times."""
        return None if self.interval is None else 1 / self.interval

    @cached_property
    def pauses(self) -> dict[str, float]:
        """By who pauses within a recording: for how many seconds."""
        found: dict[str, float] = {}
        for client in self.clients:
            for one in client.recordings:
                if one.longest and one.interval and one.longest > 20 * one.interval:
                    found[client.name] = max(one.longest, found.get(client.name, 0.0))
        return found

    @cached_property
    def offsets_differ(self) -> bool:
        """Whether recordings of one label each differ in length, and in level more than they vary.

        Where levels go with the labels they are what is to be learned.
        """
        seen = self.recordings
        steps = [one.steps for one in seen]
        if self.per_step or len(seen) < 2 * FEW_PEOPLE or max(steps) < 1.2 * min(steps):
            return False
        mean, within = (np.array([getattr(one, n) for one in seen]) for n in ("mean", "deviation"))
        labels = np.array(["".join(one.labels) for one in seen])
        far = np.nanvar(mean, axis=0)
        among = np.nansum(
            [
                np.mean(labels == name) * np.nanvar(mean[labels == name], axis=0)
                for name in set(labels)
            ],
            axis=0,
        )
        return bool(
            (np.sqrt(among) > np.nanmedian(within, axis=0)).any() and (among > far / 2).any()
        )

    @property
    def gaps(self) -> float:
        """Share of the inputs that are missing."""
        missing = sum(client.missing for client in self.clients)
        return missing / max(1, self.n_steps * len(self.roles.inputs))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What may spoil the result, most important first."""
        if not self.clients:
            return ()
        subjects = (_people, _labels, _times, _channels, _copies)
        return tuple(one for subject in subjects for one in subject(self))


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_RATE * other


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
    ('t', 10.0, ["cy.csv: column 'ax' is not numeric: it has 'fast' in row 2; mend it"])
    """
    paths = find_files(files)
    opened, problems = _opened(paths, client_by)
    tables = {one.path: {n: facts_of(v) for n, v in one.columns.items()} for one in opened}
    by: ClientBy = "column" if client is not None else client_by
    roles = Roles(tuple(listed(inputs)), label, tuple(listed(target)), client, by, recording, time)
    filled = [facts for facts in tables.values() if facts and next(iter(facts.values())).n]
    if guess or not roles.inputs:
        likely = guessed(roles, filled)
        roles = likely if guess else replace(roles, inputs=likely.inputs)
    named = None if classes is None or label is None else tuple(map(str, classes))
    occurring = named
    if named is None and label is not None:
        having = [label_texts(one.columns[label]) for one in opened if label in one.columns]
        occurring = _in_order({text for texts in having for text in texts if text is not None})
    if per_step is None:
        per_step = targets_change(opened, roles.predicted, roles.client, roles.recording)
    held: dict[str, list[tuple[Path, Recording]]] = {}
    unsorted = []
    for table in opened:
        try:
            found = _recordings(table, roles, occurring, per_step)
        except ValueError as error:
            problems.append(_problem(table.path, error))
            continue
        if roles.time is not None and roles.client is None and roles.recording is None:
            with suppress(TypeError):
                times = times_of(table.columns[roles.time], roles.time)
                unsorted += [table.path.name] * bool((times[1:] < times[:-1]).any())
        for name, own in found.items():
            held.setdefault(name, []).extend((table.path, one) for one in own)
    clients = tuple(_seen_client(name, held[name]) for name in sorted(held))
    if named is None and label is not None:
        named = _in_order({name for one in clients for name in one.labels})
    problems.sort(key=lambda problem: problem.file)
    about = (tuple(problems), tuple(unsorted), named, per_step)
    return Survey(tuple(paths), roles, tables, clients, *about)


def _opened(paths: Iterable[Path], client_by: ClientBy) -> tuple[list[Table], list[Problem]]:
    """Return the files that could be read, and what is wrong with the others."""
    opened, problems = list[Table](), list[Problem]()
    for path in paths:
        try:
            opened.append(Table(path, read_columns(path), client_by))
        except (ValueError, OSError) as error:
            problems.append(_problem(path, error))
    return opened, problems


def _problem(path: Path, error: Exception) -> Problem:
    # For somebody who has, or is about to write, a plan.
    said = error.in_plan() if isinstance(error, SettingError) else str(error)
    for before in (f"{path.name}: ", f"{path.name} cannot be read: "):
        said = said.removeprefix(before)
    reason, _, remedy = " ".join(said.split()).partition("; ")
    return Problem(path, reason, remedy or "mend it or leave it out")


def _recordings(
    table: Table, roles: Roles, classes: Sequence[str] | None, per_step: bool
) -> dict[str, list[Recording]]:
    """Return the recordings of a file by client; ValueError says why it cannot be used."""
    frame: dict[str, Any] = dict(table.columns)
    for name in roles.needed:
        if name not in frame:
            meant = near(name, [other for other in frame if other not in roles.needed])
            add = f"add the column (it has {', '.join(frame)})"
            remedy = f"rename {meant!r} to {name!r}" if meant else add
            raise ValueError(f"there is no column {name!r}; {remedy}")
    if roles.label is not None and classes is not None:
        frame[roles.label] = label_texts(frame[roles.label])
    how: dict[str, Any] = {name: getattr(roles, name) for name in ("client", "recording", "time")}
    if roles.predicted:
        how |= {"target": roles.predicted, "per_step": per_step}
        how["classes"] = None if roles.label is None else classes
    return replace(table, columns=frame).recordings(inputs=roles.inputs, **how)


def _in_order(labels: set[str]) -> tuple[str, ...]:
    """Return labels sorted, numbers by their size.

    >>> _in_order({"10", "9"}), _in_order({"b", "10"})
    (('9', '10'), ('10', 'b'))
    """
    whole = all(text.lstrip("-").isdecimal() for text in labels)
    return tuple(sorted(labels, key=int) if whole else sorted(labels))


def summary_lines(found: Survey, *, most: int = MOST_WARNINGS) -> list[str]:
    """Return one line of figures, then so many warnings at most, then files left out."""
    inputs, roles = found.roles.inputs, found.roles
    shown = ", ".join(inputs[:MOST_CHANNELS]) + (", ..." if len(inputs) > MOST_CHANNELS else "")
    by = {"file": "one per file", "folder": "one per folder", "column": f"by {roles.client!r}"}
    said = [
        _counted(len(found.paths), "file"),
        f"{_counted(len(found.clients), 'person', 'people')} ({by[roles.client_by]})",
        f"{_counted(len(inputs), 'channel')} ({shown})",
    ]
    if found.rate is not None:
        said.append(_hertz(found.rate))
    if found.classes is not None:
        said.append(f"{_counted(len(found.classes), 'class', 'classes')}")
    elif roles.target:
        said.append(f"to predict {', '.join(roles.target)}")
    figures = [", ".join(said)]
    if found.gaps:
        share = f"{100 * found.gaps:.2g} %" if found.gaps >= 1e-3 else "under 0.1 %"
        figures.append(f"{share} gaps")
    if found.problems:
        figures.append(f"{_counted(len(found.problems), 'file')} left out")
    lines = ["; ".join(figures), *(f"  ! {warning}" for warning in found.warnings[:most])]
    if len(found.warnings) > most:
        lines.append(f"  ! and {len(found.warnings) - most} more warnings")
    return [*lines, *(f"  x {problem}" for problem in found.problems)]


def _counted(n: int, what: str, many: str = "") -> str:
    """Return a number and what it counts.

    >>> _counted(1, "channel"), _counted(2, "channel"), _counted(2, "person", "people")
    ('1 channel', '2 channels', '2 people')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {many or what + 's'}"


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
    most = max(found.clients, key=lambda client: client.steps)
    if most.steps * 5 >= found.n_steps * 2 and len(found.clients) >= FEW_PEOPLE:
        share = 100 * most.steps / found.n_steps
        yield f"{most.name} has {share:.0f} % of all rows, and weighs as much in the model"
    for client in found.clients:
        if client.steps < min(usual, max(FEW_ROWS, usual / 50)):
            rows = _counted(client.steps, "row")
            yield f"{client.name} has {rows}, the others about {usual:,.0f}"
    counts = {client.name: len(client.recordings) for client in found.clients}
    median = float(np.median(list(counts.values())))
    short = [name for name, n in counts.items() if n * 4 <= median]
    if short:
        has = f"has {_counted(counts[short[0]], 'recording')}"
        yield f"{_some(short, has, 'have few recordings')}, the others about {median:.0f}"
    if len(found.clients) < FEW_PEOPLE:
        people = _counted(len(found.clients), "person", "people")
        yield f"only {people}: how well new people are served is hardly known"


def _labels(found: Survey) -> Iterator[str]:
    if found.roles.predicted:
        name = found.roles.predicted[0]
        for client in found.clients:
            if client.unlabeled == client.steps:
                yield f"{client.name} has no value in {name!r}, and counts neither way"
        some = {c.name: c.unlabeled for c in found.clients if 0 < c.unlabeled < c.steps}
        if some:
            n, who = sum(some.values()), _some(list(some))
            share = 100 * n / found.n_steps
            yield f"{n} rows of {who} have no {name} ({share:.2g} %), and do not count"
    if found.classes is None or len(found.classes) < 2:
        return
    alone = [client.name for client in found.clients if len(client.labels) == 1]
    if alone:
        yield f"{_some(alone, 'has', 'have')} one class only"
    holders = {name: [c for c in found.clients if name in c.labels] for name in found.classes}
    for name, having in holders.items():
        if len(having) == 1 and len(found.clients) > 1:
            meant = near(name, [other for other, many in holders.items() if len(many) > 1])
            typo = f"; a slip for {meant!r}?" if meant else ", and cannot be learned from others"
            (only,) = having
            yield f"only {only.name} has the class {name!r} ({only.labels[name]} rows){typo}"


def _times(found: Survey) -> Iterator[str]:
    others = found.other_rates
    if others and found.rate is not None:
        rates = sorted({float(f"{1 / one:.3g}") for one in others.values()})
        at = _some([_hertz(rate) for rate in rates])
        slower = {round(found.rate / rate, -1) for rate in rates}
        unit = ": are its times milliseconds?" if slower == {1000.0} else ""
        yield f"{_some(list(others), 'has', 'have')} {at}, the others {_hertz(found.rate)}{unit}"
    if found.unsorted:
        yield f"{_some(found.unsorted, 'has', 'have')} times out of order, which are sorted"
    pauses = found.pauses
    if pauses:
        worst = max(pauses, key=pauses.__getitem__)
        most = "for" if len(pauses) == 1 else f"{worst} for"
        who = _some(list(pauses), "pauses", "pause")
        yield f"{who} within a recording, {most} {length(pauses[worst])}"
    if found.roles.time is None:
        yield "no column of times was found, so that nothing is known of rates and pauses (--time)"


def _channels(found: Survey) -> Iterator[str]:
    names = found.roles.inputs
    for k, name in enumerate(names):
        silent = [client.name for client in found.clients if not client.n[k]]
        still = [client.name for client in found.clients if client.deviation[k] == 0]
        if silent:
            yield f"{name} is empty for {_some(silent)}"
        if still and len(still) == len(found.clients) - len(silent):
            yield f"{name} is constant within every client: leave it out with --inputs"
        elif still:
            yield f"{name} never changes for {_some(still)}"
    yield from _other_units(found)
    for client in found.clients:
        for k, name in enumerate(names):
            far = client.low[k] if -client.low[k] > client.high[k] else client.high[k]
            usual = client.usual[k]
            if abs(far) > max(MARK * usual, 100) and usual > 0:
                yield (
                    f"{name} of {client.name} has {far:g}, most stay below {usual:.3g}: "
                    "a mark for a missing value?"
                )
            elif abs(far) > 1e9:
                yield f"{name} of {client.name} reaches {far:.3g}: is it a signal? (--inputs)"
    for name, reason in found.roles.unused.items():
        yield f"column {name!r} is not used: {reason} (--inputs overrules)"


def _other_units(found: Survey) -> Iterator[str]:
    """Yield who has channels of quite another size than the others."""
    if len(found.clients) < 3:
        return
    deviation = np.array([client.deviation for client in found.clients])
    known = np.where(deviation > 0, deviation, np.nan)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # an empty channel
        ratio = known / np.nanmedian(known, axis=0)
    for client, own in zip(found.clients, ratio, strict=True):
        for more, size in (("more", own), ("less", 1 / own)):
            far = np.flatnonzero(size > OTHER_UNIT)
            names = [found.roles.inputs[k] for k in far]
            if names:
                times = f"{np.median(size[far]):,.0f} times {more} than the others': other units?"
                vary = "varies" if len(names) == 1 else "vary"
                yield f"{_some(names)} of {client.name} {vary} {times}"


def _copies(found: Survey) -> Iterator[str]:
    """Yield which files have the same content, empty ones aside."""
    by_size: dict[int, list[Path]] = {}
    groups: dict[str, list[str]] = {}
    for path in found.paths:
        by_size.setdefault(path.stat().st_size, []).append(path)
    for size, paths in by_size.items():
        for path in paths if size and len(paths) > 1 else ():
            groups.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), []).append(path.name)
    for names in groups.values():
        if len(names) > 1:
            yield f"{_some(names)} have the same content: delete all but one"


def _hertz(rate: float) -> str:
    """Return a rate in words: rows per second, or the time between them where it is long.

    >>> _hertz(50.0), _hertz(44_100.0), _hertz(1 / 3600)
    ('50 Hz', '44,100 Hz', 'a row every 1 h')
    """
    if rate >= 1000:
        return f"{rate:,.0f} Hz"
    return f"{rate:.3g} Hz" if rate >= 0.5 else f"a row every {length(1 / rate)}"


def length(seconds: float) -> str:
    """Return a duration in words.

    >>> length(2.5), length(90.0), length(7200.0)
    ('2.5 s', '1.5 min', '2 h')
    """
    for most, unit, size in ((90, "s", 1), (3600, "min", 60), (172_800, "h", 3600)):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"
