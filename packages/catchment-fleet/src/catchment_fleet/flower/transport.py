"""Flower's Grid as the network of the engine, and what an order is as a Flower message.

Long requests travel as one array without a type, so that Flower cuts them into pieces. One that
goes to many nodes is stored once either way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Error,
    Message,
    MessageType,
    RecordDict,
)
from flwr.serverapp import Grid

from catchment.errors import IntegrityError
from catchment_fleet.flower.roster import Answer, Order

GRACE = 10.0  # seconds
WHOLE = 1 << 22  # bytes that travel in one piece: each piece is a call, with a kilobyte of headers
_BYTES = "catchment.bytes"
_WORDS = {
    1: "its app cannot be loaded",
    2: "its app failed",
    3: "its answer is lost",
    4: "its answer is lost",
    5: "its node is gone",
    7: "its node refuses the app",
    8: "its app crashed",
}


@dataclass(frozen=True, eq=False)
class GridLine:
    """A Flower grid as a network for `FlowerEngine`; works only inside a running ServerApp.

    Parameters
    ----------
    keys
        Public keys by which Flower knows the clients; without them nodes may take any name.
    """

    grid: Grid
    keys: Mapping[str, bytes] | None = None

    def nodes(self) -> Collection[int]:
        return list(self.grid.get_node_ids())

    def vouch(self, node: int, name: str) -> None:
        """Raise IntegrityError if Flower does not know a node by the key of the client it says."""
        if self.keys is None:
            return
        shown = next(
            (info.public_key for info in self.grid.get_nodes() if info.node_id == node), b""
        )
        if not shown or self.keys.get(name) != shown:
            raise IntegrityError(
                f"it calls itself {name!r}, and its key is not that client's; admit it first"
            )

    def send(self, node: int, order: Order, seconds: float) -> str:
        # The network may forget the request when nobody waits for its answer any more, but not
        # before: it would say that the request is lost, not that the client was slow.
        message = Message(
            packed_order(order),
            dst_node_id=node,
            message_type=MessageType.QUERY,
            ttl=seconds + GRACE,
            group_id=order.stage,
        )
        # One by one: of several, the grid in memory does not say which it refused.
        tickets = [ticket for ticket in self.grid.push_messages([message]) if ticket]
        return tickets[0] if tickets else ""

    def collect(self, tickets: Sequence[str]) -> Iterator[Answer]:
        if not tickets:
            return
        known = set(tickets)
        for message in self.grid.pull_messages(tickets):
            ticket = message.metadata.reply_to_message_id
            if ticket not in known:
                continue
            known.discard(ticket)
            if message.has_error():
                yield Answer(ticket, None, said(message.error))
                continue
            try:
                yield Answer(ticket, unpacked(message.content, "reply"))
            except IntegrityError as error:
                yield Answer(ticket, None, str(error))
            except Exception as error:  # one client's content is its own affair
                yield Answer(ticket, None, f"{type(error).__name__}: {error}")


def read_keys(folder: str | Path) -> dict[str, bytes]:
    """Return the public keys of nodes by client, from files NAME.pub as OpenSSH writes them."""
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder of nodes' keys {folder}; check the path")
    found = {}
    for path in sorted(Path(folder).glob("*.pub")):
        try:
            key = load_ssh_public_key(path.read_bytes())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ValueError(f"{path} is not a public key: {error}") from error
        found[path.stem] = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


def packed_order(order: Order) -> RecordDict:
    """Return an order as the content of a message.

    >>> unpacked_order(packed_order(Order("training", b"letter"))).request
    b'letter'
    """
    content = packed("letter", order.request)
    content["order"] = ConfigRecord({"stage": order.stage})
    return content


def unpacked_order(content: RecordDict) -> Order:
    """Return the order of a message; IntegrityError if it is none."""
    about = content.get("order")
    stage = about.get("stage") if isinstance(about, ConfigRecord) else None
    if not isinstance(stage, str):
        raise IntegrityError("a message came that is no order of this app")
    return Order(stage, unpacked(content, "letter"))


def packed(name: str, content: bytes) -> RecordDict:
    """Return bytes as the content of a message.

    >>> unpacked(packed("reply", b"hello"), "reply")
    b'hello'
    """
    if len(content) <= WHOLE:
        return RecordDict({name: ConfigRecord({"bytes": content})})
    array = Array("uint8", (len(content),), _BYTES, content)
    return RecordDict({name: ArrayRecord({"bytes": array})})


def unpacked(content: RecordDict, name: str) -> bytes:
    """Return the bytes that a message has under a name; IntegrityError if it has none."""
    record = content.get(name)
    whole = record.get("bytes") if isinstance(record, ConfigRecord) else None
    if isinstance(whole, bytes):
        return whole
    array = record.get("bytes") if isinstance(record, ArrayRecord) else None
    if array is None or array.stype != _BYTES:
        raise IntegrityError(f"a message came without its {name}")
    return array.data


def said(error: Error) -> str:
    """Return Flower's error in words, on one line."""
    words = _WORDS.get(error.code, "it failed")
    lines = [line.strip() for line in (error.reason or "").splitlines() if line.strip()]
    return f"{words}: {lines[-1][:300]}" if lines else words
