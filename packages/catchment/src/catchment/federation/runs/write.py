"""A run's folder: its plan, every message, the state after each round, scores and the model.

    plan.toml          what was run, if it came from a file
    run.sqlite         tidy tables: stages, rounds, messages, refusals, digests, scores, ...
    states/            the state after the last finished round of each stage, as it would travel,
                       and the sum of a round under way
    model.safetensors  the final model
    progress.json      while it runs: how far the round is, as `catchment.federation.runs.progress`

A run has stages, which are plans run one after the other: scaling, training, evaluation. A round
is finished once its state is on the disk and its row is committed, in this order; a run that stops
at any moment goes on after the last finished round, or in the middle of the next one, after the
last block of clients that was kept (`catchment.federation.prefix`). A message that is then sent
again is in the ledger once, with how often it was sent. `catchment.federation.runs.seals` has the
checksums.

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar, final

import catchment
from catchment.errors import FederationError, IntegrityError
from catchment.federation.learn.digests import Digest, digests_of
from catchment.federation.loop import Record, Refusal
from catchment.federation.plan import Plan, describe
from catchment.federation.prefix import EVERY
from catchment.federation.runs.ledger import Entries, Entry
from catchment.federation.runs.seals import SEALS, break_results, damage, seal_results, seal_round
from catchment.files import replace_file
from catchment.readout.predictor import Predictor
from catchment.readout.storage import to_bytes
from catchment.structure import Kind
from catchment.wire import Parts

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")

log = logging.getLogger(__name__)
FORMAT = 2
DATABASE = "run.sqlite"
PLAN = "plan.toml"
MODEL = "model.safetensors"
EARLIER = "earlier.safetensors"  # the model before the run went on
CLIENTS = "clients"  # what clients of this process remember, while the run lasts
CHARGED = "run"  # the fact by which a ledger of noise knows the run
JOURNAL = "sums"  # the journal of secure sums
PROGRESS = "progress.json"  # how far the round under way is
PART = ".part"  # of a round that is not over
PRIVATE = 0o600
GLANCE = 0.5  # seconds in which whoever only looks whether a folder is locked has looked
BATCH = 2048  # messages per transaction: few enough to be flat in memory, many enough to be quick

Cell = str | int | float | None

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
"""
# Runs of earlier versions lack these and are read all the same.
_DIGESTS = """
CREATE TABLE IF NOT EXISTS digests (stage TEXT, round INTEGER, client TEXT, sha256 TEXT,
    exact INTEGER, PRIMARY KEY (stage, round, client)) WITHOUT ROWID
"""
_SERVED = (
    "CREATE TABLE IF NOT EXISTS served (client TEXT, content TEXT)",
    "CREATE TABLE IF NOT EXISTS confusions (client TEXT, truth INTEGER, predicted INTEGER, "
    "count INTEGER)",
)
_TABLES = frozenset(re.findall(r"CREATE TABLE (\w+)", _SCHEMA)) | {
    *("digests", "served", "confusions")
}
_NOTE = """
INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT DO UPDATE SET times = times + 1
"""


