"""A place to drop contributions: one process, HTTPS, that takes files for one plan, nothing else.

A client sends its file by any program that can: `curl --data-binary @p07.contribution URL`. A file
is kept only if it is whole, signed, made for the plan and, where public keys are known, signed by a
registered one; a client's first file counts. Nothing can be read from it, and it runs nothing.
"""

from __future__ import annotations

import ssl
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from catchment.errors import CatchmentError
from catchment.plans import Contribution
from catchment.wire import replace_file

MINUTE = 60.0


@dataclass(eq=False)
class Drop:
    """What is kept of what comes, and what is refused with which answer.

    Parameters
    ----------
    folder
        Where files are kept, NAME.STAGE.contribution.
    plan
        Fingerprint of the plan that they must be for.
    identities
        Public keys by client; anybody's first key if there are none.
    most_bytes
        The largest file.
    per_minute
        Files that one address may send in a minute.
    """

    folder: Path
    plan: str
    identities: Mapping[str, str] = field(default_factory=dict)
    most_bytes: int = 64 << 20
    per_minute: int = 30
    _lock: Lock = field(default_factory=Lock)
    _times: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def is_hasty(self, address: str, now: float) -> bool:
        """Return whether an address has sent as much as it may within the last minute.

        >>> drop = Drop(Path(), "", per_minute=2)
        >>> [drop.is_hasty("a", t) for t in (0.0, 1.0, 2.0, 61.5)]
        [False, False, True, False]
        """
        with self._lock:
            times = self._times[address]
            while times and times[0] <= now - MINUTE:
                times.popleft()
            if len(times) >= self.per_minute:
                return True
            times.append(now)
            return False

    def take(self, content: bytes) -> tuple[int, str]:
        """Return the status and the words that answer a file, kept if it may be."""
        try:
            one = Contribution.from_bytes(content)
            one.check(self.plan, self.identities)
        except (CatchmentError, ValueError) as error:
            return 422, f"refused: {error}"
        self.folder.mkdir(parents=True, exist_ok=True)
        path = (
            self.folder / f"{quote(one.client, safe='')}.{quote(one.stage, safe='')}.contribution"
        )
        with self._lock:
            if path.exists() and path.read_bytes() != content:
                return 409, f"refused: {one.client} has contributed already"
            replace_file(path, content)
        return 201, f"kept: {one.client}, {one.stage}, {len(content)} bytes"


def drop_server(
    drop: Drop,
    address: tuple[str, int],
    *,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
) -> ThreadingHTTPServer:
    """Return a server that hands files to a drop; call its `serve_forever`.

    Parameters
    ----------
    certificate, key
        Of HTTPS, in PEM. Without them it serves this machine alone.
    """
    if certificate is None and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError(
            f"the drop would listen on {address[0]} without HTTPS; pass a certificate and its key"
        )

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version, timeout = "drop", "", 60

        def do_POST(self) -> None:
            sent = self.headers.get("Content-Length", "")
            if drop.is_hasty(str(self.client_address[0]), time.monotonic()):
                self.answer(429, "refused: too many files within a minute; try again later")
            elif not sent.isdecimal():
                self.answer(411, "refused: the request does not say how long the file is")
            elif int(sent) > drop.most_bytes:
                self.answer(413, f"refused: the file has more than {drop.most_bytes} bytes")
            else:
                self.answer(*drop.take(self.rfile.read(int(sent))))

        do_PUT = do_POST  # noqa: N815

        def answer(self, status: int, words: str) -> None:
            content = f"{words}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = True

    server = ThreadingHTTPServer(address, Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    return server
