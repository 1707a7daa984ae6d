"""Forecasts against a loop written out by hand, and against series that are known to go on."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import catchment as ct
from catchment import Array
from catchment.data import Recording, mackey_glass
from catchment.features import EchoState, Reservoir
from catchment.readout import (
    ForecastLimitWarning,
    Model,
    Readout,
    forecast,
    forecasts,
    train,
)


def features(
    inputs: int = 1, units: int | tuple[int, ...] = 60, *, bias: bool = False, input: bool = True
) -> EchoState:
    recipe = Reservoir(units=units, inputs=inputs, leak_rate=0.5, seed=2)
    return EchoState.of(recipe, bias=bias, input=input, washout=50)


def waves(T: int = 700) -> Array:
    t = np.arange(T)
    return np.column_stack([np.sin(t / 8), np.cos(t / 8) * np.sin(t / 21)])


def next_step(s: Array) -> Recording:
    return Recording(s[:-1], s[1:])


def naive_forecast(model: Model, warmup: Array, horizon: int) -> Array:
    """Return the closed loop by running everything again from the start at every step."""
    inputs = warmup
    for _ in range(horizon):
        inputs = np.vstack([inputs, model.predict(inputs)[-1]])
    return inputs[len(warmup) :]


@pytest.mark.parametrize(
    "features_",
    [
        features(2),
        features(2, bias=True),
        features(2, input=False),
        features(2, bias=True, input=False),
        features(2, units=(30, 20)),
    ],
)
def test_the_closed_loop_is_the_naive_loop(features_: EchoState) -> None:
    s = waves()
    model = train(features_, [next_step(s)], 1e-4)
    expected = naive_forecast(model, s[:200], 12)
    np.testing.assert_allclose(forecast(model, s[:200], 12), expected, atol=1e-9)


def test_a_sine_goes_on() -> None:
    s = np.sin(np.arange(1200) / 7)[:, None]
    model = train(features(), [next_step(s[:600])], 1e-8)
    np.testing.assert_allclose(forecast(model, s[:600], 600), s[600:], atol=0.02)


def test_mackey_glass_is_followed_for_a_hundred_steps() -> None:
    s = mackey_glass(3200) - 0.9
    reservoir = Reservoir(units=300, inputs=1, spectral_radius=0.95, leak_rate=0.5, seed=4)
    model = train(EchoState.of(reservoir, washout=100), [next_step(s[:3000])], 1e-8)
    error = np.abs(forecast(model, s[:3000], 100) - s[3000:3100])
    assert error[:50].max() < 0.05 * s.std()
    assert error.max() < 0.25 * s.std()


def test_direct_horizons_are_what_the_series_does_later() -> None:
    s = waves()
    horizons = (1, 3, 10)
    ahead = ct.Pipeline(ct.Preprocessing(horizon=horizons, scale="none"), features(2))
    model = train(ahead, [Recording(s[:600])], 1e-8)
    (found,) = forecasts(model, [Recording(s[:600])])
    np.testing.assert_allclose(found.values, s[[599 + h for h in horizons]], atol=0.02)
    assert model.statistics is not None
    assert model.statistics.n_rows == 600 - 50 - 10


def test_one_step_ahead_is_the_first_step_of_the_closed_loop() -> None:
    s = waves()
    model = train(features(2), [next_step(s)], 1e-6)
    np.testing.assert_allclose(forecast(model, s[:300], 1), model.predict(s[:300])[-1:], atol=1e-12)


def test_single_precision_states_are_run_on_in_single_precision() -> None:
    s = waves()
    single = EchoState.of(features(2).reservoir, washout=50, precision="float32")
    model = train(single, [next_step(s)], 1e-3)
    np.testing.assert_allclose(
        forecast(model, s[:200], 5), naive_forecast(model, s[:200], 5), atol=1e-4
    )


def test_wrong_forecasts_are_refused() -> None:
    s = waves()
    model = train(features(2), [next_step(s)])
    with pytest.raises(ValueError, match="horizon is 0"):
        forecast(model, s, 0)
    with pytest.raises(ValueError, match="warm-up has 20 steps"):
        forecast(model, s[:20], 3)
    with pytest.raises(ValueError, match="columns"):
        forecast(model, s[:, :1], 3)
    with pytest.raises(ValueError, match="not finite"):
        forecast(model, np.where(s > 0.9, np.nan, s), 3)
    assert isinstance(model.features, EchoState)
    pooled = EchoState.of(model.features.reservoir, pool="mean")
    once = train(pooled, [Recording(s, s[-1])], 1.0)
    with pytest.raises(ValueError, match="pool=None"):
        forecast(once, s, 3)
    wide = train(features(1), [Recording(s[:, 0], s)])
    with pytest.raises(ValueError, match="2 outputs, which cannot be the next values of its 1"):
        forecast(wide, s[:, 0], 3)


def test_a_forecast_without_bound_is_an_error_not_infinity() -> None:
    reservoir = Reservoir.from_matrices([[0.0]], [[1.0]], activation="identity")
    model = Model(EchoState.of(reservoir, input=False), Readout(np.array([[1e200]]), np.zeros(1)))
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match="1e\\+200 at row 0; scale the values"),
    ):
        forecast(model, [1.0], 5)


def caught(model: Model, warmup: Array, **limit: None) -> tuple[Array, bool]:
    """Return 300 steps of the loop, and whether it warned of its limit."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ahead = forecast(model, warmup, 300, **limit)
    return ahead, any(w.category is ForecastLimitWarning for w in found)


