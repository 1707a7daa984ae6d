"""Smaller uploads: bytes counted on real messages, errors within their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Recording, Reservoir
from catchment.data import ACTIVITIES, narma, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import UploadError
from catchment.features import EchoState
from catchment.federation import (
    Float32,
    Plan,
    Protection,
    RoundContext,
    check_statistics,
    moment_matrix,
)
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.federation.measure import Evaluation
from catchment.readout import RidgeStatistics
from catchment.wire import Message, serialize

pytestmark = pytest.mark.processor

TURN = RoundContext(0, (), client="a")
FEATURES = EchoState.of(Reservoir(units=40, inputs=1, leak_rate=0.8, seed=1), washout=20)


def statistics(seed: int, n: int, F: int, K: int) -> RidgeStatistics:
    rng = np.random.default_rng(seed)
    z = np.tanh(rng.normal(size=(n, F)) @ rng.normal(size=(F, F)) + rng.normal(size=F))
    return RidgeStatistics.from_states(z, rng.normal(size=(n, K)), fingerprint="f")


def there_and_back(compression: Protection, s: RidgeStatistics) -> RidgeStatistics:
    message = serialize(compression.on_client(s, TURN)).to_bytes()
    read = compression.read_update(
        Message.from_bytes(message),
        TURN,
        lambda parts, context: RidgeStatistics.from_message(parts),
    )
    assert isinstance(read, RidgeStatistics)
    assert compression.on_server(read, TURN, lambda parts, context: read) is read
    statistics: RidgeStatistics = read
    return statistics


def test_the_default_upload_is_half_a_gram_matrix() -> None:
    """500 units and 6 outputs: 128 250 numbers for Gram and cross instead of 253 000."""
    s = RidgeStatistics.zero(500, 6, "f" * 64)
    assert s.gram.size + s.cross.size == 128_250
    assert 500 * 500 + 500 * 6 == 253_000
    n_others = 2 + 500 + 6 + 21  # counts, feature sums, target sums, target moments
    message = s.parts().to_bytes()
    header = len(message) - 8 * (128_250 + n_others)
    assert 0 < header < 400


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 30),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_what_comes_back_is_what_was_sent_but_for_rounding(
    seed: int, n: int, F: int, K: int
) -> None:
    s = statistics(seed, n, F, K)
    back = there_and_back(Float32(), s)
    assert (back.n_rows, back.weight, back.fingerprint) == (s.n_rows, s.weight, "f")
    check_statistics(back, fingerprint="f")
    M, N = moment_matrix(s), moment_matrix(back)
    lengths = np.sqrt(np.outer(M.diagonal(), M.diagonal()))
    step = 2.0**-25
    rank = F + K
    allowed = 2 * step * np.sqrt(rank) + step**2 * rank + 1e-13 * (n + rank)
    assert (np.abs(M - N) <= allowed * lengths + 1e-300).all()


def clients(n_clients: int = 6, n_steps: int = 150) -> dict[str, list[Recording]]:
    return {f"c{k}": [narma(n_steps, seed=k)] for k in range(n_clients)}


def state(ridge: float, *protections: Protection) -> RidgeState:
    plan = Plan(algorithm=FederatedRidge(features=FEATURES, ridge=ridge), protections=protections)
    return run_locally(plan, clients()).state


def test_classes_and_evaluation_travel_compressed_too() -> None:
    users = synthetic_wearables(n_users=4, windows_per_user=18, steps=40)
    reservoir = Reservoir(units=20, inputs=6, seed=2)
    features = EchoState.of(reservoir, pool="mean_std")
    algorithm = FederatedRidge(features=features, classes=ACTIVITIES, ridge=1.0)
    exact = run_locally(Plan(algorithm=algorithm), users).model
    plan = Plan(algorithm=algorithm, protections=(Float32(),))
    result = run_locally(plan, users)
    assert result.records[0].refused == ()
    assert exact is not None
    np.testing.assert_allclose(result.model.readout.weights, exact.readout.weights, atol=1e-3)
    test = Evaluation(model_under_test=exact)
    scores = [
        run_locally(Plan(algorithm=test, protections=p), users).state.total
        for p in ((), (Float32(),))
    ]
    assert scores[0] is not None
    assert scores[1] is not None
    assert scores[0].value == scores[1].value


def test_statistics_that_cannot_be_sent_are_refused() -> None:
    s = statistics(1, 9, 3, 1)
    with pytest.raises(UploadError, match="too large for a float32"):
        Float32().on_client(s.scaled(1e39), TURN)
