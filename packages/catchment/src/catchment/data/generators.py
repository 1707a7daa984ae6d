"""Synthetic series with known laws: NARMA, Mackey-Glass, Lorenz and Hénon.

NARMA of order 10 and 30 (Atiya and Parlos, IEEE Trans. Neural Networks 2000), with u uniform on
[0, 0.5]:

    y(t+1) = a y(t) + b y(t) sum_{i<order} y(t-i) + 1.5 u(t-order+1) u(t) + c

where (a, b, c) is (0.3, 0.05, 0.1) for order 10 and (0.2, 0.04, 0.001) for order 30. Mackey-Glass
(Science 1977): x' = 0.2 x(t-tau) / (1 + x(t-tau)^10) - 0.1 x. Lorenz (J. Atmos. Sci. 1963) and
Hénon (Commun. Math. Phys. 1976) with their usual constants.

Only additions, multiplications and divisions of Python floats are used, so that a chaotic series
is the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from catchment.arrays import Array, as_matrix
from catchment.data.recording import Recording

_NARMA = {10: (0.3, 0.05, 0.1), 30: (0.2, 0.04, 0.001)}
# In ten million steps no series that stayed bounded went above 1.3; once above 2 the quadratic
# term feeds itself.
_NARMA_LIMIT = 2.0

_Point = tuple[float, float, float]


def seeded_generator(*seed: int) -> np.random.Generator:
    """Return the counter-based generator that belongs to one or more non-negative integers.

    >>> float(seeded_generator(1, 2).random()) == float(seeded_generator(1, 2).random())
    True
    """
    for number in seed:
        if number < 0:
            raise ValueError(f"seed is {number}; pass an integer that is not negative")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))


def narma(n_steps: int, *, order: int = 10, seed: int = 0, warm_up: int = 200) -> Recording:
    """Return the NARMA task: inputs (T, 1) and, at step t, the output y(t+1) they lead to, (T, 1).

    About six times in a million steps of order 10 (one in five million of order 30) the inputs
    drive y out of its basin and it would grow without bound. The last 4 * order inputs are then
    drawn again, so y stays below 2, the law above holds at every step, and any length can be had.

    Parameters
    ----------
    n_steps
        T, the number of steps returned.
    order
        10 or 30.
    seed
        Names the inputs.
    warm_up
        Steps simulated and left out before the first one returned.

    >>> task = narma(1000, seed=3)
    >>> task.u.shape, task.y.shape, bool(task.y.max() < 2.0)
    ((1000, 1), (1000, 1), True)
    """
    if order not in _NARMA:
        raise ValueError(f"order is {order}; pass 10 or 30")
    _refuse_length(n_steps, warm_up)
    a, b, c = _NARMA[order]
    rng = seeded_generator(seed)
    total = warm_up + n_steps
    # The recursion starts from `order` steps at rest, which are cut off again below.
    u = [0.0] * (order - 1) + (0.5 * rng.random(total)).tolist()
    y = [0.0] * order
    t = order - 1
    while t < len(u):
        window = math.fsum(y[t - order + 1 :])
        value = a * y[t] + b * y[t] * window + 1.5 * u[t - order + 1] * u[t] + c
        if value <= _NARMA_LIMIT:
            y.append(value)
            t += 1
        else:
            back = max(order - 1, t - 4 * order)
            u[back : t + 1] = (0.5 * rng.random(t + 1 - back)).tolist()
            del y[back + 1 :]
            t = back
    return Recording(np.array(u[-n_steps:]), np.array(y[-n_steps:])[:, None])


def mackey_glass(
    n_steps: int,
    *,
    delay: float = 17.0,
    step: float = 1.0,
    substeps: int = 10,
    start: float | None = None,
    seed: int = 0,
    warm_up: int = 500,
) -> Array:
    """Return a Mackey-Glass series (T, 1), by Runge-Kutta of order 4.

    Parameters
    ----------
    delay
        tau; mildly chaotic from about 17. A multiple of step / substeps.
    step
        Time between two values returned.
    substeps
        Integration steps per value returned.
    start
        The constant value before time 0; drawn from [0.9, 1.5] by the seed if not given.
    seed
        Names the start.
    warm_up
        Values simulated and left out before the first one returned.

    >>> mackey_glass(500).shape
    (500, 1)
    """
    _refuse_length(n_steps, warm_up)
    h, lag = _step_and_lag(delay, step, substeps)
    x0 = 0.9 + 0.6 * float(seeded_generator(seed).random()) if start is None else float(start)
    # x and its slope at times -delay, ..., 0, h, 2h, ...; x is constant before time 0.
    x, dx = [x0] * (lag + 1), [0.0] * lag
    for j in range((warm_up + n_steps - 1) * substeps):
        early, late = x[j], x[j + 1]
        now = x[-1]
        k1 = _mackey_glass_slope(now, early)
        dx.append(k1)
        # The left slope at time 0 is 0, the right slope is not: the last piece of history is flat.
        bend = 0.0 if j + 1 <= lag else 0.125 * h * (dx[j] - dx[j + 1])
        middle = 0.5 * (early + late) + bend
        k2 = _mackey_glass_slope(now + 0.5 * h * k1, middle)
        k3 = _mackey_glass_slope(now + 0.5 * h * k2, middle)
        k4 = _mackey_glass_slope(now + h * k3, late)
        x.append(now + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4))
    return np.array(x[lag::substeps][warm_up:])[:, None]


def lorenz(
    n_steps: int,
    *,
    step: float = 0.02,
    substeps: int = 2,
    sigma: float = 10.0,
    rho: float = 28.0,
    beta: float = 8.0 / 3.0,
    start: _Point | None = None,
    seed: int = 0,
    warm_up: int = 1000,
) -> Array:
    """Return a Lorenz trajectory (T, 3), by Runge-Kutta of order 4.

    Parameters
    ----------
    step
        Time between two points returned.
    substeps
        Integration steps per point returned.
    start
        The point at time 0; drawn within 5 of (0, 0, 25) by the seed if not given.
    warm_up
        Points simulated and left out before the first one returned.

    >>> lorenz(400).shape
    (400, 3)
    """
    _refuse_length(n_steps, warm_up)
    if step <= 0 or substeps < 1:
        raise ValueError(f"step is {step} and substeps is {substeps}; both must be positive")
    h = step / substeps

    def slope(point: _Point) -> _Point:
        x, y, z = point
        return sigma * (y - x), x * (rho - z) - y, x * y - beta * z

    if start is None:
        x, y, z = (10.0 * seeded_generator(seed).random(3) - 5.0).tolist()
        start = (x, y, z + 25.0)
    points = [start]
    for _ in range(warm_up + n_steps - 1):
        point = points[-1]
        for _ in range(substeps):
            point = _runge_kutta(slope, point, h)
        points.append(point)
    return np.array(points[warm_up:])


def henon(
    n_steps: int,
    *,
    a: float = 1.4,
    b: float = 0.3,
    start: tuple[float, float] | None = None,
    seed: int = 0,
    warm_up: int = 100,
) -> Array:
    """Return an orbit (T, 2) of the Hénon map: x <- 1 - a x^2 + y, y <- b x.

    Parameters
    ----------
    start
        First point; drawn within 0.1 of the origin by the seed if not given.
    warm_up
        Points simulated and left out before the first one returned.

    >>> henon(2, start=(0.0, 0.0), warm_up=0).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    _refuse_length(n_steps, warm_up)
    x, y = (0.2 * seeded_generator(seed).random(2) - 0.1).tolist() if start is None else start
    orbit = [(x, y)]
    for _ in range(warm_up + n_steps - 1):
        x, y = 1.0 - a * x * x + y, b * x
        if not abs(x) < 1e6:
            raise ArithmeticError(
                f"the orbit of a={a}, b={b} escapes; start near the origin, with a below 1.43"
            )
        orbit.append((x, y))
    return np.array(orbit[warm_up:])


