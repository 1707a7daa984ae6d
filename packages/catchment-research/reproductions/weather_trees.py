"""Gradient boosting on all regions' hours in one place: what trees and pooled data reach.

One model for each horizon predicts how much the temperature changes, from the last hours of all
channels, the hour, the day of the year and the region. How many trees there are is chosen by the
calibration weeks, by which the ridge of the linear contenders is chosen, too; test weeks choose
nothing. Everything else is as scikit-learn has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import catchment as ct
from catchment import Array
from reproductions.forecast_data import HOUR, WASHOUT
from reproductions.forecast_weather import HORIZONS, Contender, Message, Told, cell_of, targets_of

BOOSTED = "gradient boosting, pooled"
LAGS = 20
PATIENCE = 20  # trees without a better error on the calibration weeks
MOST = 500
YEAR = 8766.0  # hours


def tree_columns(recording: ct.Recording, region: int) -> Array:
    """Return what trees see at every hour after the washout (T - washout, 20 I + 3)."""
    assert recording.times is not None
    u, hours = recording.u, recording.times / HOUR
    now = np.arange(WASHOUT, len(u))
    lags = [u[now - k] for k in range(LAGS)]
    calendar = [hours[now] % 24, hours[now] % YEAR, np.full(len(now), float(region))]
    return np.hstack([*lags, np.stack(calendar, axis=1)])


def boosted_cell(data: Message) -> dict[str, object]:
    """Return what boosting does on the test weeks, one model for each horizon."""
    models = [_model(data, k) for k in range(len(HORIZONS))]
    told = {}
    for region, (name, own) in enumerate(data.items()):
        x, y = rows_of(own["test"], region)
        guesses = [x[:, 0] + model.predict(x) for model in models]
        squares = [float(np.mean((g - t) ** 2)) for g, t in zip(guesses, y.T, strict=True)]
        told[name] = Told(squares, {}, {}, len(y))
    return cell_of(Contender(BOOSTED, ()), 0, told, None, None)


def rows_of(recordings: Sequence[ct.Recording], region: int) -> tuple[Array, Array]:
    """Return columns and temperatures ahead of the hours whose targets are all known."""
    x = np.concatenate([tree_columns(one, region) for one in recordings])
    y = np.concatenate([targets_of(one) for one in recordings])
    known = ~np.isnan(y).any(axis=1)
    return x[known], y[known]


def _model(data: Mapping[str, Mapping[str, list[ct.Recording]]], horizon: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    found = {}
    for part in ("train", "calibration"):
        own = [rows_of(held[part], region) for region, held in enumerate(data.values())]
        x, y = (np.concatenate(columns) for columns in zip(*own, strict=True))
        found[part] = x, y[:, horizon] - x[:, 0]  # the temperature is the first channel
    trees = HistGradientBoostingRegressor(
        max_iter=MOST, early_stopping=True, n_iter_no_change=PATIENCE, random_state=0
    )
    x_val, y_val = found["calibration"]
    return trees.fit(*found["train"], X_val=x_val, y_val=y_val)
