"""Plans with features in fixed point, end to end: hidden sums are the clear ones to the digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from catchment import (
    Array,
    Clip,
    FederatedRidge,
    GaussianNoise,
    Plan,
    SecureAggregation,
    generate_keys,
)
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.engine import run_locally
from catchment.features import FeatureMap
from catchment.readout import accumulate

CLIENTS = synthetic_wearables(12, windows_per_user=24, steps=24)


@dataclass(frozen=True)
class Moments(FeatureMap):
    """Mean and deviation of every channel, in 8 bits."""

    bits: int = 8
    n_features = 12
    bounds = np.full(12, 4.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [
            np.clip(np.concatenate([u.mean(axis=0), u.std(axis=0)]), -4, 4)[None] for u in inputs
        ]


FEATURES = Moments()


def ridge(value: float = 1e-2) -> FederatedRidge:
    return FederatedRidge(
        features=FEATURES, classes=ACTIVITIES, ridge=value, store_per_client=False
    )


@pytest.mark.parametrize("bits", [128, 32])
def test_a_hidden_sum_has_the_digest_of_the_clear_one(bits: Any) -> None:
    secure = SecureAggregation(
        generate_keys(CLIENTS), min_clients=10, rows_per_feature=10, bits=bits
    )
    hidden = run_locally(Plan(algorithm=ridge(), protections=(secure,)), CLIENTS)
    clear = run_locally(Plan(algorithm=ridge()), CLIENTS)
    assert hidden.state.total is not None
    assert clear.state.total is not None
    assert hidden.state.total.digest() == clear.state.total.digest()
    np.testing.assert_array_equal(hidden.model.readout.weights, clear.model.readout.weights)


@pytest.mark.parametrize("distributed", [False, True])
def test_next_to_no_noise_gives_next_to_the_readout_without(distributed: bool) -> None:
    public = synthetic_wearables(5, 9, steps=24)
    clip = Clip.from_public([accumulate(FEATURES, data) for data in public.values()])
    noise = GaussianNoise(
        epsilon=1e9,
        delta=1e-5,
        clip=Clip(bound=100 * clip.bound, target_scale=3.0, reference=clip.reference),
        min_clients=10,
        small_cohort=True,
        distributed=distributed,
    )
    secure = SecureAggregation(generate_keys(CLIENTS), min_clients=10, rows_per_feature=2)
    protections = (noise, secure) if distributed else (noise,)
    private = run_locally(Plan(algorithm=ridge(0.0), protections=protections), CLIENTS).model
    exact = run_locally(Plan(algorithm=ridge(0.0)), CLIENTS).model
    for u in (CLIENTS["user-003"][0].u, CLIENTS["user-007"][5].u):
        np.testing.assert_allclose(private.outputs(u), exact.outputs(u), atol=0.05)
