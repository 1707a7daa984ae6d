"""N2: one client's strange keys cost the round that client, and not all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from catchment.federation import Engine, Reply, Request
from catchment.privacy.secure_aggregation import ADVERT_BYTES, SHOWN_BYTES, keys, rows
from catchment.wire import Message
from tests.security.fleet import Fleet, stage_of

LIAR = "c003"


@dataclass(eq=False)
class StrangeKeys(Engine):
    """An engine with one client that signs other keys than the protocol's."""

    fleet: Fleet
    shown: Callable[[bytes], bytes]

    def clients(self) -> Sequence[str]:
        return sorted(self.fleet.vectors)

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, raw_request in requests.items():
            message = self.fleet.node(client).answer(raw_request)
            if client == LIAR and stage_of(raw_request) == "keys":
                message = self._changed(Request.from_bytes(raw_request, client), message)
            yield Reply(client, message)

    def _changed(self, request: Request, message: bytes) -> bytes:
        number = request.payload.facts["round"]
        assert isinstance(number, int)
        session = keys.Session.of("catchment", number, request.context)
        shown = self.shown(bytes(Message.from_bytes(message).arrays[0][0])[:SHOWN_BYTES])
        signed = keys.sign(self.fleet.memories[LIAR], session.about("keys", LIAR), shown)
        return Message("secure-keys", {}, (rows([shown + signed], ADVERT_BYTES),)).to_bytes()


@pytest.mark.parametrize(
    "shown",
    [
        lambda own: bytes(32) + own[32:],
        lambda own: own[:32] + bytes(32) + own[64:],
        lambda own: own[:32] + own[:32] + own[64:],
    ],
    ids=["degenerate box key", "degenerate mask key", "one key twice"],
)
def test_the_liar_alone_is_left_out(shown: Callable[[bytes], bytes]) -> None:
    fleet = Fleet.drawn(12, min_clients=10)
    result = fleet.run(StrangeKeys(fleet, shown))
    assert {one.client for one in result.refused} == {LIAR}
    assert result.records[0].n_used == 11
