"""Checksums of what a run's database says: of every finished round, each with the one before it.

SQLite notices a torn page and not a changed byte. A seal is the SHA-256 of a round's rows (its
messages, refusals, figures, digests, and the round itself) after the seal before it; one more is of
all that is shown beside them, written when the folder is closed. They find damage, not malice:
whoever can write the file can write its seals too.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

OF_ROUNDS = ("messages", "rounds", "figures", "refusals", "digests")
OF_RESULTS = (
    *("facts", "stages", "kinds", "scores", "clients", "flags", "confusion", "ridge_path"),
    *("forecast", "comparison"),
)
# Runs of earlier versions lack it and are read all the same.
SEALS = """
CREATE TABLE IF NOT EXISTS seals (position INTEGER PRIMARY KEY, stage TEXT, round INTEGER,
    sha256 TEXT)
"""
RESULTS = ""  # in the place of a stage
SOME = 1000  # rows at a time; a round may have millions
_as_json = json.JSONEncoder().encode


def seal_round(database: sqlite3.Connection, stage: str, round_: int) -> None:
    """Write down the seal of a round whose rows are all there."""
    found = _of_round(database, last_seal(database), stage, round_)
    database.execute(
        "INSERT INTO seals (stage, round, sha256) VALUES (?, ?, ?)", (stage, round_, found)
    )


def seal_results(database: sqlite3.Connection) -> None:
    """Write down the seal of what is shown beside the rounds, in the place of an earlier one."""
    break_results(database)
    values = (RESULTS, 0, _of_results(database))
    database.execute("INSERT INTO seals (stage, round, sha256) VALUES (?, ?, ?)", values)


def break_results(database: sqlite3.Connection) -> None:
    """Take away the seal of what is shown, while it is being written."""
    database.execute("DELETE FROM seals WHERE stage = ?", (RESULTS,))


def last_seal(database: sqlite3.Connection) -> str:
    """Return the seal of the last round, which covers all rounds; nothing if a run has none."""
    if not _has_seals(database):
        return ""
    last = database.execute(
        "SELECT sha256 FROM seals WHERE stage != ? ORDER BY position DESC LIMIT 1", (RESULTS,)
    ).fetchone()
    return str(last[0]) if last else ""


def damage(database: sqlite3.Connection) -> tuple[str, ...]:
    """Return what is not as it was written, a sentence each; nothing if a run has no seals."""
    if not _has_seals(database):
        return ()
    found, before = [], ""
    rows = database.execute("SELECT stage, round, sha256 FROM seals ORDER BY position").fetchall()
    sealed = [(stage, round_) for stage, round_, _ in rows if stage != RESULTS]
    for stage, round_, sha256 in rows:
        if stage == RESULTS:
            if _of_results(database) != sha256:
                found.append("scores, settings or other results are not as they were written")
        else:
            if _of_round(database, before, stage, round_) != sha256:
                found.append(f"the ledger of {stage}, round {round_ + 1}, is not as it was written")
            before = sha256
    finished = [tuple(row) for row in database.execute("SELECT stage, round FROM rounds")]
    if sealed and set(sealed) != set(finished):
        found.append("the ledger lacks rounds, or has some that were never sealed")
    return tuple(found)


def _has_seals(database: sqlite3.Connection) -> bool:
    found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'seals'").fetchone()
    return found is not None


def _of_round(database: sqlite3.Connection, before: str, stage: str, round_: int) -> str:
    seal = hashlib.sha256(before.encode())
    for table in OF_ROUNDS:
        order = "rowid" if table == "refusals" else "1, 2, 3, 4"
        rows = database.execute(
            f"SELECT * FROM {table} WHERE stage = ? AND round = ? ORDER BY {order}", (stage, round_)
        )
        _enter(seal, table, rows)
    return seal.hexdigest()


def _of_results(database: sqlite3.Connection) -> str:
    seal = hashlib.sha256()
    for table in OF_RESULTS:
        _enter(seal, table, database.execute(f"SELECT * FROM {table}"))
    return seal.hexdigest()


def _enter(seal: hashlib._Hash, table: str, rows: sqlite3.Cursor) -> None:
    seal.update(f"{table}\n".encode())
    while some := rows.fetchmany(SOME):
        seal.update(_lines(some).encode())


def _lines(rows: Sequence[Sequence[Any]]) -> str:
    """Return each row as a line of JSON.

    >>> _lines([("a", 1), ("b], [c", None)])
    '["a", 1]\\n["b], [c", null]\\n'
    """
    # By columns: a round may have millions of rows, and the words of most are alike.
    columns = [_cells(column) for column in zip(*rows, strict=True)]
    return "[" + "]\n[".join(map(", ".join, zip(*columns, strict=True))) + "]\n"


def _cells(column: tuple[Any, ...]) -> Iterable[str]:
    """Return each value as JSON."""
    kinds = set(map(type, column))
    if kinds == {str}:
        if column.count(column[0]) == len(column):
            return (_as_json(column[0]),) * len(column)
        return map(encode_basestring_ascii, column)
    if kinds == {type(None)}:
        return ("null",) * len(column)
    return map(int.__repr__ if kinds == {int} else _as_json, column)
