"""M2: no clock and no single request locks clients out of their federation."""

from __future__ import annotations

import time

import numpy as np
import pytest

from catchment.federation import RoundContext
from catchment.privacy import forget_rounds
from catchment.privacy.secure_aggregation import JUMP
from catchment.wire import NOTHING, Message
from tests.security.fleet import Fleet, RefusedError, released


def begin(fleet: Fleet, client: str, number: int) -> Message:
    return fleet.ask(client, "keys", Message("secure-round", {"round": number}))


def test_a_clock_a_year_ahead_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, now = Fleet.drawn(4), time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 365 * 24 * 3600 * 10**9)
    fleet.run()
    monkeypatch.undo()
    np.testing.assert_array_equal(released(fleet.run()), fleet.expected(fleet.vectors))


@pytest.mark.parametrize("number", [2**63 - 1, 2**40, 1_800_000_000 * 10**9])
def test_a_number_far_above_those_known_is_refused_and_leaves_no_trace(number: int) -> None:
    fleet = Fleet.drawn(4)
    for client in fleet.vectors:
        with pytest.raises(RefusedError, match=r"number: .* the highest this client knows, 0"):
            begin(fleet, client, number)
    np.testing.assert_array_equal(released(fleet.run()), fleet.expected(fleet.vectors))


def test_a_server_that_lost_count_begins_again_above_its_clients() -> None:
    fleet = Fleet.drawn(5)
    for client in fleet.vectors:
        assert begin(fleet, client, JUMP - 7).kind == "secure-keys"
    # All of them know a number that this server has not come to.
    result = fleet.run()
    np.testing.assert_array_equal(released(result), fleet.expected(fleet.vectors))
    assert fleet.open()._number > JUMP - 7
    assert not result.records[0].refused


def test_a_client_far_above_the_others_is_left_out_and_named_and_can_be_repaired() -> None:
    fleet = Fleet.drawn(5, min_share=0.5)
    far = 0
    for _ in range(2):
        far += JUMP
        begin(fleet, "c002", far)
    result = fleet.run()
    others = [c for c in fleet.vectors if c != "c002"]
    np.testing.assert_array_equal(released(result), fleet.expected(others))
    assert [(r.client, r.code) for r in result.records[0].refused] == [("c002", "number")]
    assert "forget_rounds" in result.records[0].refused[0].reason
    forget_rounds(fleet.memories["c002"], "catchment")
    # Repaired it can take part again; its own data were in no sum yet.
    assert begin(fleet, "c002", fleet.open()._number).kind == "secure-keys"


def test_a_client_that_claims_a_huge_number_moves_nobody() -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.open()
    first = exchange._number
    for client in exchange.asked("keys"):
        answer = fleet.ask(client, "keys", exchange.request("keys", client, NOTHING))
        if client == "c001":
            answer = Message("secure-later", {"latest": 2**62})
        exchange.take("keys", answer, RoundContext(0, (), client=client))
    exchange.close("keys")
    assert first < exchange._number < first + JUMP
    fleet.step(exchange, "keys")
    assert set(exchange.asked("shares")) == set(fleet.vectors)


@pytest.mark.parametrize(("ahead", "followed"), [(1 << 10, True), ((1 << 10) + 1, False)])
def test_the_number_of_one_client_is_followed_so_far_and_no_further(
    ahead: int, followed: bool
) -> None:
    fleet = Fleet.drawn(5)
    exchange = fleet.open()
    first = exchange._number
    for client in exchange.asked("keys"):
        answer = fleet.ask(client, "keys", exchange.request("keys", client, NOTHING))
        if client == "c001":
            answer = Message("secure-later", {"latest": first + ahead})
        exchange.take("keys", answer, RoundContext(0, (), client=client))
    exchange.close("keys")
    assert (exchange._number > first + ahead) is followed


@pytest.mark.parametrize("ahead", [(1 << 19) - 1, 1000])
def test_one_client_that_lies_locks_nobody_out_who_was_away(ahead: int) -> None:
    """It says each time that it knows a number that the server still follows; c007 is away."""
    fleet = Fleet.drawn(8)
    for _ in range(4):
        exchange = fleet.open()
        lie = Message("secure-later", {"latest": exchange._number + ahead})
        exchange.take("keys", lie, RoundContext(0, (), client="c000"))
        while exchange.asked("keys"):
            for client in sorted(fleet.vectors)[1:7]:
                answer = fleet.ask(client, "keys", exchange.request("keys", client, NOTHING))
                exchange.take("keys", answer, RoundContext(0, (), client=client))
            exchange.close("keys")
    request = fleet.open().request("keys", "c007", NOTHING)
    assert fleet.ask("c007", "keys", request).kind == "secure-keys"
