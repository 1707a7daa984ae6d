"""M1: boxes that do not open, false complaints and wrong shares cost the liar, not the round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import AbortedError, TooFewClientsError
from catchment.federation import Engine, Reply, Request, RoundContext
from catchment.privacy.secure_aggregation import (
    SHARE_BYTES,
    Notebook,
    as_bits,
    keys,
    left_out,
    mark,
    rows,
)
from catchment.wire import NOTHING, Message
from tests.security.fleet import Fleet, Numbers, released, stage_of
from tests.security.liars import number

Change = Callable[["Signed", Message], Message]


@dataclass(eq=False)
class Signed:
    """A client that lies and signs its lies."""

    fleet: Fleet
    client: str
    number: int

    @property
    def session(self) -> keys.Session:
        context = RoundContext(0, (), plan=self.fleet.plan.fingerprint())
        return keys.Session.of("catchment", self.number, context)

    @property
    def memory(self) -> dict[str, bytes]:
        return self.fleet.memories[self.client]  # type: ignore[return-value]

    def sign(self, message: str, content: bytes) -> bytes:
        return keys.sign(self.memory, self.session.about(message, self.client), content)

    def resigned_shares(self, promise: bytes, boxes: np.ndarray, marks: np.ndarray) -> Message:
        seen = Notebook(self.memory, self.session)["transcript"]
        whole = b"".join([seen, promise, boxes.tobytes(), marks.tobytes()])
        signed = self.sign("shares", self.session.digest("dealt", whole))
        return Message("secure-shares", {}, (rows([promise + signed], 96), boxes, marks))

    def complaining(self, places: Sequence[int], sharers: np.ndarray) -> Message:
        seen = Notebook(self.memory, self.session)["transcript"]
        bits = as_bits(places, len(self.fleet.vectors))
        signed = self.sign("complaints", seen + sharers.tobytes() + bits.tobytes())
        return Message("secure-complaints", {}, (bits, rows([signed], 64)))


@dataclass(eq=False)
class Lying(Engine):
    """An engine with clients that change what they answer at a stage."""

    fleet: Fleet
    engine: Engine
    stage: str
    liars: Mapping[str, Change]

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, request in requests.items():
            (reply,) = self.engine.ask({client: request})
            if client in self.liars and stage_of(request) == self.stage and reply.message:
                at = number(Request.from_bytes(request, client).payload)
                honest = Message.from_bytes(reply.message)
                changed = self.liars[client](Signed(self.fleet, client, at), honest)
                reply = Reply(client, changed.to_bytes())
            yield reply


def outcome(fleet: Fleet, stage: str, liars: Mapping[str, Change]) -> tuple[np.ndarray, list[str]]:
    """Return what was released, and the names that the record gives as left out."""
    result = fleet.run(Lying(fleet, fleet.engine(), stage, liars))
    return released(result), [r.client for r in result.records[0].refused]


def damaged_boxes(n: int) -> Change:
    """Return a client that damages its boxes for n others."""

    def change(liar: Signed, honest: Message) -> Message:
        first, boxes, marks = honest.arrays
        wrong = boxes.copy()
        wrong[:n, 3] ^= 1
        return liar.resigned_shares(first[0, :32].tobytes(), wrong, marks)

    return change


@pytest.mark.parametrize("n_damaged", [1, 2, 11])
def test_a_client_whose_boxes_do_not_open_is_left_out_by_name(n_damaged: int) -> None:
    fleet = Fleet.drawn(12, min_clients=10)
    total, named = outcome(fleet, "shares", {"c003": damaged_boxes(n_damaged)})
    others = [c for c in fleet.vectors if c != "c003"]
    np.testing.assert_array_equal(total, fleet.expected(others))
    assert named == ["c003"]


def test_two_such_clients_are_left_out_and_a_third_is_too_many() -> None:
    fleet = Fleet.drawn(12, min_clients=10)
    total, named = outcome(fleet, "shares", dict.fromkeys(["c000", "c011"], damaged_boxes(4)))
    others = [c for c in fleet.vectors if c not in ("c000", "c011")]
    np.testing.assert_array_equal(total, fleet.expected(others))
    assert sorted(named) == ["c000", "c011"]
    three = dict.fromkeys(["c000", "c005", "c011"], damaged_boxes(4))
    with pytest.raises(TooFewClientsError, match="its boxes did not open for 4 clients"):
        outcome(Fleet.drawn(12, min_clients=10), "shares", three)


@pytest.mark.parametrize("n_accused", [2, 5, 11])
def test_a_client_that_complains_of_many_is_left_out_itself(n_accused: int) -> None:
    fleet = Fleet.drawn(12, min_clients=10)
    everybody = as_bits(range(12), 12)

    def change(liar: Signed, honest: Message) -> Message:
        accused = [place for place in range(12) if place != 4][:n_accused]
        return liar.complaining(accused, everybody)

    total, named = outcome(fleet, "boxes", {"c004": change})
    np.testing.assert_array_equal(total, fleet.expected(c for c in fleet.vectors if c != "c004"))
    assert named == ["c004"]


def test_complaints_must_be_signed() -> None:
    fleet = Fleet.drawn(5)
    bits = as_bits([0, 1], 5)
    forged = lambda _, honest: replace(honest, arrays=(bits, honest.arrays[1]))  # noqa: E731
    total, named = outcome(fleet, "boxes", {"c004": forged})
    np.testing.assert_array_equal(total, fleet.expected(list(fleet.vectors)[:4]))
    assert named == ["c004"]


def test_consents_must_be_signed() -> None:
    """Else the clients, who check them too, would all refuse to go on."""
    fleet = Fleet.drawn(12, min_clients=10)

    def forged(liar: Signed, honest: Message) -> Message:
        return replace(honest, arrays=(honest.arrays[0] ^ 1,))

    total, named = outcome(fleet, "consistency", {"c004": forged})
    np.testing.assert_array_equal(total, fleet.expected(fleet.vectors))
    assert named == ["c004"]


conflicts = st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 9)), max_size=10)


@settings(max_examples=100)
@given(made=conflicts)
def test_no_conflict_is_left_and_nobody_is_left_out_for_nothing(made: dict[int, set[int]]) -> None:
    out = set(left_out(made))
    pairs = {(by, of) for by, senders in made.items() for of in senders if by != of}
    assert all(by in out or of in out for by, of in pairs)
    assert all(any(client in pair for pair in pairs) for client in out)


@settings(max_examples=60)
@given(
    complains=st.sets(st.integers(1, 11)),
    complained_of=st.sets(st.integers(1, 11)),
)
def test_one_liar_costs_the_round_at_most_itself_or_one_other(
    complains: set[int], complained_of: set[int]
) -> None:
    made = {0: complains} | {client: {0} for client in complained_of}
    out = set(left_out(made))
    assert len(out) <= 1
    if len(complains) + len(complained_of) > 2:
        assert out == {0}


def wrong_shares(liar: Signed, honest: Message) -> Message:
    (given,) = honest.arrays
    wrong = given.copy()
    wrong[:, 0] ^= 1
    return replace(honest, arrays=(wrong,))


@pytest.mark.parametrize("n_liars", [1, 2, 4])
@pytest.mark.parametrize("lost", [False, True])
def test_wrong_shares_are_thrown_away_and_their_givers_named(n_liars: int, lost: bool) -> None:
    """12 clients, t is 8: up to four may lie, whether own masks or mask keys are rebuilt."""
    fleet = Fleet.drawn(12, min_clients=10)
    exchange = fleet.until("update")
    uploading = [c for c in fleet.vectors if not (lost and c == "c011")]
    fleet.step(exchange, "update", uploading)
    fleet.step(exchange, "consistency")
    liars = uploading[:n_liars] if not lost else uploading[: n_liars - 1]
    for client in exchange.asked("unmask"):
        given = fleet.ask(client, "unmask", exchange.request("unmask", client, NOTHING))
        if client in liars:
            given = wrong_shares(Signed(fleet, client, 0), given)
        exchange.take("unmask", given, RoundContext(0, (), client=client))
    exchange.close("unmask")
    assert [(name, code) for name, code, _ in exchange.left_out()] == [
        (name, "shares") for name in liars
    ]
    total, n_used = exchange.result(lambda parts, context: Numbers(parts.arrays[0]))
    assert isinstance(total, Numbers)
    np.testing.assert_array_equal(total.values, fleet.expected(uploading))
    assert n_used == len(uploading)


def test_more_liars_than_spare_shares_end_the_round_with_their_names() -> None:
    fleet = Fleet.drawn(12, min_clients=10)
    five = dict.fromkeys(["c000", "c001", "c002", "c003", "c004"], wrong_shares)
    with pytest.raises(TooFewClientsError, match=r"7 clients gave shares.*gave other shares than"):
        outcome(fleet, "unmask", five)


def test_whoever_deals_shares_that_do_not_fit_is_named() -> None:
    """Each share opens and has its digest, but they do not lie on one polynomial."""

    def change(liar: Signed, honest: Message) -> Message:
        first, boxes, marks = (array.copy() for array in honest.arrays)
        book = Notebook(liar.memory, liar.session)
        shared = keys.Agreement(book["box key"]).shared(book["public keys"][:32])
        key = keys.derive(shared, salt=book["transcript"], purpose="share|5|0")
        content = bytes([1] + [0] * (2 * SHARE_BYTES - 1))
        label = liar.session.about("shares", "c005", "c000")
        boxes[0] = np.frombuffer(keys.seal(key, content, label), dtype=np.uint8)
        told = mark(liar.session, 5, 0, content)
        marks[0] = np.frombuffer(told, dtype=np.uint8)
        return liar.resigned_shares(first[0, :32].tobytes(), boxes, marks)

    fleet = Fleet.drawn(12, min_clients=10)
    with pytest.raises(AbortedError, match="c005 dealt shares that do not make what it committed"):
        outcome(fleet, "shares", {"c005": change})


def test_a_mask_other_than_was_promised_is_found_out() -> None:
    """Its shares fit their digests; the promise alone tells that they are of another secret."""
    fleet = Fleet.drawn(12, min_clients=10)

    def promised_another(liar: Signed, honest: Message) -> Message:
        _, boxes, marks = honest.arrays
        return liar.resigned_shares(bytes(32), boxes, marks)

    with pytest.raises(AbortedError, match="c003"):
        outcome(fleet, "shares", {"c003": promised_another})
