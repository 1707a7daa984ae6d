"""The language model on another machine: the same questions and answers over a socket.

`serve` answers whoever knows a key of at least 16 bytes; `RemoteServer` is the client's end, and
refuses a server that is not the model, projection and words that were agreed on. Both prove that
they know the key (`multiprocessing.connection`), and after that only raw messages of the library's
wire format travel, no pickles. Nothing is encrypted: put the connection into a tunnel unless the
network is your own.
"""

from __future__ import annotations

import hmac
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener

from catchment.errors import CatchmentError, FederationError, IntegrityError
from catchment.prompt.exchange import LanguageServer
from catchment.wire import Parts

LONGEST = 1 << 28  # bytes of one message
MOST = 1 << 10  # messages asked at once
LEAST_KEY = 16
_COUNT = struct.Struct("<I")

Address = tuple[str, int]


@dataclass(frozen=True, eq=False)
class RemoteServer:
    """A connection to a language model's server, made anew for every batch of questions.

    Parameters
    ----------
    address
        Host and port.
    key
        That the server knows, too.
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
        try:
            with Client(self.address, authkey=self.key) as connection:
                if not hmac.compare_digest(connection.recv_bytes(LONGEST), self.agreed.encode()):
                    raise IntegrityError("the language model's server is not the one agreed on")
                connection.send_bytes(_COUNT.pack(len(messages)))
                for message in messages:
                    connection.send_bytes(message)
                replies = [connection.recv_bytes(LONGEST) for _ in messages]
        except (OSError, EOFError, AuthenticationError) as error:
            host, port = self.address
            raise FederationError(
                f"the language model's server at {host}:{port} did not answer ({error!r})"
            ) from error
        for reply in replies:
            parts = Parts.from_bytes(reply)
            if parts.kind == "refusal":
                raise FederationError(
                    f"the language model's server refused: {parts.facts['reason']}"
                )
        return replies


@contextmanager
def serve(
    server: LanguageServer, *, key: bytes, address: Address = ("127.0.0.1", 0)
) -> Iterator[Address]:
    """Answer questions from other processes while the context lasts; yields the address.

    Parameters
    ----------
    server
        What answers; its `traffic` counts messages, without what the socket adds.
    key
        At least 16 bytes that clients must know.
    address
        Host and port; port 0 takes a free one.
    """
    _check_key(key)
    listener = Listener(address, family="AF_INET", authkey=key, backlog=64)
    closing = threading.Event()
    thread = threading.Thread(target=_listen, args=(listener, server, closing), daemon=True)
    thread.start()
    host, port = listener.address
    try:
        yield str(host), int(port)
    finally:
        closing.set()
        # An accept that is under way ends only with a caller.
        with suppress(OSError, EOFError, AuthenticationError), Client((host, port), authkey=key):
            pass
        thread.join(timeout=10)
        listener.close()


def _listen(listener: Listener, server: LanguageServer, closing: threading.Event) -> None:
    while not closing.is_set():
        try:
            connection = listener.accept()
        except (OSError, EOFError, AuthenticationError):
            continue  # a stranger, or one who hung up
        threading.Thread(target=_talk, args=(connection, server), daemon=True).start()


def _talk(connection: Connection, server: LanguageServer) -> None:
    with connection, suppress(OSError, EOFError):
        connection.send_bytes(server.identity().encode())
        (n,) = _COUNT.unpack(connection.recv_bytes(_COUNT.size))
        if n > MOST:
            return
        messages = [connection.recv_bytes(LONGEST) for _ in range(n)]
        try:
            replies = server.answers(messages)
        except (CatchmentError, ValueError) as error:
            replies = [Parts("refusal", {"reason": str(error)}).to_bytes()] * n
        for reply in replies:
            connection.send_bytes(reply)


def _check_key(key: bytes) -> None:
    if len(key) < LEAST_KEY:
        raise ValueError(
            f"the key has {len(key)} bytes; pass {LEAST_KEY} or more, from secrets.token_bytes"
        )
