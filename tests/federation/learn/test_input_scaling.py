"""The federated scaler is that of the pooled data, and impossible moments are refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from catchment import Plan, Recording, federate
from catchment.data.scaling import Scaler
from catchment.errors import FederationError, UploadError
from catchment.federation.learn.input_scaling import FederatedScaling
from catchment.federation.plan import Turn, as_algorithm
from catchment.wire import Parts

TURN = Turn(0, ("a",), client="a")


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
    again = as_algorithm(algorithm).load_state(
        Parts.from_bytes(as_algorithm(algorithm).save_state(state).to_bytes())
    )
    assert again == state
    with pytest.raises(FederationError, match="makes no single model but a Prepare"):
        _ = federate(Plan(algorithm=algorithm), clients()).model


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        (([2], [1.0], [1.0]), "shape"),
        (([2, 2], [1.0, np.nan], [1.0, 1.0]), "not-finite"),
        (([2, -1], [1.0, 1.0], [1.0, 1.0]), "count"),
        (([2.0, 1.5], [1.0, 1.0], [1.0, 1.0]), "type"),
        (([2, 2], [1.0, 9.0], [1.0, 1.0]), "moments"),
        (([2, 2], [1.0, 0.0], [1.0, -1.0]), "count"),
    ],
)
def test_impossible_moments_are_refused(arrays: tuple[list[float], ...], code: str) -> None:
    parts = Parts("moments", {}, tuple(np.array(array) for array in arrays))
    with pytest.raises(UploadError) as caught:
        FederatedScaling(channels=2).read_update(parts, TURN)
    assert caught.value.code == code
