"""What a column is like, and which is what: named by the user, or guessed from name and values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment.data.frames import missing_values, moment_of

MOST_CLASSES = 50  # different values that are still listed
Kind = Literal["numbers", "text", "times", "empty"]
ClientBy = Literal["column", "file", "folder"]

_TIMES = """
t time timestamp timestamps seconds second secs sec s datetime date ts clock epoch ms ns
milliseconds nanoseconds time_s time_ms time_ns elapsed unix utc when
"""
_CLIENTS = """
client person people user subject participant patient who volunteer wearer user_id userid
subject_id subjectid person_id participant_id patient_id client_id subj pid
"""
_PLACES = "device device_id machine machine_id unit unit_id site station sensor sensor_id"
_RECORDINGS = """
recording rec recording_id session session_id trial trial_id segment segment_id sequence
sequence_id seq window window_id bout episode series series_id run run_id
"""
_COUNTERS = "index idx row rownum row_number sample sample_id n nr no number count counter id"


@dataclass(frozen=True)
class ColumnFacts:
    """What one column is like, without its values."""

    kind: Kind  # of its values; text that is mostly numbers counts as numbers
    n: int  # rows
    n_missing: int = 0  # rows without a value
    distinct: tuple[Any, ...] | None = None  # its different values, if they are few
    whole: bool = False  # whether all numbers are whole
    constant: bool = False  # whether there is one value only
    rising: float = 0.0  # share of steps from one row to the next that go up, less those down
    counter: bool = False  # whether it counts the rows, from 0 or another number on

    @property
    def like_classes(self) -> bool:
        """Whether it could be a label: text or integers, of few different values."""
        if self.distinct is None or len(self.distinct) * 2 > self.n:
            return False
        return self.kind == "text" or (self.kind == "numbers" and self.whole)


def facts_of(values: NDArray[Any]) -> ColumnFacts:
    """Return what a column (n,) is like.

    >>> facts_of(np.array([0, 1, 2])).counter, facts_of(np.array(["0.5", "x", "2"], object)).kind
    (True, 'numbers')
    """
    missing = missing_values(values)
    known, n, n_missing = values[~missing], len(values), int(missing.sum())
    if not len(known):
        return ColumnFacts("empty", n, n_missing)
    moments = values.dtype.kind == "O" and not isinstance(known[0], str | bool | int | float)
    if values.dtype.kind in "mM" or moments:
        return ColumnFacts("times", n, n_missing, rising=_rising(known))
    if values.dtype.kind in "OU":
        return _of_text(known, n, n_missing)
    numbers = known.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    steps = np.diff(finite)
    return ColumnFacts(
        "numbers",
        n,
        n_missing,
        distinct=_few(known),
        whole=bool((finite == np.floor(finite)).all()),
        constant=bool((numbers == numbers[0]).all()),
        rising=_rising(finite),
        counter=n_missing == 0 and len(steps) > 1 and bool((steps == 1).all()),
    )


def _of_text(known: NDArray[Any], n: int, n_missing: int) -> ColumnFacts:
    texts = [str(value) for value in known.tolist()]
    distinct = _few(np.array(texts, dtype=object))
    if sum(map(_is_number, texts[:1000])) * 2 > len(texts[:1000]):
        return ColumnFacts("numbers", n, n_missing, distinct=distinct)
    constant = distinct is not None and len(distinct) == 1
    with suppress(ValueError):
        if all(map(moment_of, distinct or (texts[0], texts[-1]))):
            return ColumnFacts("times", n, n_missing, rising=_rising(known))
    return ColumnFacts("text", n, n_missing, distinct=distinct, constant=constant)


def _is_number(text: str) -> bool:
    """Return whether a text is a number, with a point or a comma."""
    try:
        float(text.strip().replace(",", ".", 1))
    except ValueError:
        return False
    return True


def _few(known: NDArray[Any]) -> tuple[Any, ...] | None:
    """Return the different values, sorted, or None if they are many."""
    few = set(known[:2000].tolist())
    if len(few) <= MOST_CLASSES:
        few = set(known.tolist())
    return tuple(sorted(few, key=str)) if len(few) <= MOST_CLASSES else None


def _rising(known: NDArray[Any]) -> float:
    if len(known) < 2:
        return 1.0
    try:
        return float(np.mean(known[1:] > known[:-1]) - np.mean(known[1:] < known[:-1]))
    except TypeError:
        return 0.0


Facts = Mapping[str, ColumnFacts]


@dataclass(frozen=True)
class Roles:
    """What each column is for.

    Parameters
    ----------
    client_by
        What tells people apart: a column, the file, or the folder that the file is in.
    unused
        Columns of numbers that are no inputs, and why.
    """

    inputs: tuple[str, ...] = ()
    label: str | None = None
    target: tuple[str, ...] = ()
    client: str | None = None
    client_by: ClientBy = "file"
    recording: str | None = None
    time: str | None = None
    unused: Mapping[str, str] = field(default_factory=dict)

    @property
    def predicted(self) -> tuple[str, ...]:
        """The columns that are predicted, if any are named."""
        return self.target if self.label is None else (self.label,)

    @property
    def needed(self) -> tuple[str, ...]:
        """Every column that a file must have."""
        named = (self.time, self.client, self.recording, *self.predicted, *self.inputs)
        return tuple(name for name in dict.fromkeys(named) if name is not None)


def guessed(given: Roles, tables: Sequence[Facts]) -> Roles:
    """Return the roles with those filled in that the user left open.

    Parameters
    ----------
    given
        What the user named.
    tables
        By file: what its columns are like.
    """
    taken = {*given.predicted, given.client, given.recording, given.time, *given.inputs}
    client, time, recording = given.client, given.time, given.recording
    if client is None and given.client_by == "file":
        client = _by_name(tables, _CLIENTS.split(), taken, _names_people)
    if client is None and given.client_by == "file" and len(tables) == 1:
        client = _by_name(tables, _PLACES.split(), taken, _names_people)
    if recording is None:
        recording = _by_name(tables, _RECORDINGS.split(), {*taken, client}, _names_people)
    if time is None:
        time = _by_name(tables, _TIMES.split(), {*taken, client, recording}, _tells_time)
    by: ClientBy = "column" if client is not None else given.client_by
    inputs = given.inputs
    unused: dict[str, str] = {}
    if not inputs:
        named = {*given.predicted, client, recording, time}
        inputs, unused = _inputs(tables, {name for name in named if name is not None})
    return Roles(inputs, given.label, given.target, client, by, recording, time, unused)


def common(tables: Sequence[Facts]) -> list[str]:
    """Return the columns that at least half of the files have, or all if there are none."""
    counts = Counter(name for table in tables for name in table)
    return [name for name, n in counts.items() if n * 2 >= len(tables)] or list(counts)


def could_be_label(tables: Sequence[Facts], named: Sequence[str | None] = ()) -> list[str]:
    """Return columns that could be a label, those of text first.

    Parameters
    ----------
    named
        Columns that are something else.
    """
    found: dict[str, bool] = {}
    for table in tables:
        for name, facts in table.items():
            if name not in named and facts.like_classes and not facts.counter:
                found[name] = found.get(name, False) or facts.kind == "text"
    varied = [name for name in found if len(distinct(name, tables) or ()) > 1]
    return sorted(varied, key=lambda name: (not found[name], varied.index(name)))


def distinct(name: str, tables: Sequence[Facts]) -> set[str] | None:
    """Return the different values of a column in all files, as text; None if they are many."""
    values: set[str] = set()
    for table in tables:
        if name in table and table[name].kind != "empty":
            few = table[name].distinct
            if few is None:
                return None
            values.update(map(str, few))
    return values


def _plain(name: str) -> str:
    """Return a column's name without its unit and in small letters."""
    return re.sub(r"[\s\-.]+", "_", re.sub(r"[(\[].*?[)\]]", "", name).strip().casefold())


