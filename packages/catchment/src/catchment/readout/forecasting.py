"""Forecasts: several horizons at once, or one step ahead in closed loop.

A direct forecast, `Preprocessing(horizon=(1, 6, 24))`, needs no feedback: one readout has a column
for each horizon and channel, because ridge regression on more targets costs next to nothing. A
model trained on targets one step ahead is fed its own predictions in closed loop, which any error
enters.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from catchment.arrays import Array, PositiveInt, as_matrix, check_type
from catchment.data.preprocessing import Prepared
from catchment.data.recording import Recording
from catchment.data.scaling import Scaler
from catchment.data.steps import resample
from catchment.features.base import name_of
from catchment.features.echo_state.echo_state import EchoState
from catchment.features.echo_state.run import advance, cut_places
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor


class ForecastLimitWarning(UserWarning):
    """A closed loop ran into its limit: what comes after it is no forecast."""


def forecast(
    model: Model,
    warmup: Recording | ArrayLike,
    horizon: int,
    *,
    limit: ArrayLike | Literal["training"] | None = "training",
) -> Array:
    """Return the next values (horizon, K) after the warm-up, each prediction being the next input.

    Parameters
    ----------
    model
        Trained to predict, at each step, the inputs of the next one; features per step.
    warmup
        (T, I) raw inputs up to now, longer than the washout.
    horizon
        Number of steps to go on.
    limit
        Lowest and highest values (2, K) that are fed back; "training" is the model's own
        `target_range`, None lets the loop go where it will. A warning says when the limit binds.

    >>> from catchment import EchoState
    >>> from catchment.readout.model import train
    >>> features = EchoState(50, seed=1, washout=50).build(1, per_step=True)
    >>> s = np.sin(np.arange(600) / 10)
    >>> model = train(features, [Recording(s[:499], s[1:500])], 1e-8)
    >>> bool(np.abs(forecast(model, s[:500], 100).ravel() - s[500:]).max() < 0.05)
    True
    """
    features = closed_loop_map(model)
    check_type(horizon, PositiveInt, "horizon")
    (past,) = features.checked_all([warm_up(model, warmup)], "warm-up")
    begin, _, _ = cut_places(len(past), features.reservoir.cut, 0)[-1]
    bounds = model.target_range if isinstance(limit, str) else limit
    limits = np.array([-np.inf, np.inf] if bounds is None else bounds, dtype=np.float64)
    shape = (2,) if bounds is None else (2, model.n_outputs)
    if limits.shape != shape or not (limits[0] <= limits[1]).all():
        raise ValueError(
            f"limit has shape {limits.shape}; pass the lowest and the highest value of each of "
            f"{model.n_outputs} outputs, (2, {model.n_outputs})"
        )
    scale, programs, bound = model.preprocessing.scale, features.programs, None
    said = np.empty((horizon, model.n_outputs))
    for block in advance(programs, [past[begin:]]):
        rows = block.rows[:, -1:, :1].copy()
    for step in range(horizon):
        state = rows[1 + features.known_inputs :, 0].astype(np.float64)
        free = model.readout(features.selected(rows.copy())[:, 0].T.astype(np.float64))[0]
        if not np.isfinite(free).all():
            raise ValueError(
                f"the forecast grew beyond all numbers at step {step}; raise the ridge, or use "
                "a bounded activation such as tanh"
            )
        said[step] = np.clip(free, *limits)
        bound = step if bound is None and (said[step] != free).any() else bound
        if step + 1 < horizon:
            u = said[step : step + 1]
            u = scale(u) if isinstance(scale, Scaler) else u
            (block,) = advance(programs, [features.reservoir.checked(u)], x0=state)
            rows = block.rows[:, -1:, :1]
    if bound is not None:
        warnings.warn(
            f"the closed loop left the range of its training targets at step {bound} of "
            f"{horizon} and was held at the limit; raise the ridge, or forecast fewer steps",
            ForecastLimitWarning,
            stacklevel=2,
        )
    return said


def warm_up(model: Model, warmup: Recording | ArrayLike) -> Array:
    """Return the warm-up's inputs as the map sees them; they must stay in one piece."""
    raw = warmup if isinstance(warmup, Recording) else Recording(as_matrix(warmup, "warm-up"))
    if model.preprocessing.horizon not in (None, 1):
        raise ValueError(
            f"the model looks {model.preprocessing.horizon} steps ahead, a closed loop goes step "
            "by step; train with horizon=1, or take predict's last row as the forecast"
        )
    if model.preprocessing.window is not None or model.preprocessing.scale in ("recording", "own"):
        raise ValueError(
            "a closed loop goes on from one recording, scaled by numbers that stay the same; "
            'train with window=None and scale="federated" or "none"'
        )
    segments = model.preprocessing.inputs([raw])
    if not segments:
        raise ValueError("nothing of the warm-up is left after preparation; pass a longer one")
    return segments[-1].u


