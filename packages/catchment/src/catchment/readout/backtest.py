"""Closed-loop forecasts from many places of one series at once, to be compared with what came.

The series is run through once; from each origin its own loop goes on, all of them side by side. On
one core that is about twenty times as fast as one loop after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.data.scaling import Scaler
from catchment.features.echo_state.echo_state import EchoStateMap
from catchment.features.echo_state.run import advance
from catchment.readout.forecast import closed_loop_limits, closed_loop_map, warm_up
from catchment.readout.model import Model

LANES = 64  # loops side by side


def backtest(model: Model, series: Array, origins: Sequence[int], horizon: int) -> Array:
    """Return the forecasts (n, horizon, K) that the model makes from each of n origins.

    Parameters
    ----------
    model
        Trained to predict, at each step, the first K inputs of the next one; features per step.
    series
        (T, I) raw inputs. Those after the K first are known in the future, and taken from here.
    origins
        (n,) how many steps of the series are known, each more than the washout; origin + horizon
        is at most T + 1.
    horizon
        Number of steps to go on.

    >>> from catchment import EchoState, fit
    >>> s = np.sin(np.arange(400) / 10)[:, None]
    >>> model = fit(EchoState(50, washout=20), [Recording(s[:-1], s[1:])])
    >>> np.abs(backtest(model, s, [200, 300], 50)[1] - s[300:350]).max() < 0.05
    np.True_
    """
    at = np.asarray(origins)
    filled = closed_loop_map(model).checked(warm_up(model, Recording(series)), "series")
    parts = [at[first : first + LANES] for first in range(0, len(at), LANES)]
    return np.concatenate([_loops(model, filled, part, horizon) for part in parts])


def _loops(model: Model, filled: Array, at: NDArray[np.int_], horizon: int) -> Array:
    features, (lowest, highest) = closed_loop_map(model), closed_loop_limits(model)
    scale, K = model.prepare.scale, model.n_outputs
    z, x = _at(features, filled, at)
    out = np.empty((len(at), horizon, K))
    for step in range(horizon):
        out[:, step] = np.clip(model.readout(z), lowest, highest)
        if step + 1 < horizon:
            scaled = filled[at + step].copy()
            scaled[:, :K] = _scaled(out[:, step], scale, K)
            z, x = _onwards(features, features.reservoir.checked(scaled), x)
    return out


def _scaled(values: Array, scale: object, K: int) -> Array:
    """Return predictions (n, K) as the map sees them."""
    if not isinstance(scale, Scaler):
        return values
    return (values - scale.mean[:K]) / scale.scale[:K]


def _at(features: EchoStateMap, u: Array, at: NDArray[np.int_]) -> tuple[Array, Array]:
    """Return features (n, F) and states (N, n) after the first `at` steps of inputs (T, I)."""
    rows = np.concatenate(
        [block.rows[:, :, :1].copy() for block in advance(features.programs, [u[: at.max()]])],
        axis=1,
    )
    return _of(features, rows[:, at - 1, 0][:, None, :])


def _onwards(features: EchoStateMap, u: Array, x: Array) -> tuple[Array, Array]:
    """Return features (n, F) and states (N, n) one step of inputs (n, I) after states (N, n)."""
    (block,) = advance(features.programs, [one[None] for one in u], x0=x)
    return _of(features, block.rows[:, -1:, : len(u)])


def _of(features: EchoStateMap, rows: NDArray[np.floating[Any]]) -> tuple[Array, Array]:
    state = rows[1 + features.n_inputs :, 0].astype(np.float64)
    return features.selected(rows.copy())[:, 0].T.astype(np.float64), state
