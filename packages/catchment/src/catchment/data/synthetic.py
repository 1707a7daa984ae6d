"""Synthetic series with known laws, NARMA and Mackey-Glass, and synthetic wearables.

NARMA of order 10 and 30 (Atiya and Parlos, IEEE Trans. Neural Networks 2000), with u uniform on
[0, 0.5]:

    y(t+1) = a y(t) + b y(t) sum_{i<order} y(t-i) + 1.5 u(t-order+1) u(t) + c

where (a, b, c) is (0.3, 0.05, 0.1) for order 10 and (0.2, 0.04, 0.001) for order 30. Mackey-Glass
(Science 1977): x' = 0.2 x(t-tau) / (1 + x(t-tau)^10) - 0.1 x.

Only additions, multiplications and divisions are used, so that a chaotic series is the same on
every machine.

Wearables record the labeled activities of people in six channels at 50 Hz, as a phone in a pocket
gives them: acceleration in g (forward, left, up, with gravity) and turning rate in rad/s. Movement
is a stride, its harmonics up to the fourth, and sensor noise. Going upstairs and downstairs differ
mostly in whether an impact comes early or late in a step, which a mean or a variance cannot see;
sitting and standing differ in the direction of gravity, which each person's way of wearing the
device turns. People differ in amplitude, tempo, gait, orientation, noise and in what they do how
often. These are synthetic signals, for demonstrations and tests: results on them say nothing about
people.
"""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from catchment.arrays import Array, NonNegativeInt, PositiveInt, check_type
from catchment.data.recording import Recording

_NARMA = {10: (0.3, 0.05, 0.1), 30: (0.2, 0.04, 0.001)}
# In ten million steps no series that stayed bounded went above 1.3; once above 2 the quadratic
# term feeds itself.
_NARMA_LIMIT = 2.0

SAMPLE_RATE = 50.0
CHANNELS = ("acc-forward", "acc-left", "acc-up", "gyro-roll", "gyro-pitch", "gyro-yaw")
# What somebody does: strides per second; how far the device tips forward, in radians; the fourth
# harmonic relative to the second; and its phase, whose sign tells early from late impacts.
_GAITS = {
    "walking": (0.92, 0.05, 0.6, 0.0),
    "upstairs": (0.84, 0.13, 0.9, 1.4),
    "downstairs": (0.94, -0.02, 0.9, -1.4),
    "cycling": (1.10, 0.55, 0.30, 0.3),
    "sitting": (0.25, 0.80, 0.2, 0.0),
    "standing": (0.38, 0.0, 0.2, 0.0),
}
ACTIVITIES = tuple(_GAITS)
# (6, 6): by activity and channel the amplitude at once per stride, and at twice.
_SWING = np.array(
    [
        (0.06, 0.10, 0.05, 0.45, 0.55, 0.35),
        (0.07, 0.10, 0.06, 0.45, 0.65, 0.35),
        (0.06, 0.11, 0.06, 0.50, 0.55, 0.40),
        (0.10, 0.08, 0.14, 0.35, 0.75, 0.25),
        (0.008, 0.006, 0.008, 0.015, 0.02, 0.015),
        (0.012, 0.015, 0.006, 0.035, 0.03, 0.03),
    ]
)
_IMPACT = np.array(
    [
        (0.16, 0.06, 0.24, 0.25, 0.35, 0.20),
        (0.15, 0.06, 0.22, 0.25, 0.40, 0.20),
        (0.17, 0.07, 0.26, 0.30, 0.35, 0.22),
        (0.06, 0.03, 0.07, 0.12, 0.20, 0.10),
        (0.003, 0.003, 0.004, 0.005, 0.008, 0.005),
        (0.005, 0.006, 0.003, 0.012, 0.01, 0.01),
    ]
)

# Phase of the swing and of the impact in each channel: the body moves as one, so they are fixed.
_SWING_PHASE = np.array([0.0, 1.6, 0.4, 1.5, 0.3, 2.0])
_IMPACT_PHASE = np.array([0.8, 0.2, 0.0, 1.1, 0.6, 1.9])


def seeded_generator(*seed: int) -> np.random.Generator:
    """Return the counter-based generator that belongs to one or more non-negative integers.

    >>> float(seeded_generator(1, 2).random()) == float(seeded_generator(1, 2).random())
    True
    """
    for number in seed:
        check_type(number, NonNegativeInt, "seed")
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
    check_type(n_steps, PositiveInt, "n_steps")
    check_type(warm_up, NonNegativeInt, "warm_up")
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
    start: float | None = None,
    seed: int = 0,
    warm_up: int = 500,
) -> Array:
    """Return a Mackey-Glass series (T, 1), a value per unit of time, by Runge-Kutta of order 4.

    Parameters
    ----------
    delay
        tau; mildly chaotic from about 17. A multiple of 0.1, the step of integration.
    start
        The constant value before time 0; drawn from [0.9, 1.5] by the seed if not given.
    seed
        Names the start.
    warm_up
        Values simulated and left out before the first one returned.

    >>> mackey_glass(500).shape
    (500, 1)
    """
    check_type(n_steps, PositiveInt, "n_steps")
    check_type(warm_up, NonNegativeInt, "warm_up")
    h, substeps = 0.1, 10
    lag = round(delay / h)
    if lag < 1 or abs(lag * h - delay) > 1e-9 * delay:
        raise ValueError(f"delay is {delay}; pass a positive multiple of {h}")
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