def _by_name(
    tables: Sequence[Facts],
    names: Sequence[str],
    taken: set[str | None],
    fits: Callable[[ColumnFacts], bool],
) -> str | None:
    """Return the column that is called like one of the names in most files and fits in those."""
    known = list(dict.fromkeys(name for table in tables for name in table))
    by_plain = {_plain(name): name for name in reversed(known) if name not in taken}
    for wanted in names:
        name = by_plain.get(wanted)
        if name is None:
            continue
        having = [table[name] for table in tables if name in table]
        good = [facts for facts in having if fits(facts)]
        if len(having) * 2 > len(tables) and len(good) * 2 > len(having):
            return name
    return None


def _names_people(facts: ColumnFacts) -> bool:
    """Whether a column could name clients or recordings."""
    few = facts.distinct is not None or facts.kind == "text" or facts.whole
    return few and facts.kind in ("text", "numbers") and not facts.counter and not facts.n_missing


def _tells_time(facts: ColumnFacts) -> bool:
    numbers = facts.kind == "numbers" and facts.rising > 0.5
    return numbers or facts.kind == "times"


def _inputs(tables: Sequence[Facts], named: set[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the columns of numbers that are signals, and the others with the reason."""
    numbers: dict[str, list[ColumnFacts]] = {}
    for table in tables:
        for name, facts in table.items():
            if name and not name.startswith("__index_level_") and name not in named:
                numbers.setdefault(name, []).append(facts)
    inputs, unused = [], {}
    for name, having in numbers.items():
        filled = [facts for facts in having if facts.kind != "empty"]
        if filled and sum(facts.kind == "numbers" for facts in filled) * 2 <= len(filled):
            continue
        # A column that few files have is more likely a mistake of theirs than a signal.
        if len(having) * 2 <= len(tables):
            unused[name] = f"only {len(having)} of {len(tables)} files have it"
        elif reason := _no_signal(name, filled):
            unused[name] = reason
        else:
            inputs.append(name)
    return tuple(inputs), unused


def _no_signal(name: str, filled: Sequence[ColumnFacts]) -> str:
    """Return why a column of numbers is no signal; nothing if it may be one."""
    if not filled:
        return "it is empty"
    counts = _plain(name) in (*_COUNTERS.split(), *_TIMES.split()) or name.startswith("Unnamed")
    if counts and all(facts.counter for facts in filled):
        return "it counts rows"
    if all(facts.constant for facts in filled):
        same = len({facts.distinct for facts in filled}) == 1
        return "it never changes" if same else "it never changes within a file"
    return ""
