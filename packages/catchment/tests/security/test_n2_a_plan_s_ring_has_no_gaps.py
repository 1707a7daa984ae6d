"""N2: a plan cannot ask for a ring of so few neighbors that one client stands alone in it.

With no neighbors the own mask was all there was, and a client's own share opened it. With two, a
server began rounds until two clients that work with it stood around a third (30 rounds of 12
clients), took off all its masks and read its numbers. Neither was noticed by the client, because
the threshold was checked against the split view only.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from catchment.wire import NOTHING
from tests.security.fleet import Fleet, RefusedError


def refusals(fleet: Fleet) -> list[str]:
    """Return what clients say when they are asked for anything after their keys."""
    exchange = fleet.open()
    said = []
    for stage in ("keys", "nonces", "shares"):
        for client in exchange.asked(stage):
            request = exchange.request(stage, client, NOTHING)
            try:
                answer = fleet.ask(client, stage, request)
            except RefusedError as error:
                said.append(str(error))
            else:
                exchange.take(stage, answer, replace(exchange._turn, client=client))
        if said:
            break
        exchange.close(stage)
    return said


@pytest.mark.parametrize("neighbors", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("needed", [None, 1, 3])
def test_a_ring_that_can_be_cut_is_refused(neighbors: int, needed: int | None) -> None:
    fleet = Fleet.drawn(12, min_clients=10, neighbors=neighbors, shares_needed=needed)
    assert len(refusals(fleet)) == 12


@pytest.mark.parametrize("neighbors", [0, 1])
def test_nobody_is_without_a_neighbor_even_if_all_are_honest(neighbors: int) -> None:
    fleet = Fleet.drawn(12, neighbors=neighbors, corrupt=0.0)
    assert len(refusals(fleet)) == 12


def test_a_threshold_of_the_plan_s_choice_is_held_against_the_ring() -> None:
    fleet = Fleet.drawn(14, neighbors=8, shares_needed=6)
    assert "in a ring of 8 neighbors 8 must be needed" in refusals(fleet)[0]


@pytest.mark.parametrize("neighbors", [None, 8, 13, 100])
def test_rings_that_hold_are_not_refused(neighbors: int | None) -> None:
    assert refusals(Fleet.drawn(14, neighbors=neighbors)) == []
