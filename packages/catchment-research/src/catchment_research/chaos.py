"""Series by which reservoirs are compared: chaotic flows, a map, a partial differential equation.

    rossler               x' = -y - z, y' = x + a y, z' = b + z (x - c)      (Phys. Lett. A, 1976)
    double_scroll         x' = a (y - x), y' = (c - a) x - x z + c y, z' = x y - b z   (Chen, 1999)
    lorenz96              x_i' = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + F on a ring (Lorenz, 1996)
    kuramoto_sivashinsky  u_t = -u u_x - u_xx - u_xxxx on a ring
    logistic              x <- r x (1 - x)
    multiple_sines        the sum of sin(f t), the MSO task
    sunspots              a real one: yearly numbers, US National Geophysical Data Center

The flows go by Runge-Kutta of order 4, Kuramoto-Sivashinsky by its exponential form (Kassam and
Trefethen, SIAM J. Sci. Comput. 2005), whose Fourier transforms are not the same to the last bit on
every machine; `catchment.data` has NARMA, Mackey-Glass and Lorenz, which are.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from catchment import Array
from catchment.data import orbit, seeded_generator

Waves = NDArray[np.complex128]
SINES = (0.2, 0.311, 0.42, 0.51, 0.63, 0.74, 0.85, 0.97)
CIRCLE = 32  # points of the contour integrals that make the exponential form's coefficients


class Integration(TypedDict, total=False):
    """How a flow is followed, as `catchment.data.orbit` says: 0.01, 4 and 500 if not given."""

    step: float
    substeps: int
    warm_up: int


ROSSLER: Integration = {"step": 0.1}
RING: Integration = {"substeps": 1, "warm_up": 1000}


def rossler(
    n_steps: int,
    *,
    a: float = 0.2,
    b: float = 0.2,
    c: float = 5.7,
    seed: int = 0,
    **how: Unpack[Integration],
) -> Array:
    """Return a Rössler trajectory (T, 3).

    Parameters
    ----------
    seed
        Names the start.
    step, substeps, warm_up
        Time between two points (0.1), steps of integration within it (4), points left out (500).

    >>> rossler(200).shape
    (200, 3)
    """

    def slope(p: Array) -> Array:
        x, y, z = p
        return np.array([-y - z, x + a * y, b + z * (x - c)])

    return orbit(slope, _drawn(seed, 3), n_steps, **(ROSSLER | how))


def double_scroll(
    n_steps: int,
    *,
    a: float = 40.0,
    b: float = 3.0,
    c: float = 28.0,
    seed: int = 0,
    **how: Unpack[Integration],
) -> Array:
    """Return a trajectory (T, 3) of Chen's attractor; parameters are those of `rossler`.

    >>> double_scroll(200).shape
    (200, 3)
    """

    def slope(p: Array) -> Array:
        x, y, z = p
        return np.array([a * (y - x), (c - a) * x - x * z + c * y, x * y - b * z])

    start = np.array([-0.1, 0.5, -0.6]) + 0.1 * _drawn(seed, 3)
    return orbit(slope, start, n_steps, **how)


def lorenz96(
    n_steps: int,
    *,
    dimension: int = 36,
    forcing: float = 8.0,
    seed: int = 0,
    **how: Unpack[Integration],
) -> Array:
    """Return a trajectory (T, dimension) of Lorenz's ring; parameters are those of `rossler`.

    >>> lorenz96(200, dimension=5).shape
    (200, 5)
    """
    if dimension < 4:
        raise ValueError(f"dimension is {dimension}; a place has three others beside it: pass 4")

    def slope(x: Array) -> Array:
        moved: Array = (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + forcing
        return moved

    start = forcing + 0.01 * _drawn(seed, dimension)
    return orbit(slope, start, n_steps, **(RING | how))


def _drawn(seed: int, n: int) -> Array:
    return seeded_generator(seed).uniform(-1, 1, n)


def kuramoto_sivashinsky(
    n_steps: int,
    *,
    points: int = 64,
    length: float = 22.0,
    step: float = 0.25,
    start: Array | None = None,
    seed: int = 0,
    warm_up: int = 1000,
) -> Array:
    """Return a solution (T, points) on a ring of a length, a row per step of integration.

    Parameters
    ----------
    start
        The values (points,) at time 0; small and drawn by the seed if not given. Their mean goes.

    >>> kuramoto_sivashinsky(50).shape
    (50, 64)
    """
    if start is None:
        start = 0.1 * _drawn(seed, points)
    q = 2 * np.pi / length * np.arange(points // 2 + 1)
    linear = q**2 - q**4
    turned = step * linear[:, None] + np.exp(1j * np.pi * (np.arange(CIRCLE) + 0.5) / CIRCLE)
    e, cube = np.exp(turned), turned**3
    half, whole = np.exp(0.5 * step * linear), np.exp(step * linear)
    middle = step * ((np.exp(turned / 2) - 1) / turned).mean(1).real
    first = step * ((-4 - turned + e * (4 - 3 * turned + turned**2)) / cube).mean(1).real
    second = step * ((2 + turned + e * (turned - 2)) / cube).mean(1).real
    third = step * ((-4 - 3 * turned - turned**2 + e * (4 - turned)) / cube).mean(1).real

    def bend(v: Waves) -> Waves:
        made: Waves = -0.5j * q * np.fft.rfft(np.fft.irfft(v, points) ** 2)
        return made

    v = np.fft.rfft(start - np.mean(start))
    rows = [v]
    for _ in range(warm_up + n_steps - 1):
        at_start = bend(v)
        a = half * v + middle * at_start
        at_a = bend(a)
        at_b = bend(half * v + middle * at_a)
        at_c = bend(half * a + middle * (2 * at_b - at_start))
        v = whole * v + first * at_start + 2 * second * (at_a + at_b) + third * at_c
        rows.append(v)
    return np.fft.irfft(np.array(rows[warm_up:]), points)


def logistic(n_steps: int, *, rate: float = 3.9, start: float = 0.5) -> Array:
    """Return a series (T, 1) of the logistic map.

    >>> logistic(3, rate=2.0, start=0.25).ravel()
    array([0.25   , 0.375  , 0.46875])
    """
    if not (0 < rate <= 4 and 0 < start < 1):
        raise ValueError(f"rate is {rate} and start {start}; pass up to 4, and between 0 and 1")
    found = [start]
    for _ in range(n_steps - 1):
        found.append(rate * found[-1] * (1 - found[-1]))
    return np.array(found)[:, None]


def multiple_sines(n_steps: int, *, frequencies: Sequence[float] = SINES[:2]) -> Array:
    """Return a sum of sines (T, 1), the multiple superimposed oscillators; `SINES` has eight.

    >>> multiple_sines(2, frequencies=(0.5,)).ravel().round(6)
    array([0.      , 0.479426])
    """
    summed: Array = np.sin(np.outer(np.arange(n_steps), frequencies)).sum(axis=1, keepdims=True)
    return summed


def sunspots() -> Array:
    """Return the yearly sunspot numbers (309, 1) from 1700 to 2008, which are in the public domain.

    >>> sunspots()[:3].ravel()
    array([ 5., 11., 16.])
    """
    text = files("catchment_research").joinpath("yearly_sunspots.csv").read_text()
    return np.array([float(line.split(",")[1]) for line in text.split()[1:]])[:, None]
