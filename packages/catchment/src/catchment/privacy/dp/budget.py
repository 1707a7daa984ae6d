"""The server's ledger of releases: what was told about whom, and no more than was allowed.

A release is written down, to the disk, before it happens. If the process then dies, the cost has
been paid and nothing was told, which errs on the right side; the same round of the same run, taken
up again, is the same release.

Everything is written twice: into the ledger's own file, and into a copy in the user's state folder
(`$XDG_STATE_HOME/catchment`, or `~/.local/state/catchment`). What has been spent is the larger of
what the two say, so that a ledger that was deleted, replaced or moved is none the richer. In each,
lines are chained by their SHA-256, and a line that is missing or changed is noticed. Clients are
known by their data where these are at hand, or by their public keys (`Budget.known`), and else by
their names in a federation: only then does another name make a new account.

It does not stop the owner of the machine, who can delete both files, and needs not: it keeps an
honest server from telling more than it means to. A server that lies is refused by the clients' own
ledgers (`catchment.privacy.ledger`), where these add the noise.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import starmap
from pathlib import Path
from typing import Any

from catchment.data.units import block_digests
from catchment.errors import BudgetError, IntegrityError
from catchment.federation.algorithm import Cost
from catchment.privacy.dp.gaussian import check_epsilon_delta, epsilon_spent

TOLERANCE = 1e-6  # of an epsilon: what rounding may do to a sum of costs
MOST_KEYS = 64  # digests by which a client's data are known

_LINE = "federation, at, purpose, gaussian, concentrated, budget, run, n_clients"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS budgets (
    federation TEXT PRIMARY KEY, delta REAL NOT NULL, unit TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY, federation TEXT NOT NULL, at TEXT NOT NULL, purpose TEXT NOT NULL,
    gaussian REAL NOT NULL, concentrated REAL NOT NULL, budget REAL NOT NULL, run TEXT NOT NULL,
    n_clients INTEGER NOT NULL, link TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS accounts (
    release INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (key, release)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY, n INTEGER NOT NULL, link TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Charge:
    """One line of the ledger: a release, and what it cost."""

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
        The bound for the whole of what is released. Delta is fixed by the first release; an epsilon
        that is raised later is noted beside the releases it allowed.
    federation
        Whose budget this is. Two federations with the same clients need one name.
    known
        By client: what it is known by, whatever its name, such as `data_keys` or its public key.
    run
        Names the run, if a round that is taken up again shall be charged once.
    """

    path: Path
    epsilon: float
    delta: float
    federation: str = "default"
    known: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False, compare=False)
    run: str = ""

    def __post_init__(self) -> None:
        check_epsilon_delta(self.epsilon, self.delta)

    def identity(self) -> str:
        """Return what both sides of a plan agree on: the terms, not where the ledger lies."""
        return json.dumps([self.epsilon, self.delta, self.federation])

    def charge(
        self, clients: Sequence[str], cost: Cost, *, purpose: str, unit: str = "client"
    ) -> float:
        """Write a release down and return the most that any client has then spent.

        BudgetError if that exceeds the budget; nothing is written then.
        """
        if not clients:
            raise ValueError("a release about no clients costs nothing; do not charge it")
        accounts = {client: self._keys(client) for client in clients}
        with self._books() as books:
            self._check(books[0], unit)
            before = [[_spent(book, keys) for keys in accounts.values()] for book in books]
            if any(self._is_charged(book, purpose, cost, accounts) for book in books):
                return max(self._epsilon(spent) for spent in before)
            after = [self._epsilon(spent + cost for spent in costs) for costs in before]
            if max(after) > self.epsilon * (1 + TOLERANCE):
                spent = max(self._epsilon(costs) for costs in before)
                raise BudgetError(self._too_much(purpose, spent, after))
            at, n = datetime.now(UTC).isoformat(timespec="seconds"), len(accounts)
            costs = (cost.gaussian, cost.concentrated, self.epsilon)
            line = [self.federation, at, purpose, *costs, self.run, n]  # as _LINE has them
            keys = sorted({key for keys in accounts.values() for key in keys})
            for book in books:
                _write(book, line, keys)
        return max(after)

    def _too_much(self, purpose: str, spent: float, after: Sequence[float]) -> str:
        why = f"; earlier releases of the same data told epsilon {spent:.4g}" if spent else ""
        if after[0] < max(after):
            why += (
                f" ({self.path.name} knows of less than the copy in {_state_folder()}: it was "
                "deleted or replaced, or another plan released the same data)"
            )
        return (
            f"{purpose} would bring what is told about the clients of federation "
            f"{self.federation!r} to epsilon {max(after):.4g} at delta {self.delta:g}, above its "
            f"budget of {self.epsilon:g}; nothing was released{why}; go on with a run that was cut "
            "short (--resume), or, if more may be told about these clients, raise the budget's "
            f"epsilon (budget_epsilon in a plan file) to {math.ceil(max(after) * 100) / 100:g} or "
            "more"
        )

    def spent(self, client: str | None = None) -> float:
        """Return the epsilon that a client has spent, or the one that has spent most."""
        with self._books() as books:
            if client is not None:
                return max(self._epsilon([_spent(book, self._keys(client))]) for book in books)
            rows = books[0].execute(
                "SELECT sum(gaussian), sum(concentrated) FROM releases JOIN accounts "
                "ON release = id WHERE federation = ? GROUP BY key",
                (self.federation,),
            )
            return self._epsilon(starmap(Cost, rows))

    def releases(self) -> list[Charge]:
        """Return every release of the federation so far."""
        with self._books() as books:
            rows = books[0].execute(
                "SELECT at, purpose, gaussian, concentrated, n_clients FROM releases "
                "WHERE federation = ? ORDER BY id",
                (self.federation,),
            )
            return [Charge(at, purpose, Cost(g, c), n) for at, purpose, g, c, n in rows]

    def _keys(self, client: str) -> list[str]:
        """Return what a client is looked for by."""
        keys = [f"known {key}" for key in self.known.get(client, ())]
        # In the copy there are ledgers of other places, which may know others of the same name.
        return keys or [json.dumps(["name", str(self.path.resolve()), self.federation, client])]

    def _is_charged(
        self,
        book: sqlite3.Connection,
        purpose: str,
        cost: Cost,
        accounts: Mapping[str, Sequence[str]],
    ) -> bool:
        """Return whether a round of this run was charged to all these clients before.

        It was begun then, and is taken up again.
        """
        if not self.run:
            return False
        rows = book.execute(
            "SELECT release, key FROM accounts JOIN releases ON release = id WHERE run = ? "
            "AND purpose = ? AND gaussian = ? AND concentrated = ?",
            (self.run, purpose, cost.gaussian, cost.concentrated),
        )
        charged: dict[int, set[str]] = {}
        for release, key in rows:
            charged.setdefault(release, set()).add(key)
        return any(
            all(not known.isdisjoint(keys) for keys in accounts.values())
            for known in charged.values()
        )

    def _check(self, book: sqlite3.Connection, unit: str) -> None:
        """Fix the terms at the first release, and refuse others later."""
        known = book.execute(
            "SELECT delta, unit FROM budgets WHERE federation = ?", (self.federation,)
        ).fetchone()
        if known is None:
            book.execute(
                "INSERT INTO budgets VALUES (?, ?, ?)", (self.federation, self.delta, unit)
            )
        elif known != (self.delta, unit):
            raise BudgetError(
                f"federation {self.federation!r} has a budget at delta {known[0]:g} per "
                f"{known[1]}, not {self.delta:g} per {unit}; these cannot be changed once "
                "something was released; write the first ones into the plan"
            )

    def _epsilon(self, costs: Iterable[Cost]) -> float:
        # Both currencies are monotone, so two clients stand for all.
        known = list(costs)
        exact = [cost for cost in known if cost.concentrated == 0]
        mixed = [cost for cost in known if cost.concentrated > 0]
        dearest = [max(exact, key=lambda cost: cost.gaussian)] if exact else []
        if mixed:
            dearest.append(max(mixed, key=lambda cost: cost.concentrated + cost.gaussian / 2))
        return max((epsilon_spent(cost, self.delta) for cost in dearest), default=0.0)

    @contextmanager
    def _books(self) -> Iterator[list[sqlite3.Connection]]:
        """Yield the ledger and its copy, checked, inside transactions committed at the end."""
        paths = [self.path.resolve()]
        copy = _state_folder() / "budget.sqlite"
        if copy.resolve() != paths[0]:
            paths.append(copy)
        with ExitStack() as stack:
            yield [stack.enter_context(_opened(path)) for path in paths]


