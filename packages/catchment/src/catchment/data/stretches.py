"""Prepare a recording that comes in stretches, without the steps that came before.

What a later stretch needs of earlier ones is kept: the last value of each channel, with which a gap
is filled, and raw steps that wait, for inputs ahead in time, for the first value of a channel, or
for the rest of their window. All else is done with and forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from catchment.arrays import Array
from catchment.data.ahead import inputs_ahead
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.data.windows import cut_windows


@dataclass(frozen=True, eq=False)
class Waiting:
    """Raw steps that wait: inputs (k, I), targets (k, K) if every step has its own.

    `last` (I,) are the values of the channels before them, NaN where there was none. `skip` are
    steps, from the first that waits on, that lie between two windows.
    """

    u: Array
    y: Array
    last: Array
    skip: int = 0

    @classmethod
    def at_first(cls, stretch: Recording) -> Waiting:
        """Return what waits before a recording's first step: nothing."""
        n_targets = stretch.y.shape[-1] if stretch.y is not None and stretch.per_step else 0
        n = stretch.n_inputs
        return cls(np.empty((0, n)), np.empty((0, n_targets)), np.full(n, np.nan))


def check_continuable(prepare: Prepare) -> None:
    """Raise ValueError if a recording in stretches cannot be prepared as one in one piece.

    >>> check_continuable(Prepare(gaps="interpolate"))
    Traceback (most recent call last):
    ValueError: gaps is 'interpolate', ... pass gaps="hold" or "error"
    """
    if prepare.rate is not None:
        raise ValueError(
            f"rate is {prepare.rate:g}, and a recording in stretches is not brought to another "
            "rate; do so before it is handed in, and leave out the rate"
        )
    if prepare.gaps not in ("hold", "error"):
        raise ValueError(
            f"gaps is {prepare.gaps!r}, which looks at steps that are not there yet in a recording "
            'that goes on; pass gaps="hold" or "error"'
        )
    if prepare.scale == "own":
        raise ValueError(
            'scale is "own", which every new stretch would change; pass scale="federated" or "none"'
        )
    if prepare.looks_around:
        raise ValueError(
            "known and calendar put inputs beside the channels, which stretches do not have yet; "
            "leave them out, or hand in whole recordings"
        )
    if isinstance(prepare.window, str) or isinstance(prepare.step, str):
        raise ValueError(
            f"window is {prepare.window!r} and step is {prepare.step!r}; in a recording that goes "
            "on pass numbers of steps"
        )


def prepared_stretch(
    prepare: Prepare, stretch: Recording, waiting: Waiting, *, ends: bool
) -> tuple[list[Recording], Waiting]:
    """Return what is ready of a recording with its next steps, and what waits.

    What is ready are whole windows, or, where recordings are not cut, the next steps as one piece.

    Parameters
    ----------
    stretch
        The next steps; of a recording that ends it may be what waits already.
    waiting
        What earlier stretches have left.
    ends
        Whether nothing follows.

    >>> prepare = Prepare(window=2, scale="none")
    >>> early = Recording([1.0, 2.0, 3.0], [[0.0]] * 3)
    >>> windows, waiting = prepared_stretch(prepare, early, Waiting.at_first(early), ends=False)
    >>> [window.u.ravel().tolist() for window in windows], waiting.u.ravel().tolist()
    ([[1.0, 2.0]], [3.0])
    """
    u = np.concatenate([waiting.u, stretch.u])
    y, n_ready = _targets(prepare, stretch, waiting, u, ends)
    filled = _filled(prepare, u, waiting.last, ends)
    if filled is None:
        return [], Waiting(u, _rows(y, 0), waiting.last, waiting.skip)
    whole = replace(
        stretch, u=filled, y=y, times=None, name="", first_step=0, goes_on=False, per_step=None
    )
    if stretch.per_step is False:
        whole = replace(whole, y=stretch.y, per_step=False)
    ready, following = _pieces(prepare, whole, n_ready, waiting.skip)
    done = min(following, len(u))
    last = _last_values(u[:done], waiting.last)
    return ready, Waiting(u[done:], _rows(y, done), last, following - done)


def _targets(
    prepare: Prepare, stretch: Recording, waiting: Waiting, u: Array, ends: bool
) -> tuple[Array | None, int]:
    """Return the targets (k, K) of raw steps u, None if they have none, and how many are known."""
    if prepare.horizon is None:
        if stretch.y is None or not stretch.per_step:
            return None, len(u)
        return np.concatenate([waiting.y, stretch.y]), len(u)
    if stretch.y is not None:
        raise ValueError(
            f"a recording has targets, and a horizon of {prepare.horizon} steps asks for inputs "
            "ahead in time instead; leave out the targets or the horizon"
        )
    columns = prepare.ahead.predicted_of(stretch.channels or stretch.n_inputs)
    y = inputs_ahead(u[:, columns], prepare.horizons)
    return y, len(u) if ends else max(0, len(u) - max(prepare.horizons))


def _filled(prepare: Prepare, u: Array, last: Array, ends: bool) -> Array | None:
    """Return inputs without gaps, scaled; None while a channel waits for its first value."""
    alone = replace(prepare, window=None, step=None, horizon=None, predicted=None)
    if prepare.gaps == "error":
        return alone.apply([Recording(u)])[0].u
    led = np.vstack([last, u])
    if not ends and np.isnan(led).all(axis=0).any():
        return None
    return alone.apply([Recording(led)])[0].u[1:]


def _pieces(
    prepare: Prepare, whole: Recording, n_ready: int, skip: int
) -> tuple[list[Recording], int]:
    """Return the pieces that are ready, and the first step that is needed after them."""
    window = prepare.window
    if window is None:
        return ([whole.part(0, n_ready)] if n_ready else []), n_ready
    step = prepare.step or window
    assert isinstance(window, int)  # `check_continuable` has refused durations
    assert isinstance(step, int)
    if n_ready < skip + window:
        return [], skip
    part = whole.part(skip, n_ready)
    windows = [piece for _, piece in cut_windows(part, window, step, prepare.label)]
    return windows, skip + step * len(windows)


def _last_values(u: Array, last: Array) -> Array:
    """Return the last value (I,) of each channel that is known, those before u if none is."""
    found = last.copy()
    for channel in range(u.shape[1]):
        known = np.flatnonzero(~np.isnan(u[:, channel]))
        if len(known):
            found[channel] = u[known[-1], channel]
    return found


def _rows(y: Array | None, first: int) -> Array:
    return np.empty((0, 0)) if y is None else y[first:]