def one_step(series: Any, horizon: int = 1) -> Recording:
    """Return the forecasting task of a series (T, I): the target at t is the series at t + horizon.

    >>> task = one_step([1.0, 2.0, 3.0, 4.0], horizon=2)
    >>> task.u.ravel().tolist(), task.y.ravel().tolist()
    ([1.0, 2.0], [3.0, 4.0])
    """
    values = as_matrix(series, "series")
    if not 1 <= horizon < len(values):
        raise ValueError(
            f"horizon is {horizon} for a series of {len(values)} steps; "
            "pass at least 1 and fewer than the steps"
        )
    return Recording(values[:-horizon], values[horizon:])


def _mackey_glass_slope(x: float, delayed: float) -> float:
    second = delayed * delayed
    fourth = second * second
    return 0.2 * delayed / (1.0 + fourth * fourth * second) - 0.1 * x


def _step_and_lag(delay: float, step: float, substeps: int) -> tuple[float, int]:
    if step <= 0 or substeps < 1 or delay <= 0:
        raise ValueError(
            f"delay is {delay}, step is {step} and substeps is {substeps}; all must be positive"
        )
    h = step / substeps
    lag = round(delay / h)
    if lag < 1 or abs(lag * h - delay) > 1e-9 * delay:
        raise ValueError(
            f"delay {delay} is not a multiple of the integration step {h}; change substeps"
        )
    return h, lag


def _runge_kutta(slope: Callable[[_Point], _Point], p: _Point, h: float) -> _Point:
    k1 = slope(p)
    k2 = slope(_along(p, k1, 0.5 * h))
    k3 = slope(_along(p, k2, 0.5 * h))
    k4 = slope(_along(p, k3, h))
    x, y, z = (
        q + h / 6.0 * (d1 + 2.0 * d2 + 2.0 * d3 + d4)
        for q, d1, d2, d3, d4 in zip(p, k1, k2, k3, k4, strict=True)
    )
    return x, y, z


def _along(p: _Point, d: _Point, h: float) -> _Point:
    return p[0] + h * d[0], p[1] + h * d[1], p[2] + h * d[2]


def _refuse_length(n_steps: int, warm_up: int) -> None:
    if n_steps < 1 or warm_up < 0:
        raise ValueError(
            f"n_steps is {n_steps} and warm_up is {warm_up}; "
            "ask for at least one step and no negative warm-up"
        )