def _mackey_glass_slope(x: float, delayed: float) -> float:
    second = delayed * delayed
    fourth = second * second
    return 0.2 * delayed / (1.0 + fourth * fourth * second) - 0.1 * x


def synthetic_wearables(
    n_users: int = 12, seed: int = 0, *, windows_per_user: int = 40, steps: int = 128
) -> dict[str, list[Recording]]:
    """Return user name -> labeled windows, (steps, 6) inputs with a one-hot activity (6,) each.

    Parameters
    ----------
    n_users
        How many people; their names are user-000, user-001, ...
    seed
        Names the population. A person's data depend on the seed and the person's number only.
    windows_per_user
        Windows of each person; the first ones are the same when more are asked for.
    steps
        Length of a window, at 50 steps per second.

    >>> users = synthetic_wearables(n_users=3, windows_per_user=5)
    >>> list(users), users["user-000"][0].u.shape
    (['user-000', 'user-001', 'user-002'], (128, 6))
    >>> ACTIVITIES[users["user-000"][0].y.argmax()] in ACTIVITIES
    True
    """
    check_type(n_users, PositiveInt, "n_users")
    some = partial(wearable_user, seed, windows_per_user=windows_per_user, steps=steps)
    return {f"user-{user:03d}": some(user) for user in range(n_users)}


def wearable_user(
    seed: int, user: int, *, windows_per_user: int = 40, steps: int = 128
) -> list[Recording]:
    """Return the windows of one person of `synthetic_wearables`, without making the others.

    >>> one = wearable_user(0, 2, windows_per_user=5)
    >>> same = synthetic_wearables(n_users=3, windows_per_user=5)["user-002"]
    >>> all(np.array_equal(a.u, b.u) for a, b in zip(one, same, strict=True))
    True
    """
    check_type(windows_per_user, PositiveInt, "windows_per_user")
    check_type(steps, PositiveInt, "steps")
    rng, n = seeded_generator(seed, user, 0), len(ACTIVITIES)
    amplitude, tempo = float(rng.lognormal(0.0, 0.25)), float(rng.lognormal(0.0, 0.10))
    noise, axis = float(rng.lognormal(math.log(0.07), 0.4)), rng.normal(size=3)
    (x, y, z), angle = axis / np.linalg.norm(axis), float(rng.normal(0.0, 0.18))
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])  # of a rotation (Rodrigues)
    person = SimpleNamespace(
        amplitude=amplitude,
        tempo=tempo,
        noise=noise,
        # How the device lies on the body, and the constant error of its gyroscope.
        orientation=np.eye(3) + math.sin(angle) * K + (1.0 - math.cos(angle)) * (K @ K),
        turning_bias=rng.normal(0.0, 0.02, size=3),
        # Factors per activity and channel; shifts of the impacts per channel.
        swing_gait=rng.lognormal(0.0, 0.15, size=(n, 6)),
        impact_gait=rng.lognormal(0.0, 0.15, size=(n, 6)),
        phase_gait=rng.normal(0.0, 0.10, size=6),
        lean=rng.normal(0.0, 0.08, size=n),
        balance=rng.dirichlet(np.full(n, 1.0)),  # how often each activity occurs
    )
    windows = []
    for number in range(windows_per_user):
        rng = seeded_generator(seed, user, 1 + number)
        label = int(rng.choice(n, p=person.balance))
        windows.append(Recording.labeled(_window(person, label, steps, rng), label, ACTIVITIES))
    return windows


def _window(person: Any, label: int, steps: int, rng: np.random.Generator) -> Array:
    """Return one recording (steps, 6) of a person doing something."""
    strides, tips, sharpness, lateness = _GAITS[ACTIVITIES[label]]
    amplitude = person.amplitude * rng.lognormal(0.0, 0.20)
    stride = strides * person.tempo * rng.lognormal(0.0, 0.07)
    # Nobody keeps perfect time: the tempo wanders around its mean within the window.
    tempo = 1.0 + 0.02 * np.cumsum(rng.normal(size=steps)) / math.sqrt(SAMPLE_RATE)
    angle = rng.uniform(0.0, 2 * math.pi) + 2 * math.pi * stride / SAMPLE_RATE * np.cumsum(tempo)

    swing = np.sin(angle[:, None] + _SWING_PHASE)
    beat = 2.0 * angle[:, None] + _IMPACT_PHASE + person.phase_gait
    impact = np.sin(beat) + sharpness * np.sin(2.0 * beat + lateness)
    swing_size = _SWING[label] * person.swing_gait[label] * rng.lognormal(0.0, 0.2, 6)
    impact_size = _IMPACT[label] * person.impact_gait[label] * rng.lognormal(0.0, 0.2, 6)
    motion = amplitude * (swing_size * swing + impact_size * impact)

    lean = tips + person.lean[label] + rng.normal(0.0, 0.12)
    motion[:, :3] += np.array([math.sin(lean), 0.0, math.cos(lean)])
    measured = np.concatenate(
        [
            motion[:, :3] @ person.orientation.T,
            motion[:, 3:] @ person.orientation.T + person.turning_bias,
        ],
        axis=1,
    )
    noise = person.noise * rng.normal(size=(steps, 6))
    u: Array = measured + noise * np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    return u
