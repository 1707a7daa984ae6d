"""Series against another solver, a closed form, or a law that they keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from catchment import Array
from catchment_research import known_series


def solved(slope: Callable[..., Any], series: Array, step: float) -> Array:
    """Return the path from the first point of a series by an adaptive solver."""
    times = step * np.arange(len(series))
    options: dict[str, Any] = {"t_eval": times, "rtol": 1e-11, "atol": 1e-12, "method": "DOP853"}
    found: Array = solve_ivp(slope, (0, times[-1]), series[0], **options).y.T
    return found


def lorenz_slope(t: float, p: Array) -> list[float]:
    x, y, z = p
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


def rossler_slope(t: float, p: Array) -> list[float]:
    return [-p[1] - p[2], p[0] + 0.2 * p[1], 0.2 + p[2] * (p[0] - 5.7)]


def chen_slope(t: float, p: Array) -> list[float]:
    x, y, z = p
    return [40 * (y - x), -12 * x - x * z + 28 * y, x * y - 3 * z]


def ring_slope(t: float, x: Array) -> list[float]:
    n = len(x)
    return [(x[(i + 1) % n] - x[i - 2]) * x[i - 1] - x[i] + 8 for i in range(n)]


@pytest.mark.parametrize(
    ("series", "slope", "step"),
    [
        (known_series("lorenz", 60, seed=1), lorenz_slope, 0.02),
        (known_series("rossler", 30, seed=1), rossler_slope, 0.1),
        (known_series("double_scroll", 30, seed=1), chen_slope, 0.01),
        (known_series("lorenz96", 60, dimension=7, seed=1), ring_slope, 0.01),
    ],
    ids=["lorenz", "rossler", "double scroll", "lorenz96"],
)
def test_a_flow_is_that_of_another_solver(
    series: Array, slope: Callable[..., Any], step: float
) -> None:
    assert np.ptp(series, axis=0).min() > 0.1
    assert np.abs(solved(slope, series, step) - series).max() < 1e-4 * np.abs(series).max()


def test_waves_of_a_ring_are_those_of_another_solver() -> None:
    series = known_series("kuramoto_sivashinsky", 9, dimension=32, seed=1)
    q = 2 * np.pi / 22 * np.arange(17)

    def slope(t: float, u: Array) -> Array:
        v = np.fft.rfft(u)
        moved: Array = np.fft.irfft((q**2 - q**4) * v - 0.5j * q * np.fft.rfft(u**2), 32)
        return moved

    times = 0.25 * np.arange(9)
    options: dict[str, Any] = {"t_eval": times, "rtol": 1e-9, "atol": 1e-10, "method": "LSODA"}
    again = solve_ivp(slope, (0, 2), series[0], **options).y.T
    assert np.abs(series).max() > 1
    assert np.abs(again - series).max() < 1e-3


def test_the_logistic_map_keeps_its_law() -> None:
    x = known_series("logistic", 50, seed=1).ravel()
    assert np.array_equal(x[1:], 3.9 * x[:-1] * (1 - x[:-1]))
    assert 0.5 < np.ptp(x) < 1


def test_two_sines_keep_their_linear_law() -> None:
    y = known_series("multiple_sines", 200).ravel()
    a, b = np.cos([0.2, 0.311])
    left = y[4:] + y[:-4] - 2 * (a + b) * (y[3:-1] + y[1:-3]) + (2 + 4 * a * b) * y[2:-2]
    assert np.abs(left).max() < 1e-12


def test_seeds_name_series_and_lengths_are_checked() -> None:
    chaotic: Any = (
        "lorenz",
        "rossler",
        "double_scroll",
        "lorenz96",
        "kuramoto_sivashinsky",
        "logistic",
    )
    for name in chaotic:
        one, same, other = (known_series(name, 5, seed=seed) for seed in (1, 1, 2))
        assert np.array_equal(one, same)
        assert not np.allclose(one, other)


@pytest.mark.parametrize(
    ("name", "n_steps", "dimension", "said"),
    [
        ("rossler", 0, None, "n_steps is 0"),
        ("logistic", 5, 2, "dimension 2"),
        ("lorenz96", 5, 3, "dimension is 3"),
        ("sunspots", 310, None, "there are 309"),
        ("henon", 5, None, "no series is called 'henon'; use lorenz"),
    ],
)
def test_what_there_is_not_is_refused(
    name: Any, n_steps: int, dimension: int | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        known_series(name, n_steps, dimension=dimension)
