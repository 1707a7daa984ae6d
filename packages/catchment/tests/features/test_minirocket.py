"""MiniRocket: its counts against convolutions written out in numpy, and its edge cases."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Array, Integers, MiniRocket
from catchment.features import FeatureMap
from catchment.features.minirocket import (
    POSITIONS,
    Schedule,
    channel_subsets,
    counts_above,
    feature_list,
    noise,
    noise_biases,
    scheduled,
)

AEON = np.load(Path(__file__).parent / "data" / "aeon.npz")
KERNELS = list(combinations(range(9), 3))


def outputs(x: Integers, kernel: int, d: int) -> Integers:
    """Return a kernel's outputs (T,) on integers (T,), zeros around them."""
    weights = np.full(9, -1)
    weights[list(KERNELS[kernel])] = 2
    around = np.pad(x, 4 * d)
    return sum((weights[g] * around[g * d : g * d + len(x)] for g in range(9)), np.zeros_like(x))


def share(x: Integers, kernel: int, d: int, padded: bool, bias: int) -> float:
    found = outputs(x, kernel, d)
    if not padded:
        found = found[4 * d : len(x) - 4 * d]
    return float(np.mean(found > bias))


def built(n_inputs: int, **given: Any) -> FeatureMap:
    features = MiniRocket(**given).build(n_inputs, per_step=False)
    assert isinstance(features, FeatureMap)
    return features


@settings(max_examples=40)
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
    found = counts_of(plan, u.astype(np.float64)) / plan.positions
    for r in range(2):
        expected = [
            share(u[r][:, list(s)].sum(axis=1), k, d, p, b)
            for k, d, p, s, b in zip(kernel, dilation, padded, subsets, biases, strict=True)
        ]
        np.testing.assert_array_equal(found[r], expected)


def counts_of(plan: Schedule, inputs: Array) -> Integers:
    features = (plan.kinds, plan.biases, plan.places, POSITIONS)
    found = np.empty((len(inputs), len(plan.places)), dtype=np.int32)
    how = (1.0, 2.0**22, plan.pad, plan.groups, plan.channels, features)
    counts_above(np.ascontiguousarray(inputs), *how, found)
    return found.astype(np.int64)


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
    (z,) = built(I, features=200, seed=3, bits=None).rows([u])
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


def test_dilations_are_spaced_evenly_in_the_exponent_over_all_kernels() -> None:
    for T in (24, 100, 128, 152, 500, 1460):
        listed = feature_list(12 * 84, T)
        # A formula in floating point may be one less where a power is an integer.
        exponents = np.linspace(0, np.log2((T - 1) / 8), 12 * 84)
        expected = np.floor(2**exponents + 1e-9).astype(int)
        np.testing.assert_array_equal(np.sort(listed.dilation), expected)


@pytest.mark.parametrize("case", ["one", "long", "many"])
def test_aeon_finds_the_same_shares(case: str) -> None:
    names = ("X", "sizes", "channels", "dilations", "per_dilation", "biases", "features")
    X, sizes, channels, dilations, each, biases, expected = (
        AEON[f"minirocket {case}/{name}"] for name in names
    )
    one_each = np.split(channels, np.cumsum(sizes)[:-1])
    place = [(j, k) for j in range(len(dilations)) for k in range(84)]
    column = [(j, k, 84 * j + k) for j, k in place for _ in range(each[j])]
    level, kernel, combination = np.array(column).T
    subsets = [tuple(one_each[c].tolist()) if X.shape[1] > 1 else (0,) for c in combination]
    # An integer is above a bias if it is above the whole part of it.
    plan = scheduled(
        X.shape[2], kernel, dilations[level], (level + kernel) % 2 == 0, subsets, np.floor(biases)
    )
    counts = counts_of(plan, X.transpose(0, 2, 1).astype(np.float64))
    np.testing.assert_array_equal(counts, np.rint(expected * plan.positions))
    np.testing.assert_allclose(counts / plan.positions, expected, rtol=2e-7)


def test_lengths_may_differ_and_company_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    us = [rng.normal(size=(T, 2)) for T in (40, 300, 40, 41, 7, 1, 300)]
    features = built(2, features=300, bits=None)
    together = features.rows(us, threads=2)
    for u, z in zip(us, together, strict=True):
        np.testing.assert_array_equal(features.rows([u], threads=1)[0], z)


@pytest.mark.parametrize("T", [1, 2, 5, 8])
def test_the_shortest_recordings_have_shares_too(T: int) -> None:
    u = np.random.default_rng(T).normal(size=(T, 1))
    z = built(1, features=168, bits=None).rows([u])[0][0]
    x = np.rint(u[:, 0] * 2**16).astype(np.int64)
    listed = feature_list(168, T)
    biases = noise_biases(listed, [(0,)] * 168, T, 0, 1, 2**16)
    expected = [
        share(x, int(k), 1, True, int(b)) for k, b in zip(listed.kernel, biases, strict=True)
    ]
    np.testing.assert_array_equal(z, expected)
    assert 0 < z.mean() < 1