def data_keys(data: Iterable[Any]) -> tuple[str, ...]:
    """Return what a client's data are known by, also after they have grown or been cut.

    The smallest of all digests of their segments, so that two sets of data that are alike in much
    have some in common.

    >>> from catchment.data.recording import Recording
    >>> import numpy as np
    >>> x = np.sin(np.arange(4000.0))
    >>> before, after = (set(data_keys([Recording(part)])) for part in (x, x[5:3990]))
    >>> len(before & after) > 10
    True
    """
    blocks = {digest for item in data for digest in block_digests(item)}
    return tuple(digest.hex() for digest in nsmallest(MOST_KEYS, blocks))


def _state_folder() -> Path:
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / "catchment"


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a ledger inside one transaction, committed to the disk at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Made by us first, for nobody else to read: the database's other files take its mode.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    book = sqlite3.connect(path, isolation_level=None, timeout=60)
    try:
        book.execute("PRAGMA synchronous = FULL")
        book.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";")[:-1]:
            book.execute(statement)
        _verify(book, path)
        yield book
        book.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise IntegrityError(f"{path} is not a privacy ledger ({error})") from error
    finally:
        # Without a commit the transaction is rolled back here.
        book.close()


def _verify(book: sqlite3.Connection, path: Path) -> None:
    """Raise IntegrityError unless every line is there and as it was written."""
    keys: dict[int, list[str]] = {}
    for release, key in book.execute("SELECT release, key FROM accounts ORDER BY key"):
        keys.setdefault(release, []).append(key)
    n, link = 0, ""
    for number, *line, written in book.execute(
        f"SELECT id, {_LINE}, link FROM releases ORDER BY id"
    ):
        n, link = n + 1, _link(link, line, keys.get(number, []))
        if link != written or number != n:
            raise _damaged(path)
    head = book.execute("SELECT n, link FROM head").fetchone()
    if (head or (0, "")) != (n, link) or (keys and max(keys) > n):
        raise _damaged(path)


