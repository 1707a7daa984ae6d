"""Secure aggregation of the library's algorithms, their settings, messages that do not add."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

from catchment.data import Recording
from catchment.engine import run_locally
from catchment.errors import FederationError, IntegrityError, RuleError, TooFewClientsError
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan, Tally, WeightedSum, describe
from catchment.federation.learn import FederatedRidge, ReadoutAveraging
from catchment.privacy import SecureAggregation, generate_keys
from catchment.privacy.secure_aggregation import (
    IDENTITY,
    Outline,
    Ring,
    add_into,
    as_bits,
    check_rows,
    encoded,
    from_bits,
    from_rows,
    rows,
    share_from,
)
from catchment.readout import RidgeStatistics, StatisticsSet
from catchment.wire import Message, measured
from tests.security.fleet import Fleet, released

FEATURES = EchoState.of(Reservoir(units=10, inputs=1, seed=1))
NAMES = [f"c{k}" for k in range(5)]


def clients() -> dict[str, list[Recording]]:
    rng = np.random.default_rng(0)
    u = {name: rng.normal(size=(120, 1)) for name in NAMES}
    return {name: [Recording(x, np.roll(x, 1, axis=0))] for name, x in u.items()}


def both(algorithm: Any, rounds: int = 1, **settings: Any) -> tuple[Any, Any]:
    """Return the results of an algorithm without and with secure aggregation."""
    identities = generate_keys(NAMES)
    memories = identities.memories
    masking = SecureAggregation(identities=identities, min_clients=3, **settings)
    plain = run_locally(Plan(algorithm=algorithm, rounds=rounds), clients())
    plan = Plan(algorithm=algorithm, rounds=rounds, protections=(masking,))
    return plain, run_locally(plan, clients(), memories=memories)


@pytest.mark.parametrize(
    ("algorithm", "rounds"),
    [
        (FederatedRidge(features=FEATURES, ridge=1e-3, store_per_client=False), 1),
        (FederatedRidge(features=FEATURES, ridge="gcv", store_per_client=False), 1),
        (ReadoutAveraging(features=FEATURES, ridge=1e-3), 1),
    ],
    ids=["ridge", "gcv", "averaging"],
)
def test_every_message_that_adds_can_be_hidden(algorithm: Any, rounds: int) -> None:
    plain, hidden = both(algorithm, rounds)
    assert hidden.records[-1].n_used == 5
    np.testing.assert_allclose(
        hidden.model.readout.weights, plain.model.readout.weights, rtol=1e-7, atol=1e-10
    )


def test_the_compact_ring_gives_nearly_the_same_readout() -> None:
    algorithm = FederatedRidge(features=FEATURES, ridge=0.1, store_per_client=False)
    plain, hidden = both(algorithm, bits=64, bound=1e5, ridge=0.1, tolerance=1e-6)
    np.testing.assert_allclose(
        hidden.model.readout.weights, plain.model.readout.weights, rtol=1e-6, atol=1e-8
    )
    assert hidden.records[0].bytes_up < 5 * 8 * 90 * 2 + 5 * 2500


def test_a_ring_too_coarse_for_the_readout_is_refused_by_the_clients() -> None:
    algorithm = FederatedRidge(features=FEATURES, ridge=1e-9, store_per_client=False)
    with pytest.raises(TooFewClientsError, match="64 bits could move the readout"):
        both(algorithm, bits=64, bound=1e9, ridge=1e-9, tolerance=1e-3)


def test_messages_that_differ_in_their_facts_do_not_add() -> None:
    fleet = Fleet.drawn(4)
    fleet.vectors = {name: np.ones(2 + k) for k, name in enumerate(fleet.vectors)}
    with pytest.raises(TooFewClientsError, match="differ in their facts or shapes"):
        fleet.run()


def test_one_client_with_another_shape_is_left_out_even_if_it_comes_first() -> None:
    fleet = Fleet.drawn(5)
    fleet.vectors = {**fleet.vectors, "c000": np.ones(7)}
    result = fleet.run()
    others = [name for name in fleet.vectors if name != "c000"]
    np.testing.assert_array_equal(released(result), fleet.expected(others))


def test_the_plans_minimum_counts_too() -> None:
    fleet = Fleet.drawn(4)
    fleet.plan = Plan(
        algorithm=fleet.plan.algorithm, min_clients=5, protections=fleet.plan.protections
    )
    with pytest.raises(TooFewClientsError, match="it needs 5"):
        fleet.run()


def test_the_fingerprint_covers_every_setting_and_identity() -> None:
    identities = generate_keys(NAMES)
    base = SecureAggregation(identities=identities, min_clients=3)
    others = [
        SecureAggregation(identities=generate_keys(NAMES), min_clients=3),
        SecureAggregation(identities=identities, min_clients=4),
        SecureAggregation(identities=identities, min_clients=3, corrupt=0.1),
        SecureAggregation(identities=identities, min_clients=3, min_share=0.4),
        SecureAggregation(identities=identities, min_clients=3, federation="other"),
    ]
    algorithm = FederatedRidge(features=FEATURES, ridge=1.0, store_per_client=False)
    plans = [Plan(algorithm=algorithm, protections=(masking,)) for masking in (base, *others)]
    assert len({plan.fingerprint() for plan in plans}) == 6
    assert "identities" in str(describe(base))
    registered = dict(identities)
    given = SecureAggregation(registered, min_clients=3)
    registered["c9"] = "00" * 32
    assert "c9" not in given.identities


def test_the_keys_of_one_process_are_all_that_secure_aggregation_of_it_needs() -> None:
    keys = generate_keys(NAMES)
    algorithm = FederatedRidge(features=FEATURES, ridge=1.0, store_per_client=False)
    masking = SecureAggregation(keys, min_clients=3, rows_per_feature=2)
    hidden = Plan(algorithm=algorithm, protections=(masking,))
    total = run_locally(hidden, clients()).state.total
    clear = run_locally(Plan(algorithm=algorithm), clients()).state.total
    assert total is not None
    assert clear is not None
    np.testing.assert_allclose(total.gram, clear.gram, rtol=1e-12)
    strangers = Plan(
        algorithm=algorithm, protections=(SecureAggregation(dict(keys), min_clients=3),)
    )
    with pytest.raises(TooFewClientsError, match="no private key"):
        run_locally(strangers, clients())


def test_private_keys_stay_where_they_were_made() -> None:
    keys = generate_keys(NAMES)
    masking = SecureAggregation(keys, min_clients=3)
    secrets = [keys.memories[name][IDENTITY] for name in NAMES]
    told = [pickle.dumps(masking), pickle.dumps(keys), repr(masking).encode()]
    described = json.dumps(describe(masking)).encode()
    for text in (*told, described, repr(keys).encode()):
        assert not any(secret in text or secret.hex().encode() in text for secret in secrets)
    for copied in (pickle.loads(pickle.dumps(keys)), copy.deepcopy(keys), copy.copy(keys)):
        assert type(copied) is dict
        assert copied == dict(keys)
    assert describe(masking) == describe(SecureAggregation(dict(keys), min_clients=3))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"min_clients": 2}, "min_clients is 2"),
        ({"rows_per_feature": 1.0}, "rows_per_feature is 1"),
        ({"rows_per_feature": float("nan")}, "rows_per_feature is nan"),
        ({"corrupt": 1.0}, "corrupt is 1"),
        ({"min_share": -0.1}, "min_share is -0.1"),
        ({"bits": 64}, "bound is None"),
        ({"bound": 1.0}, "bound is 1.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        SecureAggregation(identities={"ann": "00" * 32}, **settings)


def test_thresholds_that_do_not_withstand_the_corrupt_ones_are_refused_by_the_clients() -> None:
    fleet = Fleet.drawn(5, shares_needed=3, corrupt=0.0)
    assert fleet.run().records[0].n_used == 5
    for settings in ({"corrupt": 0.2}, {"shares_needed": 2}, {"shares_needed": 6}):
        fleet = Fleet.drawn(5, **({"shares_needed": 3, "corrupt": 0.0} | settings))
        with pytest.raises(TooFewClientsError, match="to 5 shares must be needed"):
            fleet.run()


def test_secure_aggregation_must_come_last() -> None:
    masking = SecureAggregation(identities={"ann": "00" * 32})
    algorithm = FederatedRidge(features=FEATURES, ridge=1.0, store_per_client=False)
    with pytest.raises(ValueError, match="last of the protections"):
        Plan(algorithm=algorithm, protections=(masking, masking))


def test_rows_are_counted_inside_whatever_holds_them() -> None:
    thin = RidgeStatistics.zero(6, 2)
    (found,) = measured(StatisticsSet({3: thin}))
    assert (found.rows, found.sizes) == (0, {"features": 6, "targets": 2})
    for upload in (thin, StatisticsSet({0: thin}), Tally(thin, {})):
        with pytest.raises(RuleError, match="too few rows for 6 features"):
            check_rows(upload, rows_per_feature=2, min_clients=3)
    check_rows(WeightedSum((np.ones(3),), 1.0), rows_per_feature=2, min_clients=3)


def test_whole_numbers_come_back_whole() -> None:
    counts = Message("counts", {"of": "a"}, (np.array([[1, 2], [3, 4]]), np.array([7], np.uint8)))
    total = np.zeros((2, 5), dtype=np.uint64)
    for _ in range(100):
        add_into(total, encoded(counts, Ring(), n_clients=100))
    back = Outline.of(counts).fill(total, Ring())
    assert back.arrays[0].dtype == np.int64
    np.testing.assert_array_equal(back.arrays[0], [[100, 200], [300, 400]])
    np.testing.assert_array_equal(back.arrays[1], [700])  # more than the type of one could hold
    single = Message("single", {}, (np.array([0.5], dtype=np.float32),))
    assert Outline.of(single).fill(encoded(single, Ring()), Ring()).arrays[0].dtype == np.float32
    assert encoded(Message("nothing"), Ring()).shape == (2, 0)


def test_outlines_differ_by_every_part() -> None:
    parts = [
        Message("a", {}, (np.zeros(2),)),
        Message("b", {}, (np.zeros(2),)),
        Message("a", {"f": 1}, (np.zeros(2),)),
        Message("a", {}, (np.zeros((2, 1)),)),
        Message("a", {}, (np.zeros(2, dtype=np.int64),)),
        Message("a", {}, (np.zeros(1), np.zeros(1))),
    ]
    assert len({Outline.of(p).digest() for p in parts}) == 6
    for p in parts:
        assert Outline.from_fact(Outline.of(p).fact()).digest() == Outline.of(p).digest()


@pytest.mark.parametrize(
    "bits", [np.zeros(1, np.uint8), np.zeros(2, np.int64), np.array([0, 32], np.uint8)]
)
def test_sets_of_another_federation_are_refused(bits: Any) -> None:
    assert from_bits(as_bits({0, 9}, 10), 10) == (0, 9)
    with pytest.raises(IntegrityError, match="set of clients"):
        from_bits(bits, 10)


def test_rows_and_shares_of_the_wrong_size_are_refused() -> None:
    with pytest.raises(IntegrityError, match="2 rows of 3 bytes"):
        from_rows(rows([b"abc"], 3), 2, 3)
    with pytest.raises(IntegrityError, match="field"):
        share_from(b"\xff" * 66)
    with pytest.raises(IntegrityError, match="field"):
        share_from(b"\x01" * 65)


def test_a_cohort_without_identities_is_named() -> None:
    identities = generate_keys(NAMES[:4])
    memories = identities.memories
    plan = Plan(
        algorithm=FederatedRidge(features=FEATURES, ridge=1.0, store_per_client=False),
        protections=(SecureAggregation(identities=identities, min_clients=3),),
    )
    with pytest.raises(FederationError, match="c4 has no registered identity"):
        run_locally(plan, clients(), memories=memories)
