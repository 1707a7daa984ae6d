"""N1: what a client's ledger refuses does not leave it, whatever the other clients agree to.

The sealed set is fixed by the uploads that came, and t clients take the masks off. A client that
first said no when it was asked for its consent was in the sum all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from catchment.errors import TooFewClientsError
from catchment.federation import Engine, Reply
from catchment.privacy import Policy, PrivacyLedger
from tests.security.fleet import Fleet, released

VICTIM = "c000"


@dataclass(eq=False)
class Owners(Engine):
    """An engine whose clients have policies of their own."""

    fleet: Fleet
    policies: Mapping[str, Policy] = field(default_factory=dict)

    def clients(self) -> Sequence[str]:
        return sorted(self.fleet.vectors)

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, request in requests.items():
            policy = self.policies.get(client, Policy())
            ledger = PrivacyLedger(self.fleet.memories[client], policy)
            yield Reply(client, replace(self.fleet.node(client), ledger=ledger).answer(request))


def test_a_client_that_allows_nothing_exact_is_in_no_exact_sum() -> None:
    fleet = Fleet.drawn(12, length=20, min_clients=10)
    result = fleet.run(Owners(fleet, {VICTIM: Policy(exact="never")}))
    assert [(one.client, one.code) for one in result.refused] == [(VICTIM, "exact")]
    others = [client for client in fleet.vectors if client != VICTIM]
    np.testing.assert_array_equal(released(result), fleet.expected(others))


def test_one_client_s_new_row_is_not_the_difference_of_two_sums() -> None:
    """Only the victim's data have changed; eleven others agree to the same set again."""
    fleet = Fleet.drawn(12, length=400, min_clients=10)
    fleet.run(Owners(fleet))
    changed = fleet.vectors[VICTIM].copy()
    changed[7] += 1234.5
    fleet.vectors = {**fleet.vectors, VICTIM: changed}
    with pytest.raises(TooFewClientsError, match="have changed since"):
        fleet.run(Owners(fleet))


def test_a_client_is_not_summed_with_others_than_before() -> None:
    """Ten others have been in no sum yet, and would agree to the victim's second one."""
    fleet = Fleet.drawn(21, length=20, min_clients=10, min_share=0.4, corrupt=0.1)
    everybody, names = fleet.vectors, sorted(fleet.vectors)
    fleet.vectors = {name: everybody[name] for name in names[:10]}
    fleet.run(Owners(fleet))
    fleet.vectors = {name: everybody[name] for name in (VICTIM, *names[10:])}
    result = fleet.run(Owners(fleet))
    assert [(one.client, one.code) for one in result.refused] == [(VICTIM, "cohort")]
    fleet.vectors = everybody
    np.testing.assert_array_equal(released(result), fleet.expected(names[10:]))


def test_one_who_never_gets_to_its_upload_does_not_end_a_plan_of_several_rounds() -> None:
    """It shows keys and shares in every round, so that it is there until the sums are sealed."""
    fleet = Fleet.drawn(13, rounds=3, min_clients=10)
    fleet.vectors = {**fleet.vectors, VICTIM: np.array([1.0, np.nan, 2.0])}
    result = fleet.run()
    assert [record.n_used for record in result.records] == [12, 12, 12]
    assert {one.client for one in result.refused} == {VICTIM}
