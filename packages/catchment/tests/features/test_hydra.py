"""Hydra: its sums and counts against aeon's and against a competition written out in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from catchment import Array, Hydra, Integers
from catchment.features import FeatureMap
from catchment.features.hydra import (
    competitions,
    group_channels,
    group_list,
    input_digits,
    weights,
)

AEON = np.load(Path(__file__).parent / "data" / "aeon.npz")


def competition(x: Integers, d: int, W: Integers) -> Integers:
    """Return sums of the largest response and counts of the smallest (2, 8) on x (T,)."""
    around = np.pad(x, 4 * d)
    taps = np.array([around[g * d : g * d + len(x)] for g in range(9)])
    r = W.astype(np.int64) @ taps
    found = np.zeros((2, 8), dtype=np.int64)
    np.add.at(found[0], r.argmax(axis=0), r.max(axis=0))
    np.add.at(found[1], r.argmin(axis=0), 1)
    return found


def built(n_inputs: int, **given: Any) -> FeatureMap:
    features = Hydra(**given).build(n_inputs, per_step=False)
    assert isinstance(features, FeatureMap)
    return features


def competed(u: Array, groups: Integers, channels: Integers, W: NDArray[np.int32]) -> Integers:
    """Return sums of largest responses and counts of smallest ones (n, n_groups, 2, 8)."""
    out = np.empty((len(u), len(groups), 2, 8), dtype=np.int64)
    competitions(u, 1.0, 2.0**16, groups, channels, W, out)
    return out


@settings(max_examples=25)
@given(st.sampled_from([2, 9, 31, 64, 520, 1600]), st.integers(1, 4), st.integers(0, 2**32))
def test_groups_compete_as_written_out(T: int, I: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.column_stack([rng.integers(1, max(2, (T - 1) // 8 + 1), 6), rng.integers(0, 2, 6)])
    channels = rng.integers(0, I, (6, 3))
    W = rng.integers(-3, 4, (6, 8, 9)).astype(np.int32)  # so small that responses are often equal
    u = rng.integers(-50, 50, (2, T, I))
    found = competed(u.astype(np.float64), groups, channels, W)
    for r in range(2):
        for g, (d, differs) in enumerate(groups):
            x = u[r][:, channels[g]].sum(axis=1)
            expected = competition(np.diff(x) if differs else x, d, W[g])
            np.testing.assert_array_equal(found[r, g], expected)


@pytest.mark.parametrize("case", ["one", "many"])
def test_aeon_finds_the_same_sums_and_counts(case: str) -> None:
    given = {name: AEON[f"hydra {case}/{name}"] for name in ("X", "W", "dilations", "channels")}
    u = given["X"].transpose(0, 2, 1).astype(np.float64)
    levels, _, h, _ = given["channels"].shape
    W = given["W"].reshape(levels * 2 * h, 8, 9)
    groups = np.array([(d, kind) for d in given["dilations"] for kind in (0, 1) for _ in range(h)])
    channels = given["channels"].reshape(levels * 2 * h, -1)
    if u.shape[2] == 1:
        channels = channels[:, :1]
    found = competed(u, groups, channels, W) / np.array([2.0**10, 1.0])[:, None]
    # aeon has all sums of a level and kind before all counts.
    ours = found.reshape(len(u), levels * 2, h, 2, 8).transpose(0, 1, 3, 2, 4).reshape(len(u), -1)
    np.testing.assert_allclose(ours, AEON[f"hydra {case}/features"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("T", "I"), [(1, 1), (2, 3), (40, 1), (300, 20)])
def test_rows_are_roots_of_shares(T: int, I: int) -> None:
    u = np.random.default_rng(T).normal(size=(T, I)).cumsum(axis=0)
    u[T // 2] = 1e6
    (z,) = built(I, features=60, seed=3, bits=None).rows([u])
    assert z.shape == (1, 64)
    groups, channels, W = group_list(4, T, T), group_channels(4, 3, I), weights(4, 3)
    c = channels.shape[1]
    digits = input_digits(16.0, c)
    x = np.rint(np.clip(u, -16, 16) * 2**digits).astype(np.int64)
    expected: list[Array] = []
    for (d, differs), chosen, w in zip(groups, channels, W, strict=True):
        y = x[:, chosen].sum(axis=1)
        y = np.diff(y) if differs else y
        sums, counts = competition(y, d, w) if len(y) else np.zeros((2, 8))
        n = max(1, len(y))
        expected += [sums / (n * c * 2.0 ** (digits + 10)), counts / n]
    np.testing.assert_allclose(z[0], np.sqrt(np.clip(np.concatenate(expected), 0, 1)), rtol=1e-15)


def test_weights_have_no_mean_and_one_size() -> None:
    w = weights(200, 1).reshape(-1, 9)
    assert not w.sum(axis=1).any()
    sizes = np.abs(w).sum(axis=1)
    assert sizes.max() <= 2**10
    assert sizes.min() > 2**10 - 20
    shares = w / 2.0**10
    # As aeon's: normal, centered, divided by the sum of sizes.
    normal = np.random.default_rng(0).normal(size=w.shape)
    normal -= normal.mean(axis=1, keepdims=True)
    normal /= np.abs(normal).sum(axis=1, keepdims=True)
    quantiles = np.linspace(0.05, 0.95, 7)
    np.testing.assert_allclose(
        np.quantile(shares, quantiles), np.quantile(normal, quantiles), atol=0.01
    )


def test_dilations_are_powers_of_two_that_a_recording_holds() -> None:
    for T in (1, 9, 16, 17, 128, 129, 1000):
        dilations = group_list(64, T, T)[:, 0]
        most = max(0, int(np.log2(max(T - 1, 8) / 8)))
        assert sorted(set(dilations.tolist())) == [2**k for k in range(most + 1)]
    assert group_list(64, 20, 1000)[:, 0].max() == 2


def test_a_step_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="one row for a recording"):
        Hydra().build(2, per_step=True)
