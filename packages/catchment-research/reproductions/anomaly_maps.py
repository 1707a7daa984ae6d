"""Feature rows for detectors of anomalies: inputs, what they were, reservoirs, errors of forecasts.

Every family is a list of options; which of them is used, other recordings decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import lfilter

from catchment import NVAR, Array, EchoState, WindowStatistics
from catchment.features import FeatureMap
from reproductions.streams_maps import Lags

Make = Callable[[Sequence[Array], int], list[Array]]  # inputs (T, I) of each, and a seed
FORECAST_RIDGE = 1e-2  # times the rows
MEMORY = 50  # first steps that a map with a memory does not learn from


@dataclass(frozen=True)
class Option:
    """Rows (T, F) of inputs (T, I), how many first steps give none to learn from, and a name."""

    name: str
    make: Make
    washout: int = 0
    errors: bool = False  # whether rows are regressors, whose forecast of the next inputs is judged
    drawn: bool = False  # whether a seed makes a difference


def of_map(describe: Callable[[int], FeatureMap]) -> Make:
    """Return what makes rows by a map of the library with a row for every step."""

    def make(inputs: Sequence[Array], seed: int) -> list[Array]:
        built = describe(seed).build(inputs[0].shape[1], per_step=True)
        return built.rows(list(inputs))

    return make


def trailing_means(rate: float) -> Make:
    """Return what makes exponential means of the inputs, m_t = (1 - rate) m_t-1 + rate u_t."""

    def make(inputs: Sequence[Array], seed: int) -> list[Array]:
        return [exponential(u, rate) for u in inputs]

    return make


def less_drift(rate: float) -> Make:
    """Return what takes a slow exponential mean off the inputs."""

    def make(inputs: Sequence[Array], seed: int) -> list[Array]:
        return [u - exponential(u, rate) for u in inputs]

    return make


def exponential(u: Array, rate: float) -> Array:
    """Return the exponential means (T, I) of inputs, the first step's being the first input.

    >>> exponential(np.array([[0.0], [4.0], [4.0]]), 0.5).ravel()
    array([0., 2., 3.])
    """
    start = (1 - rate) * u[:1]
    return np.asarray(lfilter([rate], [1.0, rate - 1.0], u, axis=0, zi=start)[0])


def window_statistics(steps: int) -> Make:
    """Return what makes statistics of the last so many steps, for each step."""

    def make(inputs: Sequence[Array], seed: int) -> list[Array]:
        built = WindowStatistics(bits=None, range=64.0).build(inputs[0].shape[1], per_step=False)
        found = []
        for u in inputs:
            padded = np.concatenate([np.repeat(u[:1], steps - 1, axis=0), u])
            windows = sliding_window_view(padded, steps, axis=0).transpose(0, 2, 1)
            found.append(np.concatenate(built.rows(list(np.ascontiguousarray(windows)))))
        return found

    return make


def _reservoir(units: int, leak: float | None, scaling: float) -> Make:
    def describe(seed: int) -> EchoState:
        if leak is None:
            return EchoState(units, seed=seed, bias=False)
        return EchoState(units, seed=seed, leak_rate=leak, input_scaling=scaling, bias=False)

    return of_map(describe)


def _lags(n: int, stride: int = 1) -> Make:
    return of_map(lambda seed: Lags(n, stride=stride, bits=None))


def _inputs(inputs: Sequence[Array], seed: int) -> list[Array]:
    return list(inputs)


_LAGS = _lags(5)
_LAGS_8 = _lags(8)

SKAB_FAMILIES: dict[str, tuple[Option, ...]] = {
    "inputs": (Option("inputs", _inputs),),
    "inputs, drift taken off": tuple(
        Option(f"mean of rate 1/{n} off", less_drift(1 / n), MEMORY) for n in (128, 512)
    ),
    "lags": tuple(Option(f"5, stride {s}", _lags(5, s), MEMORY) for s in (1, 5)),
    "quadratic lags (NVAR)": (
        Option("2 delays", of_map(lambda seed: NVAR(delays=2, bits=None)), MEMORY),
    ),
    "trailing means": tuple(Option(f"rate 1/{n}", trailing_means(1 / n), MEMORY) for n in (8, 32)),
    "window statistics": (Option("64 steps", window_statistics(64), 64),),
    "reservoir": tuple(
        Option(f"100 units, leak {a}", _reservoir(100, a, 0.5), MEMORY, drawn=True)
        for a in (0.3, 0.1, 0.03)
    ),
    "forecast errors, lags": (Option("5 lags", _LAGS, MEMORY, errors=True),),
    "forecast errors, reservoir": (
        Option("100 units", _reservoir(100, None, 0.0), MEMORY, errors=True, drawn=True),
    ),
}

NAB_FAMILIES: dict[str, tuple[Option, ...]] = {
    "inputs": (Option("inputs", _inputs),),
    "lags": (Option("8 lags", _LAGS_8, MEMORY),),
    "trailing means": tuple(Option(f"rate 1/{n}", trailing_means(1 / n), MEMORY) for n in (8, 32)),
    "reservoir": (Option("50 units", _reservoir(50, None, 0.0), MEMORY, drawn=True),),
    "forecast errors, lags": (Option("8 lags", _LAGS_8, MEMORY, errors=True),),
}
