from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Array
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import POOLS, Pool
from tests.features.echo_state import oracle

RESERVOIR = oracle.random_reservoir(n_units=12)


def pooled(reservoir: Reservoir, u: Array, pool: Pool, segments: int, washout: int) -> Array:
    """Return the pooled row (F,) of [u, x] by numpy."""
    z = oracle.extended(reservoir, u)[washout:, 1:]
    edges = [len(z) * k // segments for k in range(segments + 1)]
    parts = []
    for k in range(segments):
        part = z[edges[k] : edges[k + 1]]
        rows = {
            "last": [part[-1]],
            "mean": [part.mean(0)],
            "mean_std": [part.mean(0), part.std(0)],
            "max": [part.max(0)],
        }
        parts += rows[pool]
    return np.concatenate(parts)


@pytest.mark.parametrize("segments", [1, 4])
@pytest.mark.parametrize("washout", [0, 5])
@pytest.mark.parametrize("pool", POOLS)
def test_ragged_sequences_pool_as_in_numpy(pool: Pool, washout: int, segments: int) -> None:
    us = oracle.sequences([9, 150, 40, 41, 40, 77, 9, 33, 60, 61])
    features = EchoState.of(RESERVOIR, pool=pool, segments=segments, washout=washout)
    for u, row in zip(us, features.rows(us), strict=True):
        expected = pooled(RESERVOIR, u, pool, segments, washout)
        np.testing.assert_allclose(row[0], expected, rtol=0, atol=1e-12)


@given(
    lengths=st.lists(st.integers(3, 90), min_size=1, max_size=20),
    pool=st.sampled_from(POOLS),
    segments=st.integers(1, 3),
)
@settings(max_examples=25)
def test_any_company_gives_the_same_row(lengths: list[int], pool: Pool, segments: int) -> None:
    us = oracle.sequences(lengths)
    features = EchoState.of(RESERVOIR, pool=pool, segments=segments)
    for u, row in zip(us, features.rows(us), strict=True):
        np.testing.assert_allclose(row, features(u), rtol=0, atol=1e-13)


def test_deviations_are_accurate_far_from_zero() -> None:
    (noise,) = oracle.sequences([5_000], seed=4)
    features = EchoState.of(RESERVOIR, state=False, pool="mean_std")
    row = features(1e6 + 1e-3 * noise)[0]
    np.testing.assert_allclose(row[2:], (1e6 + 1e-3 * noise).std(0), rtol=1e-6)


def test_a_constant_input_has_no_deviation() -> None:
    row = EchoState.of(RESERVOIR, state=False, pool="mean_std")(np.full((100, 2), 0.1))[0]
    np.testing.assert_array_equal(row, [0.1, 0.1, 0.0, 0.0])


@pytest.mark.parametrize("pool", POOLS)
def test_single_precision_states_pool_to_their_digits(pool: Pool) -> None:
    us = oracle.sequences([50] * 9)
    features = EchoState.of(RESERVOIR, pool=pool, precision="float32")
    for u, row in zip(us, features.rows(us), strict=True):
        expected = pooled(RESERVOIR, u, pool, 1, 0)
        np.testing.assert_allclose(row[0], expected, rtol=0, atol=1e-5)
