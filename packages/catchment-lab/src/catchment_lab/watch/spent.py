"""What the finished rounds of a stage have spent of the privacy that its plan allows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from catchment.privacy.dp import (
    concentrated_epsilon,
    concentrated_multiplier,
    gaussian_epsilon,
    gaussian_multiplier,
)


@dataclass(frozen=True)
class Spent:
    """A bound on what the releases so far tell of one client, or of one of its sequences.

    Parameters
    ----------
    epsilon
        Of the releases that were made, at this delta.
    allowed
        Of all releases of the plan.
    made, releases
        How many were made, and over how many the noise is spread.
    """

    stage: str
    epsilon: float
    allowed: float
    delta: float
    made: int
    releases: int
    unit: str


def spent_in(stage: str, settings: str, n_rounds: int) -> Iterator[Spent]:
    """Yield what a stage has spent, for each of its protections by noise.

    Parameters
    ----------
    settings
        The stage's plan as JSON, as the run's folder keeps it.
    n_rounds
        Finished rounds, of which each made a release.
    """
    for protection in json.loads(settings).get("Plan", {}).get("protections", ()):
        for about in protection.values():
            match about:
                case {"epsilon": float() | int() as allowed, "delta": float() as delta, **rest}:
                    given = rest.get("releases")
                    releases = given if isinstance(given, int) else 1
                    epsilon = epsilon_after(n_rounds, releases, float(allowed), delta)
                    unit = str(rest.get("unit", "client"))
                    yield Spent(stage, epsilon, allowed, delta, n_rounds, releases, unit)


@lru_cache(maxsize=4096)
def epsilon_after(made: int, releases: int, epsilon: float, delta: float) -> float:
    """Return the epsilon of the first releases, of so many over which one is spread.

    The noise is Gaussian or discrete, which compose a little differently: it is the larger one.

    >>> epsilon_after(0, 10, 2.0, 1e-5), round(epsilon_after(10, 10, 2.0, 1e-5), 9)
    (0.0, 2.0)
    >>> round(epsilon_after(1, 10, 2.0, 1e-5), 2)
    0.57
    """
    if made <= 0:
        return 0.0
    if made >= releases:
        return epsilon
    share = math.sqrt(made / releases)
    normal = gaussian_epsilon(gaussian_multiplier(epsilon, delta) / share, delta)
    discrete = 0.5 * (share / concentrated_multiplier(epsilon, delta)) ** 2
    return min(epsilon, max(normal, concentrated_epsilon(discrete, delta)))
