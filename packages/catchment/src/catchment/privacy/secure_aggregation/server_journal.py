"""The server's journal of secure aggregation: a round that was cut short goes on where it stopped.

    journal.sqlite   attempts at rounds, the stages they closed, who answered what
    payloads/        masked uploads, each under its own SHA-256

An upload counts once its file is on the disk and its row is committed, in this order; an attempt
goes OPEN -> SEALED -> UNMASKED -> SOLVED -> PUBLISHED, each step in one transaction and never back.
Sums are made from the uploads again after a crash, so the result is the same to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import final

from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.wire.messages import replace_file

FORMAT = 2  # of protocol 3: a round of an older one cannot go on
ORDER = ("OPEN", "SEALED", "UNMASKED", "SOLVED", "PUBLISHED")
FINISHED = ("PUBLISHED", "ABORTED")

_SCHEMA = """
CREATE TABLE attempts (attempt INTEGER PRIMARY KEY, plan TEXT NOT NULL, round INTEGER NOT NULL,
    cohort TEXT NOT NULL, state TEXT NOT NULL);
CREATE TABLE stages (attempt INTEGER, stage TEXT, members TEXT NOT NULL,
    PRIMARY KEY (attempt, stage));
CREATE TABLE replies (attempt INTEGER, stage TEXT, client TEXT, message BLOB NOT NULL,
    PRIMARY KEY (attempt, stage, client)) WITHOUT ROWID;
