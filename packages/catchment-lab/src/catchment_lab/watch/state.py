"""What a run's folder says at one moment, while the run goes on, before it and after it.

Everything is read from the folder by connections that only read and are closed at once, so that
the run is not disturbed and its process need not know of it. How much is read does not grow with
the number of messages, and what is shown of long runs is thinned. One reader serves however many
browsers look at it.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

from catchment.federation.runs import DATABASE, PROGRESS, Progress, is_held, read_progress


@dataclass(frozen=True)
class Bounded:
    """What the noise of a stage bounds: all its releases together, of which some are made."""

    stage: str
    epsilon: float
    delta: float
    made: int
    releases: int
    unit: str


def bounded_in(stage: str, settings: str, n_rounds: int) -> Iterator[Bounded]:
    """Yield what each protection by noise bounds, of a stage's plan as JSON, after some rounds."""
    for protection in json.loads(settings).get("Plan", {}).get("protections", ()):
        for about in protection.values():
            match about:
                case {"epsilon": float() | int() as epsilon, "delta": float() as delta, **rest}:
                    given, unit = rest.get("releases"), str(rest.get("unit", "client"))
                    releases = given if isinstance(given, int) else 1
                    yield Bounded(stage, epsilon, delta, n_rounds, releases, unit)


SILENT = 30.0  # seconds after which it is said that there is no sign of life
MOST_POINTS = 400  # of a line; a chart is not much wider
MOST_ROUNDS = 20
MOST_REFUSALS = 100
BUSY = 2.0  # seconds to wait for a run that writes

WAITING, RUNNING, SILENCE = "waiting", "running", "silent"
STOPPED, FAILED, FINISHED = "stopped", "failed", "finished"


@dataclass(frozen=True)
class StageState:
    """A stage: the rounds it has at most, how many are finished, and "done", "now" or "next"."""

    name: str
    rounds: int
    finished: int
    state: str


@dataclass(frozen=True)
class RoundState:
    """A finished round."""

    stage: str
    round: int
    asked: int
    used: int
    seconds: float
    bytes_down: int
    bytes_up: int
    figures: Mapping[str, float | None]


