"""A run's folder: its plan, every message, the state after each round, scores and the model.

    plan.toml          what was run, if it came from a file
    run.sqlite         tidy tables: stages, rounds, messages, refusals, digests, scores, ...
    states/            the state after the last finished round of each stage, as it would travel
    model.safetensors  the final model
    progress.json      while it runs: how far the round is, as `catchment.federation.runs.read`

A run has stages, which are plans run one after the other: scaling, training, evaluation. A round
is finished once its state is on the disk and its row is committed, in this order; a run that stops
at any moment goes on after the last finished round. A message that is then sent again is in the
ledger once, with how often it was sent.

A run without a folder is the same in memory, where its states are not written but held.

A run's folder is private: only its owner may read it. The ledger has the clients' names, and states
hold every client's own statistics where the algorithm keeps them, from which inputs can be rebuilt
where rows are few; think of both before a folder is handed on. What is handed on is the model.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

import catchment
from catchment.errors import FederationError, IntegrityError
from catchment.federation.algorithm import Kept
from catchment.federation.learn.sums import digests_of
from catchment.federation.measure.outliers import Flag
from catchment.federation.messages import Record, Refusal
from catchment.federation.plan import Plan, describe
from catchment.federation.runs.ledger import BATCH, Entries, Entry, Keeper
from catchment.readout.predictor import Predictor
from catchment.readout.storage import to_bytes
from catchment.wire import Message
from catchment.wire.messages import replace_file

if TYPE_CHECKING:
    from catchment.federation.measure.evaluation import Scores

S = TypeVar("S")

log = logging.getLogger(__name__)
rounds_log = logging.getLogger(f"{__name__}.rounds")  # whoever says it at the end silences it
FORMAT = 2
DATABASE = "run.sqlite"
IN_MEMORY = Path(":memory:")
PLAN = "plan.toml"
MODEL = "model.safetensors"
EARLIER = "earlier.safetensors"  # the model before the run went on
CLIENTS = "clients"  # what clients of this process remember, while the run lasts
CHARGED = "run"  # the fact by which a ledger of noise knows the run
JOURNAL = "sums"  # the journal of secure aggregation
PROGRESS = "progress.json"  # how far the round under way is
PRIVATE = 0o600
GLANCE = 0.5  # seconds in which whoever only looks whether a folder is locked has looked

Cell = str | int | float | None

# Runs of earlier versions lack the last three tables, have rows of `forecast`, or seals of rounds,
# and are read.
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE stages (stage TEXT PRIMARY KEY, position INTEGER, fingerprint TEXT, rounds INTEGER,
    settings TEXT) WITHOUT ROWID;
CREATE TABLE rounds (stage TEXT, round INTEGER, asked INTEGER, used INTEGER, seconds REAL,
    bytes_down INTEGER, bytes_up INTEGER, state_sha256 TEXT, PRIMARY KEY (stage, round))
    WITHOUT ROWID;
CREATE TABLE figures (stage TEXT, round INTEGER, name TEXT, value REAL,
    PRIMARY KEY (stage, round, name)) WITHOUT ROWID;
CREATE TABLE kinds (purpose TEXT PRIMARY KEY, holds TEXT, tells TEXT) WITHOUT ROWID;
CREATE TABLE messages (stage TEXT, round INTEGER, client TEXT, direction TEXT, purpose TEXT,
    shapes TEXT, bytes INTEGER, sha256 TEXT, epsilon REAL, times INTEGER,
    PRIMARY KEY (stage, round, client, direction, sha256)) WITHOUT ROWID;
CREATE TABLE refusals (stage TEXT, round INTEGER, client TEXT, code TEXT, reason TEXT);
CREATE TABLE scores (stage TEXT, client TEXT, metric TEXT, value REAL, rows INTEGER,
    PRIMARY KEY (stage, client, metric)) WITHOUT ROWID;
CREATE TABLE clients (client TEXT PRIMARY KEY, rows INTEGER) WITHOUT ROWID;
CREATE TABLE flags (client TEXT PRIMARY KEY, loss REAL, z REAL) WITHOUT ROWID;
CREATE TABLE confusion (truth TEXT, predicted TEXT, count INTEGER);
CREATE TABLE ridge_path (ridge REAL, output TEXT, error REAL, chosen INTEGER);
CREATE TABLE forecast (client TEXT, step INTEGER, output TEXT, target REAL, predicted REAL);
CREATE TABLE comparison (position INTEGER, name TEXT, metric TEXT, score REAL, worst_client TEXT,
    worst REAL, spread REAL, bytes_up INTEGER, bytes_down INTEGER, rounds INTEGER, seconds REAL,
    note TEXT);
CREATE TABLE digests (stage TEXT, round INTEGER, client TEXT, sha256 TEXT, exact INTEGER,
    PRIMARY KEY (stage, round, client)) WITHOUT ROWID;
CREATE TABLE served (client TEXT, content TEXT);
CREATE TABLE confusions (client TEXT, truth INTEGER, predicted INTEGER, count INTEGER);
""".replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
_TABLES = sorted(re.findall(r"EXISTS (\w+)", _SCHEMA))
_INSERT = (
    "INSERT INTO messages SELECT ?, ?, column1, ?, ?, ?, column2, column3, ?, 1 "
    "FROM (VALUES {}) WHERE true ON CONFLICT DO UPDATE SET times = times + 1"
)