def closed_loop_map(model: Model) -> EchoState:
    """Return the map of a model that can be run step by step."""
    if model.preprocessing.looks_around or model.preprocessing.predicted is not None:
        raise ValueError(
            "a closed loop feeds all its inputs back, and the model has inputs that are known "
            "ahead, a calendar, or predicts some channels only; forecast directly, with several "
            "horizons"
        )
    if not model.per_step:
        raise ValueError(
            "these features give one row per recording; forecasts need a row per step, pool=None"
        )
    if not isinstance(model.features, EchoState):
        raise ValueError(
            f"a closed loop needs a map with a state, {name_of(model.features)} has none; "
            "use EchoState, or a direct forecast of several horizons"
        )
    if model.n_outputs != model.features.known_inputs:
        raise ValueError(
            f"the model has {model.n_outputs} outputs, which cannot be the next values of its "
            f"{model.features.known_inputs} inputs; train it with horizon=1, or forecast directly, "
            "with inputs that are known ahead"
        )
    return model.features


@dataclass(frozen=True, eq=False)
class Forecast:
    """What comes after a raw recording, at each of H horizons.

    Parameters
    ----------
    recording
        Number of the raw recording.
    horizons
        (H,) steps ahead.
    values
        (H, K) of the channels that are predicted.
    lower, upper
        (H, K) ends of the intervals; None where the model does not know its error.
    times
        (H,) seconds as the recording counts them, or steps where it has no times.
    epoch
        What its time 0 is, in seconds since 1 January 1970, where dates are known.
    """

    recording: int
    horizons: tuple[int, ...]
    values: Array
    lower: Array | None
    upper: Array | None
    times: Array
    epoch: float | None = None

    def moments(self) -> list[str]:
        """Return the times as text: dates where they are known, else the numbers."""
        if self.epoch is None:
            return [f"{time:g}" for time in self.times]
        first = datetime(1970, 1, 1) + timedelta(seconds=self.epoch)
        return [(first + timedelta(seconds=float(t))).isoformat() for t in self.times]


def forecasts(
    model: Predictor,
    recordings: Sequence[Recording],
    client: str = "",
    *,
    coverage: float = 0.9,
    device: str | None = None,
) -> list[Forecast]:
    """Return what a model says of the time after each raw recording, from its last step.

    Parameters
    ----------
    model
        Trained with a horizon, or several.
    recordings
        Up to now. Of channels that are known ahead they go on for as many rows as the largest
        horizon, with nothing in the other channels.
    coverage
        Probability that an interval holds the true value.

    >>> from catchment import NVAR, Pipeline, Preprocessing, fit
    >>> hours = np.arange(500.0)
    >>> load = Recording(np.sin(hours * np.pi / 12), times=3600 * hours, epoch=0.0)
    >>> lags = NVAR(2, order=1, washout=2)
    >>> model = fit(Pipeline(Preprocessing(horizon=(1, 6)), lags), [load])
    >>> (soon,) = forecasts(model, [load])
    >>> truth = np.sin(np.array([500.0, 505.0]) * np.pi / 12)
    >>> soon.moments(), bool(np.abs(soon.values.ravel() - truth).max() < 0.01)
    (['1970-01-21T20:00:00', '1970-01-22T01:00:00'], True)
    """
    check_ahead(model)
    preprocessing, horizons = model.preprocessing, model.preprocessing.horizons
    rate, K = preprocessing.rate, model.n_outputs // len(horizons)
    for number, recording in enumerate(recordings if preprocessing.known else ()):
        steady = recording if rate is None else resample(recording, rate)
        left = steady.n_steps - preprocessing.n_present(steady)
        if left < max(horizons):
            names = ", ".join(map(str, preprocessing.known))
            raise ValueError(
                f"the model looks at {names} up to {max(horizons)} steps ahead, and recording "
                f"{number} has {left} rows after its last step; add rows with these and nothing "
                "else"
            )
    found: dict[int, Forecast] = {}
    for segment, outputs in model.segments(recordings, client, device=device):
        if not len(outputs):
            continue
        known = model.intervals is not None or model.deviation is not None
        ends = model.interval(outputs[-1:], coverage) if known else ()
        rows: list[Any] = [one.reshape(len(horizons), K) for one in (outputs[-1], *ends)]
        rows += [] if ends else [None, None]
        rows += [_times(model, segment), segment.recording.epoch]
        # The last segment of a recording is the one that ends now.
        found[segment.source] = Forecast(segment.source, horizons, *rows)
    return [found[number] for number in sorted(found)]


def check_ahead(model: Predictor) -> None:
    """Raise ValueError if a model does not look ahead in time."""
    if model.preprocessing.horizon is None:
        raise ValueError(
            "the model predicts targets, not what comes after a recording; train it with a "
            "horizon, Preprocessing(horizon=(1, 6, 24))"
        )
    if model.preprocessing.window is not None and model.preprocessing.label == "mean":
        raise ValueError(
            'the model predicts means over windows, label="mean", and no single step ahead; train '
            'with label="last"'
        )


def _times(model: Predictor, segment: Prepared) -> Array:
    preprocessing, times = model.preprocessing, segment.recording.times
    steps = np.array(preprocessing.horizons, dtype=np.float64)
    if times is None:
        return segment.start + segment.recording.n_steps - 1 + steps
    interval = 1 / preprocessing.rate if preprocessing.rate is not None else 0.0
    if not interval and len(times) > 1:
        interval = float(np.median(np.diff(times)))
    return np.asarray(times[-1] + steps * interval)
