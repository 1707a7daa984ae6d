"""A3: secure aggregation is the integer sum of the encodings, bit for bit, whoever drops out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from catchment.errors import FederationError, TooFewClientsError
from catchment.privacy import SecureAggregation
from tests.security.fleet import STAGES, Fleet, Lossy, losing, released

FATES = (None, "update", "consistency", "unmask")


def outcome(n_clients: int, fates: dict[str, str], t: int) -> list[str] | None:
    """Return the clients that must be in the sum, or None if there must be none.

    `t` shares open a secret; each stage needs the clients that it needs, and no more.
    """
    names = [f"c{k:03d}" for k in range(n_clients)]

    def there(stage: str) -> list[str]:
        at = STAGES.index(stage)
        return [c for c in names if STAGES.index(fates.get(c, "unmask")) > at or c not in fates]

    sealed = there("update")
    enough = len(there("keys")) >= 3 and len(there("boxes")) >= max(3, t)
    enough = enough and len(sealed) >= max(3, t)
    enough = enough and len(there("consistency")) >= t and len(there("unmask")) >= t
    return sealed if enough else None


def check(fleet: Fleet, fates: dict[str, str], way: str = "down") -> bool:
    n = len(fleet.vectors)
    n_keys = sum(fates.get(c) != "keys" for c in fleet.vectors)
    t = fleet.masking.degree(n_keys)[1] if n_keys else 0
    expected = outcome(n, fates, t)
    lost = losing(fates)
    engine = Lossy(fleet.engine(), lambda stage, client: lost(stage, client) and way)
    if expected is None:
        with pytest.raises(TooFewClientsError, match="nothing was released"):
            fleet.run(engine)
        return False
    result = fleet.run(engine)
    np.testing.assert_array_equal(released(result), fleet.expected(expected))
    assert result.records[0].n_used == len(expected)
    return True


def test_every_pattern_of_loss_among_four_clients() -> None:
    n_sums = 0
    for pattern in itertools.product(FATES, repeat=4):
        fates = {f"c{k:03d}": fate for k, fate in enumerate(pattern) if fate}
        n_sums += check(Fleet.drawn(4), fates)
    # t is 3 of 4: nobody or one client lost, at any of three moments.
    assert n_sums == 1 + 4 * 3


@pytest.mark.parametrize("n_clients", [3, 5, 8, 13, 30])
@pytest.mark.parametrize("bits", [128, 64])
def test_random_patterns_of_loss(n_clients: int, bits: int) -> None:
    bound: dict[str, Any] = {"bits": 64, "bound": 1e9} if bits == 64 else {}
    rng = np.random.default_rng([n_clients, bits])
    for share in (0.0, 0.1, 0.3):
        fleet = Fleet.drawn(n_clients, seed=n_clients, **bound)
        fates = {
            client: STAGES[rng.integers(0, 6)] for client in fleet.vectors if rng.random() < share
        }
        check(fleet, fates, "up" if rng.random() < 0.5 else "down")


def test_answers_may_be_lost_on_the_way_up() -> None:
    for stage in STAGES:
        fleet = Fleet.drawn(4)
        assert check(fleet, {"c001": stage}, "up")


def test_exactly_the_threshold_survives_and_one_less_does_not() -> None:
    names = [f"c{k:03d}" for k in range(9)]  # t is 6
    for stage in STAGES[1:]:
        assert check(Fleet.drawn(9), dict.fromkeys(names[:3], stage))
        assert not check(Fleet.drawn(9), dict.fromkeys(names[:4], stage))


def test_a_sparse_graph_is_exact_too() -> None:
    fleet = Fleet.drawn(24, neighbors=10, corrupt=0.0)
    assert fleet.masking.degree(24) == (10, 8)
    fates = {"c003": "update", "c007": "consistency", "c011": "unmask", "c020": "keys"}
    result = fleet.run(Lossy(fleet.engine(), losing(fates)))
    sealed = [c for c in fleet.vectors if c not in ("c003", "c020")]
    np.testing.assert_array_equal(released(result), fleet.expected(sealed))


def test_too_few_clients_in_all() -> None:
    with pytest.raises(ValueError, match="min_clients is 2"):
        Fleet.drawn(2, min_clients=2)
    fleet = Fleet.drawn(2)
    with pytest.raises(TooFewClientsError, match="2 of 2 clients, it needs 3"):
        fleet.run()


def test_a_client_without_an_identity_is_named() -> None:
    fleet = Fleet.drawn(4)
    identities = {c: k for c, k in fleet.masking.identities.items() if c != "c002"}
    without = SecureAggregation(identities=identities, min_clients=3)
    fleet.plan = type(fleet.plan)(algorithm=fleet.plan.algorithm, protections=(without,))
    with pytest.raises(FederationError, match="c002 has no registered identity"):
        fleet.run()


def test_a_hundred_clients_on_the_full_graph() -> None:
    fleet = Fleet.drawn(100, length=2)
    fates = {"c001": "shares", "c017": "update", "c044": "consistency", "c099": "unmask"}
    assert check(fleet, fates)


@pytest.mark.long
def test_every_pattern_of_loss_among_five_clients() -> None:
    n_sums = 0
    for pattern in itertools.product((None, *STAGES), repeat=5):
        fates = {f"c{k:03d}": fate for k, fate in enumerate(pattern) if fate}
        n_sums += check(Fleet.drawn(5), fates)
    assert n_sums > 0


@pytest.mark.long
@pytest.mark.parametrize("n_clients", range(3, 101))
def test_every_number_of_clients(n_clients: int) -> None:
    rng = np.random.default_rng(n_clients)
    fleet = Fleet.drawn(n_clients, length=2)
    lost = rng.choice(n_clients, n_clients // 5, replace=False)
    check(fleet, {f"c{k:03d}": STAGES[rng.integers(1, 6)] for k in lost})
