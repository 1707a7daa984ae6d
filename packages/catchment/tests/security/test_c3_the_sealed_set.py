"""C3: the set that was opened binds, not the one that was there, and is asked about in time.

A client whose upload is lost on its way is present and not in the sum. Whoever sums all of them
afterwards and subtracts has the lost client's vector.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catchment.errors import TooFewClientsError
from catchment.wire import NOTHING
from tests.security.fleet import Fleet, RefusedError

NAMES = [f"c{k:03d}" for k in range(21)]
LOST = NAMES[-1]


def after_a_loss() -> Fleet:
    """Return clients of whom all but the last were summed, under a plan that comes after it."""
    fleet = Fleet.drawn(21, min_clients=10, min_share=0.4, corrupt=0.1)
    exchange = fleet.until("update")
    for stage in ("update", "consistency", "unmask"):
        fleet.step(exchange, stage, NAMES[:-1])
    total, n_clients = exchange.result(fleet.plan.algorithm.read_update)
    np.testing.assert_array_equal(total.values, fleet.expected(NAMES[:-1]))
    assert n_clients == 20
    masking = replace(fleet.masking, federation="other")
    fleet.plan = replace(fleet.plan, protections=(masking,))
    return fleet


def test_all_are_not_summed_after_all_but_one() -> None:
    fleet = after_a_loss()
    with pytest.raises(TooFewClientsError, match="can be subtracted"):
        fleet.run()


def test_no_client_consents_to_a_set_that_its_ledger_refuses() -> None:
    fleet = after_a_loss()
    exchange = fleet.until("consistency")
    for client in NAMES[:-1]:
        with pytest.raises(RefusedError, match="can be subtracted"):
            fleet.ask(client, "consistency", exchange.request("consistency", client, NOTHING))


def test_the_same_set_is_summed_again() -> None:
    fleet = after_a_loss()
    exchange = fleet.until("update")
    for stage in ("update", "consistency", "unmask"):
        fleet.step(exchange, stage, NAMES[:-1])
    total, _ = exchange.result(fleet.plan.algorithm.read_update)
    np.testing.assert_array_equal(total.values, fleet.expected(NAMES[:-1]))
