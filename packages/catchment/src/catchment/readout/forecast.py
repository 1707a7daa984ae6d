"""Forecasts: one step ahead, several horizons at once, or closed loop.

A model trained on targets one step ahead is fed its own predictions in closed loop, which any error
enters. A direct forecast needs no feedback: one readout has a column for each horizon and channel,
because ridge regression on more targets costs next to nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from catchment.arrays import Array, as_matrix, refuse_nonfinite
from catchment.data.recording import Recording
from catchment.data.scaling import Scaler
from catchment.features.base import FeatureMap, name_of
from catchment.features.echo_state.echo_state import EchoStateMap
from catchment.readout.model import Model


def horizon_targets(series: ArrayLike, horizons: Sequence[int] = (1,)) -> Array:
    """Return targets (T, H K): at each step, the series each horizon later, horizon by horizon.

    Steps whose future is not known have NaN and leave the statistics by themselves.

    Parameters
    ----------
    series
        (T, K) values.
    horizons
        H numbers of steps ahead, each at least 1.

    >>> horizon_targets([1.0, 2.0, 3.0], (1, 2))
    array([[ 2.,  3.],
           [ 3., nan],
           [nan, nan]])
    """
    values = as_matrix(series, "series")
    steps = [int(h) for h in horizons]
    if not steps or min(steps) < 1 or steps != list(horizons):
        raise ValueError(f"horizons are {horizons}; pass whole numbers of at least 1 step")
    T, K = values.shape
    targets = np.full((T, len(steps), K), np.nan)
    for j, h in enumerate(steps):
        targets[: max(T - h, 0), j] = values[h:]
    return targets.reshape(T, -1)


def next_step_sequence(series: ArrayLike) -> Recording:
    """Return the training sequence whose target is its own next value.

    >>> next_step_sequence([1.0, 2.0, 3.0]).y.ravel()
    array([2., 3.])
    """
    values = as_matrix(series, "series")
    if len(values) < 2:
        raise ValueError(f"the series has {len(values)} steps; forecasting needs at least 2")
    return Recording(values[:-1], values[1:])


def forecast_direct(model: Model, u: ArrayLike, n_horizons: int) -> Array:
    """Return the forecasts (H, K) from the end of inputs (T, I), by a model of several horizons.

    The model was trained on `horizon_targets` of H horizons.

    >>> from catchment import EchoState
    >>> from catchment.readout.model import train
    >>> features = EchoState(50, seed=1, washout=50).build(1, per_step=True)
    >>> s = np.sin(np.arange(600) / 10)
    >>> model = train(features, [Recording(s, horizon_targets(s, (1, 10)))])
    >>> (forecast_direct(model, s[:500], 2).ravel() - s[[500, 509]]).round(2)
    array([0., 0.])
    """
    if n_horizons < 1 or model.n_outputs % n_horizons:
        raise ValueError(
            f"{model.n_outputs} outputs do not divide into {n_horizons} horizons; "
            "pass the number of horizons the model was trained on"
        )
    _per_step(model.features)
    return np.asarray(model.outputs(as_matrix(u, "inputs"))[0][-1].reshape(n_horizons, -1))


class ForecastLimitWarning(UserWarning):
    """A closed loop ran into its limit: what comes after it is no forecast."""


def forecast(
    model: Model,
    warmup: Recording | ArrayLike,
    horizon: int,
    *,
    known: ArrayLike | None = None,
    limit: ArrayLike | Literal["training"] | None = "training",
) -> Array:
    """Return the next values (horizon, K) after the warm-up, each prediction being the next input.

    Parameters
    ----------
    model
        Trained to predict, at each step, the first K inputs of the next one; features per step.
    warmup
        (T, I) raw inputs up to now, longer than the washout.
    horizon
        Number of steps to go on.
    known
        (horizon, I - K) future values of the inputs that are not predicted, such as the hour of
        day; row j belongs to step j of the forecast. Not needed if all inputs are predicted.
    limit
        Lowest and highest values (2, K) that are fed back; "training" is the model's own
        `target_range`, None lets the loop go where it will. A warning says when the limit binds.

    >>> from catchment import EchoState
    >>> from catchment.readout.model import train
    >>> features = EchoState(50, seed=1, washout=50).build(1, per_step=True)
    >>> s = np.sin(np.arange(600) / 10)
    >>> model = train(features, [next_step_sequence(s[:500])], 1e-8)
    >>> bool(np.abs(forecast(model, s[:500], 100).ravel() - s[500:]).max() < 0.05)
    True
    """
    features = closed_loop_map(model)
    if horizon < 1:
        raise ValueError(f"horizon is {horizon}; pass at least 1 step")
    given = _known(model, features, known, horizon)
    lowest, highest = closed_loop_limits(model, limit)
    past = warm_up(model, warmup)
    z, x = features.last(features.checked(past, "warm-up"))
    scale = model.prepare.scale
    out = np.empty((horizon, model.n_outputs))
    first_bound = None
    for step in range(horizon):
        free = model.readout(z[None])[0]
        if not np.isfinite(free).all():
            raise ValueError(
                f"the forecast grew beyond all numbers at step {step}; raise the ridge, or use a "
                "bounded activation such as tanh"
            )
        out[step] = np.clip(free, lowest, highest)
        if first_bound is None and (out[step] != free).any():
            first_bound = step
        if step + 1 < horizon:
            u = np.concatenate([out[step], given[step]])[None]
            scaled = scale(u) if isinstance(scale, Scaler) else u
            z, x = features.last(features.reservoir.checked(scaled), x)
    if first_bound is not None:
        warnings.warn(
            f"the closed loop left the range of its training targets at step {first_bound} of "
            f"{horizon} and was held at the limit; raise the ridge, or forecast fewer steps",
            ForecastLimitWarning,
            stacklevel=2,
        )
    return out


def warm_up(model: Model, warmup: Recording | ArrayLike) -> Array:
    """Return the warm-up's inputs as the map sees them; they must stay in one piece."""
    raw = warmup if isinstance(warmup, Recording) else Recording(as_matrix(warmup, "warm-up"))
    if model.prepare.horizon not in (None, 1):
        raise ValueError(
            f"the model looks {model.prepare.horizon} steps ahead, a closed loop goes step by "
            "step; train with horizon=1, or take predict's last row as the forecast"
        )
    if model.prepare.window is not None or model.prepare.scale == "own":
        raise ValueError(
            "a closed loop goes on from one recording, scaled by numbers that stay the same; "
            'train with window=None and scale="federated" or "none"'
        )
    pieces = model.prepare.inputs([raw])
    if not pieces:
        raise ValueError("nothing of the warm-up is left after preparation; pass a longer one")
    return pieces[-1].u


