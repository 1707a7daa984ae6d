"""The ledger of releases: what was told about whom, kept on disk, and no more than was allowed.

A release is written down, to the disk, before it happens. If the process then dies, the cost has
been paid and nothing was told, which errs on the right side; a release that is tried again draws
new noise and pays again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from catchment.errors import BudgetError, IntegrityError
from catchment.federation.cost import Cost
from catchment.privacy.dp.gaussian import check_epsilon_delta

# What the accountants may be off by.
TOLERANCE = 1e-4

_SCHEMA = """
CREATE TABLE IF NOT EXISTS budgets (
    federation TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL, unit TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY, federation TEXT NOT NULL, at TEXT NOT NULL, purpose TEXT NOT NULL,
    gaussian REAL NOT NULL, concentrated REAL NOT NULL);
CREATE TABLE IF NOT EXISTS members (
    release INTEGER NOT NULL, client TEXT NOT NULL, PRIMARY KEY (client, release)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Release:
    """One line of the ledger."""

    at: str
    purpose: str
    cost: Cost
    n_clients: int


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much may be told about any client of a federation, in all releases together.

    Parameters
    ----------
    path
        The ledger's file; several federations may share it.
    epsilon, delta
        The bound for the whole of what is released; fixed by the first release.
    federation
        Whose budget this is. Two federations with the same clients need one name.
    """

    path: Path
    epsilon: float
    delta: float
    federation: str = "default"

    def __post_init__(self) -> None:
        check_epsilon_delta(self.epsilon, self.delta)

    def charge(
        self, clients: Sequence[str], cost: Cost, *, purpose: str, unit: str = "client"
    ) -> float:
        """Write a release down and return the most that any client has then spent.

        BudgetError if that exceeds the budget; nothing is written then.
        """
        if not clients:
            raise ValueError("a release about no clients costs nothing; do not charge it")
        with self._database() as database:
            self._check(database, unit)
            spent = self._spent(database)
            after = self._epsilon(spent.get(client, Cost()) + cost for client in clients)
            if after > self.epsilon * (1 + TOLERANCE):
                raise BudgetError(
                    f"{purpose} would bring federation {self.federation!r} to epsilon "
                    f"{after:.4g} at delta {self.delta:g}, above its budget of {self.epsilon:g}; "
                    "nothing was released"
                )
            row = database.execute(
                "INSERT INTO releases (federation, at, purpose, gaussian, concentrated) "
                "VALUES (?, ?, ?, ?, ?)",
                (self.federation, _now(), purpose, cost.gaussian, cost.concentrated),
            )
            members = [(row.lastrowid, client) for client in sorted(set(clients))]
            database.executemany("INSERT INTO members VALUES (?, ?)", members)
        return after

    def spent(self, client: str | None = None) -> float:
        """Return the epsilon that a client has spent, or the one that has spent most."""
        with self._database() as database:
            spent = self._spent(database)
        return self._epsilon(spent.values() if client is None else [spent.get(client, Cost())])

    def releases(self) -> list[Release]:
        """Return every release of the federation so far."""
        with self._database() as database:
            rows = database.execute(
                "SELECT at, purpose, gaussian, concentrated, "
                "(SELECT count(*) FROM members WHERE release = id) "
                "FROM releases WHERE federation = ? ORDER BY id",
                (self.federation,),
            ).fetchall()
        return [Release(at, purpose, Cost(g, c), n) for at, purpose, g, c, n in rows]

    def _check(self, database: sqlite3.Connection, unit: str) -> None:
        """Fix the terms at the first release, and refuse others later."""
        wanted = (self.epsilon, self.delta, unit)
        known = database.execute(
            "SELECT epsilon, delta, unit FROM budgets WHERE federation = ?", (self.federation,)
        ).fetchone()
        if known is None:
            database.execute("INSERT INTO budgets VALUES (?, ?, ?, ?)", (self.federation, *wanted))
        elif tuple(known) != wanted:
            raise BudgetError(
                f"federation {self.federation!r} has a budget of epsilon {known[0]:g}, delta "
                f"{known[1]:g} per {known[2]}, not {self.epsilon:g}, {self.delta:g} per {unit}; "
                "a budget cannot be changed once something was released"
            )

    def _spent(self, database: sqlite3.Connection) -> dict[str, Cost]:
        rows = database.execute(
            "SELECT client, sum(gaussian), sum(concentrated) FROM releases "
            "JOIN members ON release = id WHERE federation = ? GROUP BY client",
            (self.federation,),
        )
        return {client: Cost(gaussian, concentrated) for client, gaussian, concentrated in rows}

    def _epsilon(self, costs: Iterable[Cost]) -> float:
        from catchment.privacy.dp.accounting import epsilon_spent

        # Both currencies are monotone, so two clients stand for all.
        known = list(costs)
        exact = [cost for cost in known if cost.concentrated == 0]
        mixed = [cost for cost in known if cost.concentrated > 0]
        dearest = [max(exact, key=lambda cost: cost.gaussian)] if exact else []
        if mixed:
            dearest.append(max(mixed, key=lambda cost: cost.concentrated + cost.gaussian / 2))
        return max((epsilon_spent(cost, self.delta) for cost in dearest), default=0.0)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Yield the ledger inside one transaction, committed to the disk at the end."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        try:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";")[:-1]:
                database.execute(statement)
            yield database
            database.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise IntegrityError(f"{self.path} is not a privacy ledger ({error})") from error
        finally:
            # Without a commit the transaction is rolled back here.
            database.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
