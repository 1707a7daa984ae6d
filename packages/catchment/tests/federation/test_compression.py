"""Smaller uploads: bytes counted on real messages, errors within their bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Recipe, Recording, Reservoir
from catchment.data import ACTIVITIES, narma, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import IntegrityError, UploadError
from catchment.features import EchoState
from catchment.federation import (
    FactorUpload,
    Float32,
    Plan,
    Protection,
    Turn,
    check_statistics,
    moment_matrix,
)
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.federation.measure import Evaluation
from catchment.readout import RidgeStatistics
from catchment.wire import Parts

pytestmark = pytest.mark.processor

Bits = Literal[64, 32, 16, 8]
BITS: tuple[Bits, ...] = (64, 32, 16, 8)
TURN = Turn(0, (), client="a")
FEATURES = EchoState.of(
    Reservoir.from_recipe(Recipe(units=40, inputs=1, leak_rate=0.8, seed=1)), washout=20
)
COMPRESSIONS = [Float32(), *(FactorUpload(bits=bits) for bits in BITS)]


def statistics(seed: int, n: int, F: int, K: int) -> RidgeStatistics:
    rng = np.random.default_rng(seed)
    z = np.tanh(rng.normal(size=(n, F)) @ rng.normal(size=(F, F)) + rng.normal(size=F))
    return RidgeStatistics.from_states(z, rng.normal(size=(n, K)), fingerprint="f")


def there_and_back(compression: Protection, s: RidgeStatistics) -> RidgeStatistics:
    message = compression.on_client(s, TURN).parts().to_bytes()
    read = compression.read_update(
        Parts.from_bytes(message), TURN, lambda parts, turn: RidgeStatistics.from_parts(parts)
    )
    assert isinstance(read, RidgeStatistics)
    assert compression.on_server(read, TURN, lambda parts, turn: read) is read
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
    st.sampled_from(COMPRESSIONS),
)
def test_what_comes_back_is_what_was_sent_but_for_rounding(
    seed: int, n: int, F: int, K: int, compression: Float32 | FactorUpload
) -> None:
    s = statistics(seed, n, F, K)
    back = there_and_back(compression, s)
    assert (back.n_rows, back.weight, back.fingerprint) == (s.n_rows, s.weight, "f")
    check_statistics(back, fingerprint="f")
    M, N = moment_matrix(s), moment_matrix(back)
    lengths = np.sqrt(np.outer(M.diagonal(), M.diagonal()))
    step = compression.step if isinstance(compression, FactorUpload) else 2.0**-25
    rank = F + K
    allowed = 2 * step * np.sqrt(rank) + step**2 * rank + 1e-13 * (n + rank)
    assert (np.abs(M - N) <= allowed * lengths + 1e-300).all()


@pytest.mark.parametrize("n", [1, 5, 20, 40])
def test_few_rows_travel_as_few_numbers(n: int) -> None:
    s = statistics(3, n, 30, 2)
    exact = FactorUpload()
    parts = exact.on_client(s, TURN).parts()
    rank = min(n - 1, 32)  # centring takes one
    assert parts.facts["rank"] == rank
    assert parts.arrays[-1].size == rank * 32 - rank * (rank - 1) // 2
    assert len(parts.to_bytes()) < len(s.parts().to_bytes()) + 500
    np.testing.assert_allclose(
        moment_matrix(there_and_back(exact, s)), moment_matrix(s), rtol=1e-12, atol=1e-12
    )


def clients(n_clients: int = 6, n_steps: int = 150) -> dict[str, list[Recording]]:
    return {f"c{k}": [narma(n_steps, seed=k)] for k in range(n_clients)}


def state(ridge: float, *protections: Protection, increments: int = 1) -> RidgeState:
    algorithm = FederatedRidge(features=FEATURES, ridge=ridge, increments=increments)
    plan = Plan(algorithm=algorithm, protections=protections, rounds=increments)
    return run_locally(plan, clients()).state


@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_the_readout_is_off_by_no_more_than_the_bound(
    compression: Float32 | FactorUpload, ridge: float
) -> None:
    exact, rounded = state(ridge), state(ridge, compression)
    assert rounded.total is not None
    assert rounded.readout is not None
    assert exact.readout is not None
    error = float(np.linalg.norm(rounded.readout.weights - exact.readout.weights))
    bound = compression.readout_bound(rounded.total, rounded.readout)
    noise = 1e-9 / ridge  # of float64 itself
    assert error <= bound + noise
    if compression != FactorUpload(bits=64):
        assert error > 0
    assert np.isfinite(bound)


def test_bounds_without_a_ridge_are_infinite() -> None:
    s = statistics(0, 30, 3, 1)
    readout = s.solve(0.0)
    assert Float32().readout_bound(s, readout) == np.inf
    assert FactorUpload().readout_bound(s, readout) == np.inf


def test_rounding_the_factor_keeps_more_than_rounding_the_moments() -> None:
    """At a small ridge float32 moments spoil the readout, a float32 factor does not."""
    exact = state(1e-6)
    assert exact.readout is not None

    def error(compression: Protection) -> float:
        readout = state(1e-6, compression).readout
        assert readout is not None
        assert exact.readout is not None
        return float(np.linalg.norm(readout.weights - exact.readout.weights))

    assert error(FactorUpload(bits=32)) < 0.1 * error(Float32())


def test_increments_are_small_uploads_of_new_rows_and_add_up_to_the_same() -> None:
    whole, parts = state(1e-4), state(1e-4, FactorUpload(), increments=10)
    assert whole.total is not None
    assert parts.total is not None
    assert parts.total.n_rows == whole.total.n_rows
    np.testing.assert_allclose(
        moment_matrix(parts.total), moment_matrix(whole.total), rtol=1e-9, atol=1e-9
    )
    algorithm = FederatedRidge(features=FEATURES, ridge=1e-4, increments=10)
    bytes_up = [
        run_locally(Plan(algorithm=algorithm, protections=p, rounds=10), clients())
        .records[3]
        .bytes_up
        for p in ((), (FactorUpload(),))
    ]
    assert bytes_up[1] < 0.7 * bytes_up[0]


def test_classes_and_evaluation_travel_compressed_too() -> None:
    users = synthetic_wearables(n_users=4, windows_per_user=18, steps=40)
    reservoir = Reservoir.from_recipe(Recipe(units=20, inputs=6, seed=2))
    features = EchoState.of(reservoir, pool="mean_std")
    algorithm = FederatedRidge(features=features, classes=ACTIVITIES, ridge=1.0)
    exact = run_locally(Plan(algorithm=algorithm), users).model
    plan = Plan(algorithm=algorithm, protections=(FactorUpload(bits=16),))
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
    with pytest.raises(UploadError, match="NaN"):
        FactorUpload().on_client(replace(s, cross=s.cross * np.nan), TURN)
    with pytest.raises(ValueError, match="bits is 12"):
        FactorUpload(bits=12)  # type: ignore[arg-type]
    with pytest.raises(IntegrityError, match="expected 'ridge-statistics'"):
        FactorUpload().on_client(s.solve(1.0), TURN)


def test_malformed_factors_are_refused() -> None:
    sixteen = FactorUpload(bits=16)
    good = sixteen.on_client(statistics(1, 9, 3, 1), TURN).parts()
    counts, means, order, scales, codes = good.arrays
    for bad in (
        replace(good, facts={**good.facts, "rank": 99}),
        replace(good, facts={**good.facts, "features": None}),
        replace(good, arrays=(counts, means, order, scales, codes[:-1])),
        replace(good, arrays=(counts, means[1:], order, scales, codes)),
        replace(good, arrays=(counts, means, order * 0, scales, codes)),
        replace(good, arrays=(counts, means, order, scales, codes.astype(np.float32))),
        replace(good, arrays=(counts + 0.5, means, order, scales, codes)),
        replace(good, kind="other"),
    ):
        with pytest.raises(IntegrityError):
            sixteen.read_update(bad, TURN, lambda parts, turn: RidgeStatistics.from_parts(parts))
