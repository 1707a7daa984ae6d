"""Synthetic wearables: labelled activity recordings of people who differ, without any download.

A recording has six channels at 50 Hz, as a phone in a pocket gives them: acceleration in g
(forward, left, up, with gravity) and turning rate in rad/s. Movement is a stride, its harmonics up
to the fourth, and sensor noise. Going upstairs and downstairs differ mostly in whether an impact
comes early or late in a step, which a mean or a variance cannot see; sitting and standing
differ in the direction of gravity, which each person's way of wearing the device turns. People
differ in amplitude, tempo, gait, orientation, noise and in what they do how often.

These are invented signals, for demonstrations and tests. Results on them say nothing about people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
from catchment.data.generators import seeded_generator
from catchment.data.recording import Recording

SAMPLE_RATE = 50.0
CHANNELS = ("acc-forward", "acc-left", "acc-up", "gyro-roll", "gyro-pitch", "gyro-yaw")


@dataclass(frozen=True, kw_only=True)
class _Activity:
    name: str
    stride: float  # strides per second
    lean: float  # how far the device tips forward, in radians
    swing: tuple[float, ...]  # (6,) amplitude at once per stride
    impact: tuple[float, ...]  # (6,) amplitude at twice per stride
    sharpness: float  # fourth harmonic relative to the second
    lateness: float  # phase of the fourth harmonic: the sign tells early from late impacts


_ACTIVITIES = (
    _Activity(
        name="walking",
        stride=0.92,
        lean=0.05,
        swing=(0.06, 0.10, 0.05, 0.45, 0.55, 0.35),
        impact=(0.16, 0.06, 0.24, 0.25, 0.35, 0.20),
        sharpness=0.6,
        lateness=0.0,
    ),
    _Activity(
        name="upstairs",
        stride=0.84,
        lean=0.13,
        swing=(0.07, 0.10, 0.06, 0.45, 0.65, 0.35),
        impact=(0.15, 0.06, 0.22, 0.25, 0.40, 0.20),
        sharpness=0.9,
        lateness=1.4,
    ),
    _Activity(
        name="downstairs",
        stride=0.94,
        lean=-0.02,
        swing=(0.06, 0.11, 0.06, 0.50, 0.55, 0.40),
        impact=(0.17, 0.07, 0.26, 0.30, 0.35, 0.22),
        sharpness=0.9,
        lateness=-1.4,
    ),
    _Activity(
        name="cycling",
        stride=1.10,
        lean=0.55,
        swing=(0.10, 0.08, 0.14, 0.35, 0.75, 0.25),
        impact=(0.06, 0.03, 0.07, 0.12, 0.20, 0.10),
        sharpness=0.30,
        lateness=0.3,
    ),
    _Activity(
        name="sitting",
        stride=0.25,
        lean=0.80,
        swing=(0.008, 0.006, 0.008, 0.015, 0.02, 0.015),
        impact=(0.003, 0.003, 0.004, 0.005, 0.008, 0.005),
        sharpness=0.2,
        lateness=0.0,
    ),
    _Activity(
        name="standing",
        stride=0.38,
        lean=0.0,
        swing=(0.012, 0.015, 0.006, 0.035, 0.03, 0.03),
        impact=(0.005, 0.006, 0.003, 0.012, 0.01, 0.01),
        sharpness=0.2,
        lateness=0.0,
    ),
)
ACTIVITIES = tuple(activity.name for activity in _ACTIVITIES)

# Phase of the swing and of the impact in each channel: the body moves as one, so they are fixed.
_SWING_PHASE = np.array([0.0, 1.6, 0.4, 1.5, 0.3, 2.0])
_IMPACT_PHASE = np.array([0.8, 0.2, 0.0, 1.1, 0.6, 1.9])


@dataclass(frozen=True, eq=False)
class _Person:
    amplitude: float
    tempo: float
    noise: float
    orientation: Array  # (3, 3) rotation of the device on the body
    turning_bias: Array  # (3,) constant error of the gyroscope
    swing_gait: Array  # (6, 6) factor per activity and channel
    impact_gait: Array  # (6, 6)
    phase_gait: Array  # (6,) shift of the impacts per channel
    lean: Array  # (6,) added to each activity's lean
    balance: Array  # (6,) how often each activity occurs


def synthetic_wearables(
    n_users: int = 12, seed: int = 0, *, windows_per_user: int = 40, steps: int = 128
) -> dict[str, list[Recording]]:
    """Return user name -> labelled windows, (steps, 6) inputs with a one-hot activity (6,) each.

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
    if n_users < 1:
        raise ValueError(f"n_users is {n_users}; pass at least 1")
    return {
        f"user-{user:03d}": wearable_user(
            seed, user, windows_per_user=windows_per_user, steps=steps
        )
        for user in range(n_users)
    }


