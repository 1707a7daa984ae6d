"""ETTh1 by the usual protocol: ridge on the last 336 hours, a channel a client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import catchment as ct
from catchment import Array
from catchment.features import FeatureMap
from reproductions.forecast_data import N_TEST, N_TRAIN, N_VALIDATION

HORIZONS = (96, 192, 336, 720)
LAGS = 336
RIDGES = (1.0, 100.0, 1000.0, 10000.0)
FORMS = ("values", "changes")
NAIVE = ("last value", "last day")


@dataclass(frozen=True)
class Differences(FeatureMap):
    """What the hours before differ by from the present one; a row per step."""

    lags: int = LAGS
    bounds = property(lambda self: np.full(self.n_features, 100.0))
    per_step = True
    standardize = True

    @property
    def n_features(self) -> int:
        return self.lags - 1

    @property
    def washout(self) -> int:
        return self.lags - 1

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the rows (T - washout, lags - 1) of each recording."""
        seen = [np.lib.stride_tricks.sliding_window_view(u[:, 0], self.lags) for u in inputs]
        return [one[:, -2::-1] - one[:, -1:] for one in seen]


def standardized(station: ct.Recording) -> dict[str, Array]:
    """Return each channel by the mean and deviation of its training rows, as clients have them."""
    assert station.channels is not None
    u = station.u
    scaled = (u - u[:N_TRAIN].mean(axis=0)) / u[:N_TRAIN].std(axis=0)
    return {name: scaled[:, k] for k, name in enumerate(station.channels)}


def bounds(part: str) -> tuple[int, int]:
    """Return the first and the last but one row whose values are targets of a part."""
    first = {"train": LAGS, "validation": N_TRAIN, "test": N_TRAIN + N_VALIDATION}[part]
    last = {"train": N_TRAIN, "validation": N_TRAIN + N_VALIDATION}
    return first, last.get(part, N_TRAIN + N_VALIDATION + N_TEST)


def segment(series: Array, part: str) -> Array:
    """Return the values of a part with the hours before it that its first forecast looks at."""
    first, last = bounds(part)
    return series[first - LAGS : last]


def recording(series: Array, part: str, horizon: int, form: str) -> ct.Recording:
    """Return inputs (T, 1) and targets (T, horizon) of a part of a channel.

    Targets are the values to come, or what they differ by from the present one; with the latter
    go inputs that are such differences too, as NLinear has them.
    """
    values = segment(series, part)
    y = _ahead(values, horizon)
    return ct.Recording(values, y - values[:, None] if form == "changes" else y, per_step=True)


def _ahead(values: Array, horizon: int) -> Array:
    """Return the values (T, horizon) that come after each; NaN where they are not known."""
    later = np.concatenate([values[1:], np.full(horizon, np.nan)])
    return np.lib.stride_tricks.sliding_window_view(later, horizon)[: len(values)].copy()


def fitted(series: Mapping[str, Array], horizon: int, form: str, ridge: float) -> ct.Model:
    """Return the model of all channels, each a client, in one round."""
    clients = {name: [recording(one, "train", horizon, form)] for name, one in series.items()}
    lags = ct.NVAR(LAGS, order=1, washout=LAGS - 1, bits=None)
    chosen: FeatureMap = Differences() if form == "changes" else lags
    pipeline = ct.Pipeline(ct.Preprocessing(gaps="error", scale="none"), chosen)
    run = ct.federate(pipeline, clients, ridge=ridge, upload="statistics")
    return replace(run.model, statistics=None)


def judged(model: ct.Model, series: Mapping[str, Array], part: str, form: str) -> dict[str, float]:
    """Return mean squared and mean absolute error over all channels, forecasts and hours."""
    horizon = model.n_outputs
    squares, absolute = [], []
    for one in series.values():
        made = recording(one, part, horizon, form)
        assert made.y is not None
        outputs = model.outputs([made.u])[0][:-horizon]
        difference = outputs - made.y[LAGS - 1 : -horizon]
        squares.append(float((difference**2).mean()))
        absolute.append(float(np.abs(difference).mean()))
    return {"mse": float(np.mean(squares)), "mae": float(np.mean(absolute))}


def naive(series: Mapping[str, Array], name: str, horizon: int) -> dict[str, float]:
    """Return the errors of repeating the last value or the last day."""
    squares, absolute = [], []
    for one in series.values():
        values = segment(one, "test")
        y = _ahead(values, horizon)[LAGS - 1 : -horizon]
        now = np.arange(LAGS - 1, len(values) - horizon)
        back = [0 if name == NAIVE[0] else (-h) % 24 for h in range(1, horizon + 1)]
        difference = values[now[:, None] - np.array(back)[None]] - y
        squares.append(float((difference**2).mean()))
        absolute.append(float(np.abs(difference).mean()))
    return {"mse": float(np.mean(squares)), "mae": float(np.mean(absolute))}


def chosen_ridge(series: Mapping[str, Array], form: str) -> tuple[float, dict[str, float]]:
    """Return the ridge with the least error on the validation hours at the first horizon."""
    horizon = HORIZONS[0]
    tried = {
        str(ridge): judged(fitted(series, horizon, form, ridge), series, "validation", form)["mse"]
        for ridge in RIDGES
    }
    return float(min(tried, key=lambda ridge: tried[ridge])), tried


def station_cell(
    series: Mapping[str, Array], horizon: int, form: str, ridge: float
) -> dict[str, object]:
    """Return the errors at one horizon, and how far the model is from the pooled fit."""
    model = fitted(series, horizon, form, ridge)
    return {
        "task": "station",
        "contender": form,
        "horizon": horizon,
        "ridge": ridge,
        "features": model.features.n_features,
        "validation": judged(model, series, "validation", form),
        "test": judged(model, series, "test", form),
        "gap": largest_gap(model, series, horizon, form, ridge),
    }


def largest_gap(
    model: ct.Model, series: Mapping[str, Array], horizon: int, form: str, ridge: float
) -> float:
    """Return the largest relative difference from ridge regression on all rows in one place.

    Windows are cut by numpy. NVAR says that it rounds values to 22 binary digits.
    """

    def rows(part: str) -> tuple[Array, Array]:
        made = []
        for one in series.values():
            values = segment(one, part)
            looked = np.lib.stride_tricks.sliding_window_view(values, LAGS)[:-horizon, ::-1]
            later = np.lib.stride_tricks.sliding_window_view(values[LAGS:], horizon)
            if form == "changes":
                made.append((looked[:, 1:] - looked[:, :1], later - looked[:, :1]))
            else:
                made.append((np.round(looked * 2.0**22) / 2.0**22, later))
        return np.concatenate([z for z, _ in made]), np.concatenate([y for _, y in made])

    z, y = rows("train")
    center, scale, middle = z.mean(axis=0), z.std(axis=0), y.mean(axis=0)
    z -= center
    z /= scale
    W = np.linalg.solve(z.T @ z + ridge * np.eye(z.shape[1]), z.T @ (y - middle))
    new, _ = rows("test")
    pooled = (new - center) / scale @ W + middle
    ours = np.concatenate(
        [model.outputs([segment(one, "test")[:, None]])[0][:-horizon] for one in series.values()]
    )
    return float(np.abs(ours - pooled).max() / np.abs(pooled).max())