def closed_loop_limits(
    model: Model, limit: ArrayLike | Literal["training"] | None = "training"
) -> tuple[Array | float, Array | float]:
    """Return the lowest and the highest values (K,) that are fed back."""
    if isinstance(limit, str):
        limit = model.target_range
    if limit is None:
        return -np.inf, np.inf
    limits = np.asarray(limit, dtype=np.float64)
    if limits.shape != (2, model.n_outputs) or not (limits[0] <= limits[1]).all():
        raise ValueError(
            f"limit has shape {limits.shape}; pass the lowest and the highest value of each of "
            f"{model.n_outputs} outputs, (2, {model.n_outputs})"
        )
    return limits[0], limits[1]


def closed_loop_map(model: Model) -> EchoStateMap:
    """Return the map of a model that can be run step by step."""
    if model.prepare.looks_around or model.prepare.predicted is not None:
        raise ValueError(
            "a closed loop feeds all its inputs back, and the model has inputs that are known "
            "ahead, a calendar, or predicts some channels only; forecast directly, with several "
            "horizons"
        )
    _per_step(model.features)
    if not isinstance(model.features, EchoStateMap):
        raise ValueError(
            f"a closed loop needs a map with a state, {name_of(model.features)} has none; "
            "use EchoState, or a direct forecast of several horizons"
        )
    return model.features


def _per_step(features: FeatureMap) -> None:
    if not features.per_step:
        raise ValueError(
            "these features give one row per recording; forecasts need a row per step, pool=None"
        )


def _known(model: Model, features: EchoStateMap, known: ArrayLike | None, horizon: int) -> Array:
    n_known = features.n_inputs - model.n_outputs
    if n_known < 0 or (n_known > 0 and known is None):
        raise ValueError(
            f"the model has {model.n_outputs} outputs, which cannot be the next values of its "
            f"{features.n_inputs} inputs; train it on next_step_sequence, or pass "
            "`known` for the inputs it does not predict"
        )
    values = np.zeros((horizon, 0)) if known is None else as_matrix(known, "known")
    if values.shape != (horizon, n_known):
        raise ValueError(
            f"known has shape {values.shape}, expected ({horizon}, {n_known}): "
            "one row per forecast step, one column per input that is not predicted"
        )
    refuse_nonfinite(values, "known")
    return values
