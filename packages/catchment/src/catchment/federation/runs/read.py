"""What a run's folder says, for those who only read it: explanations, reports, tables.

How far the round under way is, in a small file of the run's folder, for whoever watches the run.

What is finished is in run.sqlite; this file says what is not there yet. Nothing depends on it: it
is lost with a crash, it is gone once the run is finished, and where it cannot be written the run
goes on without it.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from catchment.arrays import Array, Integers
from catchment.errors import IntegrityError
from catchment.federation.learn.sums import Digest
from catchment.federation.measure.baselines import ADAPTED_ROW, Comparison, Row
from catchment.federation.measure.outliers import AnyFlag, Drift, Flag, rows_flags
from catchment.federation.messages import Record
from catchment.federation.runs.folder import (
    DATABASE,
    PRIVATE,
    PROGRESS,
    RunFolder,
    check_format,
    last_state_of,
    reading,
    records_of,
)
from catchment.wire import Kind, Message
from catchment.wire.kept import today
from catchment.wire.messages import replace_file


@dataclass(frozen=True)
class Stage:
    """One plan of a run: its settings, its fingerprint, and the rounds it was to have."""

    name: str
    fingerprint: str
    rounds: int
    settings: Mapping[str, Any]
    sha256: str = ""  # of the settings as they are kept


@dataclass(frozen=True)
class Traffic:
    """Messages of one kind and shape: how many, from how many clients, of how many bytes."""

    stage: str
    direction: str
    purpose: str
    shapes: tuple[tuple[int, ...], ...]
    sent: int
    clients: int
    total_bytes: int

    @property
    def n_numbers(self) -> int:
        """Numbers in one message."""
        return sum(int(np.prod(shape)) for shape in self.shapes)


@dataclass(frozen=True)
class Counted:
    """The messages of a run by kind and shape, counted in its ledger when they are looked at first.

    A million of them take a second, which a run that ends, or is watched, need not wait for.
    """

    folder: str | Path | RunFolder

    @cached_property
    def found(self) -> tuple[Traffic, ...]:
        with _intact(self.folder) as database:
            rows = database.execute(
                "SELECT stage, direction, purpose, shapes, sum(times), count(DISTINCT client), "
                "sum(bytes * times) FROM messages JOIN stages USING (stage) "
                "GROUP BY stage, direction, purpose, shapes "
                "ORDER BY position, direction, purpose, count(*) DESC"
            )
            return tuple(
                Traffic(stage, direction, purpose, tuple(map(tuple, json.loads(shapes))), *rest)
                for stage, direction, purpose, shapes, *rest in rows
            )

    def __iter__(self) -> Iterator[Traffic]:
        return iter(self.found)


@dataclass(frozen=True)
class SentMessage:
    """One message of one client."""

    stage: str
    round: int
    client: str
    purpose: str
    n_bytes: int
    sha256: str
    times: int


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Ridges (R,) tried, their errors (R, K), the names of the outputs, and the chosen ridges."""

    ridges: Array
    errors: Array
    outputs: tuple[str, ...]
    chosen: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Run:
    """All that a report or an explanation needs of a run.

    `scores` is by client and metric; the client "" is all of them together. `rows_by_client` says
    how many rows are behind each client's statistics, where the server knows. `kinds` says what
    each kind of message holds and tells, where that is known. `served` is the client of whom the
    folder says how it is served, if it does.
    """

    folder: Path
    facts: Mapping[str, str]
    stages: tuple[Stage, ...]
    rounds: Mapping[str, tuple[Record, ...]]
    traffic: Iterable[Traffic]
    scores: Mapping[str, Mapping[str, float]]
    score_rows: Mapping[str, int]
    comparison: Comparison | None = None
    confusion: Integers | None = None
    classes: tuple[str, ...] = ()
    path: RidgePath | None = None
    rows_by_client: Mapping[str, int] = field(default_factory=dict)
    flags: tuple[AnyFlag, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    served: str = ""

    @property
    def metric(self) -> str:
        return self.facts.get("metric", "")

    @property
    def beside(self) -> tuple[str, ...]:
        """What was computed of raw data, outside the federation, to compare with."""
        own = {self.facts.get("own_row"), ADAPTED_ROW}
        return tuple(row.name for row in self.comparison or () if row.name not in own)

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """Whose new data stood out from their earlier ones, in any round."""
        return tuple(Drift(**one) for one in json.loads(self.facts.get("drifts", "[]")))

    @property
    def latest(self) -> Mapping[str, tuple[Record, ...]]:
        """The rounds by stage; of a run that goes on, the last one of each."""
        if "week" not in self.facts:
            return self.rounds
        return {stage: records[-1:] for stage, records in self.rounds.items()}

    @property
    def seconds(self) -> float | None:
        """How long it took from start to end; None of a run that does not say."""
        try:
            ends = [datetime.fromisoformat(self.facts[name]) for name in ("started", "finished")]
        except (KeyError, ValueError):
            return None
        return (ends[1] - ends[0]).total_seconds()

    def totals(self) -> tuple[int, int, float]:
        """Return bytes up, bytes down and seconds of all stages."""
        records = [record for stage in self.rounds.values() for record in stage]
        return (
            sum(record.bytes_up for record in records),
            sum(record.bytes_down for record in records),
            sum(record.seconds for record in records),
        )


def lasting(seconds: float) -> str:
    """Return how long something took, as the terminal, the report and the live page say it.

    >>> lasting(9.34), lasting(65.2), lasting(3720.0)
    ('9.3 s', '1 min 05 s', '1 h 02 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    small, names = (whole, ("min", "s")) if whole < 3600 else (whole // 60, ("h", "min"))
    return f"{small // 60} {names[0]} {small % 60:02} {names[1]}"


def read_run(folder: str | Path | RunFolder) -> Run:
    """Return what a run's folder says.

    Parameters
    ----------
    folder
        Of the run; or the run itself, closed, if it is in memory.

    >>> read_run("no/such/run")
    Traceback (most recent call last):
    FileNotFoundError: no/such/run holds no run; pass a folder that `catchment run` wrote
    """
    place = folder.folder if isinstance(folder, RunFolder) else Path(folder)
    with _intact(folder) as database:
        return _run(place, database, Counted(folder))


@contextmanager
def _intact(folder: str | Path | RunFolder) -> Iterator[sqlite3.Connection]:
    """Open a run's database to be read; IntegrityError if it is not what was written."""
    with reading(folder) as database:
        try:
            yield database
        except (sqlite3.DatabaseError, ValueError, TypeError, KeyError) as error:
            place = folder.folder if isinstance(folder, RunFolder) else Path(folder)
            raise IntegrityError(f"{place / DATABASE} is damaged ({error})") from error


def last_state(folder: str | Path, stage: str) -> Message:
    """Return the state after the last finished round of a stage, its digest compared."""
    with reading(folder) as database:
        return last_state_of(database, Path(folder), stage)


def messages_of(
    folder: str | Path | RunFolder, client: str | None = None, limit: int = 100
) -> list[SentMessage]:
    """Return what one client sent, or the first messages of all, by client and round."""
    with reading(folder) as database:
        rows = database.execute(
            "SELECT stage, round, client, purpose, bytes, sha256, times "
            "FROM messages JOIN stages USING (stage) "
            "WHERE direction = 'up' AND (client = ? OR ? IS NULL) "
            "ORDER BY client, position, round LIMIT ?",
            (client, client, limit),
        ).fetchall()
    return [SentMessage(*row) for row in rows]


def read_digests(folder: str | Path, stage: str) -> tuple[Digest, ...]:
    """Return the digests after the last round of a stage: of the sum, and of each kept client.

    None in runs of versions that wrote none down, and of algorithms that keep no sum.
    """
    with reading(folder) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'digests'").fetchone():
            return ()
        rows = database.execute(
            "SELECT client, sha256, exact FROM digests WHERE stage = ? AND round = "
            "(SELECT max(round) FROM rounds WHERE stage = ?) ORDER BY client",
            (stage, stage),
        ).fetchall()
    return tuple(Digest(client, sha256, bool(exact)) for client, sha256, exact in rows)


def _run(folder: Path, database: sqlite3.Connection, traffic: Counted) -> Run:
    facts = dict(database.execute("SELECT name, value FROM facts").fetchall())
    check_format(folder, facts)
    stages = tuple(
        Stage(
            name,
            fingerprint,
            rounds,
            json.loads(settings, object_hook=today),
            hashlib.sha256(settings.encode()).hexdigest(),
        )
        for name, fingerprint, rounds, settings in database.execute(
            "SELECT stage, fingerprint, rounds, settings FROM stages ORDER BY position"
        )
    )
    scores: dict[str, dict[str, float]] = {}
    score_rows: dict[str, int] = {}
    for client, metric, value, rows in database.execute(
        "SELECT client, metric, value, rows FROM scores WHERE stage = 'evaluation' ORDER BY client"
    ):
        scores.setdefault(client, {})[metric] = float("nan") if value is None else value
        score_rows[client] = rows
    classes = tuple(json.loads(facts.get("classes", "null")) or ())
    sizes = dict(database.execute("SELECT client, rows FROM clients ORDER BY client").fetchall())
    by_loss = database.execute("SELECT client, loss, z FROM flags ORDER BY z DESC")
    # Runs of earlier versions say nothing of how anybody is served.
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    served = database.execute("SELECT client FROM served").fetchone() if "served" in tables else ()
    return Run(
        folder,
        facts,
        stages,
        {stage.name: records_of(database, stage.name) for stage in stages},
        traffic,
        scores,
        score_rows,
        _comparison(database),
        _confusion(database, classes),
        classes,
        _path(database),
        sizes,
        (*(Flag(*row) for row in by_loss), *rows_flags(sizes)),
        {
            purpose: Kind(purpose, holds, tuple(json.loads(tells)))
            for purpose, holds, tells in database.execute("SELECT * FROM kinds")
        },
        str(served[0]) if served else "",
    )


def _comparison(database: sqlite3.Connection) -> Comparison | None:
    rows = database.execute(
        "SELECT name, metric, score, worst_client, worst, spread, bytes_up, bytes_down, rounds, "
        "seconds, note FROM comparison ORDER BY position"
    ).fetchall()
    if not rows:
        return None
    # SQLite keeps NaN as NULL.
    known: list[list[Any]] = [[math.nan if v is None else v for v in row] for row in rows]
    return Comparison(tuple(Row(*row) for row in known))


def _confusion(database: sqlite3.Connection, classes: tuple[str, ...]) -> Integers | None:
    places = {name: k for k, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    for truth, predicted, count in database.execute(
        "SELECT truth, predicted, count FROM confusion"
    ):
        counts[places[truth], places[predicted]] = count
    return counts if counts.any() else None


def _path(database: sqlite3.Connection) -> RidgePath | None:
    rows = database.execute(
        "SELECT ridge, output, error, chosen FROM ridge_path ORDER BY rowid"
    ).fetchall()
    if not rows:
        return None
    outputs = tuple(dict.fromkeys(row[1] for row in rows))
    ridges = np.array(list(dict.fromkeys(row[0] for row in rows)))
    errors = np.array([np.nan if row[2] is None else row[2] for row in rows], dtype=np.float64)
    chosen = tuple(dict.fromkeys(row[0] for row in rows if row[3]))
    return RidgePath(ridges, errors.reshape(len(ridges), len(outputs)), outputs, chosen)


FACT = "folds"


@dataclass(frozen=True)
class Fold:
    """One fold: who was tested in it, on how many rows, and the score of those rows together.

    Parameters
    ----------
    worst
        The client with the worst score.
    untested
        Who could not be tested, and why.
    """

    clients: tuple[str, ...]
    rows: int
    score: float | None
    worst: str | None = None
    untested: Mapping[str, str] = field(default_factory=dict)


def folds_fact(folds: Iterable[Fold]) -> dict[str, str]:
    """Return the fact that a run's folder keeps of its folds."""
    return {FACT: json.dumps([asdict(one) for one in folds])}


def folds_of_run(facts: Mapping[str, str]) -> tuple[Fold, ...]:
    """Return the folds of a run's facts; none if it was tested otherwise.

    >>> folds_of_run(folds_fact([Fold(("ann",), 3, 0.5, "ann")]))[0].score
    0.5
    """
    return tuple(
        Fold(**{**one, "clients": tuple(one["clients"])})
        for one in json.loads(facts.get(FACT, "[]"))
    )


def folds_sentence(
    facts: Mapping[str, str],
    scores: Mapping[str, Mapping[str, float]],
    metric: str,
    *,
    who: str = "clients",
) -> str:
    """Return the score by folds, its range over them, and the worst client; nothing without folds.

    The first number is of all rows together, each predicted by a model that has not seen its
    client; the range is of the folds' own scores.

    Parameters
    ----------
    scores
        By client and metric; the client "" is all of them together.
    who
        What clients are called.

    >>> facts = folds_fact([Fold(("ann",), 2, 0.5, "ann"), Fold(("bob",), 2, 1.0, "bob")])
    >>> scores = {"": {"accuracy": 0.75}, "ann": {"accuracy": 0.5}, "bob": {"accuracy": 1.0}}
    >>> folds_sentence(facts, scores, "accuracy")
    '2 folds over clients: accuracy 0.75 (0.50 to 1.00), worst ann 0.50'
    """
    values = [one.score for one in folds_of_run(facts) if one.score is not None]
    if not values or metric not in scores.get("", {}):
        return ""
    said = f"{len(values)} folds over {who}: {metric} {scores[''][metric]:.2f}"
    worst = worst_client(scores, metric)
    said += f" ({min(values):.2f} to {max(values):.2f})"
    return f"{said}, worst {worst} {scores[worst][metric]:.2f}" if worst else said


def worst_client(scores: Mapping[str, Mapping[str, float]], metric: str) -> str:
    """Return who has the worst score that is known, the first by name; "" if there is nobody.

    >>> worst_client({"": {"NRMSE": 0.2}, "ann": {"NRMSE": 0.3}, "bob": {"NRMSE": 0.1}}, "NRMSE")
    'ann'
    """
    known = {name: one.get(metric, math.nan) for name, one in scores.items() if name}
    named = {name: value for name, value in known.items() if not math.isnan(value)}
    worst = min if metric == "accuracy" else max
    return worst(sorted(named), key=named.__getitem__, default="")


PAUSE = 0.5  # seconds between two writes
MOST_BYTES = 1 << 16  # no more is read of a file that is a few hundred bytes long

Watch = Callable[[str, int, int, int], None]


@dataclass(frozen=True)
class Progress:
    """Where a run is: its stage, the round, how many of the asked clients are done.

    Parameters
    ----------
    at
        When this was so, in seconds since 1970.
    ended
        Why the run ended without being finished; nothing while it goes on.

    >>> Progress("training", 3, done=5, asked=8, at=0.0).ended
    ''
    """

    stage: str = ""
    round: int = 0
    done: int = 0
    asked: int = 0
    at: float = 0.0
    ended: str = ""


@contextmanager
def reported(folder: str | Path, watch: Watch | None = None) -> Iterator[Watch]:
    """Give what is told how far a run in this folder is; afterwards, the file says how it ended.

    It is written down where a round begins, and twice a second by a thread: clients that are quick
    cost nothing, and the last of them is written, too, where a round waits long for one more.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with suppress(ValueError), reported(folder) as tell:
    ...         tell("training", 0, 3, 8)
    ...         raise ValueError("no data")
    ...     read_progress(folder).done, read_progress(folder).ended
    (3, 'ValueError: no data')
    """
    path, over, last = Path(folder) / PROGRESS, threading.Event(), [Progress()]

    def tell(stage: str, round_: int, done: int, asked: int) -> None:
        before, last[0] = last[0], Progress(stage, round_, done, asked, time.time())
        if (before.stage, before.round) != (stage, round_):
            _write_progress(path, last[0])
        if watch:
            watch(stage, round_, done, asked)

    def keep() -> None:
        written = last[0]
        while not over.wait(PAUSE):
            if last[0] is not written:
                written = last[0]
                _write_progress(path, written)

    writer = threading.Thread(target=keep, daemon=True)
    writer.start()
    ended = ""
    try:
        yield tell
    except BaseException as error:
        said = " ".join(str(error).split())
        name = "stopped" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        ended = f"{name}: {said}" if said else name
        raise
    finally:
        over.set()
        writer.join()
        if ended:
            _write_progress(path, replace(last[0], at=time.time(), ended=ended))
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _write_progress(path: Path, progress: Progress) -> None:
    """Put the file in its place whole; not to the disk, since nothing depends on it."""
    content = json.dumps(asdict(progress)).encode()
    with suppress(OSError):  # a full disk is for the run itself to complain of
        replace_file(path, content, mode=PRIVATE, lasting=False)


def read_progress(folder: str | Path) -> Progress | None:
    """Return how far a run's process says it is; None if it says nothing, or nothing readable.

    >>> read_progress("no/such/run") is None
    True
    """
    from pydantic import TypeAdapter

    try:
        with (Path(folder) / PROGRESS).open("rb") as file:
            return TypeAdapter(Progress).validate_json(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return None


def is_held(folder: str | Path) -> bool:
    """Return whether a process has this run's folder open for writing.

    It is asked without taking the lock: a run that begins at this moment waits for a moment.

    >>> is_held("no/such/run")
    False
    """
    path = Path(folder) / "lock"
    if not path.is_file():
        return False
    try:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as lock:
            lock.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
    return False
