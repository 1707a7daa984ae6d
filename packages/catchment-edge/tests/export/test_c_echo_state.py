"""Echo states as C: the library's features and scores, in integers and in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catchment as ct
from catchment.features import EchoState
from tests.export.compiled import compiled
from tests.export.models import python_rows, signal, untrained

pytestmark = pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning")
MIXED = ct.MixedActivation(tanh=0.4, sigmoid=0.2, relu=0.2, sin=0.1, identity=0.1)
BOUNDED = ct.MixedActivation(tanh=0.5, sigmoid=0.3, sin=0.2)


def same(model: ct.Model, u: Any, tmp_path: Path, number: str = "whole", **options: Any) -> None:
    """Compare features, to the bit, and scores, of every row and of the whole recording."""
    made = compiled(model, tmp_path, number=number, **options)
    features, scores = made.rows(u)
    (outputs,) = model.outputs([ct.Recording(u)])
    np.testing.assert_array_equal(features, python_rows(model, u))
    np.testing.assert_allclose(scores, outputs, rtol=1e-6, atol=1e-6 * np.abs(outputs).max())
    found = made.predict(u)
    assert found is not None
    np.testing.assert_allclose(found, outputs.mean(axis=0), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("pool", ["last", "mean", "mean_std", "max"])
@pytest.mark.parametrize(("number", "grid"), [("whole", 20), ("whole", 24), ("q15", 15)])
def test_pools_and_numbers(pool: Any, number: str, grid: int, tmp_path: Path) -> None:
    described = ct.EchoState(20, pool=pool, bits=grid, feature_bits=min(grid, 16))
    same(untrained(described, window=40), signal(130), tmp_path, number)


@pytest.mark.parametrize("step", [30, 50, 70])
def test_windows_that_overlap_follow_or_leave_something_out(step: int, tmp_path: Path) -> None:
    described = ct.EchoState(12, pool="mean_std", washout=5)
    same(untrained(described, window=50, step=step), signal(300), tmp_path)


def test_segments_of_windows_and_of_recordings(tmp_path: Path) -> None:
    for pool in ("last", "mean_std"):
        described = ct.EchoState(12, pool=pool, segments=3, washout=4)
        same(untrained(described, window=50, step=20), signal(140), tmp_path)
        same(untrained(described), signal(101), tmp_path)


@pytest.mark.parametrize("number", ["whole", "q15"])
def test_deep_stacks_spread_leaks_and_all_activations(number: str, tmp_path: Path) -> None:
    described = ct.EchoState(
        (15, 10, 8),
        activation=BOUNDED if number == "q15" else MIXED,
        leak_rate=ct.Uniform(0.1, 1.0),
        bias_scaling=0.5,
        bias=True,
        pool="mean_std",
        bits=15 if number == "q15" else 20,
    )
    same(untrained(described, channels=3), signal(80, 3), tmp_path, number)


@pytest.mark.parametrize("chosen", [{"input": False}, {"state": False}, {"bias": True}])
def test_which_features_and_a_row_per_step(chosen: dict[str, Any], tmp_path: Path) -> None:
    described = ct.EchoState(10, washout=7, **chosen)
    model = untrained(described, classes=False, per_step=True, outputs=1)
    same(model, signal(60), tmp_path)


def test_each_step_of_windows(tmp_path: Path) -> None:
    model = untrained(ct.EchoState(8, washout=3), per_step=True, window=20, step=25)
    u = signal(118)
    made = compiled(model, tmp_path)
    rows = made.features(u)
    python = python_rows(model, u)
    np.testing.assert_array_equal(rows[: len(python)], python)
    assert len(rows) == len(python) + 15  # of the last window, which is not whole
    found = made.predict(u)
    assert found is not None
    np.testing.assert_allclose(found, model.scores([u])[0], rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("pool", [None, "mean_std"])
def test_long_recordings_are_cut_as_the_recipe_says(pool: Any, tmp_path: Path) -> None:
    layers = ct.Reservoir(units=15, inputs=2, seed=3).layers
    reservoir = ct.Reservoir.of_layers(layers, bits=20, cut=(64, 24))
    features = EchoState.of(reservoir, pool=pool, feature_bits=20, washout=9)
    model = untrained(features, per_step=pool is None)
    same(model, signal(300), tmp_path)
    same(untrained(features, per_step=pool is None), signal(64), tmp_path)


def test_gaps_are_held_and_a_silent_channel_is_zero(tmp_path: Path) -> None:
    model = untrained(ct.EchoState(10), channels=3, window=30)
    u = signal(95, 3, gaps=0.3)
    u[:4, 0] = np.nan
    u[:, 2] = np.nan
    made = compiled(model, tmp_path)
    found = made.predict(u)
    assert found is not None
    np.testing.assert_allclose(found, model.scores([u])[0], rtol=2e-6, atol=1e-6)
    u[0] = 1.0  # from here on a stream knows what a whole recording does
    np.testing.assert_array_equal(made.features(u), python_rows(model, u))


@pytest.mark.parametrize("number", ["whole", "float32"])
def test_what_cannot_be_taken_is_refused(number: str, tmp_path: Path) -> None:
    strict = compiled(untrained(ct.EchoState(8), gaps="error"), tmp_path, number=number)
    holding = compiled(untrained(ct.EchoState(8)), tmp_path, number=number)
    for bad, by in ((np.nan, [strict]), (np.inf, [strict, holding]), (-np.inf, [holding])):
        u = signal(20)
        u[11, 1] = bad
        for made in by:
            assert made.predict(u) is None
            with pytest.raises(ValueError, match="step 11 was refused"):
                made.rows(u)
    assert holding.predict(signal(20)) is not None


def test_too_short_recordings_have_no_scores(tmp_path: Path) -> None:
    made = compiled(untrained(ct.EchoState(8), window=30), tmp_path)
    assert made.predict(signal(29)) is None
    assert made.predict(signal(30)) is not None
    whole = compiled(untrained(ct.EchoState(8, washout=6)), tmp_path)
    assert whole.predict(signal(6)) is None
    assert whole.predict(signal(7)) is not None


@pytest.mark.parametrize("pool", [None, "last", "mean", "mean_std", "max"])
def test_single_precision_is_near_double(pool: Any, tmp_path: Path) -> None:
    described = ct.EchoState((15, 10), activation=MIXED, pool=pool, bits=None, washout=3)
    model = untrained(described, per_step=pool is None, window=None if pool is None else 60)
    made = compiled(model, tmp_path)
    assert made.code.layout.number == "float32"
    u = signal(200)
    features, scores = made.rows(u)
    np.testing.assert_allclose(features, python_rows(model, u), atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(scores, model.outputs([u])[0], rtol=1e-5, atol=1e-5)


def test_single_precision_of_a_map_in_fixed_point_has_the_same_classes(tmp_path: Path) -> None:
    data = [ct.Recording.labeled(signal(90, seed=k) * (1 + k % 3), k % 3, "abc") for k in range(18)]
    model = ct.fit(ct.Pipeline(ct.Preprocessing(window=30), ct.EchoState(30)), data)
    made = compiled(model, tmp_path, number="float32")
    for one in data:
        scores = made.predict(one.u)
        assert scores is not None
        assert [made.own_class(scores)] == model.classify([one.u])
        np.testing.assert_allclose(scores, model.scores([one.u])[0], atol=1e-3)


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    units=st.integers(1, 12),
    channels=st.integers(1, 4),
    pool=st.sampled_from([None, "last", "mean", "mean_std", "max"]),
    grid=st.integers(8, 24),
    feature_bits=st.integers(4, 24),
    window=st.sampled_from([None, 9, 25]),
    seed=st.integers(0, 99),
)
def test_any_recipe(
    units: int,
    channels: int,
    pool: Any,
    grid: int,
    feature_bits: int,
    window: int | None,
    seed: int,
    tmp_path: Path,
) -> None:
    window = None if pool is None else window
    described = ct.EchoState(units, seed=seed, pool=pool, bits=grid, feature_bits=feature_bits)
    model = untrained(described, channels=channels, per_step=pool is None, seed=seed, window=window)
    same(model, signal(60, channels, seed), tmp_path)