CREATE TABLE uploads (attempt INTEGER, client TEXT, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (attempt, client)) WITHOUT ROWID;
"""


@final
class Journal:
    """A folder in which one server process writes down its secure aggregation; close it after use.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, Journal(Path(place) / "sums") as journal:
    ...     number, cohort = journal.begin("plan", 0, ["ann", "ben"])
    ...     journal.keep(number, "ann", b"masked"), journal.keep(number, "ann", b"masked")
    (True, False)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._payloads = self.folder / "payloads"
        for place in (self.folder, self._payloads, self.folder / "journal.sqlite"):
            if place.is_symlink():
                raise FederationError(f"{place} is a link; name the journal's folder itself")
        for place in (self.folder, self._payloads):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.RLock()
        self._database = _opened(self.folder / "journal.sqlite")
        self._sweep()

    def begin(
        self, plan: str, round_: int, cohort: Sequence[str], *, after: int = 0
    ) -> tuple[int, tuple[str, ...]]:
        """Return the number and the cohort of the unfinished attempt at a round, or of a new one.

        A new number is above all of this journal and above `after`, which clients know of. Other
        unfinished attempts of the plan end here: the run has gone on without them.
        """
        with self._transaction():
            rows = self._database.execute(
                "SELECT attempt, round, cohort, state FROM attempts WHERE plan = ? "
                "AND state NOT IN (?, ?) ORDER BY attempt",
                (plan, *FINISHED),
            ).fetchall()
            found = [(number, known) for number, at, known, _ in rows if at == round_]
            for number, at, _, state in rows:
                if at != round_:
                    self._move(number, "PUBLISHED" if state == "SOLVED" else "ABORTED")
            if found:
                number, known = found[-1]
                return number, tuple(json.loads(known))
            (latest,) = self._database.execute("SELECT max(attempt) FROM attempts").fetchone()
            number = max(latest or 0, after) + 1
            self._database.execute(
                "INSERT INTO attempts VALUES (?, ?, ?, ?, 'OPEN')",
                (number, plan, round_, json.dumps(list(cohort))),
            )
            return number, tuple(cohort)

    def closed(self, attempt: int) -> Mapping[str, tuple[str, ...]]:
        """Return the stages that are over, in their order, and who went on."""
        with self._lock:
            rows = self._database.execute(
                "SELECT stage, members FROM stages WHERE attempt = ? ORDER BY rowid", (attempt,)
            ).fetchall()
        return {stage: tuple(json.loads(members)) for stage, members in rows}

    def replies(self, attempt: int, stage: str) -> Iterator[tuple[str, bytes]]:
        """Yield the answers to a stage that are kept; IntegrityError if an upload is damaged."""
        if stage != "update":
            with self._lock:
                kept = self._database.execute(
                    "SELECT client, message FROM replies WHERE attempt = ? AND stage = ?",
                    (attempt, stage),
                ).fetchall()
            yield from kept
            return
        with self._lock:
            rows = self._database.execute(
                "SELECT client, sha256 FROM uploads WHERE attempt = ? ORDER BY client", (attempt,)
            ).fetchall()
        for client, sha256 in rows:
            path = self._payloads / sha256
            message = path.read_bytes() if path.is_file() else b""
            if hashlib.sha256(message).hexdigest() != sha256:
                raise IntegrityError(f"the kept upload of {client} ({path}) is damaged or missing")
            yield client, message

    def keep(self, attempt: int, client: str, message: bytes) -> bool:
        """Keep an upload, on the disk when this returns; False if the same was kept before.

        UploadError if the client gave another, or if the uploads are sealed.
        """
        sha256 = hashlib.sha256(message).hexdigest()
        with self._lock:
            if self.state(attempt) != "OPEN":
                raise UploadError("late", f"{client} sent its upload after the sum was sealed")
            known = self._database.execute(
                "SELECT sha256 FROM uploads WHERE attempt = ? AND client = ?", (attempt, client)
            ).fetchone()
            if known is not None:
                if known[0] != sha256:
                    raise UploadError("conflict", f"{client} sent two different uploads")
                return False
            replace_file(self._payloads / sha256, message, mode=0o600)
            with self._transaction():
                self._database.execute(
                    "INSERT INTO uploads VALUES (?, ?, ?, ?)",
                    (attempt, client, sha256, len(message)),
                )
        return True

    def close(
        self,
        attempt: int,
        stage: str,
        members: Sequence[str],
        replies: Mapping[str, bytes],
        *,
        state: str,
    ) -> None:
        """Keep the answers to a stage, that it is over, and who goes on: all or nothing."""
        with self._transaction():
            self._database.execute(
                "INSERT INTO stages VALUES (?, ?, ?)", (attempt, stage, json.dumps(list(members)))
            )
            self._database.executemany(
                "INSERT INTO replies VALUES (?, ?, ?, ?)",
                [(attempt, stage, client, message) for client, message in replies.items()],
            )
            self._move(attempt, state)

    def advance(self, attempt: int, state: str) -> None:
        """Note how far an attempt has come; there is no way back."""
        with self._transaction():
            self._move(attempt, state)
        if state in FINISHED:
            self._sweep()

    def state(self, attempt: int) -> str:
        """Return how far an attempt has come."""
        with self._lock:
            row = self._database.execute(
                "SELECT state FROM attempts WHERE attempt = ?", (attempt,)
            ).fetchone()
        if row is None:
            raise IntegrityError(f"the journal knows no attempt {attempt}")
        return str(row[0])

    def _move(self, attempt: int, state: str) -> None:
        before = self.state(attempt)
        if before == state:
            return
        forward = state in ORDER and before in ORDER and ORDER.index(before) < ORDER.index(state)
        if before in FINISHED or not (forward or state == "ABORTED"):
            raise IntegrityError(f"an attempt cannot go from {before} to {state}")
        self._database.execute("UPDATE attempts SET state = ? WHERE attempt = ?", (state, attempt))

    def _sweep(self) -> None:
        """Delete uploads that no unfinished attempt needs, and drafts that a crash left."""
        with self._lock:
            needed = {
                sha256
                for (sha256,) in self._database.execute(
                    "SELECT sha256 FROM uploads JOIN attempts USING (attempt) "
                    "WHERE state NOT IN (?, ?)",
                    FINISHED,
                )
            }
            for path in self._payloads.iterdir():
                if path.name not in needed:
                    path.unlink()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield

    def shut(self) -> None:
        """Let go of the folder."""
        self._database.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()


def _opened(path: Path) -> sqlite3.Connection:
    # Made by us first, for nobody else to read: the database's other files take its mode.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    # Transactions are our own: isolation_level None keeps the module from opening any.
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;")
        elif version != FORMAT:
            raise IntegrityError(f"{path} has format {version}, this version reads {FORMAT}")
        # Taken now, so that a second server is told at once.
        database.executescript("BEGIN IMMEDIATE; COMMIT;")
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.OperationalError):
            raise FederationError(
                f"another process writes to {path.parent}; wait for it or choose another folder"
            ) from error
        if isinstance(error, sqlite3.DatabaseError):
            raise IntegrityError(f"{path} is not a journal ({error})") from error
        raise
    return database
