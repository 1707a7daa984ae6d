"""C1: clients that were told different things never end in one sum, colluders or not.

The server of the review gave everybody but one client a scaler that makes inputs vanish, and read
the one client's statistics from the "secure" sum. Here it sends other contexts (scalers, maps),
other payloads (weights, gains), another round or seed to a victim than to the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from catchment.data import Scaler
from catchment.errors import IntegrityError, TooFewClientsError, UploadError
from catchment.federation import Data, Engine, Plan, Reply, Request, RoundContext, StageInputs, run
from catchment.privacy.secure_aggregation import (
    Notebook,
    Outline,
    Residues,
    SecureRound,
    add_into,
    as_bits,
    keys,
    rows,
    subtract_from,
)
from catchment.wire import NOTHING, Message, join, split
from tests.security.fleet import EVERY, Adding, Fleet, RefusedError
from tests.security.liars import Colluder, consents, number, survivors

VICTIM = "c000"
TRUE = Message("known", {"scale": [1.0]})
BLIND = Message("known", {"scale": [1e12]})


@dataclass(frozen=True, kw_only=True)
class Weighing(Adding):
    """Every client sends its numbers times a weight that the server sends, as gradients do."""

    def client_update(self, received: Message, data: Data, context: RoundContext):  # type: ignore[no-untyped-def]
        made = super().client_update(received, data, context)
        weight = float(received.arrays[0][0]) if received.arrays else 1.0
        return replace(made, values=weight * made.values)

    def broadcast(self, state: object, context: RoundContext) -> Message:
        return weights(1.0)


def weights(value: float) -> Message:
    return Message("weights", {}, (np.array([value]),))


def weighing() -> Fleet:
    fleet = Fleet.drawn(12, min_clients=10)
    fleet.plan = Plan(algorithm=Weighing(), protections=fleet.plan.protections)
    return fleet


@dataclass(eq=False)
class TwoFaced(Engine):
    """An engine that changes every request to all clients but the victim."""

    engine: Engine
    change: object

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, raw_request in requests.items():
            request = Request.from_bytes(raw_request, client)
            if client != VICTIM:
                request = self.change(request)  # type: ignore[operator]
            yield from self.engine.ask({client: request.to_bytes()})


def blinded(request: Request) -> Request:
    return replace(request, stage_inputs=BLIND)


def other_round(request: Request) -> Request:
    return replace(request, context=replace(request.context, round=1))


def other_seed(request: Request) -> Request:
    return replace(request, context=replace(request.context, seed=1))


def other_weights(request: Request) -> Request:
    if request.stage != "update":
        return request
    named = split(request.payload, "secure-update")
    return replace(request, payload=join("secure-update", named | {"payload": weights(0.0)}))


@pytest.mark.parametrize("change", [blinded, other_round, other_seed])
def test_another_context_round_or_seed_for_the_others(change: object) -> None:
    """The server keeps to the protocol but for this; clients do not take each other's keys."""
    fleet = Fleet.drawn(12, min_clients=10)
    with pytest.raises(TooFewClientsError, match="nothing was released"):
        run(fleet.plan, TwoFaced(fleet.engine(), change), stage_inputs=TRUE)


def test_another_payload_for_the_others_leaves_the_victim_out() -> None:
    fleet = weighing()
    result = run(fleet.plan, TwoFaced(fleet.engine(), other_weights))
    # The sum that came out is that of the eleven, each times zero: nothing of the victim.
    assert result.state is not None
    np.testing.assert_array_equal(result.state.values, np.zeros(3))
    assert [(r.client, r.code) for r in result.records[0].refused] == [(VICTIM, "outline")]


def bare_sum(fleet: Fleet, exchange: SecureRound, uploads: Mapping[str, Message]) -> np.ndarray:
    """Return the sum of all uploads as a server reads it that puts its own masks' keys to use.

    It knows every client's own mask here, which is more than shares would ever give it.
    """
    total: Residues | None = None
    for client, upload in uploads.items():
        numbers = upload.arrays[0].copy()
        session = keys.Session.of(
            "catchment", exchange._number, RoundContext(0, (), plan=fleet.plan.fingerprint())
        )
        book = Notebook(fleet.memories[client], session)
        outline = Outline.from_fact(upload.facts["outline"])
        ring = fleet.masking.ring_of(outline)
        salt = bytes.fromhex(str(upload.facts["update"]))
        place = fleet.masking.places[client]
        mask = keys.Masks(ring, numbers.shape[1]).of(
            keys.own_mask_key(salt, place, book["own mask"])
        )
        subtract_from(numbers, mask)
        if total is None:
            total = numbers
        else:
            add_into(total, numbers)
    assert total is not None
    return outline.fill(total, ring).arrays[0]


