"""N3: what holds at the edge of a rule, where a fault put in on purpose was not noticed before."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment import Reservoir
from catchment.errors import FederationError, UploadError
from catchment.features import EchoState
from catchment.federation import Cost, RoundContext, check_statistics
from catchment.federation.learn import FederatedRidge
from catchment.privacy import (
    Budget,
    Clip,
    GaussianNoise,
    Policy,
    SecureAggregation,
    parse_policy,
    template,
)
from catchment.privacy.dp import _heads
from catchment.privacy.secure_aggregation import (
    Outline,
    Ring,
    Session,
    check_rows,
    decode,
    encode,
    encoded,
    of_adverts,
    of_nonces,
    of_update,
)
from catchment.readout import Counts, RidgeStatistics, Spectrum
from catchment.wire import Message

RIDGE = FederatedRidge(features=EchoState.of(Reservoir(units=2, inputs=1)))
KEYS = {f"c{k:02}": f"{k:064x}" for k in range(100)}


def statistics(n: int, F: int = 2, **more: Any) -> RidgeStatistics:
    rng = np.random.default_rng(n)
    return RidgeStatistics.from_states(rng.normal(size=(n, F)), np.ones((n, 1)), **more)


def test_who_spent_most_is_found_among_costs_of_both_kinds(tmp_path: Path) -> None:
    budget = Budget(path=tmp_path / "ledger.db", epsilon=100.0, delta=1e-5)
    budget.charge(["ann"], Cost(concentrated=1.0), purpose="one")
    budget.charge(["ben"], Cost(concentrated=0.8, gaussian=0.5), purpose="two")
    assert budget.spent("ben") > budget.spent("ann")
    assert budget.spent() == budget.spent("ben")


def test_as_many_rows_as_are_asked_for_are_enough() -> None:
    check_rows(statistics(12, 6), rows_per_feature=20, min_clients=10)


def test_one_public_row_is_a_reference() -> None:
    assert Clip(bound=1.0, reference=statistics(1)).bound == 1.0


def test_features_that_repeat_each_other_are_whitened_within_bounds() -> None:
    clip = Clip(bound=1.0, reference=RidgeStatistics.from_states(np.ones((9, 3)), np.ones((9, 1))))
    there, back = clip.whitening
    assert np.linalg.norm(there, 2) < 100
    np.testing.assert_allclose(back @ there, np.eye(4), atol=1e-9)


def test_counts_of_one_column_use_all_of_the_bound_and_of_no_rows_none() -> None:
    edges = [0.0, 1.0, 2.0]
    assert Clip(bound=8.0).length(Counts.of([0.5, 0.5], edges)) == pytest.approx(8.0)
    assert Clip(bound=8.0).length(Counts.of([], edges)) == 0.0


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (Policy, {"rows_per_feature": -0.5}, "rows_per_feature"),
        (Policy, {"epsilon": -1.0, "delta": 1e-5}, "epsilon"),
        (SecureAggregation, {"identities": KEYS, "min_share": 1.5}, "min_share"),
        (
            GaussianNoise,
            {"epsilon": 1.0, "delta": 1e-5, "clip": Clip(bound=1.0), "min_clients": 100}
            | {"colluding": -1},
            "collude",
        ),
    ],
)
def test_settings_just_outside_are_refused(kind: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind(**settings)


def test_a_plan_asks_for_the_rows_that_a_new_policy_does() -> None:
    ours = parse_policy(template())
    assert SecureAggregation(identities=KEYS).rows_per_feature == ours.rows_per_feature == 20


def test_one_release_is_no_second_round() -> None:
    noise = GaussianNoise(
        epsilon=1.0, delta=1e-5, clip=Clip(bound=1.0), min_clients=1, small_cohort=True, releases=1
    )
    total = noise.clip.clipped(statistics(9), 2.0**-20)
    with pytest.raises(FederationError, match="1 releases were agreed on and made"):
        noise.on_server(total, RoundContext(1, ("ann",), 0), RIDGE.read_update)


def test_no_neighbors_are_none() -> None:
    assert SecureAggregation(identities=KEYS, neighbors=0).degree(100)[0] == 0


def test_the_first_count_that_cannot_be_summed_is_refused() -> None:
    for most in (2**63, 2**64 - 1):
        with pytest.raises(ValueError, match="a count is above"):
            encoded(Message("count", {}, (np.array([most], dtype=np.uint64),)), Ring())


def nested(depth: int) -> Message:
    facts: dict[str, Any] = {"grid": "[8,[[2,8]],0]"}
    for _ in range(depth):
        facts = {"parts": [{"facts": facts, "arrays": 1}]}
    return Message("sums", facts, (np.array([1, 2]),))


def test_whole_numbers_are_looked_for_as_deep_as_a_message_may_be() -> None:
    assert Outline.of(nested(64)).is_whole
    assert not Outline.of(nested(65)).is_whole


def test_numbers_that_round_up_to_the_next_limb_carry() -> None:
    ring = Ring()
    one = 2.0 ** (64 - ring.fraction)  # the second limb's unit
    below = np.nextafter(one, 0) * np.array([1.0, -1.0])
    for x in (below, np.array([one, -one]), np.array([0.0, 1.0])):
        np.testing.assert_array_equal(decode(encode(x, ring), ring), x)
    # A bit below what 64 bits hold: rounded to nearest, it is the unit itself.
    tiny = 2.0 ** -(ring.fraction + 2)
    np.testing.assert_allclose(decode(encode(np.array([one - tiny]), ring), ring), [one])


def test_features_that_are_all_zero_have_no_inverse() -> None:
    zero = Spectrum.of(RidgeStatistics.from_states(np.zeros((4, 2)), np.ones((4, 1))))
    np.testing.assert_array_equal(zero.inverse(0.0), np.zeros((2, 1)))


def test_a_constant_that_is_none_is_refused() -> None:
    z = np.column_stack([np.full(20, 0.5), np.arange(20.0)])
    came = RidgeStatistics.from_states(z, np.ones((20, 1)), fingerprint="f")
    with pytest.raises(UploadError, match="the constant feature counts"):
        check_statistics(came, fingerprint="f", constant=True)


@pytest.mark.parametrize(
    ("below", "more", "falls"), [(0, 0, 1), (0, 2**64 - 1, 0), (1, 2**64 - 1, 1)]
)
def test_a_coin_that_64_bits_leave_open_is_tossed_with_192_more(
    below: int, more: int, falls: int
) -> None:
    with localcontext() as context:
        context.prec = 60
        first = int(Decimal(-1).exp() * (1 << 64)) - below

    tossed = iter([first])

    def words(n: int) -> NDArray[np.uint64]:
        return np.array([next(tossed, more) for _ in range(n)], dtype=np.uint64)

    heads = _heads(np.ones(1), lambda _: Fraction(1), words)
    assert heads.tolist() == [bool(falls)]


def test_a_transcript_tells_all_that_a_client_acted_on() -> None:
    session, payload = Session("f", "p", 1), Message("letter", {}, (np.zeros(1),))
    assert of_adverts(session, b"m", [b"one"]) != of_adverts(session, b"m", [b"two"])
    assert of_nonces(session, b"a", [b"one"]) != of_nonces(session, b"a", [b"two"])
    assert of_update(session, b"b", b"1", payload) != of_update(session, b"b", b"2", payload)
