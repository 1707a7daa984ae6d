"""Scaling from statistics against scikit-learn on scaled rows."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from catchment import Array
from catchment.errors import FingerprintError
from catchment.readout import (
    RidgeStatistics,
    feature_scale,
    for_raw_features,
    rescaled,
)

seeds = st.integers(0, 2**32 - 1)


def rows(seed: int, n: int = 70, F: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, F)) * rng.uniform(0.01, 30, F) + rng.normal(size=F)
    return z, z @ rng.normal(size=(F, 2)) + rng.normal(size=(n, 2))


@settings(max_examples=25)
@given(seed=seeds, ridge=st.floats(1e-2, 100.0), cut=st.integers(1, 69))
def test_the_congruence_is_scikit_learns_scaling_of_the_rows(
    seed: int, ridge: float, cut: int
) -> None:
    z, y = rows(seed)
    parts = [
        RidgeStatistics.from_states(z[:cut], y[:cut]),
        RidgeStatistics.from_states(z[cut:], y[cut:]),
    ]
    scale = feature_scale(parts[0] + parts[1])
    np.testing.assert_allclose(scale, StandardScaler().fit(z).scale_, rtol=1e-9)
    total = reduce(add, (rescaled(part, scale) for part in parts))
    readout = for_raw_features(total.solve(ridge), scale)
    scaled = StandardScaler().fit_transform(z)
    theirs = Ridge(alpha=ridge, solver="svd").fit(scaled, y)
    np.testing.assert_allclose(readout(z), theirs.predict(scaled), rtol=1e-7, atol=1e-7)


def test_constant_features_keep_their_scale() -> None:
    z = np.column_stack([np.full(9, 3.0), np.arange(9.0)])
    scale = feature_scale(RidgeStatistics.from_states(z, z[:, :1]))
    np.testing.assert_allclose(scale, [1.0, z[:, 1].std()])


def test_statistics_of_different_scales_do_not_add() -> None:
    s = RidgeStatistics.from_states(*rows(0), fingerprint="f")
    with pytest.raises(FingerprintError):
        rescaled(s, np.full(5, 2.0)) + s
    with pytest.raises(FingerprintError):
        rescaled(s, np.full(5, 2.0)) + rescaled(s, np.full(5, 3.0))
    twice = rescaled(s, np.full(5, 2.0)) + rescaled(s, np.full(5, 2.0))
    assert twice.n_rows == 140


@pytest.mark.parametrize("scale", [np.ones(4), np.zeros(5), -np.ones(5), np.full(5, np.nan)])
def test_wrong_scales_are_named(scale: Array) -> None:
    with pytest.raises(ValueError, match="one positive number for each of 5"):
        rescaled(RidgeStatistics.from_states(*rows(0)), scale)


def test_no_rows_have_no_scale() -> None:
    with pytest.raises(ValueError, match="add data first"):
        feature_scale(RidgeStatistics.zero(2, 1))
