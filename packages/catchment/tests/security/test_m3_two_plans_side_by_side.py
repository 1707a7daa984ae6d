"""M3: a second plan's round does not erase the secrets of one that is under way."""

from __future__ import annotations

import numpy as np

from catchment.federation import Plan
from catchment.privacy import SecureAggregation, generate_keys
from tests.security.fleet import STAGES, Adding, Fleet, Numbers


def test_rounds_of_two_plans_take_turns_and_both_end_in_their_sums() -> None:
    names = [f"c{k:03d}" for k in range(5)]
    identities = generate_keys(names)
    rng = np.random.default_rng(0)
    vectors = {name: rng.normal(size=3) for name in names}
    masking = SecureAggregation(identities=identities, min_clients=3)
    fleets = [
        Fleet(
            vectors,
            Plan(algorithm=Adding(label=label), protections=(masking,)),
            identities.memories,
        )
        for label in ("one", "other")
    ]
    exchanges = [fleet.open() for fleet in fleets]
    for stage in STAGES:
        for fleet, exchange in zip(fleets, exchanges, strict=True):
            fleet.step(exchange, stage)
    for fleet, exchange in zip(fleets, exchanges, strict=True):
        total, n_used = exchange.result(lambda parts, turn: Numbers(parts.arrays[0]))
        assert isinstance(total, Numbers)
        assert n_used == 5
        np.testing.assert_array_equal(total.values, fleet.expected(names))