@final
class RunFolder(Keeper[Any]):
    """A run's folder, open for writing by one process; close it, or use it in a `with` block.

    As a keeper it writes down the stage that `keeper` named last, and goes on where it stopped.

    Parameters
    ----------
    folder
        Where the run lies; made if it is not there. None is in memory.
    fingerprint
        Of all that decides the run. A folder that holds another one is refused.
    plan
        Text of the plan, kept as plan.toml.
    resume
        Whether to go on with a run that the folder already holds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with RunFolder(Path(place) / "run", fingerprint="a") as run:
    ...         run.write_facts({"title": "a first run"})
    ...     RunFolder(Path(place) / "run", fingerprint="b", resume=True)
    Traceback (most recent call last):
    catchment.errors.FederationError: .../run holds the run of another plan; replace it ...
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        fingerprint: str = "",
        plan: str = "",
        resume: bool = False,
    ) -> None:
        self.folder = IN_MEMORY if folder is None else Path(folder)
        self.in_memory = folder is None
        self.states: dict[str, Any] = {}  # by stage, of a run in memory
        self.content = b""  # the database of a run in memory, once it is closed
        self.messages: dict[tuple[Cell, ...], list[Cell]] = {}  # to write: client, length, hash
        with ExitStack() as held:
            if not self.in_memory:
                held.enter_context(closing(self._locked(resume)))
            self.database = held.enter_context(closing(_opened(self.folder)))
            self._check(fingerprint, plan)
            self._held = held.pop_all()

    def _locked(self, resume: bool) -> sqlite3.Connection:
        """Return the lock of a folder that is there now, and that may be written."""
        if (self.folder / DATABASE).is_file() and not resume:
            locked(self.folder).close()  # one being written is neither resumed nor replaced
            raise FederationError(
                f"{self.folder} already holds a run; resume it (--resume), replace it (--force), "
                "or choose another folder"
            )
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "states").mkdir(exist_ok=True, mode=0o700)
        return locked(self.folder)

    def _check(self, fingerprint: str, plan: str) -> None:
        facts = self.facts()
        if not facts:
            if not self.in_memory and any((self.folder / "states").iterdir()):
                raise IntegrityError(
                    f"{self.folder / DATABASE} is empty although there are states of a run beside "
                    "it; replace it (--force), or choose another folder"
                )
            if plan:
                replace_file(self.folder / PLAN, plan.encode(), mode=PRIVATE)
            # Last, so that a folder cut short while it was made is simply made again.
            first = {"format": str(FORMAT), "fingerprint": fingerprint}
            self.write_facts(first | {"catchment": catchment.__version__})
            return
        check_format(self.folder, facts)
        if facts.get("fingerprint") != fingerprint:
            raise FederationError(
                f"{self.folder} holds the run of another plan; replace it (--force), or choose "
                "another folder"
            )

    def go_on(self, facts: dict[str, str]) -> None:
        """Note that a finished run goes on, and facts about that, all at once."""
        with self.transaction():
            self.database.execute("DELETE FROM facts WHERE name IN ('finished', 'untested')")
            self.write_facts(facts)

    def keeper(
        self, stage: str, plan: Plan[S, Any, Any], *, goes_on: bool = False, logs: bool = False
    ) -> Keeper[S]:
        """Return the keeper of one stage; a stage that was run with another plan is refused.

        Parameters
        ----------
        goes_on
            Whether the stage has had rounds with a plan for fewer of them, and is to have more.
        logs
            Whether to log every round, and who is left out of it.
        """
        if not re.fullmatch(r"[a-z0-9_-]{1,40}", stage):
            raise ValueError(f"stage is {stage!r}; use lower-case letters, digits, - and _")
        known = dict(self.database.execute("SELECT stage, fingerprint FROM stages").fetchall())
        fingerprint = plan.fingerprint()
        if stage in known and not goes_on and known[stage] != fingerprint:
            raise FederationError(
                f"stage {stage!r} of {self.folder} was run with another plan; choose another folder"
            )
        if stage not in known or goes_on:
            told = (fingerprint, plan.rounds, json.dumps(describe(plan), sort_keys=True))
            with self.transaction():
                self.database.execute(
                    "INSERT INTO stages VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                    "fingerprint = excluded.fingerprint, rounds = excluded.rounds, "
                    "settings = excluded.settings",
                    (stage, len(known), *told),
                )
                # What messages hold and tell, as those who send them declare.
                for kind in plan.messages().values():
                    if kind.holds:
                        said = (kind.name, kind.holds, json.dumps(kind.tells))
                        self.database.execute("INSERT OR IGNORE INTO kinds VALUES (?, ?, ?)", said)
        self.stage, self.plan, self.logs = stage, plan, logs
        return self

    def resume(self) -> tuple[Any, tuple[Record, ...]] | None:
        """Return the state and records of the finished rounds, or None if there are none."""
        if self.in_memory and self.stage not in self.states:
            return None
        records = records_of(self.database, self.stage)
        if not records:
            return None
        if self.logs:
            done = (self.stage, len(records), self.plan.rounds)
            rounds_log.info("%s: %d of %d rounds are done", *done)
        if self.in_memory:
            return self.states[self.stage], records
        state = last_state_of(self.database, self.folder, self.stage)
        return self.plan.algorithm.load_state(state), records

    def note(self, entry: Entry) -> None:
        self.note_all(Entries.of([entry]))

    def note_all(self, entries: Entries) -> None:
        same = []
        for one in entries.abouts:
            shapes = json.dumps(one.shapes, separators=(",", ":"))
            about = (self.stage, one.round, one.direction, one.purpose, shapes, one.epsilon)
            same.append(self.messages.setdefault(about, []))
        for which, client, n_bytes, sha256 in entries.rows():
            same[which].extend((client, n_bytes, sha256))
        if sum(map(len, self.messages.values())) >= 3 * BATCH:
            self.flush()

    def close_round(self, state: Any, record: Record) -> None:
        """Keep a state and then commit its round; the state before it is no longer needed."""
        algorithm, at, written = self.plan.algorithm, (self.stage, record.round), ""
        counts = (record.n_asked, record.n_used, record.seconds, record.bytes_down, record.bytes_up)
        if self.in_memory:
            self.states[self.stage] = state
        else:
            content = algorithm.save_state(state).to_bytes()
            replace_file(self.state_path(*at), content, mode=PRIVATE)
            written = hashlib.sha256(content).hexdigest()
        with self.transaction():
            self.insert("rounds", [(*at, *counts, written)])
            for one in record.refused:
                self.insert("refusals", [(*at, one.client, one.code, one.reason)])
            for named in record.figures.items():
                self.insert("figures", [(*at, *named)])
            if written:
                sums = digests_of(algorithm.tally(state))
                self.insert("digests", [(*at, d.client, d.sha256, int(d.is_exact)) for d in sums])
        if written and record.round > 0:
            self.state_path(self.stage, record.round - 1).unlink(missing_ok=True)
        if self.logs:
            how = (record.n_used, record.n_asked, record.seconds)
            about = (self.stage, record.round + 1, self.plan.rounds, *how)
            rounds_log.info("%s, round %d of %d: %d of %d clients, %.1f s", *about)
            for one in record.refused:
                told = (one.client, self.stage, one.reason, one.code)
                rounds_log.warning("%s was left out of the %s: %s (%s)", *told)

    def flush(self) -> None:
        """Commit the messages so far."""
        with self.transaction():
            pass

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is done inside and the messages so far, all of it or nothing."""
        if self.database.in_transaction:
            yield
            return
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            for about, own in self.messages.items():
                for k in range(0, len(own), 3 * BATCH):  # one statement for many rows
                    cells = own[k : k + 3 * BATCH]
                    rows = ", ".join(["(?, ?, ?)"] * (len(cells) // 3))
                    self.database.execute(_INSERT.format(rows), (*about, *cells))
            yield
        self.messages = {}

    def insert(self, table: str, rows: Iterable[Sequence[Cell]], *, replace: bool = False) -> None:
        """Add rows to a table, or put them in place of all it holds."""
        if table not in _TABLES:
            raise ValueError(f"there is no table {table!r}; use one of {', '.join(_TABLES)}")
        every = list(rows)
        with self.transaction():
            if replace:
                self.database.execute(f"DELETE FROM {table}")
            if every:
                places = ", ".join("?" * len(every[0]))
                self.database.executemany(f"INSERT INTO {table} VALUES ({places})", every)

    def write_facts(self, facts: Mapping[str, str]) -> None:
        """Keep small facts about the run by name, the latest of each."""
        with self.transaction():
            self.database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def facts(self) -> dict[str, str]:
        """Return the small facts that are kept."""
        return dict(self.database.execute("SELECT name, value FROM facts").fetchall())

    def save_model(self, model: Predictor) -> Path:
        """Write what was trained and predicts, and return its path."""
        replace_file(self.folder / MODEL, to_bytes(model), mode=PRIVATE)
        return self.folder / MODEL

    def state_path(self, stage: str, round_: int) -> Path:
        """Return where the state after a round is."""
        return self.folder / "states" / f"{stage}-{round_:06d}.bin"

    def copied(self) -> RunFolder:
        """Return what is written in a folder that is closed, as a run in memory, to add to."""
        made = RunFolder()
        with reading(self) as database:
            database.backup(made.database)
        return made

    def close(self) -> None:
        """Write what is left and let go of the folder."""
        try:
            self.flush()
            if self.in_memory:
                self.content = self.database.serialize()
                return
            # Leaves one file, which can be read where nothing can be written; not under a reader.
            with suppress(sqlite3.OperationalError):
                self.database.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._held.close()
            del self.database, self.states

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_format(folder: Path, facts: Mapping[str, str]) -> None:
    """Raise IntegrityError if a run is of a format that this version does not read."""
    if facts.get("format") != str(FORMAT):
        raise IntegrityError(
            f"{folder} has format {facts.get('format')}, this version reads {FORMAT}"
        )


@contextmanager
def reading(folder: str | Path | RunFolder) -> Iterator[sqlite3.Connection]:
    """Open a run's database to be read; of a run in memory that is closed, a copy of it."""
    if isinstance(folder, RunFolder) and folder.in_memory:
        with closing(sqlite3.connect(IN_MEMORY.name)) as database:
            database.deserialize(folder.content)
            yield database
        return
    place = folder.folder if isinstance(folder, RunFolder) else Path(folder)
    path = place / DATABASE
    if not path.is_file():
        raise FileNotFoundError(f"{place} holds no run; pass a folder that `catchment run` wrote")
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        yield database


def records_of(database: sqlite3.Connection, stage: str) -> tuple[Record, ...]:
    """Return the finished rounds of a stage."""
    refused: dict[int, list[Refusal]] = {}
    for round_, *about in database.execute(
        "SELECT round, client, code, reason FROM refusals WHERE stage = ? ORDER BY rowid", (stage,)
    ):
        refused.setdefault(round_, []).append(Refusal(*about))
    figures: dict[int, dict[str, float]] = {}
    for round_, name, value in database.execute(
        "SELECT round, name, value FROM figures WHERE stage = ? ORDER BY name", (stage,)
    ):
        figures.setdefault(round_, {})[name] = math.nan if value is None else value
    rows = database.execute(
        "SELECT round, asked, used, seconds, bytes_down, bytes_up FROM rounds "
        "WHERE stage = ? ORDER BY round",
        (stage,),
    )
    found = []
    for row in rows:
        told = tuple(refused.get(row[0], ()))
        found.append(replace(Record(*row), refused=told, figures=figures.get(row[0], {})))
    return tuple(found)


def last_state_of(database: sqlite3.Connection, folder: Path, stage: str) -> Message:
    """Return the state after the last finished round of a stage, its digest compared."""
    found = database.execute(
        "SELECT round, state_sha256 FROM rounds WHERE stage = ? ORDER BY round DESC LIMIT 1",
        (stage,),
    ).fetchone()
    if found is None:
        raise FederationError(f"{folder} has no finished round of {stage}; finish the run first")
    path = folder / "states" / f"{stage}-{found[0]:06d}.bin"
    if not path.is_file():
        raise IntegrityError(f"{path} is missing; start the run again in another folder")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != found[1]:
        raise IntegrityError(f"{path} is damaged; start the run again in another folder")
    return Message.from_bytes(content)


def is_begun(folder: str | Path, *, or_charged: bool = True) -> bool:
    """Return whether a run's folder holds a round of more than a scaling.

    Parameters
    ----------
    or_charged
        Whether one counts, too, that was charged to a ledger of noise and is not finished.

    >>> is_begun("no-such-folder")
    False
    """
    if not (Path(folder) / DATABASE).is_file():
        return False
    try:
        with reading(folder) as database:
            rounds = "SELECT 1 FROM rounds WHERE stage != 'scaling'"
            charged = "SELECT 1 FROM facts WHERE name = ?"
            return database.execute(rounds).fetchone() is not None or (
                or_charged and database.execute(charged, (CHARGED,)).fetchone() is not None
            )
    except sqlite3.OperationalError:
        return False  # its tables were never made
    except sqlite3.DatabaseError:
        return True  # it is something else, which is not ours to judge


def is_empty(folder: str | Path) -> bool:
    """Return whether a folder holds no run to go on with, not even one that was just begun.

    >>> is_empty("no-such-folder")
    True
    """
    path = Path(folder) / DATABASE
    if not path.is_file() or path.stat().st_size == 0:
        return True
    try:
        with reading(folder) as database:
            return database.execute("SELECT 1 FROM facts").fetchone() is None
    except sqlite3.DatabaseError as error:
        return "no such table" in str(error)


def remove_run(folder: str | Path) -> None:
    """Remove a run and nothing that is not a run; FederationError if somebody is writing it."""
    place = Path(folder)
    if not (place / DATABASE).is_file():
        return
    locked(place).close()
    for name in ("states", CLIENTS, JOURNAL):
        shutil.rmtree(place / name, ignore_errors=True)
    own = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "lock", PLAN, MODEL, EARLIER, PROGRESS)
    for name in own:
        (place / name).unlink(missing_ok=True)
    with suppress(OSError):
        place.rmdir()


def _opened(folder: Path) -> sqlite3.Connection:
    path = folder if folder == IN_MEMORY else folder / DATABASE
    if folder != IN_MEMORY:
        _make_private(path)
    # Transactions are our own: isolation_level None keeps the module from opening any.
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
    except sqlite3.DatabaseError as error:
        database.close()
        raise IntegrityError(f"{path} is not a run's database ({error})") from error
    return database


def locked(folder: Path) -> sqlite3.Connection:
    """Return a lock on the folder, let go when it is closed or its process ends."""
    _make_private(folder / "lock")
    lock = sqlite3.connect(folder / "lock", isolation_level=None, timeout=GLANCE)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        raise FederationError(
            f"{folder} is in use: another process writes to it; wait for it or choose another "
            "folder"
        ) from error
    return lock


def _make_private(path: Path) -> None:
    """Make a file that only its owner may read, unless it is there."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))


def write_results(
    folder: RunFolder, kept: Kept, scores: Scores | None, classes: tuple[str, ...] | None
) -> None:
    """Keep all that a report shows of a finished training and, where there was one, its test.

    Rows behind each client's message are kept where the server knows them, and the clients whose
    data the others predict badly, who are in the sum all the same.
    """
    flags = [(flag.client, flag.loss, flag.z) for flag in kept.flags if isinstance(flag, Flag)]
    with folder.transaction():
        folder.insert("clients", kept.rows.items(), replace=True)
        folder.insert("flags", flags, replace=True)
        folder.insert("ridge_path", _path(kept, classes), replace=True)
        if kept.drifts:
            folder.write_facts({"drifts": json.dumps([asdict(one) for one in kept.drifts])})
        if scores is not None:
            _write_scores(folder, scores, classes)


def _path(kept: Kept, classes: tuple[str, ...] | None) -> list[tuple[Cell, ...]]:
    """Return the errors along the path of ridges, if the algorithm chose one."""
    choice = kept.choice
    if choice is None:
        return []
    names = classes or tuple(f"output {k}" for k in range(choice.errors.shape[1]))
    best = np.atleast_1d(choice.best)
    return [
        (float(ridge), name, float(error) if np.isfinite(error) else None, int(ridge in best))
        for ridge, errors in zip(choice.ridges, choice.errors, strict=True)
        for name, error in zip(names, errors, strict=True)
    ]


def _write_scores(folder: RunFolder, scores: Scores, classes: tuple[str, ...] | None) -> None:
    """Keep every client's metrics and those of all together, the first one's name, confusions."""
    from catchment.federation.measure.evaluation import metrics

    rows: list[tuple[Cell, ...]] = []
    by_client: list[tuple[Cell, ...]] = []
    for client, score in ({"": scores.total} | dict(sorted(scores.by_client.items()))).items():
        if score is None:
            continue
        rows += [("evaluation", client, m, v, score.errors.n) for m, v in metrics(score)]
        if client and classes is not None and score.counts is not None:
            counts = score.counts.confusion
            places = zip(*np.nonzero(counts), strict=True)
            by_client += [(client, int(i), int(j), int(counts[i, j])) for i, j in places]
    folder.insert("scores", rows, replace=True)
    folder.insert("confusions", by_client, replace=True)
    total = scores.total
    if total is None:
        return
    folder.write_facts({"metric": metrics(total)[0][0]})
    if total.counts is not None and classes is not None:
        every = total.counts.confusion.tolist()
        cells = [
            (true, guessed, count)
            for true, counts in zip(classes, every, strict=True)
            for guessed, count in zip(classes, counts, strict=True)
        ]
        folder.insert("confusion", cells, replace=True)