def test_loops_that_would_explode_stay_near_the_training_range_and_say_so() -> None:
    raw = mackey_glass(1000)
    s = (raw - raw.mean()) / raw.std()
    largest = []
    for seed in range(5):
        for washout in (0, 100):
            described = ct.EchoState(
                300,
                leak_rate=0.3,
                spectral_radius=1.25,
                input_scaling=0.5,
                washout=washout,
                seed=seed,
                bits=None,  # which would cut off what is fed back
            )
            model = train(described.build(1, per_step=True), [next_step(s)], 1e-8)
            free, said_free = caught(model, s, limit=None)
            held, said = caught(model, s)
            assert model.target_range is not None
            low, high = model.target_range
            assert (held >= low).all()
            assert (held <= high).all()
            assert -6.1 < low[0] < high[0] < 6.1
            inside = ((free >= low) & (free <= high))[:, 0]
            assert not said_free
            assert said == (not inside.all())
            n_good = len(free) if inside.all() else int(np.argmin(inside))
            np.testing.assert_array_equal(held[:n_good], free[:n_good])
            largest.append(float(np.abs(free).max()))
    assert max(largest) > 1e3


def test_a_good_forecast_is_untouched_to_the_bit() -> None:
    s = np.sin(np.arange(1200) / 7)[:, None]
    model = train(features(), [next_step(s[:600])], 1e-8)
    held, free = forecast(model, s[:600], 600), forecast(model, s[:600], 600, limit=None)
    np.testing.assert_array_equal(held, free)


def test_a_limit_of_ones_own_is_kept_and_said() -> None:
    s = waves()
    model = train(features(2), [next_step(s)], 1e-6)
    with pytest.warns(ForecastLimitWarning, match="left the range .* at step"):
        held = forecast(model, s[:300], 60, limit=[[-0.5, -0.2], [0.5, 0.2]])
    assert (np.abs(held) <= [0.5, 0.2]).all()
    with pytest.raises(ValueError, match=r"limit has shape \(2,\)"):
        forecast(model, s[:300], 5, limit=[-1.0, 1.0])


def test_raw_recordings_go_in_and_raw_values_come_out() -> None:
    s = 1000.0 + 50.0 * waves()
    pipeline = ct.Pipeline(ct.Preprocessing(horizon=1), ct.EchoState(60, washout=50))
    model = ct.fit(pipeline, [Recording(s[:600])])
    gappy = s[:300].copy()
    gappy[100, 1] = np.nan
    for past in (s[:300], Recording(s[:300]), gappy):
        inputs = past.u if isinstance(past, Recording) else past
        expected = naive_forecast(model, inputs, 20)
        np.testing.assert_allclose(model.forecast(past, 20), expected, rtol=1e-9)
    ahead = model.forecast(s[:600], 30)
    assert np.abs(ahead - s[600:630]).max() < 5.0
    federated = ct.federate(pipeline, {"a": [Recording(s[:600])]}).model
    np.testing.assert_array_equal(federated.forecast(s[:600], 30), ahead)


def test_a_model_that_looks_further_ahead_makes_no_closed_loop() -> None:
    s = waves()
    model = ct.fit(ct.Pipeline(ct.Preprocessing(horizon=6), ct.EchoState(20)), [Recording(s)])
    with pytest.raises(ValueError, match="looks 6 steps ahead"):
        model.forecast(s, 3)
