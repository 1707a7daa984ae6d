"""A page about one run for browsers on this machine, and for nobody else.

It listens on the loopback address alone, answers GET alone, and knows five addresses, none of which
names a file. A request for another host's name is refused: a page of the web could else give its
own name this machine's address and read along. What clients call themselves, and why they refuse,
reaches the page as JSON and is shown as text.

    /           the page          /style.css, /watch.js   what it is made of
    /events     server-sent events, each a whole snapshot as JSON
    /state.json one snapshot
"""

from __future__ import annotations

import ipaddress
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from urllib.parse import urlsplit

from catchment.report import style
from catchment_lab.watch.state import Feed

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


STATIC = {
    "/": ("text/html; charset=utf-8", "page.html"),
    "/style.css": ("text/css; charset=utf-8", "watch.css"),
    "/watch.js": ("text/javascript; charset=utf-8", "watch.js"),
}


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
