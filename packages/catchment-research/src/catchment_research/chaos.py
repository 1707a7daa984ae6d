"""Series by which reservoirs are compared: chaotic flows, a map, a partial differential equation.

    lorenz                x' = 10 (y - x), y' = x (28 - z) - y, z' = x y - 8/3 z      (Lorenz, 1963)
    rossler               x' = -y - z, y' = x + .2 y, z' = .2 + z (x - 5.7)   (Phys. Lett. A, 1976)
    double_scroll         x' = 40 (y - x), y' = -12 x - x z + 28 y, z' = x y - 3 z     (Chen, 1999)
    lorenz96              x_i' = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + 8 on a ring     (Lorenz, 1996)
    kuramoto_sivashinsky  u_t = -u u_x - u_xx - u_xxxx on a ring of length 22
    logistic              x <- 3.9 x (1 - x)
    multiple_sines        the sum of sin(f t), the MSO task
    sunspots              a real one: yearly numbers, US National Geophysical Data Center

The flows go by Runge-Kutta of order 4, Kuramoto-Sivashinsky by its exponential form (Kassam and
Trefethen, SIAM J. Sci. Comput. 2005), whose Fourier transforms are not the same to the last bit on
every machine; the others are, and so are NARMA and Mackey-Glass, which `catchment.data` has.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from catchment import Array
from catchment.data import seeded_generator

Name = Literal[
    "lorenz",
    "rossler",
    "double_scroll",
    "lorenz96",
    "kuramoto_sivashinsky",
    "logistic",
    "multiple_sines",
    "sunspots",
]
Waves = NDArray[np.complex128]
SINES = (0.2, 0.311, 0.42, 0.51, 0.63, 0.74, 0.85, 0.97)
COLUMNS = {"lorenz96": 36, "kuramoto_sivashinsky": 64, "multiple_sines": 2}
CIRCLE = 32  # points of the contour integrals that make the exponential form's coefficients
WARM_UP, STEP = 1000, 0.25  # of the waves: steps left out, and time between two


def known_series(name: Name, n_steps: int, *, dimension: int | None = None, seed: int = 0) -> Array:
    """Return the first steps (T, dimension) of a series that reservoirs are compared by.

    Parameters
    ----------
    dimension
        Places of "lorenz96" (36) or "kuramoto_sivashinsky" (64), or how many of the eight sines
        are summed (2). The other series have one each.
    seed
        Names the start of a chaotic one.

    >>> known_series("rossler", 200).shape, known_series("lorenz96", 200, dimension=5).shape
    ((200, 3), (200, 5))
    >>> known_series("sunspots", 309)[:3].ravel()
    array([ 5., 11., 16.])
    """
    if name not in get_args(Name):
        raise ValueError(f"no series is called {name!r}; use {', '.join(get_args(Name))}")
    if n_steps < 1 or (dimension is not None and name not in COLUMNS):
        raise ValueError(
            f"n_steps is {n_steps} and dimension {dimension}; pass at least 1 step, and a "
            f"dimension for {', '.join(COLUMNS)} only"
        )
    n = dimension or COLUMNS.get(name, 3)
    drawn = seeded_generator(seed).uniform(-1, 1, n)
    match name:
        case "lorenz":
            near = 10.0 * seeded_generator(seed).random(3) - 5.0 + np.array([0.0, 0.0, 25.0])
            return orbit(_lorenz, near, n_steps, step=0.02, substeps=2, warm_up=1000)
        case "rossler":
            return orbit(_rossler, drawn, n_steps, step=0.1)
        case "double_scroll":
            return orbit(_chen, np.array([-0.1, 0.5, -0.6]) + 0.1 * drawn, n_steps)
        case "lorenz96":
            if n < 4:
                raise ValueError(f"dimension is {n}; a place has three others beside it: pass 4")
            return orbit(_ring, 8 + 0.01 * drawn, n_steps, substeps=1, warm_up=1000)
        case "kuramoto_sivashinsky":
            return _waves(0.1 * drawn, n_steps)
        case "logistic":
            found = [0.5 + 0.4 * drawn[0]]
            for _ in range(n_steps - 1):
                found.append(3.9 * found[-1] * (1 - found[-1]))
            return np.array(found)[:, None]
        case "multiple_sines":
            summed: Array = np.sin(np.outer(np.arange(n_steps), SINES[:n])).sum(1, keepdims=True)
            return summed
        case "sunspots":
            text = (files("catchment_research") / "yearly_sunspots.csv").read_text("utf-8")
            years = np.array([float(line.split(",")[1]) for line in text.split()[1:]])[:, None]
            if n_steps > len(years):
                raise ValueError(f"n_steps is {n_steps}; there are {len(years)}, from 1700 to 2008")
            return years[:n_steps]


def orbit(
    slope: Callable[[Array], Array],
    start: Array,
    n_steps: int,
    *,
    step: float = 0.01,
    substeps: int = 4,
    warm_up: int = 500,
) -> Array:
    """Return the points (T, n) of a flow from its start (n,) on, by Runge-Kutta of order 4.

    They are a `step` apart, in which there are `substeps`; the first `warm_up` are left out.

    >>> orbit(lambda p: -p, np.ones(1), 3, step=1.0, warm_up=0).round(3).ravel()
    array([1.   , 0.368, 0.135])
    """
    h, p, points = step / substeps, start, [start]
    for _ in range(warm_up + n_steps - 1):
        for _ in range(substeps):
            k1 = slope(p)
            k2 = slope(p + 0.5 * h * k1)
            k3 = slope(p + 0.5 * h * k2)
            k4 = slope(p + h * k3)
            p = p + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        points.append(p)
    return np.array(points[warm_up:])


def _lorenz(p: Array) -> Array:
    x, y, z = p.tolist()
    return np.array([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])


def _rossler(p: Array) -> Array:
    x, y, z = p
    return np.array([-y - z, x + 0.2 * y, 0.2 + z * (x - 5.7)])


def _chen(p: Array) -> Array:
    x, y, z = p
    return np.array([40 * (y - x), -12 * x - x * z + 28 * y, x * y - 3 * z])


def _ring(x: Array) -> Array:
    return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + 8


def _waves(start: Array, n_steps: int) -> Array:
    """Return a solution (T, points) from values (points,) on; their mean goes."""
    points = len(start)
    q = 2 * np.pi / 22 * np.arange(points // 2 + 1)
    linear = q**2 - q**4
    turned = STEP * linear[:, None] + np.exp(1j * np.pi * (np.arange(CIRCLE) + 0.5) / CIRCLE)
    e, cube = np.exp(turned), turned**3
    half, whole = np.exp(0.5 * STEP * linear), np.exp(STEP * linear)
    middle = STEP * ((np.exp(turned / 2) - 1) / turned).mean(1).real
    first = STEP * ((-4 - turned + e * (4 - 3 * turned + turned**2)) / cube).mean(1).real
    second = STEP * ((2 + turned + e * (turned - 2)) / cube).mean(1).real
    third = STEP * ((-4 - 3 * turned - turned**2 + e * (4 - turned)) / cube).mean(1).real

    def bend(v: Waves) -> Waves:
        return -0.5j * q * np.fft.rfft(np.fft.irfft(v, points) ** 2)

    v = np.fft.rfft(start - np.mean(start))
    rows = [v]
    for _ in range(WARM_UP + n_steps - 1):
        at_start = bend(v)
        a = half * v + middle * at_start
        at_a = bend(a)
        at_b = bend(half * v + middle * at_a)
        at_c = bend(half * a + middle * (2 * at_b - at_start))
        v = whole * v + first * at_start + 2 * second * (at_a + at_b) + third * at_c
        rows.append(v)
    return np.fft.irfft(np.array(rows[WARM_UP:]), points)
