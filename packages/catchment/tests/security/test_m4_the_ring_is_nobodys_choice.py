"""M4: who masks with whom is drawn from numbers that all clients fixed before any was shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catchment.errors import AbortedError, UploadError
from catchment.federation import RoundContext
from catchment.privacy.secure_aggregation import as_bits
from catchment.wire import NOTHING, Message
from tests.security.fleet import Fleet, Lossy, RefusedError, released
from tests.security.test_a06_malicious_server import edited

NAMES = [f"c{k:03d}" for k in range(14)]


def ring() -> Fleet:
    return Fleet.drawn(14, neighbors=8)


def test_a_ring_ends_in_the_exact_sum() -> None:
    fleet = ring()
    np.testing.assert_array_equal(released(fleet.run()), fleet.expected(NAMES))


def test_two_rounds_with_one_number_have_two_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old draw was a public hash of the number, so that a server could search it offline."""
    fleet, near, numbers = ring(), [], set()
    before = {name: dict(memory) for name, memory in fleet.memories.items()}
    for _ in range(2):
        # The same clients, plan and number: only what clients draw anew is different.
        fleet.memories = {name: dict(memory) for name, memory in before.items()}
        monkeypatch.setattr("catchment.privacy.secure_aggregation.server._latest", {})
        exchange = fleet.until("shares")
        numbers.add(exchange._number)
        near.append(exchange._near)
    assert len(numbers) == 1
    assert near[0] != near[1]


def test_numbers_are_shown_only_for_the_keys_of_everybody() -> None:
    fleet = ring()
    exchange = fleet.until("nonces")
    request = exchange.request("nonces", "c000", NOTHING)
    with pytest.raises(RefusedError, match="c009 did not sign these keys"):
        fleet.ask("c000", "nonces", edited(request, 1, lambda a: a.__setitem__((9, 70), 1)))


def test_a_server_that_has_seen_numbers_cannot_change_the_members() -> None:
    fleet = ring()
    exchange = fleet.until("shares")
    request = exchange.request("shares", "c000", NOTHING)
    _, adverts, reveals = request.arrays
    fewer = (as_bits(range(13), 14), adverts[:13], reveals[:13])
    with pytest.raises(RefusedError, match="changed after this client's number"):
        fleet.ask("c000", "shares", replace(request, arrays=fewer))


@pytest.mark.parametrize(("byte", "match"), [(3, "c005 showed another number"), (50, "c005 did")])
def test_a_number_that_was_not_committed_to_is_refused(byte: int, match: str) -> None:
    fleet = ring()
    exchange = fleet.until("shares")
    request = exchange.request("shares", "c000", NOTHING)
    near = next(c for c in NAMES if 5 in exchange._near[NAMES.index(c)])
    changed = edited(request, 2, lambda a: a.__setitem__((5, byte), a[5, byte] ^ 1))
    with pytest.raises(RefusedError, match=match):
        fleet.ask(near, "shares", changed)


def test_the_ring_cannot_be_skipped() -> None:
    fleet = ring()
    exchange = fleet.until("nonces")
    bits, adverts = exchange.request("nonces", "c000", NOTHING).arrays
    for reveals in (np.zeros((0, 96), np.uint8), np.zeros((14, 96), np.uint8)):
        facts = {"round": exchange._number}
        with pytest.raises(RefusedError, match=r"no adverts|rows of 96 bytes"):
            fleet.ask("c000", "shares", Message("secure-members", facts, (bits, adverts, reveals)))


def test_a_client_that_does_not_show_its_number_ends_the_round_by_name() -> None:
    fleet = ring()
    lossy = Lossy(
        fleet.engine(), lambda stage, c: "down" if (stage, c) == ("nonces", "c004") else None
    )
    with pytest.raises(AbortedError, match=r"c004 did not show the number.*nothing was released"):
        fleet.run(lossy)


def test_the_server_refuses_a_number_that_was_not_committed_to() -> None:
    fleet = ring()
    exchange = fleet.until("nonces")
    answer = fleet.ask("c004", "nonces", exchange.request("nonces", "c004", NOTHING))
    wrong = edited(answer, 0, lambda a: a.__setitem__((0, 0), a[0, 0] ^ 1))
    with pytest.raises(UploadError, match="c004 committed to another number"):
        exchange.take("nonces", wrong, RoundContext(0, (), client="c004"))
