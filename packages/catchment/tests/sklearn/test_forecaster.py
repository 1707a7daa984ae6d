"""`YuleWalkerForecaster`: any steps ahead, what is known ahead, gaps, and mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from catchment.sklearn import YuleWalkerForecaster


def wave(n: int, seed: int = 0) -> np.ndarray:
    return np.sin(np.arange(n) / 5) + 0.1 * np.random.default_rng(seed).normal(size=n)


def test_a_value_that_is_held_does_not_blow_up_the_forecast_of_a_smooth_series() -> None:
    t = np.arange(402)
    x = np.sin(t / 5)
    y = np.where(t[:400] % 7 == 0, np.nan, x[:400])  # the last one is missing
    found = YuleWalkerForecaster().fit(y).predict([1, 2])
    np.testing.assert_allclose(found, x[400:], atol=0.1)


def test_steps_come_in_the_order_that_is_asked_for() -> None:
    y = wave(610)
    fitted = clone(YuleWalkerForecaster(64)).fit(y[:600])
    every = fitted.predict(range(1, 11))
    assert np.abs(every - y[600:]).max() < 0.4
    assert np.abs(fitted.predict([10, 2]) - every[[9, 1]]).max() < 0.1
    low, high = fitted.predict_interval([10, 2], coverage=0.95)
    assert (low < high).all()


def test_several_series_share_coefficients_and_keep_their_levels() -> None:
    y = np.stack([5 + 3 * wave(600), -80 + wave(600, 1)], axis=1)
    said = YuleWalkerForecaster(64).fit(y, fh=3).predict()
    assert said.shape == (1, 2)
    truth = np.sin(602 / 5)
    np.testing.assert_allclose(said[0], [5 + 3 * truth, -80 + truth], atol=1.2)


def test_what_is_known_ahead_is_asked_for_and_used() -> None:
    X = np.random.default_rng(2).normal(size=(610, 1))
    y = wave(610) + 2 * X[:, 0]
    fitted = YuleWalkerForecaster(64).fit(y[:600], X[:600])
    assert np.abs(fitted.predict(range(1, 11), X[600:]) - y[600:]).max() < 0.6
    with pytest.raises(ValueError, match="pass X with a row"):
        fitted.predict([1])


def test_gaps_are_passed_over_and_mistakes_are_named() -> None:
    y = wave(610)
    gone = y[:600].copy()
    gone[np.random.default_rng(3).random(600) < 0.2] = np.nan
    assert np.abs(YuleWalkerForecaster(64).fit(gone).predict(range(1, 11)) - y[600:]).mean() < 0.3
    with pytest.raises(ValueError, match="no fh"):
        YuleWalkerForecaster().fit(y).predict()
    for wrong in (0, -5, "auto"):
        with pytest.raises(ValueError, match="lookback is"):
            YuleWalkerForecaster(wrong).fit(y).predict([1])
    with pytest.raises(ValueError, match="at least 4"):
        YuleWalkerForecaster().fit(y[:3])
