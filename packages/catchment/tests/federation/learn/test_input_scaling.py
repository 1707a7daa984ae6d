"""The federated scaler is that of the pooled data, and impossible moments are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from catchment import Plan, Recording, federate
from catchment.data import Scaler
from catchment.errors import FederationError, UploadError
from catchment.federation import RoundContext
from catchment.federation.learn import FederatedScaling
from catchment.privacy import SecureAggregation, generate_keys
from catchment.readout import integers
from catchment.wire import Message

TURN = RoundContext(0, ("a",), client="a")


def clients() -> dict[str, list[Recording]]:
    rng = np.random.default_rng(0)
    return {
        name: [Recording(rng.normal(3, 2, size=(20 + 5 * k, 3))) for _ in range(2)]
        for k, name in enumerate("abc")
    }


def test_it_is_the_scaler_of_the_pooled_rows() -> None:
    data = clients()
    algorithm = FederatedScaling(channels=3)
    scaler = federate(Plan(algorithm=algorithm), data).result.scale
    assert isinstance(scaler, Scaler)
    rows = np.concatenate([s.u for held in data.values() for s in held])
    theirs = StandardScaler().fit(rows)
    np.testing.assert_allclose(scaler.mean, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(scaler.scale, theirs.scale_, rtol=1e-12)


def test_the_state_survives_the_disk() -> None:
    algorithm = FederatedScaling(channels=3)
    state = federate(Plan(algorithm=algorithm), clients()).state
    again = algorithm.load_state(Message.from_bytes(algorithm.save_state(state).to_bytes()))
    assert again == state
    with pytest.raises(FederationError, match="makes no single model but a Preprocessing"):
        _ = federate(Plan(algorithm=algorithm), clients()).model


def test_the_bits_do_not_depend_on_who_holds_which_recording() -> None:
    held = [s for data in clients().values() for s in data]
    held[0] = Recording(held[0].u * 1e9)
    algorithm = FederatedScaling(channels=3)
    states = [
        federate(Plan(algorithm=algorithm), split).state
        for split in (
            {"all": held},
            {"a": held[3:], "b": held[:3]},
            {f"c{k}": [one] for k, one in enumerate(reversed(held))},
        )
    ]
    sent = {algorithm.result(state).fingerprint for state in states}
    assert states[0] == states[1] == states[2]
    assert len(sent) == 1


def test_secure_aggregation_is_the_sum_to_the_bit() -> None:
    data = clients() | {"d": [Recording(np.full((4, 3), -1e11))]}
    identities = generate_keys(data)
    secure = SecureAggregation(identities=identities, min_clients=3)
    plan = Plan(algorithm=FederatedScaling(channels=3))
    hidden = federate(
        replace(plan, protections=(secure,)), data, memories=identities.memories
    ).state
    assert hidden == federate(plan, data).state


def sent(count: list[Any], total: list[float], squares: list[float]) -> Message:
    """Return a message of these sums, whose limbs are as many as there should be."""
    limbs = (
        integers.to_limbs(np.array([int(one * 2**60) for one in total], object), 4, 32),
        integers.to_limbs(np.array([int(one * 2**120) for one in squares], object), 7, 32),
    )
    return Message("moments", {}, (np.array(count), *limbs))


TWO, ONES = [2, 2], [1.0, 1.0]
GOOD = sent(TWO, ONES, ONES)
FULL = np.full((7, 2), 2**60)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        (sent([2], [1.0], [1.0]), "shape"),
        (replace(GOOD, arrays=(GOOD.arrays[0], GOOD.arrays[1][:3], GOOD.arrays[2])), "shape"),
        (replace(GOOD, arrays=(GOOD.arrays[0], np.ones((4, 2)), GOOD.arrays[2])), "type"),
        (replace(GOOD, arrays=(*GOOD.arrays[:2], FULL)), "moments"),
        (sent([2, -1], ONES, ONES), "count"),
        (sent([2.0, 1.5], ONES, ONES), "type"),
        (sent(TWO, [1.0, 9.0], ONES), "moments"),
        (sent(TWO, [1.0, 0.0], [1.0, -1.0]), "count"),
    ],
)
def test_impossible_moments_are_refused(parts: Message, code: str) -> None:
    assert FederatedScaling(channels=2).read_update(GOOD, TURN).count.tolist() == TWO
    with pytest.raises(UploadError) as caught:
        FederatedScaling(channels=2).read_update(parts, TURN)
    assert caught.value.code == code
