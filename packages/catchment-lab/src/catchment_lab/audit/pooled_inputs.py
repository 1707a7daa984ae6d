"""A raw window from its pooled features: fewer unknowns than features are solved for."""

from __future__ import annotations

import numpy as np

from catchment import Array
from catchment_lab.audit.differentiable_reservoir import Drive
from catchment_lab.audit.least_squares import minimise


def solvable(drive: Drive, steps: int) -> bool:
    """Return whether a window of this length has no more numbers than its pooled features."""
    return steps * drive.features.reservoir.n_inputs <= drive.features.n_features


def window_of(
    pooled: Array, drive: Drive, steps: int, *, input_scale: float = 1.0, guesses: int = 4
) -> tuple[Array, float]:
    """Return a window (T, I) with these pooled features (F,), and how far its own are from them.

    Parameters
    ----------
    pooled
        (F,) for instance the mean of a class with one window.
    steps
        T, which a plan usually tells.
    input_scale
        Guess at the size of inputs; starting points are drawn from it.
    guesses
        Starting points; the best end is returned.
    """
    rng = np.random.default_rng(0)
    I = drive.features.reservoir.n_inputs

    def residual(flat: Array) -> tuple[Array, Array]:
        row, by_input = drive.window(flat.reshape(steps, I))
        return row[1:] - pooled, by_input[1:]

    best, least = np.zeros(steps * I), np.inf
    for guess in range(guesses):
        start = input_scale * rng.normal(size=steps * I) * (0.1 if guess == 0 else 1.0)
        found, cost = minimise(residual, start, steps=150)
        if cost < least:
            best, least = found, cost
        if least < 1e-20 * float(pooled @ pooled):
            break
    return best.reshape(steps, I), float(np.sqrt(least))
