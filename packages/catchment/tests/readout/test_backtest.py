"""Loops side by side forecast what one loop at a time forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import catchment as ct
from catchment import Array
from catchment.readout import backtest, forecast


def noisy(n: int, channels: int) -> Array:
    rng = np.random.default_rng(0)
    t = np.arange(n)[:, None] / np.array([5.0, 7.0, 11.0])[:channels]
    return np.asarray(40 + 9 * np.sin(t) + 0.5 * rng.normal(size=t.shape))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"washout": 10, "precision": "float32"},
        {"units": (12, 8)},
        {"bits": None, "feature_bits": None, "input": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("n_known", [0, 1])
def test_each_origin_is_a_forecast_of_its_own(settings: dict[str, Any], n_known: int) -> None:
    s = noisy(200, 2)
    target = s[1:, : 2 - n_known]
    described = ct.EchoState(**{"units": 20} | settings)
    model = ct.fit(described, [ct.Recording(s[:-1], target)])
    origins = [100, 131, *range(110, 180)]  # more than run side by side
    ours = backtest(model, s, origins, 12)
    for place, one in zip(origins[:5], ours, strict=False):
        known = s[place : place + 12, 2 - n_known :] if n_known else None
        assert_allclose(one, forecast(model, s[:place], 12, known=known), rtol=1e-5, atol=1e-4)
    assert ours.shape == (72, 12, 2 - n_known)


def test_gaps_are_filled_and_loops_stay_within_the_training_range() -> None:
    s = noisy(150, 1)
    model = ct.fit(ct.EchoState(20), [ct.Recording(s[:-1], s[1:])])
    gappy = s.copy()
    gappy[90:93] = np.nan
    assert_allclose(backtest(model, gappy, [92], 3)[0], forecast(model, gappy[:92], 3), rtol=1e-9)
    lowest, highest = model.target_range  # type: ignore[misc]
    far = backtest(model, s + 200, [100], 30)
    assert lowest <= far.min() <= far.max() <= highest
