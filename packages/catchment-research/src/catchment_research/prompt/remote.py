"""The language model on another machine: the same questions and answers over a socket.

`serve` answers whoever knows a key; `RemoteServer` is the client's end, and names the model, the
projection and the words that were agreed on: another server refuses. Request and reply are each

    length u64 | HMAC-SHA256 (32) | a message of the library's wire format

The code covers the direction and, in a reply, the request it answers, so neither side can be played
by one without the key, and nothing can be changed, mixed up or played again unnoticed. Nothing is
encrypted: put the connection into a tunnel unless the network is your own.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedIOBase

import numpy as np
from numpy.typing import NDArray

from catchment.errors import CatchmentError, FederationError, IntegrityError
from catchment.wire import Message
from catchment_research.prompt.exchange import LanguageServer

LONGEST = 1 << 28  # bytes of a request or reply
SECONDS = 600.0  # that a client waits for answers
PATIENCE = 30.0  # seconds that a server waits for a question
LEAST_KEY = 16
_PREFIX = struct.Struct("<Q32s")

Address = tuple[str, int]


@dataclass(frozen=True, eq=False)
class RemoteServer:
    """A way to a language model's server, with a connection for every batch of questions.

    Parameters
    ----------
    address
        Host and port.
    key
        At least 16 bytes that the server knows, too.
    words
        Tokens of the label words, as agreed.
    agreed
        What `LanguageServer.identity` of the server says, as agreed.
    """

    address: Address
    key: bytes
    words: tuple[int, ...]
    agreed: str

    def __post_init__(self) -> None:
        _check_key(self.key)

    def identity(self) -> str:
        return self.agreed

    def answers(self, messages: Sequence[bytes]) -> list[bytes]:
        """Return the answers; FederationError if the server cannot be reached or refuses."""
        about = {"agreed": self.agreed, "nonce": secrets.token_hex(16)}
        body = Message("questions", about, _boxed(messages)).to_bytes()
        try:
            with (
                socket.create_connection(self.address, timeout=SECONDS) as connection,
                connection.makefile("rwb") as stream,
            ):
                _send(stream, body, self.key, b"question")
                reply = Message.from_bytes(_receive(stream, self.key, b"reply" + body))
        except OSError as error:
            host, port = self.address
            raise FederationError(
                f"the language model's server at {host}:{port} did not answer ({error})"
            ) from error
        if reply.kind == "refusal":
            raise FederationError(f"the language model's server refused: {reply.facts['reason']}")
        return [array.tobytes() for array in reply.expect("answers", len(messages)).arrays]


@contextmanager
def serve(
    server: LanguageServer, *, key: bytes, address: Address = ("127.0.0.1", 0)
) -> Iterator[Address]:
    """Answer questions from other processes while the context lasts; yields the address.

    Parameters
    ----------
    server
        What answers; its `traffic` counts messages, without what the connection adds.
    key
        At least 16 bytes that clients must know.
    address
        Host and port; port 0 takes a free one.
    """
    _check_key(key)

    class Handler(socketserver.StreamRequestHandler):
        """One connection: a question, an answer."""

        timeout = PATIENCE

        def handle(self) -> None:
            # A stranger, or one who hangs up in the middle, is left without an answer.
            with suppress(OSError, IntegrityError):
                body = _receive(self.rfile, key, b"question")
                _send(self.wfile, _reply(server, body), key, b"reply" + body)

    class Threads(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Threads(address, Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            host, port = listening.server_address[:2]
            yield str(host), int(port)
        finally:
            listening.shutdown()
            thread.join()


def _reply(server: LanguageServer, body: bytes) -> bytes:
    try:
        asked = Message.from_bytes(body)
        if asked.kind != "questions" or asked.facts.get("agreed") != server.identity():
            raise IntegrityError("this is not the language model that was agreed on")
        replies = server.answers([array.tobytes() for array in asked.arrays])
    except (CatchmentError, ValueError) as error:
        return Message("refusal", {"reason": str(error)}).to_bytes()
    return Message("answers", {}, _boxed(replies)).to_bytes()


def _boxed(messages: Sequence[bytes]) -> tuple[NDArray[np.uint8], ...]:
    return tuple(np.frombuffer(message, dtype=np.uint8) for message in messages)


def _send(stream: BufferedIOBase, body: bytes, key: bytes, direction: bytes) -> None:
    stream.write(_PREFIX.pack(len(body), hmac.digest(key, direction + body, "sha256")) + body)
    stream.flush()


def _receive(stream: BufferedIOBase, key: bytes, direction: bytes) -> bytes:
    """Return what was sent; OSError if it breaks off, IntegrityError if the key was another."""
    prefix = stream.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise ConnectionError("it hung up")
    length, code = _PREFIX.unpack(prefix)
    if length > LONGEST:
        raise IntegrityError(f"{length} bytes are announced, {LONGEST} are allowed")
    body = stream.read(length)
    if len(body) < length:
        raise ConnectionError("it hung up")
    if not hmac.compare_digest(code, hmac.digest(key, direction + body, "sha256")):
        raise IntegrityError("a message was not made with the agreed key")
    return body


def _check_key(key: bytes) -> None:
    if len(key) < LEAST_KEY:
        raise ValueError(
            f"the key has {len(key)} bytes; pass {LEAST_KEY} or more, from secrets.token_bytes"
        )