@final
class Store:
    """A run's folder, open for writing by one process; close it, or use it in a `with` block.

    Parameters
    ----------
    folder
        Where the run lies; made if it is not there.
    fingerprint
        Of all that decides the run. A folder that holds another one is refused.
    plan
        Text of the plan, kept as plan.toml.
    resume
        Whether to go on with a run that the folder already holds.
    keep_every
        Seconds after which the sum of a round under way is kept again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Store(Path(place) / "run", fingerprint="a") as store:
    ...         store.write_facts({"title": "a first run"})
    ...     Store(Path(place) / "run", fingerprint="b", resume=True)
    Traceback (most recent call last):
    catchment.errors.FederationError: .../run holds the run of another plan; replace it ...
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        fingerprint: str = "",
        plan: str = "",
        resume: bool = False,
        keep_every: float = EVERY,
    ) -> None:
        self.folder, self.keep_every = Path(folder), keep_every
        found = (self.folder / DATABASE).is_file()
        if found and not resume:
            _locked(
                self.folder
            ).close()  # one that is being written is neither resumed nor replaced
            raise FederationError(
                f"{folder} already holds a run; resume it (--resume), replace it (--force), or "
                "choose another folder"
            )
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "states").mkdir(exist_ok=True, mode=0o700)
        self._entries: list[tuple[Cell, ...]] = []
        self._lock = _locked(self.folder)
        try:
            self._database = _opened(self.folder / DATABASE)
            try:
                self._check(fingerprint, plan)
            except BaseException:
                self._database.close()
                raise
        except BaseException:
            self._lock.close()
            raise

    def _check(self, fingerprint: str, plan: str) -> None:
        facts = self.facts()
        if not facts:
            if any((self.folder / "states").iterdir()):
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
        if facts.get("format") != str(FORMAT):
            raise IntegrityError(
                f"{self.folder} has format {facts.get('format')}, this version reads {FORMAT}"
            )
        if facts.get("fingerprint") != fingerprint:
            raise FederationError(
                f"{self.folder} holds the run of another plan; replace it (--force), or choose "
                "another folder"
            )
        try:
            found = damage(self._database)
        except sqlite3.DatabaseError as error:
            found = (str(error),)
        if found:
            raise IntegrityError(
                f"{self.folder / DATABASE} is damaged: {'; '.join(found)}; start the run again in "
                "another folder"
            )
        with self.transaction():
            break_results(self._database)

    def go_on(self, facts: dict[str, str]) -> None:
        """Note that a finished run goes on, and facts about that, all at once."""
        with self.transaction():
            self._database.execute("DELETE FROM facts WHERE name IN ('finished', 'untested')")
            self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def keeper(
        self, stage: str, plan: Plan[S, U, R], *, goes_on: bool = False
    ) -> StageKeeper[S, U, R]:
        """Return the keeper of one stage; a stage that was run with another plan is refused.

        Parameters
        ----------
        goes_on
            Whether the stage has had rounds with a plan for fewer of them, and is to have more.
        """
        if not re.fullmatch(r"[a-z0-9_-]{1,40}", stage):
            raise ValueError(f"stage is {stage!r}; use lower-case letters, digits, - and _")
        known = self._database.execute(
            "SELECT fingerprint FROM stages WHERE stage = ?", (stage,)
        ).fetchone()
        fingerprint = plan.fingerprint()
        if known is None:
            settings = json.dumps(describe(plan), sort_keys=True)
            (n,) = self._database.execute("SELECT count(*) FROM stages").fetchone()
            self.insert("stages", [(stage, n, fingerprint, plan.rounds, settings)])
            self.write_kinds(plan.messages().values())
        elif goes_on:
            settings = json.dumps(describe(plan), sort_keys=True)
            with self.transaction():
                self._database.execute(
                    "UPDATE stages SET fingerprint = ?, rounds = ?, settings = ? WHERE stage = ?",
                    (fingerprint, plan.rounds, settings, stage),
                )
        elif known[0] != fingerprint:
            raise FederationError(
                f"stage {stage!r} of {self.folder} was run with another plan; choose another folder"
            )
        return StageKeeper(self, stage, plan)

    def write_kinds(self, kinds: Iterable[Kind]) -> None:
        """Keep what messages hold and tell, as those who send them declare."""
        with self.transaction():
            self._database.executemany(
                "INSERT INTO kinds VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(kind.name, kind.holds, json.dumps(kind.tells)) for kind in kinds if kind.holds],
            )

    def note(self, stage: str, entry: Entry) -> None:
        """Write down a message, with the next ones."""
        self.note_all(stage, Entries.of([entry]))

    def note_all(self, stage: str, entries: Entries) -> None:
        """Write down messages, with the next ones."""
        shapes = [json.dumps(about.shapes, separators=(",", ":")) for about in entries.abouts]
        for client, k, n_bytes, sha256 in entries.rows():
            about = entries.abouts[k]
            what = (about.direction, about.purpose, shapes[k], n_bytes, sha256, about.epsilon)
            self._entries.append((stage, about.round, client, *what))
        if len(self._entries) >= BATCH:
            with self.transaction():
                self.flush()

    def flush(self) -> None:
        self._database.executemany(_NOTE, self._entries)
        self._entries = []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is done inside, all of it or nothing."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def insert(self, table: str, rows: Iterable[Sequence[Cell]], *, replace: bool = False) -> None:
        """Add rows to a table, or put them in place of all it holds."""
        if table not in _TABLES:
            raise ValueError(
                f"there is no table {table!r}; use one of {', '.join(sorted(_TABLES))}"
            )
        with self.transaction():
            if replace:
                self._database.execute(f"DELETE FROM {table}")
            self._insert(table, rows)

    def _insert(self, table: str, rows: Iterable[Sequence[Cell]]) -> None:
        n_columns = len(self._database.execute(f"PRAGMA table_info({table})").fetchall())
        places = ", ".join("?" * n_columns)
        self._database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)

    def write_facts(self, facts: dict[str, str]) -> None:
        """Keep small facts about the run by name, the latest of each."""
        with self.transaction():
            self._database.executemany(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                facts.items(),
            )

    def facts(self) -> dict[str, str]:
        """Return the small facts that are kept."""
        return dict(self._database.execute("SELECT name, value FROM facts").fetchall())

    def save_model(self, model: Predictor) -> Path:
        """Write what was trained and predicts, and return its path."""
        replace_file(self.folder / MODEL, to_bytes(model), mode=PRIVATE)
        return self.folder / MODEL

    def finished(self, stage: str) -> list[tuple[Cell, ...]]:
        """Return the rows of a stage's finished rounds."""
        return self._database.execute(
            "SELECT * FROM rounds WHERE stage = ? ORDER BY round", (stage,)
        ).fetchall()

    def refusals(self, stage: str, round_: int) -> tuple[Refusal, ...]:
        rows = self._database.execute(
            "SELECT client, code, reason FROM refusals WHERE stage = ? AND round = ? "
            "ORDER BY rowid",
            (stage, round_),
        )
        return tuple(Refusal(*row) for row in rows)

    def figures(self, stage: str, round_: int) -> dict[str, float]:
        rows = self._database.execute(
            "SELECT name, value FROM figures WHERE stage = ? AND round = ? ORDER BY name",
            (stage, round_),
        )
        return {name: math.nan if value is None else value for name, value in rows}

    def close_round(
        self, stage: str, record: Record, state: Parts, digests: Iterable[Digest] = ()
    ) -> None:
        """Keep a state and then commit its round; the state before it is no longer needed.

        Parameters
        ----------
        digests
            Of the sum that the state is, and of what each client sent where it is kept.
        """
        content = state.to_bytes()
        replace_file(self.state_path(stage, record.round), content, mode=PRIVATE)
        refused = [(stage, record.round, r.client, r.code, r.reason) for r in record.refused]
        counts = (record.n_asked, record.n_used, record.seconds, record.bytes_down, record.bytes_up)
        written = hashlib.sha256(content).hexdigest()
        with self.transaction():
            self.flush()
            self._insert("rounds", [(stage, record.round, *counts, written)])
            self._insert("digests", digest_rows(stage, record.round, digests))
            self._insert("refusals", refused)
            named = record.figures.items()
            self._insert("figures", [(stage, record.round, name, v) for name, v in named])
            seal_round(self._database, stage, record.round)
        self.part_path(stage, record.round).unlink(missing_ok=True)
        if record.round > 0:
            self.state_path(stage, record.round - 1).unlink(missing_ok=True)

    def keep_begun(self, stage: str, round_: int, parts: Parts) -> None:
        """Keep the part of a round that is done, once its messages are in the ledger."""
        with self.transaction():
            self.flush()
        replace_file(self.part_path(stage, round_), parts.to_bytes(), mode=PRIVATE)

    def seal(self, stage: str, round_: int) -> None:
        """Seal a round whose rows were written one by one."""
        with self.transaction():
            self.flush()
            seal_round(self._database, stage, round_)

    def state_path(self, stage: str, round_: int) -> Path:
        return self.folder / "states" / f"{stage}-{round_:06d}.bin"

    def part_path(self, stage: str, round_: int) -> Path:
        return self.folder / "states" / f"{stage}-{round_:06d}{PART}"

    def close(self) -> None:
        """Write what is left and let go of the folder."""
        try:
            with self.transaction():
                self.flush()
                seal_results(self._database)
            # Leaves one file, which can be read where nothing can be written; not under a reader.
            with suppress(sqlite3.OperationalError):
                self._database.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._database.close()
            self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_begun(folder: str | Path, *, or_charged: bool = True) -> bool:
    """Return whether a run's folder holds more than a scaling: a round, or part of one.

    Parameters
    ----------
    or_charged
        Whether one counts, too, that was charged to a ledger of noise and is not finished.

    >>> is_begun("no-such-folder")
    False
    """
    path = Path(folder) / DATABASE
    if not path.is_file():
        return False
    parts = (Path(folder) / "states").glob(f"*{PART}")
    if any(not part.name.startswith("scaling-") for part in parts):
        return True
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            rounds = "SELECT 1 FROM rounds WHERE stage != 'scaling'"
            charged = "SELECT 1 FROM facts WHERE name = ?"
            return database.execute(rounds).fetchone() is not None or (
                or_charged and database.execute(charged, (CHARGED,)).fetchone() is not None
            )
        finally:
            database.close()
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
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return database.execute("SELECT 1 FROM facts").fetchone() is None
    except sqlite3.DatabaseError as error:
        return "no such table" in str(error)


