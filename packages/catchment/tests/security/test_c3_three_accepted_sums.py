"""C3: sums over sets of clients that can be subtracted are not released, however they differ.

X and Y of ten clients each, and v + X + Y: any two of the sets differ by ten or more, and
S(v + X + Y) - S(X) - S(Y) is v's own vector.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catchment import Array
from catchment.errors import TooFewClientsError
from catchment.privacy import Policy
from tests.security.fleet import Fleet, released

NAMES = [f"c{k:03d}" for k in range(21)]
VICTIM, X, Y = NAMES[0], NAMES[1:11], NAMES[11:]


def fleet_of(policy: Policy | None = None) -> Fleet:
    return Fleet.drawn(21, min_clients=10, min_share=0.4, corrupt=0.1, policy=policy)


def summed(fleet: Fleet, names: list[str]) -> Array:
    everybody = fleet.vectors
    fleet.vectors = {name: everybody[name] for name in names}
    try:
        return released(fleet.run())
    finally:
        fleet.vectors = everybody


@pytest.mark.parametrize(
    "order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)], ids=["parts first", "whole first", "between"]
)
def test_three_sums_that_leave_one_client_are_not_all_released(order: tuple[int, ...]) -> None:
    fleet, sets = fleet_of(), [X, Y, [VICTIM, *X, *Y]]
    found: dict[int, Array] = {}
    reasons: list[str] = []
    for k in order:
        try:
            found[k] = summed(fleet, sets[k])
        except TooFewClientsError as error:
            reasons.append(str(error))
    assert len(found) < 3
    assert all("over different sets can be subtracted" in reason for reason in reasons)
    for known in found.values():
        assert not np.isclose(known, fleet.vectors[VICTIM], rtol=1e-3).any()


def test_where_owners_allow_any_clients_the_attack_is_real() -> None:
    fleet = fleet_of(Policy(exact="any clients"))
    left = summed(fleet, [VICTIM, *X, *Y]) - summed(fleet, X) - summed(fleet, Y)
    scale = max(np.abs(vector).max() for vector in fleet.vectors.values())
    np.testing.assert_allclose(left, fleet.vectors[VICTIM], atol=1e-12 * scale)


def test_another_plan_or_name_of_the_federation_does_not_help() -> None:
    fleet = fleet_of()
    summed(fleet, NAMES)
    masking = replace(fleet.masking, federation="other")
    fleet.plan = replace(fleet.plan, protections=(masking,))
    with pytest.raises(TooFewClientsError, match="can be subtracted"):
        summed(fleet, NAMES[1:])
