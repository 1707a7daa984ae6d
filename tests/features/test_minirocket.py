"""MiniRocket: its counts against convolutions written out in numpy, and its edge cases."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import MiniRocket
from catchment.arrays import Array, Integers
from catchment.features.own import Adapted
from catchment.features.random_convolutions.noise import noise_biases
from catchment.features.random_convolutions.places import channel_subsets, feature_list
from catchment.features.random_convolutions.schedule import scheduled

KERNELS = list(combinations(range(9), 3))


def outputs(x: Integers, kernel: int, d: int) -> Integers:
    """Return a kernel's outputs (T,) on whole numbers (T,), zeros around them."""
    weights = np.full(9, -1)
    weights[list(KERNELS[kernel])] = 2
    around = np.pad(x, 4 * d)
    return sum((weights[g] * around[g * d : g * d + len(x)] for g in range(9)), np.zeros_like(x))


def share(x: Integers, kernel: int, d: int, padded: bool, bias: int) -> float:
    found = outputs(x, kernel, d)
    if not padded:
        found = found[4 * d : len(x) - 4 * d]
    return float(np.mean(found > bias))


def built(n_inputs: int, **given: Any) -> Adapted:
    features = MiniRocket(**given).build(n_inputs, per_step=False)
    assert isinstance(features, Adapted)
    return features


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([9, 10, 17, 31, 64, 150, 1600, 3100]),
    st.integers(1, 5),
    st.integers(1, 300),
    st.integers(0, 2**32),
)
def test_counts_are_those_of_convolutions_written_out(T: int, I: int, F: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, padded = rng.integers(0, 84, F), rng.integers(0, 2, F).astype(bool)
    dilation = rng.integers(1, max(2, min((T - 1) // 8 + 1, 5)), F)
    if rng.integers(2):
        kernel[:] = kernel[0]  # several biases of one kernel
    subsets = [
        tuple(rng.choice(I, rng.integers(1, I + 1), replace=False).tolist()) for _ in range(F)
    ]
    biases = rng.integers(-3000, 3000, F)
    u = rng.integers(-500, 500, (2, T, I))
    plan = scheduled(T, kernel, dilation, padded, subsets, biases)
    found = plan.counts(u.astype(np.float64), 1.0, 2.0**22) / plan.positions
    for r in range(2):
        expected = [
            share(u[r][:, list(s)].sum(axis=1), k, d, p, b)
            for k, d, p, s, b in zip(kernel, dilation, padded, subsets, biases, strict=True)
        ]
        np.testing.assert_array_equal(found[r], expected)


def reference(u: Array, **given: Any) -> Array:
    """Return the features of one recording, found with numpy from the list of features."""
    map_ = MiniRocket(**given)
    F, T = map_.features, len(u)
    listed = feature_list(F, T)
    subsets = channel_subsets(F, map_.seed, u.shape[1])
    biases = noise_biases(listed, subsets, T, map_.seed, u.shape[1], 2**16)
    x = np.rint(np.clip(u, -64, 64) * 2**16).astype(np.int64)
    return np.array(
        [
            share(
                x[:, list(subsets[f])].sum(axis=1),
                int(listed.kernel[f]),
                int(listed.dilation[f]),
                bool(listed.padded[f]),
                int(biases[f]),
            )
            for f in range(F)
        ]
    )


@pytest.mark.parametrize(("T", "I"), [(9, 1), (40, 3), (150, 1), (500, 12)])
def test_rows_are_those_of_the_listed_features(T: int, I: int) -> None:
    u = np.random.default_rng(T).normal(size=(T, I)).cumsum(axis=0)
    u[T // 2] = 1e6
    (z,) = built(I, features=200, seed=3, grid=None).rows([u])
    np.testing.assert_array_equal(z[0], reference(u, features=200, seed=3))


@pytest.mark.parametrize("features", [1, 83, 84, 85, 504, 1000, 6000])
def test_any_number_of_features_is_spread_over_kernels(features: int) -> None:
    listed = feature_list(features, 1000)
    assert len(listed.kernel) == len(listed.dilation) == features
    turns = np.bincount(listed.kernel, minlength=84)
    assert turns.max() - turns.min() <= 1
    assert listed.dilation.min() >= 1
    assert listed.dilation.max() <= 999 // 8
    if features >= 168:
        assert set(listed.dilation) >= {1, 124}


def test_dilations_are_those_of_the_paper() -> None:
    for T in (24, 100, 128, 152, 500, 1460):
        # A formula in floating point may be one less where a power is a whole number.
        exponents = np.linspace(0, np.log2((T - 1) / 8), 12)
        expected = np.floor(2**exponents + 1e-9).astype(int)
        np.testing.assert_array_equal(feature_list(12 * 84, T).dilation[::84], expected)