def wearable_user(
    seed: int, user: int, *, windows_per_user: int = 40, steps: int = 128
) -> list[Recording]:
    """Return the windows of one person of `synthetic_wearables`, without making the others.

    >>> one = wearable_user(0, 2, windows_per_user=5)
    >>> same = synthetic_wearables(n_users=3, windows_per_user=5)["user-002"]
    >>> all(np.array_equal(a.u, b.u) for a, b in zip(one, same, strict=True))
    True
    """
    if windows_per_user < 1 or steps < 1:
        raise ValueError(
            f"windows_per_user is {windows_per_user} and steps is {steps}; both must be positive"
        )
    person = _person(seeded_generator(seed, user, 0))
    windows = []
    for number in range(windows_per_user):
        rng = seeded_generator(seed, user, 1 + number)
        label = int(rng.choice(len(ACTIVITIES), p=person.balance))
        windows.append(Recording.labelled(_window(person, label, steps, rng), label, ACTIVITIES))
    return windows


def _person(rng: np.random.Generator) -> _Person:
    n = len(_ACTIVITIES)
    return _Person(
        amplitude=float(rng.lognormal(0.0, 0.25)),
        tempo=float(rng.lognormal(0.0, 0.10)),
        noise=float(rng.lognormal(math.log(0.07), 0.4)),
        orientation=_rotation(rng.normal(size=3), float(rng.normal(0.0, 0.18))),
        turning_bias=rng.normal(0.0, 0.02, size=3),
        swing_gait=rng.lognormal(0.0, 0.15, size=(n, 6)),
        impact_gait=rng.lognormal(0.0, 0.15, size=(n, 6)),
        phase_gait=rng.normal(0.0, 0.10, size=6),
        lean=rng.normal(0.0, 0.08, size=n),
        balance=rng.dirichlet(np.full(n, 1.0)),
    )


def _window(person: _Person, label: int, steps: int, rng: np.random.Generator) -> Array:
    """Return one recording (steps, 6) of a person doing something."""
    activity = _ACTIVITIES[label]
    amplitude = person.amplitude * rng.lognormal(0.0, 0.20)
    stride = activity.stride * person.tempo * rng.lognormal(0.0, 0.07)
    # Nobody keeps perfect time: the tempo wanders around its mean within the window.
    tempo = 1.0 + 0.02 * np.cumsum(rng.normal(size=steps)) / math.sqrt(SAMPLE_RATE)
    angle = rng.uniform(0.0, 2 * math.pi) + 2 * math.pi * stride / SAMPLE_RATE * np.cumsum(tempo)

    swing = np.sin(angle[:, None] + _SWING_PHASE)
    beat = 2.0 * angle[:, None] + _IMPACT_PHASE + person.phase_gait
    impact = np.sin(beat) + activity.sharpness * np.sin(2.0 * beat + activity.lateness)
    swing_size = np.array(activity.swing) * person.swing_gait[label] * rng.lognormal(0.0, 0.2, 6)
    impact_size = np.array(activity.impact) * person.impact_gait[label] * rng.lognormal(0.0, 0.2, 6)
    motion = amplitude * (swing_size * swing + impact_size * impact)

    lean = activity.lean + person.lean[label] + rng.normal(0.0, 0.12)
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


def _rotation(axis: Array, angle: float) -> Array:
    """Return the rotation matrix (3, 3) about an axis (Rodrigues)."""
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    rotation: Array = np.eye(3) + math.sin(angle) * K + (1.0 - math.cos(angle)) * (K @ K)
    return rotation