@dataclass(frozen=True)
class Series:
    """A number that each round of a stage has; of long runs not every round is here."""

    stage: str
    name: str
    rounds: tuple[int, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class RefusalState:
    """A client whose answers were not used, and why, in its own or our words.

    `round` is the last one in which it was so, of so many `times`.
    """

    stage: str
    client: str
    code: str
    reason: str
    round: int
    times: int


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment.

    Parameters
    ----------
    state
        "waiting" (nothing has begun), "running", "silent" (its process is there, but nothing
        happened for 30 s), "stopped" (no process has the folder), "failed" or "finished".
    says
        The same in a sentence.
    seen
        When the run last gave a sign of life, in seconds since 1970.
    progress
        How far the round under way is.
    n_rounds
        Finished rounds by stage, all of them; `rounds` are the latest ones.
    refused
        Refused answers by code, all of them; `refusals` are the latest ones.
    scores
        By metric: of all rows together, after the test.
    worst
        The worst client and its score by the first metric.

    >>> look("no/such/run").state
    'waiting'
    """

    folder: str
    state: str
    says: str
    at: float
    seen: float = 0.0
    facts: Mapping[str, str] | None = None
    progress: Progress | None = None
    stages: tuple[StageState, ...] = ()
    rounds: tuple[RoundState, ...] = ()
    series: tuple[Series, ...] = ()
    n_rounds: Mapping[str, int] | None = None
    bytes_up: Mapping[str, int] | None = None
    bytes_down: Mapping[str, int] | None = None
    refusals: tuple[RefusalState, ...] = ()
    refused: Mapping[str, int] | None = None
    bounds: tuple[Bounded, ...] = ()
    scores: Mapping[str, float | None] | None = None
    metric: str = ""
    worst: tuple[str, float | None] | None = None

    def to_json(self) -> str:
        """Return it as JSON, which has no NaN and no infinity: null stands for both."""
        return json.dumps(asdict(self), allow_nan=False)


_SHOWN = ("title", "engine", "algorithm", "source", "started", "finished", "untested")


def look(folder: str | Path) -> Snapshot:
    """Return what a run's folder says now; one that holds no run yet is waited for.

    Parameters
    ----------
    folder
        Of a run that goes on, is over, or has not begun.
    """
    place = Path(folder)
    if place.is_file():
        raise ValueError(f"{folder} is a file; pass the folder of a run, such as runs/NAME")
    try:
        held, progress, seen = is_held(place), read_progress(place), last_sign(place)
        if not (place / DATABASE).is_file():
            return _waiting(place)
        address = f"{(place / DATABASE).resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY)) as database:
            database.execute("BEGIN")  # one moment for all tables
            return _read(place, database, held, progress, seen)
    except (OSError, sqlite3.OperationalError) as error:
        gone = isinstance(error, sqlite3.OperationalError) and not (place / DATABASE).is_file()
        if gone or "no such table" in str(error):
            return _waiting(place)  # it was just removed, or is being made
        return Snapshot(place.name, STOPPED, f"It cannot be read: {error}.", time.time())
    except (sqlite3.DatabaseError, ValueError, TypeError, KeyError) as error:
        return Snapshot(place.name, STOPPED, f"It is damaged: {error}.", time.time())


def signature(folder: Path) -> tuple[object, ...]:
    """Return what is different when there may be something new to read."""
    return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in _written(folder))


def last_sign(folder: Path) -> float:
    """Return when a run's process last wrote something, in seconds since 1970; 0 if never."""
    return max((one.st_mtime for one in _written(folder)), default=0.0)


def _written(folder: Path) -> Iterator[os.stat_result]:
    for name in (DATABASE, f"{DATABASE}-wal", PROGRESS):
        with suppress(OSError):
            yield (folder / name).stat()


def _waiting(place: Path) -> Snapshot:
    says = f"No run has begun in {place} yet; this page follows it as soon as one does."
    return Snapshot(place.name, WAITING, says, time.time())


def _read(
    place: Path, database: sqlite3.Connection, held: bool, progress: Progress | None, seen: float
) -> Snapshot:
    facts = dict(database.execute("SELECT name, value FROM facts").fetchall())
    totals = {
        stage: about
        for stage, *about in database.execute(
            "SELECT stage, count(*), sum(bytes_up), sum(bytes_down) FROM rounds GROUP BY stage"
        )
    }
    if "started" not in facts and not totals:
        return _waiting(place)
    # Asked before and after the tables are read: a run that ends in between has written there
    # that it is finished, and one that begins in between has the folder now.
    state, says = judged(facts, held or is_held(place), progress, seen, time.time())
    planned = database.execute(
        "SELECT stage, rounds, settings FROM stages ORDER BY position"
    ).fetchall()
    finished = {stage: about[0] for stage, about in totals.items()}
    now = _current(progress, finished) if state in (RUNNING, SILENCE) else None
    scores, worst = _scores(database, facts.get("metric", ""))
    return Snapshot(
        place.name,
        state,
        says,
        time.time(),
        seen,
        {name: facts[name] for name in _SHOWN if name in facts},
        now,
        _stages(facts, planned, finished, state, now),
        _rounds(database),
        tuple(one for stage, n in finished.items() for one in _series(database, stage, n)),
        finished,
        {stage: about[1] for stage, about in totals.items()},
        {stage: about[2] for stage, about in totals.items()},
        _refusals(database),
        dict(database.execute("SELECT code, count(*) FROM refusals GROUP BY code").fetchall()),
        tuple(
            bound
            for stage, _, settings in planned
            for bound in bounded_in(stage, settings, finished.get(stage, 0))
        ),
        scores,
        facts.get("metric", ""),
        worst,
    )


def _current(progress: Progress | None, finished: Mapping[str, int]) -> Progress | None:
    """Return how far the round under way is; of a round that is finished by now, its successor."""
    if progress is None or progress.round >= finished.get(progress.stage, 0):
        return progress
    return replace(progress, round=finished[progress.stage], done=0, asked=0)


def judged(
    facts: Mapping[str, str], held: bool, progress: Progress | None, seen: float, now: float
) -> tuple[str, str]:
    """Return the state of a run that has begun, and the same in a sentence.

    >>> judged({"started": ""}, True, None, 100.0, 110.0)[0]
    'running'
    >>> judged({"started": ""}, True, None, 100.0, 141.0)
    ('silent', 'No sign of life for 41 s; its process is alive, so the round may just be long.')
    >>> judged({"started": ""}, False, None, 100.0, 141.0)[0]
    'stopped'
    """
    if "finished" in facts or ("started" not in facts and not held):
        return FINISHED, "Its model is in the folder; for a report: catchment report."
    ago = max(0, round(now - seen))
    if held:
        if now - seen <= SILENT:
            return RUNNING, "Its process is working."
        words = "its process is alive, so the round may just be long."
        return SILENCE, f"No sign of life for {ago} s; {words}"
    again = "Continue with the same command and --resume."
    if progress is not None and progress.ended:
        return FAILED, f"The run ended before it was finished ({progress.ended}). {again}"
    return STOPPED, f"No sign of life for {ago} s, and no process has the folder open. {again}"


def _stages(
    facts: Mapping[str, str],
    planned: Sequence[tuple[str, int, str]],
    finished: Mapping[str, int],
    state: str,
    now: Progress | None,
) -> tuple[StageState, ...]:
    """Return the stages in their order; those that are not begun come from the plan."""
    begun = {name: rounds for name, rounds, _ in planned}
    expected = json.loads(facts.get("stages", "[]"))
    names = list(dict.fromkeys([*begun, *(name for name in expected if name not in begun)]))
    names.sort(key=lambda name: expected.index(name) if name in expected else len(expected))
    latest = list(begun)[-1] if begun else ""
    if now is not None and now.stage and now.stage not in begun:
        names.append(now.stage)  # a fold, or a row of the comparison
        latest = now.stage
    over = state == FINISHED
    found = []
    for name in names:
        known = begun.get(name, 1 if name == latest else 0)
        done = finished.get(name, 0)
        if name == latest and not over and not (done and done >= known):
            word = "now" if state in (RUNNING, SILENCE) else "cut short"
        elif done or name in begun:
            word = "done"
        else:
            word = "left out" if over else "next"
        found.append(StageState(name, known, done, word))
    return tuple(found)


def _rounds(database: sqlite3.Connection) -> tuple[RoundState, ...]:
    """Return the latest rounds, the last one first."""
    rows = database.execute(
        "SELECT stage, round, asked, used, seconds, bytes_down, bytes_up FROM rounds "
        "JOIN stages USING (stage) ORDER BY position DESC, round DESC LIMIT ?",
        (MOST_ROUNDS,),
    ).fetchall()
    return tuple(
        RoundState(stage, k, asked, used, seconds, down, up, _figures(database, stage, k))
        for stage, k, asked, used, seconds, down, up in rows
    )


def _figures(database: sqlite3.Connection, stage: str, round_: int) -> dict[str, float | None]:
    rows = database.execute(
        "SELECT name, value FROM figures WHERE stage = ? AND round = ? ORDER BY name",
        (stage, round_),
    )
    return {name: finite(value) for name, value in rows}


def _series(database: sqlite3.Connection, stage: str, n_rounds: int) -> list[Series]:
    """Return the figures of a stage of several rounds, and how many clients answered."""
    if n_rounds < 2:
        return []
    thin = (stage, -(-n_rounds // MOST_POINTS), n_rounds - 1)
    kept = "stage = ? AND (round % ? = 0 OR round = ?) ORDER BY round"
    lines: dict[str, list[tuple[int, float | None]]] = {}
    for round_, name, value in database.execute(
        f"SELECT round, name, value FROM figures WHERE {kept}", thin
    ):
        lines.setdefault(name, []).append((round_, finite(value)))
    for round_, used, sent in database.execute(
        f"SELECT round, used, bytes_up FROM rounds WHERE {kept}", thin
    ):
        lines.setdefault("clients used", []).append((round_, used))
        lines.setdefault("bytes up", []).append((round_, sent))
    return [
        Series(stage, name, tuple(r for r, _ in points), tuple(v for _, v in points))
        for name, points in lines.items()
    ]


def _refusals(database: sqlite3.Connection) -> tuple[RefusalState, ...]:
    rows = database.execute(
        "SELECT stage, client, code, reason, max(round), count(*) FROM refusals "
        "GROUP BY stage, client, code, reason ORDER BY max(rowid) DESC LIMIT ?",
        (MOST_REFUSALS,),
    )
    return tuple(RefusalState(*row) for row in rows)


def _scores(
    database: sqlite3.Connection, metric: str
) -> tuple[dict[str, float | None], tuple[str, float | None] | None]:
    """Return the scores of all together by metric, and the worst client by the leading one."""
    rows = database.execute(
        "SELECT metric, value FROM scores WHERE stage = 'evaluation' AND client = ''"
    )
    scores = {name: finite(value) for name, value in rows}
    order = "ASC" if metric == "accuracy" else "DESC"
    worst: Any = database.execute(
        "SELECT client, value FROM scores WHERE stage = 'evaluation' AND client != '' "
        f"AND metric = ? AND value IS NOT NULL ORDER BY value {order}, client LIMIT 1",
        (metric,),
    ).fetchone()
    return scores, None if worst is None else (worst[0], finite(worst[1]))


def finite(value: float | None) -> float | None:
    """Return a number, or None where it is none.

    >>> finite(0.5), finite(math.nan), finite(None)
    (0.5, None, None)
    """
    return value if value is not None and math.isfinite(value) else None


EVERY = 0.5  # seconds between looks whether files have changed
ANYWAY = 2.0  # seconds after which a run is read again although none has: its process may be gone
REMOVED = "The run ended before its training and left nothing behind; its terminal says why."


@final
class Feed:
    """Reads a run's folder in a thread of its own and hands on what is new.

    Parameters
    ----------
    folder
        Of a run.
    every
        Seconds between two looks.

    >>> with Feed(Path("no/such/run")) as feed:
    ...     number, snapshot = feed.after(0, seconds=5.0)
    >>> number, snapshot.state
    (1, 'waiting')
    """

    def __init__(self, folder: Path, *, every: float = EVERY) -> None:
        self._folder, self._every = folder, every
        self._changed = threading.Condition()
        self._number, self._snapshot = 1, look(folder)
        self._begun = self._snapshot.state != WAITING
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watch", daemon=True)

    @property
    def latest(self) -> Snapshot:
        return self._snapshot

    @property
    def is_over(self) -> bool:
        """Whether nobody reads any more."""
        return self._over.is_set()

    def after(self, number: int, *, seconds: float) -> tuple[int, Snapshot]:
        """Return the first snapshot after one, with its number, or that one again after a time."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number or self.is_over, seconds)
            return self._number, self._snapshot

    def _follow(self) -> None:
        before, read = signature(self._folder), time.monotonic()
        while not self._over.wait(self._every):
            found = signature(self._folder)
            stale = time.monotonic() - read >= ANYWAY and self._snapshot.state != FINISHED
            if found != before or stale:
                before, read = found, time.monotonic()
                self._take(self._look())

    def _look(self) -> Snapshot:
        found = look(self._folder) if not self._folder.is_file() else self._snapshot
        if found.state == WAITING and self._begun:
            return Snapshot(found.folder, FAILED, REMOVED, found.at)
        return found

    def _take(self, found: Snapshot) -> None:
        self._begun = self._begun or found.state != WAITING
        with self._changed:
            if _same(found, self._snapshot):
                return
            self._number, self._snapshot = self._number + 1, found
            self._changed.notify_all()

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()


def _same(one: Snapshot, other: Snapshot) -> bool:
    """Return whether two snapshots differ by no more than when they were taken."""
    return replace(one, at=0.0) == replace(other, at=0.0)
