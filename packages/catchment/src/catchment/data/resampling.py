"""Recordings at a steady rate, from steps at whatever times they were taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from catchment.arrays import Array, Booleans, Integers
from catchment.data.recording import Recording

MAX_GAP = 2.5  # intervals, of the recording or of the new rate, whichever is longer
_NEAR = 1e-3  # of an interval: steps that lie so near the grid lie on it
_MAX_GROWTH = 1000
_ALWAYS_ALLOWED = 1_000_000  # steps


def resample(recording: Recording, rate: float) -> Recording:
    """Return the recording with `rate` steps per second, from its first step on.

    Inputs and numeric targets per step are interpolated linearly, each column between those of its
    values that are known. Where these are more than 2.5 intervals apart (the column's median
    interval, or that of the new rate if it is longer) the result is missing, for the gap policy to
    treat. Classes per step are those of the nearest step. A recording that has the rate already,
    to a thousandth of an interval, is returned as it is. There is no filter: what is faster than
    half the new rate shows as something slower.

    >>> slow = Recording([0.0, 1.0, 4.0], times=[10.0, 11.0, 12.0])
    >>> fast = resample(slow, 2.0)
    >>> fast.u.ravel().tolist(), fast.times.tolist()
    ([0.0, 0.5, 1.0, 2.5, 4.0], [10.0, 10.5, 11.0, 11.5, 12.0])
    """
    if recording.times is None:
        raise ValueError(
            f"a recording of {recording.n_steps} steps has no times, so it cannot be brought to "
            f"{rate:g} Hz; name its time column, pass times=, or leave the rate out"
        )
    place: Array = (recording.times - recording.times[0]) * rate
    if np.abs(place - np.arange(len(place))).max() <= _NEAR:
        return recording
    n_steps = int(min(np.floor(place[-1] + _NEAR) + 1, 2.0**62))
    if n_steps > max(_ALWAYS_ALLOWED, _MAX_GROWTH * len(place)):
        raise ValueError(
            f"a recording of {len(place)} steps over {place[-1] / rate:g} s would have {n_steps} "
            f"steps at {rate:g} Hz; check that its times are seconds, or cut it at long gaps"
        )
    y = recording.y
    if y is not None and recording.per_step:
        y = _nearest(place, y, n_steps) if are_classes(y) else _lines(place, y, n_steps)
    return replace(
        recording,
        u=_lines(place, recording.u, n_steps),
        y=y,
        times=recording.times[0] + np.arange(n_steps) / rate,
    )


def are_classes(y: Array) -> bool:
    """Return whether the known rows (n, K) are one-hot, with at least two classes.

    >>> are_classes(np.array([[0.0, 1.0], [np.nan, np.nan]])), are_classes(np.array([[0.5, 0.5]]))
    (True, False)
    """
    known = y[~np.isnan(y).any(axis=1)]
    is_one = known == 1.0
    return bool(
        y.shape[1] >= 2
        and len(known)
        and (is_one | (known == 0.0)).all()
        and (is_one.sum(axis=1) == 1).all()
    )


def _lines(place: Array, columns: Array, n_steps: int) -> Array:
    return np.stack([_line(place, column, n_steps) for column in columns.T], axis=1)


def _line(place: Array, values: Array, n_steps: int) -> Array:
    """Return one column on the grid 0, 1, ...; `place` is where its values are."""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(n_steps, np.nan)
    place, values = place[known], values[known]
    grid = np.arange(float(n_steps))
    nearest, apart = _neighbours(place, grid)
    line: Array = np.interp(grid, place, values)
    line[apart] = np.nan
    hit = np.abs(place[nearest] - grid) <= _NEAR
    line[hit] = values[nearest[hit]]
    return line


def _nearest(place: Array, rows: Array, n_steps: int) -> Array:
    grid = np.arange(float(n_steps))
    nearest, apart = _neighbours(place, grid)
    taken: Array = rows[nearest]
    taken[apart & (np.abs(place[nearest] - grid) > _NEAR)] = np.nan
    return taken


def _neighbours(place: Array, grid: Array) -> tuple[Integers, Booleans]:
    """Return the nearest place to each point, and whether those around it are too far apart."""
    right = np.searchsorted(place, grid)
    inside = (right > 0) & (right < len(place))
    after = np.minimum(right, len(place) - 1)
    before = np.maximum(right - 1, 0)
    nearest = np.where(place[after] - grid < grid - place[before], after, before)
    nearest = np.where(inside, nearest, np.where(right == 0, 0, len(place) - 1))
    interval = float(np.median(np.diff(place))) if len(place) > 1 else 0.0
    # The slack is for intervals that differ by rounding.
    far = place[after] - place[before] > MAX_GAP * max(interval, 1.0) * (1 + 1e-9)
    return nearest, ~inside | far
