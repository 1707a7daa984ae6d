"""A run's folder at one moment, and a page about it for browsers on this machine alone.

What the folder says, while the run goes on, before it and after it, is read by connections that
only read and are closed at once, so that the run is not disturbed and its process need not know of
it. How much is read does not grow with the number of messages, and what is shown of long runs is
thinned. One reader serves however many browsers look at it.

The page's server listens on the loopback address alone, answers GET alone, and knows five
addresses, none of which names a file. A request for another host's name is refused: a page of the
web could else give its own name this machine's address and read along. What clients call
themselves, and why they refuse, reaches the page as JSON and is shown as text.

    /           the page          /style.css, /watch.js   what it is made of
    /events     server-sent events, each a whole snapshot as JSON
    /state.json one snapshot
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from socketserver import TCPServer
from typing import Any, final
from urllib.parse import urlsplit

from catchment.federation.runs import DATABASE, PROGRESS, Progress, is_held, read_progress
from catchment.report import style

SILENT = 30.0  # seconds after which it is said that there is no sign of life
MOST_POINTS = 400  # of a line; a chart is not much wider
MOST_ROUNDS = 20
MOST_REFUSALS = 100
BUSY = 2.0  # seconds to wait for a run that writes
WAITING, RUNNING, SILENCE = "waiting", "running", "silent"
STOPPED, FAILED, FINISHED = "stopped", "failed", "finished"
_SHOWN = ("title", "engine", "algorithm", "source", "started", "finished", "untested")
EVERY = 0.5  # seconds between looks whether files have changed
ANYWAY = 2.0  # seconds after which a run is read again although none has: its process may be gone
REMOVED = "The run ended before its training and left nothing behind; its terminal says why."
log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
PORT = 8765
MOST_STREAMS = 32
BEAT = 10.0  # seconds between signs that a stream is alive, by which one that is gone is noticed
HOSTS = frozenset({"127.0.0.1", "localhost"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}
TEXT = "text/plain; charset=utf-8"
STATIC = {
    "/": ("text/html; charset=utf-8", "page.html"),
    "/style.css": ("text/css; charset=utf-8", "watch.css"),
    "/watch.js": ("text/javascript; charset=utf-8", "watch.js"),
}


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
        held, progress = is_held(place), read_progress(place)
        seen = max((one.st_mtime for one in _written(place)), default=0.0)
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
    now = progress if state in (RUNNING, SILENCE) else None
    if now is not None and now.round < finished.get(now.stage, 0):  # it is finished by now
        now = replace(now, round=finished[now.stage], done=0, asked=0)
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
                self._take(look(self._folder) if not self._folder.is_file() else self._snapshot)

    def _take(self, found: Snapshot) -> None:
        if found.state == WAITING and self._begun:
            found = Snapshot(found.folder, FAILED, REMOVED, found.at)
        self._begun = self._begun or found.state != WAITING
        with self._changed:
            # They may differ by no more than when they were taken.
            if replace(found, at=0.0) != replace(self._snapshot, at=0.0):
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


class Server(ThreadingHTTPServer):
    """The server of one run's page; `watching` starts one."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, feed: Feed, address: str, port: int) -> None:
        self.feed = feed
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        super().__init__((address, port), Handler)

    def server_bind(self) -> None:
        """Bind without asking name servers what this machine is called, which can take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether a connection comes from this machine."""
        return ipaddress.ip_address(client_address[0]).is_loopback

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of browsers that go away in the middle of an answer."""
        log.debug("a request of %s was cut short", client_address, exc_info=True)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "catchment", ""
    timeout = 60.0

    def do_GET(self) -> None:
        if not is_local(self.headers.get_all("Host", [])):
            self._send(HTTPStatus.FORBIDDEN, TEXT, b"this page is for 127.0.0.1 and localhost\n")
            return
        if self.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            self._send(HTTPStatus.FORBIDDEN, TEXT, b"this page is not for other sites\n")
            return
        path = urlsplit(self.path).path
        if path in STATIC:
            kind, name = STATIC[path]
            self._send(HTTPStatus.OK, kind, asset(name))
        elif path == "/state.json":
            content = self.server.feed.latest.to_json().encode()
            self._send(HTTPStatus.OK, "application/json", content)
        elif path == "/events":
            self._events()
        else:
            self._send(HTTPStatus.NOT_FOUND, TEXT, b"there is no such page\n")

    def refuse(self) -> None:
        """Answer whatever is not GET."""
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"only GET is answered\n", Allow="GET")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = refuse  # noqa: N815

    def _events(self) -> None:
        """Send a snapshot whenever there is a new one, until somebody has enough."""
        if not self.server.streams.acquire(blocking=False):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, TEXT, b"too many pages are open\n")
            return
        try:
            self._head(HTTPStatus.OK, "text/event-stream")
            self.wfile.write(b"retry: 1000\n\n")
            sent, feed = 0, self.server.feed
            while not feed.is_over:
                number, snapshot = feed.after(sent, seconds=BEAT)
                new = f"id: {number}\ndata: {snapshot.to_json()}\n\n" if number > sent else ":\n\n"
                self.wfile.write(new.encode())
                self.wfile.flush()
                sent = number
        except OSError:
            pass  # the browser went away
        finally:
            self.server.streams.release()

    def _head(self, status: HTTPStatus, kind: str, **more: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def _send(self, status: HTTPStatus, kind: str, content: bytes, **more: str) -> None:
        self._head(status, kind, **{"Content-Length": str(len(content)), **more})
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep requests out of the terminal."""
        log.debug(format, *args)


@cache
def asset(name: str) -> bytes:
    """Return a part of the page, which comes with the library."""
    text = (resources.files("catchment_lab.watch") / name).read_text(encoding="utf-8")
    return (f"{style()}\n{text}" if name.endswith(".css") else text).encode()


def is_local(hosts: list[str]) -> bool:
    """Return whether a request names this machine, at any port: tunnels have their own.

    >>> is_local(["127.0.0.1:8765"]), is_local(["localhost"]), is_local(["example.org:8765"])
    (True, True, False)
    >>> is_local([]), is_local(["localhost", "example.org"]), is_local(["localhost@example.org"])
    (False, False, False)
    """
    if len(hosts) != 1:
        return False
    name, _, port = hosts[0].strip().lower().partition(":")
    return name in HOSTS and (not port or (port.isascii() and port.isdigit()))


@contextmanager
def watching(
    folder: str | Path, *, port: int | None = 0, address: str = LOOPBACK
) -> Iterator[Server]:
    """Serve the page of a run, in threads of their own, until the block ends.

    Parameters
    ----------
    folder
        Of a run that goes on, is over, or has not begun.
    port
        0 for any that is free; None for 8765, or any that is free where that is taken.
    address
        A loopback address; others are refused.

    >>> with watching("no/such/run") as server:
    ...     server.url[:17]
    'http://127.0.0.1:'
    """
    if not ipaddress.ip_address(address).is_loopback:
        raise ValueError(
            f"address is {address}; the page shows names of clients and is served on 127.0.0.1 "
            "alone: to look from another machine, use a tunnel, such as ssh -L 8765:127.0.0.1:8765"
        )
    with Feed(Path(folder)) as feed, _bound(feed, address, port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _bound(feed: Feed, address: str, port: int | None) -> Server:
    if port is None:
        with suppress(OSError):
            return Server(feed, address, PORT)
        return Server(feed, address, 0)
    try:
        return Server(feed, address, port)
    except OSError as error:
        raise OSError(
            f"port {port} is not free ({error}); pass --port 0 for any free one"
        ) from error
