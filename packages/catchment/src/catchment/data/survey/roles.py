"""Which column is what: named by the user, or guessed from its name and its values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from catchment.data.survey.column_facts import ColumnFacts

ClientBy = Literal["column", "file", "folder"]
Facts = Mapping[str, ColumnFacts]

_TIMES = """
t time timestamp timestamps seconds second secs sec s datetime date ts clock epoch ms ns
milliseconds nanoseconds time_s time_ms time_ns elapsed unix utc
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


def near(name: str, known: Sequence[str]) -> str | None:
    """Return the name that was probably meant.

    >>> near("activty", ["t", "activity"]), near("Activity", ["activity"]), near("x", ["time"])
    ('activity', 'activity', None)
    """
    folded = {other.casefold().strip(): other for other in known}
    if name.casefold().strip() in folded:
        return folded[name.casefold().strip()]
    found = get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.5)
    return folded[found[0]] if found else None


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
    if facts.kind == "times":
        return True
    return facts.kind == "numbers" and facts.odd is None and facts.rising > 0.5


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
        rare = len(having) * 2 <= len(tables)
        reason = f"only {len(having)} of {len(tables)} files have it" if rare else ""
        unused[name] = reason or _no_signal(name, filled)
        if not unused[name]:
            del unused[name]
            inputs.append(name)
    return tuple(inputs), unused


def _no_signal(name: str, filled: Sequence[ColumnFacts]) -> str:
    """Return why a column of numbers is no signal; nothing if it may be one."""
    if not filled:
        return "it is empty"
    if all(facts.counter for facts in filled) and (
        _plain(name) in _COUNTERS.split()
        or name.startswith("Unnamed")
        or _plain(name) in _TIMES.split()
    ):
        return "it counts rows"
    if all(facts.constant for facts in filled):
        same = len({facts.distinct for facts in filled}) == 1
        return "it never changes" if same else "it never changes within a file"
    return ""
