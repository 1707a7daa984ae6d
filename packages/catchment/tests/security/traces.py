"""Recordings of secure aggregation: each request that a client got, and what it answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from catchment.errors import CatchmentError
from catchment.federation import Memory, Node, Request
from catchment.privacy.secure_aggregation import SHARE_BYTES, Notebook, cut, from_bits, keys
from catchment.wire import Message, split
from tests.security.fleet import Fleet
from tools.spin.acceptor import Acceptor, Event, Places, rounds


@dataclass(eq=False)
class Recorder:
    """Every event of all fleets, in order, with the number of its round."""

    events: list[tuple[int, Event]] = field(default_factory=list)
    crashed: bool = False

    @classmethod
    def on(cls, monkeypatch: pytest.MonkeyPatch) -> Recorder:
        """Return a recorder of every client of every fleet from now on."""
        recorder, node = cls(), Fleet.node

        def recorded(fleet: Fleet, client: str) -> Any:
            return _Recorded(recorder, fleet, client, node(fleet, client))

        monkeypatch.setattr(Fleet, "node", recorded)
        return recorder

    def accepted(self, fleet: Fleet, corrupt: Iterable[str] = ()) -> int:
        """Return how many events the model allows; NotAllowedError at one that it does not."""
        masking = fleet.masking
        bad = frozenset(masking.places[name] for name in corrupt)
        n = len(masking.names)
        for events in rounds(self.events):
            Acceptor(n, int(masking.corrupt * n + 1e-9), bad).accept_all(events)
        return len(self.events)


@dataclass(eq=False)
class _Recorded:
    """A client that answers as another does, and is written down."""

    recorder: Recorder
    fleet: Fleet
    client: str
    node: Node[Any, Any, Any]

    def answer(self, raw_request: bytes) -> bytes:
        try:
            request = Request.from_bytes(raw_request, self.client)
            payload = request.payload
            if request.stage == "update":
                payload = split(payload, "secure-update")["present"]
            number = payload.facts["round"]
            assert isinstance(number, int)
        except (CatchmentError, KeyError, AssertionError):
            return self.node.answer(raw_request)  # malformed: refused, and no part of any round
        held = _held(self.fleet.memories[self.client], self._session(number, request), self.n)
        try:
            message = self.node.answer(raw_request)
        except BaseException:
            # Whether it had written its answer down is not known from outside.
            self.recorder.crashed = True
            raise
        event = self._event(request, payload, raw_request, Message.from_bytes(message), held)
        self.recorder.events.append((number, event))
        return message

    @property
    def n(self) -> int:
        return len(self.fleet.masking.names)

    def _session(self, number: int, request: Request) -> keys.Session:
        return keys.Session.of(self.fleet.masking.federation, number, request.context)

    def _event(
        self,
        request: Request,
        payload: Message,
        raw_request: bytes,
        reply: Message,
        held: dict[int, bytes],
    ) -> Event:
        place = self.fleet.masking.places[self.client]
        answered = reply.kind not in ("refusal", "secure-later")
        answer = _digest(reply.to_bytes()) if answered else ""
        session = _digest(
            json.dumps([request.context.round, request.context.seed, request.context.told])
        )
        places: Places = frozenset()
        told, own, key = "", set(), set()
        if request.stage == "unmask":
            places = frozenset(payload.arrays[0].tolist())
            given = {bytes(row) for row in reply.arrays[0]} if answered else set()
            own = {k for k, pair in held.items() if pair[:SHARE_BYTES] in given}
            key = {k for k, pair in held.items() if pair[SHARE_BYTES:] in given}
        elif request.stage in ("shares", "update", "consistency"):
            places = frozenset(from_bits(payload.arrays[0], self.n)) if answered else places
        if request.stage == "shares":
            told = _digest(payload.to_bytes())
        elif request.stage == "update":
            told = _digest(split(request.payload, "secure-update")["payload"].to_bytes())
        return Event(
            place,
            request.stage,
            _digest(raw_request),
            answer,
            places,
            told,
            session,
            frozenset(own),
            frozenset(key),
        )


def _held(memory: Memory, session: keys.Session, n: int) -> dict[int, bytes]:
    """Return the shares (own mask, then mask key) that a client holds, by owner."""
    book = Notebook(memory, session)
    if "held" not in book:
        return {}
    owners = from_bits(np.frombuffer(book["held"], dtype=np.uint8), n)
    return dict(zip(owners, cut(book["held shares"], 2 * SHARE_BYTES), strict=True))


def _digest(content: bytes | str) -> str:
    raw = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()[:16]