def _write(book: sqlite3.Connection, line: Sequence[Any], keys: Sequence[str]) -> None:
    n, before = book.execute("SELECT n, link FROM head").fetchone() or (0, "")
    link = _link(before, line, keys)
    book.execute(
        f"INSERT INTO releases (id, {_LINE}, link) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (n + 1, *line, link),
    )
    book.executemany("INSERT INTO accounts VALUES (?, ?)", [(n + 1, key) for key in keys])
    book.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (n + 1, link))


def _link(before: str, line: Sequence[Any], keys: Sequence[str]) -> str:
    content = json.dumps([before, list(line), sorted(keys)])
    return hashlib.sha256(content.encode()).hexdigest()


def _spent(book: sqlite3.Connection, keys: Sequence[str]) -> Cost:
    """Return what all releases cost that any of these keys is in."""
    rows = book.execute(
        "SELECT gaussian, concentrated FROM releases WHERE id IN (SELECT release FROM accounts "
        f"WHERE key IN ({', '.join('?' * len(keys))})) ORDER BY id",
        keys,
    )
    return sum(starmap(Cost, rows), start=Cost())


def _damaged(path: Path) -> IntegrityError:
    return IntegrityError(
        f"the privacy ledger {path} is damaged: a line is missing or changed; restore it from a "
        "copy"
    )