def test_masks_made_for_two_payloads_do_not_cancel() -> None:
    """Even with all own masks known, the sum over two payloads is noise; over one it is the sum."""
    for told in (0.0, 1.0):
        fleet = weighing()
        exchange = fleet.until("update")
        uploads = {}
        for client in fleet.vectors:
            payload = weights(1.0 if client == VICTIM else told)
            raw_request = exchange.request("update", client, payload)
            uploads[client] = fleet.ask(client, "update", raw_request)
        found = bare_sum(fleet, exchange, uploads)
        if told == 1.0:
            np.testing.assert_array_equal(found, fleet.expected(fleet.vectors))
        else:
            # Uniform in a ring of 2^128 with 80 binary digits: of the order of 2^47.
            assert np.abs(found).max() > 1e9
            assert not np.isclose(found, fleet.vectors[VICTIM], rtol=1e-3).any()


def test_colluders_who_sign_anything_do_not_help() -> None:
    """Victim and nine honest ones are told two things; two colluders sign for both sides."""
    fleet = weighing()
    exchange = fleet.until("update")
    uploads = {}
    for client in fleet.vectors:
        payload = weights(1.0 if client == VICTIM else 0.0)
        raw_request = exchange.request("update", client, payload)
        uploads[client] = fleet.ask(client, "update", raw_request)
    found = bare_sum(fleet, exchange, uploads)  # what all own masks would leave
    at = exchange._number
    session = keys.Session.of("catchment", at, RoundContext(0, (), plan=fleet.plan.fingerprint()))
    honest = [c for c in fleet.vectors if c not in ("c010", "c011")]
    signed = {c: fleet.ask(c, "consistency", survivors(at, range(12), 12)) for c in honest}
    places = fleet.masking.places
    bits = as_bits(range(12), 12).tobytes()
    victims = Notebook(fleet.memories[VICTIM], session)["update"]
    forged = {}
    for client in ("c010", "c011"):
        about = session.about("survivors", client)
        signature = keys.sign(fleet.memories[client], about, bits + victims)
        forged[places[client]] = Message("secure-consent", {}, (rows([signature], 64),))
    with pytest.raises(RefusedError, match="3 clients agree on the sealed set, 8 are needed"):
        fleet.ask(VICTIM, "unmask", consents(at, forged))
    # The others' signatures are for another sum.
    others = {places[c]: signed[c] for c in honest if c != VICTIM}
    with pytest.raises(RefusedError, match="did not sign these survivors"):
        fleet.ask(VICTIM, "unmask", consents(at, forged | others))
    # The others do get their sum, and give shares for it: of the victim's own mask, but its pair
    # masks stay, because it put them on for another payload.
    agree = others | {
        places[c]: Colluder(fleet, c, session).sign(range(12)) for c in ("c010", "c011")
    }
    for client in honest[1:]:
        mine = {p: one for p, one in agree.items() if p != places[client]}
        fleet.ask(client, "unmask", consents(at, mine))
    assert np.abs(found).max() > 1e9
    assert not np.isclose(found, fleet.vectors[VICTIM], rtol=1e-3).any()


def test_a_client_answers_one_context_only_in_a_round() -> None:
    fleet = Fleet.drawn(4, rounds=2)
    exchange = fleet.until("shares")
    raw_request = exchange.request("shares", "c000", NOTHING)
    plan = fleet.plan.fingerprint()
    request = Request(plan, RoundContext(0, (), plan=plan), "shares", raw_request, BLIND)
    reply = Message.from_bytes(fleet.node("c000").answer(request.to_bytes()))
    assert reply.kind == "refusal"
    assert "did not sign these keys" in str(reply.facts["reason"])


def test_the_server_itself_refuses_what_was_signed_for_another_round() -> None:
    fleet = Fleet.drawn(4, rounds=2)
    exchange = fleet.open()
    raw_request = exchange.request("keys", "c000", NOTHING)
    answer = fleet.ask("c000", "keys", raw_request, round_=1)
    with pytest.raises(UploadError, match="c000 did not sign what came from it"):
        exchange.take("keys", answer, RoundContext(0, (), client="c000"))
    assert number(raw_request) == exchange._number


@pytest.mark.parametrize("value", [1e300, 1e-300, 0.0, -1.0, float("inf"), float("nan")])
def test_scalers_have_public_bounds(value: float) -> None:
    with pytest.raises(ValueError, match=r"scales positive.*change the unit of the channel"):
        Scaler(np.zeros(1), np.array([value]))
    settings = {"gaps": None, "scale": {"mean": [0.0], "scale": [value]}}
    about = Message("about", {"course": "", "model": ""})
    sent = join("known", {"about": about, "prepare": Message("prepare", {"settings": settings})})
    with pytest.raises(IntegrityError, match="the preparation is not valid"):
        StageInputs.from_message(sent)


def test_every_stage_is_bound() -> None:
    """All that is signed differs where the turn, its context or the number differ."""
    context = RoundContext(0, (), plan="p")
    others = [
        replace(context, round=1),
        replace(context, seed=1),
        replace(context, plan="q"),
        replace(context, told="x"),
    ]
    sessions = [keys.Session.of("f", 7, one) for one in (context, *others)]
    sessions += [keys.Session.of("g", 7, context), keys.Session.of("f", 8, context)]
    for stage in EVERY:
        assert len({session.about(stage, "ann") for session in sessions}) == len(sessions)
        assert len({session.digest(stage) for session in sessions}) == len(sessions)
