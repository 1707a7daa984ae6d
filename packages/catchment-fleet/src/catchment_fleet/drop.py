"""A place to drop files: one process, HTTPS, that takes those of one plan, nothing else.

A client sends its file by any program that can: `curl --data-binary @p07.contribution URL`. A file
is kept only if it is whole, signed, made for a stage of the plan and, where public keys are known,
signed by a registered one; a client's first file counts. With two servers a helper's answer is
kept, if the plan's helper signed it for this plan, and so is a batch, if registered clients signed
all of it: the leader has a drop, and the helper another. Nothing can be read from it, and it runs
nothing. Who connects and is silent, or sends a byte now and then, holds up nobody and is cut off.
"""

from __future__ import annotations

import json
import ssl
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from tempfile import TemporaryFile
from threading import Lock, Timer
from urllib.parse import quote

from catchment.errors import CatchmentError
from catchment.plans import Contribution, read_plan
from catchment.privacy import SecureAggregation
from catchment.privacy.secure_aggregation import exchanged
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
        Public keys by client; anybody's first key if there are none, on this machine alone.
    most_bytes
        The largest file.
    per_minute
        Files that one address may send in a minute.
    agreed
        The plan's secure aggregation with two servers, for batches and answers.
    seconds
        How long a connection may last.
    """

    folder: Path
    plan: str
    identities: Mapping[str, str] = field(default_factory=dict)
    most_bytes: int = 64 << 20
    per_minute: int = 30
    seconds: float = 120.0
    agreed: SecureAggregation | None = None
    opening: Lock = field(default_factory=Lock, repr=False)
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
            name = exchanged(self.agreed, self.plan, content) if self.agreed else ""
            said = again = name
            if not name:
                one = Contribution.from_bytes(content)
                one.check(self.plan, self.identities)
                name = f"{quote(one.client, safe='')}.{one.stage}.contribution"
                said, again = f"{one.client}, {one.stage}", f"{one.client} has contributed"
        except CatchmentError as error:
            return 422, f"refused: {error}"
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.read_bytes() != content:
                return 409, f"refused: {again} already"
            replace_file(path, content)
        except OSError as error:  # the disk is full, or the name too long for it
            return 507, f"not kept: {error.strerror}"
        return 201, f"kept: {said}, {len(content)} bytes"


def drop_of(plan: str | Path, folder: Path, identities: str | Path | None = None) -> Drop:
    """Return the drop of a plan's files, with the public keys in a JSON object if there is one."""
    file = read_plan(plan)
    known = json.loads(Path(identities).read_text(encoding="utf-8")) if identities else {}
    agreed = None
    if known:
        for one in file.workflow(file.about(), known).protections:
            if isinstance(one, SecureAggregation) and one.servers == 2:
                agreed = one
    return Drop(folder, file.fingerprint, known, agreed=agreed)


class _Handler(BaseHTTPRequestHandler):
    """Reads one file of one connection, in a thread of its own, which ends in time."""

    drop: Drop
    server_version, sys_version = "drop", ""

    def handle(self) -> None:
        self.hasty = self.drop.is_hasty(str(self.client_address[0]), time.monotonic())
        end = Timer(5.0 if self.hasty else self.drop.seconds, self._cut)
        end.daemon = True
        end.start()
        with suppress(OSError):  # of whoever hangs up, or is cut off
            super().handle()  # HTTPS begins with the first byte that is read: here
        end.cancel()

    def _cut(self) -> None:
        with suppress(OSError):
            socket.shutdown(self.connection, SHUT_RDWR)  # the line itself, under HTTPS

    def do_POST(self) -> None:
        most, sent = self.drop.most_bytes, self.headers.get("Content-Length", "")
        if self.hasty:
            self._answer(429, "refused: too many files within a minute; try again later")
        elif not sent.isdecimal():
            self._answer(411, "refused: the request does not say how long the file is")
        elif len(sent) > 12 or int(sent) > most:
            self._answer(413, f"refused: the file has more than {most} bytes")
        else:
            left = int(sent)
            with TemporaryFile() as held:  # those that come slowly wait on the disk
                while left and (piece := self.rfile.read(min(left, 1 << 20))):
                    left -= held.write(piece)
                held.seek(0)
                with self.drop.opening:  # one at a time is in memory
                    status, words = self.drop.take(held.read())
            self._answer(status, words)

    do_PUT = do_POST  # noqa: N815

    def _answer(self, status: int, words: str) -> None:
        content = f"{words}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True


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
        Of HTTPS, in PEM. Without them, or where the drop knows no public keys, it serves this
        machine alone.
    """
    if address[0] not in ("127.0.0.1", "localhost") and (
        certificate is None or not drop.identities
    ):
        raise ValueError(
            f"the drop would listen on {address[0]} without HTTPS or without knowing its clients; "
            "pass a certificate, its key and identities.json"
        )
    server = ThreadingHTTPServer(address, type("Handler", (_Handler,), {"drop": drop}))
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        # Who connects and does not begin must not keep others from it.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    return server
