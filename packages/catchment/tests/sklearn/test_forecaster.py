"""Forecasts are those of the library, and intervals hold as often as they say: counted."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import catchment as ct
from catchment import Array
from catchment.sklearn import EchoStateForecaster

AHEAD = range(1, 13)


def autoregression(seed: int, n: int = 312) -> Array:
    """Return y(t) = 1.5 y(t-1) - 0.75 y(t-2) + normal noise of deviation 1."""
    noise = np.random.default_rng(seed).normal(size=n + 100)
    y = np.zeros(n + 100)
    for t in range(2, n + 100):
        y[t] = 1.5 * y[t - 1] - 0.75 * y[t - 2] + noise[t]
    return y[100:]


def heavy_tails(seed: int, n: int = 312) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(
        100 + 20 * np.sin((np.arange(n) + rng.uniform(0, 99)) / 5) + 6 * rng.standard_t(4, n)
    )


@pytest.mark.parametrize("make", [autoregression, heavy_tails])
def test_intervals_hold_as_often_as_they_say(make: Any) -> None:
    held: dict[float, list[Any]] = {0.5: [], 0.9: []}
    for seed in range(40):
        y = make(seed)
        forecaster = EchoStateForecaster(30).fit(y[:300], fh=AHEAD)
        for coverage, counted in held.items():
            lower, upper = forecaster.predict_interval(coverage=coverage)
            assert (lower < upper).all()
            counted.append((lower <= y[300:]) & (y[300:] <= upper))
    # 480 values of 40 series, whose errors at near horizons go together.
    assert abs(np.mean(held[0.5]) - 0.5) < 0.1
    assert abs(np.mean(held[0.9]) - 0.9) < 0.05


def test_widths_are_those_of_the_process_that_made_the_series() -> None:
    impulse = [1.0, 1.5]
    for _ in range(10):
        impulse.append(1.5 * impulse[-1] - 0.75 * impulse[-2])
    exact = 2 * norm.ppf(0.95) * np.sqrt(np.cumsum(np.square(impulse)))
    widths = []
    for seed in range(20):
        lower, upper = EchoStateForecaster(30).fit(autoregression(seed)).predict_interval(AHEAD)
        widths.append(upper - lower)
    assert_allclose(np.mean(widths, axis=0), exact, rtol=0.25)


def test_forecasts_are_those_of_the_library_to_the_bit() -> None:
    y = autoregression(0)
    ours = EchoStateForecaster(20, random_state=3, washout=5).fit(y)
    model = ct.fit(
        ct.EchoState(20, seed=3, washout=5, pool=None), [ct.Recording(y[:-1], y[1:, None])]
    )
    assert_array_equal(ours.model_.readout.weights, model.readout.weights)
    ahead = model.forecast(y, 12)
    assert_array_equal(ours.predict(AHEAD), ahead[:, 0])
    assert_array_equal(ours.predict(3), ahead[2])
    assert_array_equal(ours.predict([2, 5]), ahead[[1, 4], 0])
    again = pickle.loads(pickle.dumps(ours))
    assert_array_equal(again.predict_interval(4)[0], ours.predict_interval(4)[0])
    assert clone(ours).get_params() == ours.get_params()
    assert clone(ours).set_params(n_jobs=2).fit(y).predict(5) == ours.predict(5)


def test_what_is_known_ahead_is_used_for_its_own_step() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 1)), np.zeros(600)
    for t in range(1, 600):
        y[t] = 0.5 * y[t - 1] + 3.0 * x[t, 0] + 0.1 * rng.normal()
    blind = EchoStateForecaster(40).fit(y[:500])
    seeing = EchoStateForecaster(40).fit(y[:500], x[:500], fh=range(1, 101))
    ahead = seeing.predict(X=x[500:])
    assert np.sqrt(np.mean((ahead - y[500:]) ** 2)) < 0.25
    assert np.sqrt(np.mean((blind.predict(range(1, 101)) - y[500:]) ** 2)) > 2.0
    lower, upper = seeing.predict_interval([1, 2, 3], x[500:503])
    assert ((lower <= y[500:503]) & (y[500:503] <= upper)).all()
    assert (upper - lower).max() < 1.0
    assert_array_equal(seeing.predict(4, x[500:504]), ahead[3:4])


def test_several_series_frames_and_gaps() -> None:
    pair = np.stack([autoregression(1), autoregression(2)], axis=1)
    frame = pd.DataFrame(pair, columns=["a", "b"])
    both = EchoStateForecaster(20).fit(frame)
    assert_array_equal(both.predict(AHEAD), EchoStateForecaster(20).fit(pair).predict(AHEAD))
    lower, upper = both.predict_interval(AHEAD)
    assert lower.shape == upper.shape == (12, 2)
    gappy = autoregression(1)
    gappy[::7] = np.nan
    lower, upper = EchoStateForecaster(20).fit(gappy).predict_interval(AHEAD)
    assert np.isfinite([lower, upper]).all()
    with pytest.raises(ValueError, match="set gaps to"):
        EchoStateForecaster(20, gaps="error").fit(gappy)


def test_a_coverage_takes_more_of_a_short_series_or_says_that_it_is_too_short() -> None:
    y = autoregression(0, 40)
    lower, upper = EchoStateForecaster(10).fit(y).predict_interval(3, coverage=0.95)
    assert lower < upper
    with pytest.raises(ValueError, match="y has 40 steps, too few to try intervals of coverage"):
        EchoStateForecaster(10).fit(y).predict_interval(3, coverage=0.99)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, y: f.predict(), "there is no fh"),
        (lambda f, y: f.predict(0), "fh is 0; pass steps ahead"),
        (lambda f, y: f.predict(1.5), "fh is 1.5; pass steps ahead"),
        (lambda f, y: f.predict([]), "pass steps ahead"),
        (lambda f, y: f.predict(2, np.ones((2, 1))), "X has 1 columns, fit had 0"),
        (lambda f, y: f.predict_interval(2, coverage=1.5), "coverage is 1.5"),
        (lambda f, y: f.fit(y, np.ones((3, 1))), "X has 3 rows, fit needs 312"),
        (lambda f, y: f.fit(y, y).predict(2), "fit had X of 1 columns; pass X with a row"),
        (lambda f, y: f.fit(y, y).predict(2, [1.0]), "X has 1 rows, predict needs 2"),
        (lambda f, y: f.fit(y[:2]), "y has 2 steps; a forecast"),
        (lambda f, y: f.set_params(calibration=1.0).predict_interval(1), "calibration is 1.0"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    y = autoregression(0)
    with pytest.raises(ValueError, match=message):
        call(EchoStateForecaster(5).fit(y), y)
    with pytest.raises(NotFittedError):
        EchoStateForecaster().predict(1)