def remove_run(folder: str | Path) -> None:
    """Remove a run and nothing that is not a run; FederationError if somebody is writing it."""
    place = Path(folder)
    if not (place / DATABASE).is_file():
        return
    _locked(place).close()
    for name in ("states", CLIENTS, JOURNAL):
        shutil.rmtree(place / name, ignore_errors=True)
    own = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "lock", PLAN, MODEL, EARLIER, PROGRESS)
    for name in own:
        (place / name).unlink(missing_ok=True)
    with suppress(OSError):
        place.rmdir()


@final
class StageKeeper(Generic[S, U, R]):
    """Writes down one stage of a run and goes on where it stopped; `Store.keeper` makes it."""

    def __init__(self, store: Store, stage: str, plan: Plan[S, U, R]) -> None:
        self._store, self._stage, self._plan = store, stage, plan

    def resume(self) -> tuple[S, tuple[Record, ...]] | None:
        """Return the state and records of the finished rounds, or None if there are none."""
        rows = self._store.finished(self._stage)
        if not rows:
            return None
        refused = (self._store.refusals(self._stage, k) for k in range(len(rows)))
        figures = (self._store.figures(self._stage, k) for k in range(len(rows)))
        records = tuple(map(_record, rows, refused, figures))
        path = self._store.state_path(self._stage, records[-1].round)
        if not path.is_file():
            raise IntegrityError(f"{path} is missing; start the run again in another folder")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != rows[-1][-1]:
            raise IntegrityError(f"{path} is damaged; start the run again in another folder")
        return self._plan.algorithm.load_state(Parts.from_bytes(content)), records

    @property
    def every(self) -> float:
        return self._store.keep_every

    def begun(self, round_: int) -> Parts | None:
        """Return what was kept of a round that is not over, None if there is nothing to use."""
        path = self._store.part_path(self._stage, round_)
        if not path.is_file():
            return None
        try:
            return Parts.from_bytes(path.read_bytes())
        except IntegrityError as error:
            log.warning("%s is damaged, the round begins anew: %s", path, error)
            return None

    def keep_begun(self, round_: int, parts: Parts) -> None:
        self._store.keep_begun(self._stage, round_, parts)

    def note(self, entry: Entry) -> None:
        self._store.note(self._stage, entry)

    def note_all(self, entries: Entries) -> None:
        self._store.note_all(self._stage, entries)

    def close_round(self, state: S, record: Record) -> None:
        whole = self._plan.algorithm
        digests = digests_of(whole.tally(state))
        self._store.close_round(self._stage, record, whole.save_state(state), digests)


def digest_rows(stage: str, round_: int, digests: Iterable[Digest]) -> list[tuple[Cell, ...]]:
    """Return digests as rows of their table."""
    return [(stage, round_, one.client, one.sha256, int(one.is_exact)) for one in digests]


def _record(row: Sequence[Cell], refused: tuple[Refusal, ...], figures: dict[str, float]) -> Record:
    _, round_, asked, used, seconds, down, up, _ = row
    return Record(
        int(round_ or 0),
        int(asked or 0),
        int(used or 0),
        float(seconds or 0),
        int(down or 0),
        int(up or 0),
        refused,
        figures,
    )


def _opened(path: Path) -> sqlite3.Connection:
    _make_private(path)
    # Transactions are our own: isolation_level None keeps the module from opening any.
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        (n_tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if n_tables == 0:
            database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        for table in (_DIGESTS, *_SERVED):
            database.execute(table)
        database.execute(SEALS)
    except sqlite3.DatabaseError as error:
        database.close()
        raise IntegrityError(f"{path} is not a run's database ({error})") from error
    return database


def _locked(folder: Path) -> sqlite3.Connection:
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
