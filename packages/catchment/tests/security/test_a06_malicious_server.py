"""A6: requests that a server may forge, reorder, repeat or hold back, one client at a time.

Clients answer none of these with anything that helps. What a server gains together with clients
that work with it is played in `test_c1...`, `test_c2...` and `test_c3...`, up to the bound that
`SecureAggregation(corrupt=...)` states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catchment.errors import IntegrityError
from catchment.federation import Plan, RoundContext
from catchment.privacy import FileMemory, SecureAggregation, generate_keys, new_identity
from catchment.privacy.secure_aggregation import ADVERT_BYTES, as_bits, from_bits, keys, rows
from catchment.wire import NOTHING, Message, join
from tests.security.fleet import Adding, Fleet, RefusedError
from tests.security.liars import number

NAMES = [f"c{k:03d}" for k in range(5)]  # t is 4


def edited(request: Message, n: int, change: Callable[[np.ndarray], object]) -> Message:
    arrays = [array.copy() for array in request.arrays]
    change(arrays[n])
    return replace(request, arrays=tuple(arrays))


def survivors(fleet: Fleet, exchange_round: int, places: set[int]) -> Message:
    bits = as_bits(places, len(fleet.vectors))
    return Message("secure-survivors", {"round": exchange_round}, (bits,))


def session_of(fleet: Fleet, request: Message) -> keys.Session:
    return keys.Session.of(
        "catchment", number(request), RoundContext(0, (), plan=fleet.plan.fingerprint())
    )


def test_two_survivor_sets_for_two_clients_end_in_nothing() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("consistency")
    at = number(exchange.request("consistency", "c000", NOTHING))
    sets = {c: {0, 1, 2, 3, 4} if c < "c002" else {0, 1, 2, 3} for c in NAMES[:4]}
    signed = {c: fleet.ask(c, "consistency", survivors(fleet, at, sets[c])) for c in sets}
    for client in sets:
        others = [c for c in sets if c != client]
        places = np.array([NAMES.index(c) for c in others], dtype=np.uint32)
        arrays = (places, np.concatenate([signed[c].arrays[0] for c in others]))
        with pytest.raises(RefusedError, match="did not sign these survivors"):
            fleet.ask(client, "unmask", Message("secure-consents", {"round": at}, arrays))
        # With only those who signed the same set there are too few.
        same = [c for c in others if sets[c] == sets[client]]
        places = np.array([NAMES.index(c) for c in same], dtype=np.uint32)
        arrays = (places, np.concatenate([signed[c].arrays[0] for c in same]))
        with pytest.raises(RefusedError, match="consistency: 2 clients agree"):
            fleet.ask(client, "unmask", Message("secure-consents", {"round": at}, arrays))


@pytest.mark.parametrize("restarted", [False, True])
def test_both_shares_of_one_client_are_never_given(restarted: bool, tmp_path: Path) -> None:
    fleet = Fleet.drawn(5)
    if restarted:
        for name in NAMES:
            memory = FileMemory(tmp_path / name)
            memory.update(fleet.memories[name])
            fleet.memories[name] = memory
    exchange = fleet.until("unmask")
    requests = {c: exchange.request("unmask", c, NOTHING) for c in NAMES}
    at = number(requests["c000"])
    given = fleet.ask("c000", "unmask", requests["c000"])
    if restarted:
        fleet.memories["c000"] = FileMemory(tmp_path / "c000")
    # The same request gets the same answer, so that a server may ask again after a crash.
    again = fleet.ask("c000", "unmask", requests["c000"])
    assert again.to_bytes() == given.to_bytes()
    # Another set for the same round does not, nor other signatures for the same set.
    with pytest.raises(RefusedError, match=r"replay: round .* is over"):
        fleet.ask("c000", "consistency", survivors(fleet, at, {0, 1, 2, 3}))
    reordered = edited(requests["c000"], 0, lambda a: a.__setitem__(slice(None), a[::-1].copy()))
    with pytest.raises(RefusedError, match="replay"):
        fleet.ask("c000", "unmask", reordered)


def test_a_second_set_before_unmasking_is_refused() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("consistency")
    at = number(exchange.request("consistency", "c000", NOTHING))
    fleet.ask("c000", "consistency", survivors(fleet, at, {0, 1, 2, 3, 4}))
    with pytest.raises(RefusedError, match="replay: another request came"):
        fleet.ask("c000", "consistency", survivors(fleet, at, {0, 1, 2, 3}))


@pytest.mark.parametrize("byte", [0, 40, 70, 120])
def test_a_swapped_public_key_is_found_by_its_signature(byte: int) -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("shares")
    request = exchange.request("shares", "c000", NOTHING)
    forged = edited(request, 1, lambda a: a.__setitem__((2, byte), a[2, byte] ^ 1))
    with pytest.raises(RefusedError, match="c002 did not sign these keys"):
        fleet.ask("c000", "shares", forged)


def test_keys_signed_by_somebody_else_are_refused() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("shares")
    request = exchange.request("shares", "c000", NOTHING)
    session = session_of(fleet, request)
    public = keys.public_key(keys.new_key()) + keys.public_key(keys.new_key()) + bytes(32)
    for about in (session.about("keys", "c003"), session.about("keys", "c001")):
        # The server's own identity, or another client's signature on keys of its own.
        intruder: dict[str, bytes] = {}
        new_identity(intruder)
        signer = intruder if b"c003" in about else fleet.memories["c001"]
        advert = rows([public + keys.sign(signer, about, public)], ADVERT_BYTES)
        forged = edited(request, 1, lambda a, row=advert[0]: a.__setitem__(3, row))  # type: ignore[misc]
        with pytest.raises(RefusedError, match="c003 did not sign"):
            fleet.ask("c000", "shares", forged)


def test_one_clients_keys_do_not_pass_for_anothers() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("shares")
    request = exchange.request("shares", "c000", NOTHING)
    with pytest.raises(RefusedError, match="c002 did not sign"):
        fleet.ask("c000", "shares", edited(request, 1, lambda a: a.__setitem__(2, a[1])))


def test_equal_keys_are_refused_even_if_signed() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("shares")
    request = exchange.request("shares", "c000", NOTHING)
    session = session_of(fleet, request)
    public = request.arrays[1][1, :96].tobytes()  # of c001, shown by c002 as its own
    signed = keys.sign(fleet.memories["c002"], session.about("keys", "c002"), public)
    advert = rows([public + signed], ADVERT_BYTES)[0]
    with pytest.raises(RefusedError, match="one and the same key"):
        fleet.ask("c000", "shares", edited(request, 1, lambda a: a.__setitem__(2, advert)))


def test_a_client_notices_that_others_are_shown_other_keys_of_it() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("shares")
    request = exchange.request("shares", "c000", NOTHING)
    session = session_of(fleet, request)
    public = keys.public_key(keys.new_key()) + keys.public_key(keys.new_key()) + bytes(32)
    # Whoever stole its identity could sign; the client itself knows what it showed.
    signed = keys.sign(fleet.memories["c000"], session.about("keys", "c000"), public)
    advert = rows([public + signed], ADVERT_BYTES)[0]
    with pytest.raises(RefusedError, match="shows others keys that are not this client's"):
        fleet.ask("c000", "shares", edited(request, 1, lambda a: a.__setitem__(0, advert)))


def test_clients_told_of_different_members_cannot_open_each_others_boxes() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("shares")
    honest = {c: exchange.request("shares", c, NOTHING) for c in NAMES}
    # c004 is hidden from c000, and only from it.
    bits, adverts, none = honest["c000"].arrays
    fewer = replace(honest["c000"], arrays=(as_bits({0, 1, 2, 3}, 5), adverts[:4], none))
    answers = {c: fleet.ask(c, "shares", fewer if c == "c000" else honest[c]) for c in NAMES}
    of_c001 = {0: 0, 2: 1, 3: 1, 4: 1}  # where each has the box for c001
    boxes = np.stack([answers[NAMES[k]].arrays[1][row] for k, row in of_c001.items()])
    marks = np.stack([answers[NAMES[k]].arrays[2][1] for k in of_c001])
    request = Message("secure-boxes", {"round": number(honest["c001"])}, (bits, boxes, marks))
    complaints = fleet.ask("c001", "boxes", request).arrays[0]
    assert from_bits(complaints, 5) == (0,)
    with pytest.raises(IntegrityError, match="4 rows of 148 bytes were expected"):
        exchange.take("shares", answers["c000"], RoundContext(0, (), client="c000"))


@pytest.mark.parametrize("array", [1, 2])
def test_swapped_and_damaged_boxes_are_complained_of(array: int) -> None:
    for change, places in (
        (lambda a: a.__setitem__(slice(0, 2), a[[1, 0]]), (1, 2)),
        (lambda a: a.__setitem__((0, 5), a[0, 5] ^ 4), (1,)),
    ):
        fleet = Fleet.drawn(5)
        exchange = fleet.until("boxes")
        request = edited(exchange.request("boxes", "c000", NOTHING), array, change)
        assert from_bits(fleet.ask("c000", "boxes", request).arrays[0], 5) == places
        # And the client does not go on with those in the sum.
        present = Message("secure-present", {"round": number(request)}, (as_bits(range(5), 5),))
        update = join("secure-update", {"present": present, "payload": NOTHING})
        with pytest.raises(RefusedError, match="whose box did not open"):
            fleet.ask("c000", "update", update)


def test_an_old_round_is_refused() -> None:
    fleet = Fleet.drawn(5)
    old = fleet.until("unmask")
    requests = {
        stage: old.request(stage, "c000", NOTHING) for stage in ("keys", "shares", "unmask")
    }
    fleet.run()
    latest = fleet.ask("c000", "keys", requests.pop("keys"))
    assert latest.kind == "secure-later"
    assert latest.facts["latest"] == fleet.open()._number - 1
    for stage, request in requests.items():
        with pytest.raises(RefusedError, match="replay: round"):
            fleet.ask("c000", stage, request)


def test_a_round_that_is_over_is_not_run_again() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("unmask")
    first = exchange.request("shares", "c000", NOTHING)
    fleet.step(exchange, "unmask")
    assert fleet.ask("c000", "keys", exchange.request("keys", "c000", NOTHING)).kind == (
        "secure-later"
    )
    with pytest.raises(RefusedError, match=r"replay: round .* is over"):
        fleet.ask("c000", "shares", first)
    secret = {name.rsplit("/", 1)[-1] for name in fleet.memories["c000"]}
    assert not secret & {"nonce", "mask key", "box key", "own mask", "held shares", "own shares"}


def test_stages_cannot_be_skipped() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("shares")
    at = number(exchange.request("shares", "c000", NOTHING))
    with pytest.raises(RefusedError, match="before this client has sent its upload"):
        fleet.ask("c000", "consistency", survivors(fleet, at, set(range(5))))
    arrays = (np.zeros(0, dtype=np.uint32), rows([], 64))
    with pytest.raises(RefusedError, match="before the set was agreed on"):
        fleet.ask("c000", "unmask", Message("secure-consents", {"round": at}, arrays))


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        ({0, 1}, "clients: the round has 2"),
        ({1, 2, 3, 4}, "not made of clients that shared"),
        ({0, 1, 2}, "neighbors: 3 clients hold shares, 4 are needed"),
    ],
)
def test_sets_that_break_the_rules_are_not_signed(places: set[int], reason: str) -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("consistency")
    at = number(exchange.request("consistency", "c000", NOTHING))
    with pytest.raises(RefusedError, match=reason):
        fleet.ask("c000", "consistency", survivors(fleet, at, places))


def test_a_set_with_somebody_who_never_shared_is_not_signed() -> None:
    fleet = Fleet.drawn(6)
    exchange = fleet.open()
    fleet.step(exchange, "keys")
    fleet.step(exchange, "shares", NAMES)  # c005 shares nothing
    fleet.step(exchange, "boxes", NAMES)
    fleet.step(exchange, "update", NAMES)
    at = number(exchange.request("consistency", "c000", NOTHING))
    with pytest.raises(RefusedError, match="not made of clients that shared"):
        fleet.ask("c000", "consistency", survivors(fleet, at, set(range(6))))


@pytest.mark.parametrize("repeated", [True, False])
def test_consents_are_counted_once_and_only_from_neighbors(repeated: bool) -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("unmask")
    request = exchange.request("unmask", "c000", NOTHING)
    places = request.arrays[0].copy()
    places[1] = places[0] if repeated else 0
    with pytest.raises(RefusedError, match="twice or from strangers"):
        fleet.ask("c000", "unmask", replace(request, arrays=(places, request.arrays[1])))


def test_too_few_consents_are_refused() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("unmask")
    request = exchange.request("unmask", "c000", NOTHING)
    fewer = replace(request, arrays=(request.arrays[0][:2], request.arrays[1][:2]))
    with pytest.raises(RefusedError, match="3 clients agree on the sealed set, 4 are needed"):
        fleet.ask("c000", "unmask", fewer)


def test_a_second_upload_of_other_data_is_refused() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.until("update")
    request = exchange.request("update", "c000", NOTHING)
    first = fleet.ask("c000", "update", request)
    assert fleet.ask("c000", "update", request).to_bytes() == first.to_bytes()
    fleet.vectors = {**fleet.vectors, "c000": fleet.vectors["c000"] + 1.0}
    with pytest.raises(RefusedError, match="changed"):
        fleet.ask("c000", "update", request)


def test_another_plan_or_federation_is_another_session() -> None:
    identities = generate_keys(NAMES)
    memories = identities.memories
    vectors = {name: np.ones(2) for name in NAMES}
    fleets = []
    for label, federation in (("a", "one"), ("b", "one"), ("a", "two")):
        masking = SecureAggregation(identities=identities, min_clients=3, federation=federation)
        plan = Plan(algorithm=Adding(label=label), protections=(masking,))
        fleets.append(Fleet(vectors, plan, memories))
    exchange = fleets[0].open()
    fleets[0].step(exchange, "keys")
    request = exchange.request("shares", "c000", NOTHING)
    at = number(request)
    for other in fleets[1:]:
        keys_letter = Message("secure-round", {"round": at + 1})
        other.ask("c000", "keys", keys_letter)
        replayed = Message("secure-members", {"round": at + 1}, request.arrays)
        with pytest.raises(RefusedError, match="did not sign these keys"):
            other.ask("c000", "shares", replayed)


@pytest.mark.parametrize("round_", [None, 0, -1, 2**63, "7", 1.5, True])
def test_rounds_that_are_no_numbers_are_refused(round_: int | float | str | None) -> None:
    fleet = Fleet.drawn(3)
    with pytest.raises(RefusedError, match="which is none"):
        fleet.ask("c000", "keys", Message("secure-round", {"round": round_}))


def test_unknown_stages_are_refused() -> None:
    fleet = Fleet.drawn(3)
    with pytest.raises(RefusedError, match="no stage 'secrets'"):
        fleet.ask("c000", "secrets", Message("secure-round", {"round": 1}))
