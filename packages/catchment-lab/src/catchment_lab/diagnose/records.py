"""How one person is served by a run's model, and why: the numbers, their words, and the table.

A run's folder keeps it for the worst client, and how often each class was taken for each by
client, which every client's score says anyway.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Integers
from catchment.federation import RunFolder
from catchment.federation.runs import DATABASE, DrawnRecording
from catchment_lab.diagnose.reasons import Evidence, PersonalTrial, Reason
from catchment_lab.diagnose.shift import ChannelShift, ClassShift, FeatureShift


@dataclass(frozen=True)
class Quantity:
    """One number of a person's recordings and the others' median."""

    name: str
    own: float
    others: float


@dataclass(frozen=True)
class WorstRecording:
    """One recording of a person by its number: what it was taken for how often, or its error."""

    number: int
    words: str
    score: float


@dataclass(frozen=True, eq=False)
class Served:
    """How one person is served, beside the others; `in_words` says it.

    Parameters
    ----------
    value, rows
        The person's score, by a model that has not learned from what it is tested on, and of how
        many rows it is.
    how
        Which model that is.
    others
        Everybody else's score, by name.
    confusion, others_confusion
        Counts (K, K), rows true classes; of the others together where they are known.
    notes
        What is not known, and why.
    """

    client: str
    metric: str
    value: float
    rows: int
    how: str
    others: Mapping[str, float] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    confusion: Integers | None = None
    others_confusion: Integers | None = None
    quantities: tuple[Quantity, ...] = ()
    channels: tuple[ChannelShift, ...] = ()
    features: FeatureShift | None = None
    classes: tuple[ClassShift, ...] = ()
    personal: PersonalTrial | None = None
    worst: tuple[WorstRecording, ...] = ()
    drawn: tuple[DrawnRecording, ...] = ()
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def evidence(self) -> Evidence:
        """The score and the others', to judge by."""
        return Evidence(self.metric, self.value, self.rows, list(self.others.values()))

    @property
    def is_badly_served(self) -> bool:
        return self.evidence.is_badly_served

    @property
    def place(self) -> int:
        """1 for the worst off of all, equal ones counted before."""
        better = self.evidence.gain
        return 1 + sum(better(self.value, other) < 0 for other in self.others.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        plain = {
            name: getattr(self, name)
            for name in ("client", "metric", "value", "rows", "how", "names", "notes")
        }
        for name in ("confusion", "others_confusion"):
            counts = getattr(self, name)
            plain[name] = None if counts is None else counts.tolist()
        for name in ("quantities", "channels", "classes", "worst", "reasons"):
            plain[name] = [asdict(one) for one in getattr(self, name)]
        for name in ("features", "personal"):
            one = getattr(self, name)
            plain[name] = None if one is None else asdict(one)
        plain["others"] = dict(self.others)
        plain["drawn"] = [one.to_dict() for one in self.drawn]
        cleaned: dict[str, Any] = _plain(plain)
        return cleaned

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Served:
        """Return what `to_dict` made a dictionary of."""

        def counts(name: str) -> Integers | None:
            return None if found[name] is None else np.array(found[name], dtype=np.int64)

        def several(kind: Any, name: str) -> tuple[Any, ...]:
            return tuple(kind(**_numbers(one)) for one in found[name])

        features, personal = found["features"], found["personal"]
        if features is not None:
            named = tuple((str(name), float(by)) for name, by in features["furthest"])
            features = FeatureShift(**_numbers({**features, "furthest": named}))
        return cls(
            str(found["client"]),
            str(found["metric"]),
            _number(found["value"]),
            int(found["rows"]),
            str(found["how"]),
            {name: _number(value) for name, value in found["others"].items()},
            tuple(found["names"]),
            counts("confusion"),
            counts("others_confusion"),
            several(Quantity, "quantities"),
            several(ChannelShift, "channels"),
            features,
            several(ClassShift, "classes"),
            None if personal is None else PersonalTrial(**_numbers(personal)),
            several(WorstRecording, "worst"),
            tuple(DrawnRecording.from_dict(one) for one in found["drawn"]),
            several(Reason, "reasons"),
            tuple(found["notes"]),
        )


def _plain(value: Any) -> Any:
    """Return a value with None for what is no finite number, as JSON needs it."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
    return value


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in found.items()}


def write_served(store: RunFolder, served: Served) -> None:
    """Keep how a client is served, in the place of what is there."""
    content = json.dumps(served.to_dict(), separators=(",", ":"), allow_nan=False)
    store.insert("served", [(served.client, content)], replace=True)


def read_served(folder: str | Path) -> Served | None:
    """Return what a run's folder says of its worst client, None if it says nothing."""
    rows = _rows(folder, "served", "SELECT content FROM served")
    return Served.from_dict(json.loads(rows[0][0])) if rows else None


def read_confusions(folder: str | Path, n_classes: int) -> dict[str, Integers]:
    """Return the counts (K, K) of each client; nothing in runs of earlier versions."""
    found: dict[str, Integers] = {}
    for client, i, j, count in _rows(folder, "confusions", "SELECT * FROM confusions"):
        counts = found.setdefault(client, np.zeros((n_classes, n_classes), dtype=np.int64))
        counts[i, j] = count
    return found


def _rows(folder: str | Path, table: str, query: str) -> list[Any]:
    path = Path(folder) / DATABASE
    if not path.is_file():
        return []
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        there = "SELECT 1 FROM sqlite_master WHERE name = ?"
        if not database.execute(there, (table,)).fetchone():
            return []
        return database.execute(query).fetchall()
