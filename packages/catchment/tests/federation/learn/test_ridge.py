"""Exact federated ridge against scikit-learn on the pooled rows, in one round and in several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from catchment import Array
from catchment.data import ACTIVITIES, Recording, contiguous, narma, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan, Rows
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.readout import choose_by_blocks

pytestmark = pytest.mark.processor

FEATURES = EchoState.of(Reservoir(units=15, inputs=1, seed=1), washout=10)
DEEP = EchoState.of(Reservoir(units=(8, 7), inputs=1, seed=1), washout=10)
SERIES = narma(600, seed=3)
CLIENTS = contiguous(SERIES, 6)


def pooled_rows(features: EchoState, clients: dict[str, list[Recording]]) -> tuple[Array, Array]:
    rows = [Rows.of(features, clients[name]).pair for name in sorted(clients)]
    return np.concatenate([z for z, _ in rows]), np.concatenate([y for _, y in rows])


def run(algorithm: FederatedRidge, rounds: int = 1, clients: Any = CLIENTS) -> RidgeState:
    return run_locally(Plan(algorithm=algorithm, rounds=rounds), clients).state


@settings(max_examples=15)
@given(n_clients=st.integers(1, 12), ridge=st.floats(1e-3, 10.0))
def test_any_number_of_clients_gives_scikit_learns_pooled_ridge(
    n_clients: int, ridge: float
) -> None:
    clients = contiguous(SERIES, n_clients)
    state = run(FederatedRidge(features=FEATURES, ridge=ridge), clients=clients)
    z, y = pooled_rows(FEATURES, clients)
    theirs = Ridge(alpha=ridge, solver="svd").fit(z, y)
    assert state.readout is not None
    np.testing.assert_allclose(state.readout(z)[:, 0], theirs.predict(z).ravel(), rtol=1e-8)


def test_deep_reservoirs_several_outputs_and_classes_are_pooled_ridge_too() -> None:
    two = {
        name: [replace(s, y=np.column_stack([s.y, s.u])) for s in part if s.y is not None]
        for name, part in CLIENTS.items()
    }
    pooled = EchoState.of(Reservoir(units=10, inputs=6, seed=2), pool="mean_std")
    people = synthetic_wearables(3, seed=1, windows_per_user=12)
    for features, clients, classes in ((DEEP, two, None), (pooled, people, ACTIVITIES)):
        state = run(FederatedRidge(features=features, ridge=0.1, classes=classes), clients=clients)
        z, y = pooled_rows(features, clients)
        theirs = Ridge(alpha=0.1, solver="svd").fit(z, y)
        assert state.readout is not None
        np.testing.assert_allclose(state.readout(z), theirs.predict(z), rtol=1e-7, atol=1e-9)


def test_the_ridge_is_the_one_with_the_least_error_on_left_out_clients() -> None:
    state = run(FederatedRidge(features=FEATURES))
    clients = [state.by_client[name] for name in sorted(state.by_client)]
    expected = choose_by_blocks(clients)
    assert state.choice is not None
    assert state.choice.best == expected.best
    assert state.readout is not None
    assert state.readout.ridge == expected.best
    np.testing.assert_array_equal(state.choice.errors, expected.errors)


def test_increments_add_up_to_one_round_and_the_ridge_counts_once() -> None:
    whole = run(FederatedRidge(features=FEATURES, ridge=0.5))
    parts = run(FederatedRidge(features=FEATURES, ridge=0.5, increments=4), rounds=4)
    assert whole.total is not None
    assert parts.total is not None
    assert parts.total.n_rows == whole.total.n_rows
    np.testing.assert_allclose(parts.total.gram, whole.total.gram, rtol=1e-12)
    np.testing.assert_allclose(parts.total.cross, whole.total.cross, rtol=1e-12)
    assert whole.readout is not None
    assert parts.readout is not None
    np.testing.assert_allclose(parts.readout.weights, whole.readout.weights, rtol=1e-8)
    assert parts.by_client.keys() == whole.by_client.keys()


def test_sequences_with_one_target_come_in_increments_too() -> None:
    features = EchoState.of(Reservoir(units=8, inputs=6, seed=2), pool="mean")
    people = synthetic_wearables(2, seed=1, windows_per_user=15)
    algorithm = FederatedRidge(features=features, ridge=0.5, classes=ACTIVITIES)
    whole = run(algorithm, clients=people)
    parts = run(replace(algorithm, increments=3), rounds=3, clients=people)
    assert whole.total is not None
    assert parts.total is not None
    assert parts.total.n_rows == whole.total.n_rows == 30
    np.testing.assert_allclose(parts.total.gram, whole.total.gram, rtol=1e-12)


def test_standardized_features_are_scikit_learns() -> None:
    state = run(FederatedRidge(features=FEATURES, ridge=3.0, standardize=True))
    z, y = pooled_rows(FEATURES, CLIENTS)
    scaler = StandardScaler().fit(z)
    theirs = Ridge(alpha=3.0, solver="svd").fit(scaler.transform(z), y)
    assert state.readout is not None
    expected = theirs.predict(scaler.transform(z)).ravel()
    np.testing.assert_allclose(state.readout(z)[:, 0], expected, rtol=1e-8)


def test_standardizing_also_serves_the_choice_on_left_out_clients() -> None:
    state = run(FederatedRidge(features=FEATURES, standardize=True))
    plain = run(FederatedRidge(features=FEATURES))
    assert state.choice is not None
    assert plain.choice is not None
    assert state.readout is not None
    assert not np.array_equal(state.choice.ridges, plain.choice.ridges)
    assert np.isfinite(state.readout.weights).all()


def test_a_server_that_keeps_no_clients_has_only_the_sum() -> None:
    algorithm = FederatedRidge(features=FEATURES, ridge="gcv", store_per_client=False)
    state = run(algorithm)
    assert state.by_client == {}
    assert state.choice is not None
    assert state.choice.block_errors is None


def test_one_client_cannot_be_left_out() -> None:
    with pytest.raises(FederationError, match="needs 2 or more, 1 gave"):
        run(FederatedRidge(features=FEATURES), clients={"a": CLIENTS["client-000"]})


def test_half_the_clients_may_be_asked_in_each_round() -> None:
    algorithm = FederatedRidge(features=FEATURES, ridge=0.1)
    result = run_locally(Plan(algorithm=algorithm, client_fraction=0.5, rounds=2, seed=1), CLIENTS)
    assert [record.n_used for record in result.records] == [3, 3]
    assert set(result.state.by_client) <= set(CLIENTS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ridge": "best"}, "ridge is 'best'"),
        (
            {"ridge": "leave-one-client-out", "store_per_client": False},
            "needs store_per_client=True",
        ),
        ({"increments": 0}, "increments is 0"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FederatedRidge(features=FEATURES, **settings)


def test_the_upload_is_half_a_gram_matrix_and_no_more() -> None:
    features = EchoState.of(Reservoir(units=500, inputs=1, seed=1), input=False)
    algorithm = FederatedRidge(features=features, ridge=1.0, classes=tuple("abcdef"))
    y = np.eye(6)[np.arange(40) % 6]
    result = run_locally(Plan(algorithm=algorithm), {"a": [Recording(np.zeros(40), y)]})
    floats = 500 * 501 // 2 + 500 * 6
    assert floats == 128_250
    sums = 500 + 6 + 21 + 2
    assert 8 * (floats + sums) < result.records[0].bytes_up < 8 * (floats + sums) + 512