def test_a_fixed_length_fixes_dilations_in_steps() -> None:
    u = np.random.default_rng(2).normal(size=(200, 1))
    biases = tuple(range(84))
    (z,) = built(1, features=84 * 3, length=65, biases=biases * 3, bits=None).rows([u])
    x = np.rint(u[:, 0] * 2**16).astype(np.int64)
    for level in range(3):
        for k in (0, 41, 83):
            d = int(8 ** ((84 * level + 37 * k % 84) / (3 * 84 - 1)) + 1e-9)
            expected = share(x, k, d, (level + k) % 2 == 0, k)
            assert z[0, 84 * level + k] == expected
    short = built(1, features=252, length=65, bits=None).rows([u[:20]])[0]
    assert short.shape == (1, 252)  # dilations of 8 are cut off at 2


def test_a_long_recording_is_counted_in_tiles() -> None:
    rng = np.random.default_rng(4)
    u = rng.integers(-9, 10, (70_000, 1)).astype(np.float64)
    x = u[:, 0].astype(np.int64)
    kernel = np.array([3, 3, 50, 51, 52, 83])
    dilation = np.array([1, 8000, 8000, 8000, 8000, 8000])
    padded = np.array([True, False, False, True, True, False])
    biases = np.arange(6)
    for chosen in ([0, 1], [1, 2, 3, 4, 5]):
        plan = scheduled(
            len(u),
            kernel[chosen],
            dilation[chosen],
            padded[chosen],
            [(0,)] * len(chosen),
            biases[chosen],
        )
        found = counts_of(plan, u[None])[0] / plan.positions
        expected = [share(x, kernel[f], dilation[f], padded[f], biases[f]) for f in chosen]
        np.testing.assert_array_equal(found, expected)


def test_outputs_of_the_widest_range_do_not_wrap() -> None:
    T, most = 64, 2**16
    signs = np.where(np.isin(np.arange(T) % 9, (0, 1, 2)), 1.0, -1.0)
    u = np.repeat(signs[:, None] * most * 2, 9, axis=1)
    features = built(9, features=84, range=float(most), biases=(2**28,) * 84, bits=None)
    (z,) = features.rows([u])
    subsets = channel_subsets(84, 0, 9)
    assert max(map(len, subsets)) == 9
    listed = feature_list(84, T)
    x = np.rint(np.clip(u, -most, most) * 2**6).astype(np.int64)
    sums = [x[:, list(subset)].sum(axis=1) for subset in subsets]
    expected = [
        share(y, int(k), int(d), bool(p), 2**28)
        for y, k, d, p in zip(sums, listed.kernel, listed.dilation, listed.padded, strict=True)
    ]
    np.testing.assert_array_equal(z[0], expected)
    assert z.any()


def test_every_channel_is_used_and_few_are_drawn_more_often() -> None:
    subsets = channel_subsets(5000, 1, 12)
    sizes = np.bincount([len(s) for s in subsets], minlength=10)
    assert sizes[0] == 0
    assert len(sizes) == 10
    expected = np.diff(np.log(np.arange(1, 11))) / np.log(10)
    np.testing.assert_allclose(sizes[1:] / 5000, expected, atol=0.03)
    assert all(len(set(s)) == len(s) for s in subsets)
    assert {c for s in subsets for c in s} == set(range(12))


def test_biases_split_noise_of_the_same_kind_evenly() -> None:
    """Quantiles of noise fill (0, 1), so shares on other noise of the kind do, too."""
    other = noise(99, 40, 200, 1, 2**16).transpose(0, 2, 1) / 2**16
    z = np.concatenate(built(1, features=504, bits=None).rows(list(other))).mean(axis=0)
    assert 0.45 < z.mean() < 0.55
    assert np.quantile(z, 0.1) < 0.25
    assert np.quantile(z, 0.9) > 0.75


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"features": 0}, "integer, 1 or more"),
        ({"seed": -1}, "0 or more"),
        ({"length": 0}, "1 or more, or None"),
        ({"range": 3.0}, "power of two"),
        ({"biases": "data"}, "give 'noise'"),
        ({"biases": (1, 2)}, "each of 504"),
        ({"features": 1, "biases": (2**31,)}, r"below 2\^31"),
    ],
)
def test_wrong_settings_are_refused_with_a_remedy(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MiniRocket(**given)


def test_steps_of_their_own_are_refused() -> None:
    with pytest.raises(ValueError, match="one row for a recording"):
        MiniRocket().build(2, per_step=True)


PROGRAM = """
import hashlib
import numpy as np
from catchment import Hydra, MiniRocket

k = np.arange(3000, dtype=np.int64) + 17
u = np.ldexp(k * k * 7919 % 100003 - 50001.0, -15).reshape(1000, 3)
us = [u[:128], u[100:228], u, u[:9], u[:1], u[5:300]]
sha = hashlib.sha256()
for described in (MiniRocket(300, seed=4), Hydra(200, seed=4), MiniRocket(100, length=60)):
    for z in described.build(3, per_step=False).rows(us):
        sha.update(z.tobytes())
print(sha.hexdigest())
"""

# Found once on an x86 processor; no machine may find anything else.
EXPECTED = "2f5270b17d5f3426539382cdb326eabb7a454e877f3dceb82da56f7194538cf0"


@pytest.mark.long
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        {"NUMBA_CPU_NAME": "nehalem", "NUMBA_OPT": "1"},
    ],
    ids=lambda environment: " ".join(environment.values()) or "as it is",
)
def test_features_have_one_hash_whatever_the_processor(environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == EXPECTED
