"""The noise that is really drawn, measured on sums, against a calculation that is written out here.

Nothing of the library's own arithmetic is used for what is expected: the multiplier is solved from
the published formulas, the sensitivity from the settings. Of 40 000 numbers the standard deviation
is known to 0.35 %, so that 2.5 % is never exceeded by chance, and noise 5 % too small always is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from catchment import Array
from catchment.federation import RoundContext, WeightedSum
from catchment.privacy import Clip, GaussianNoise
from catchment.privacy.dp import Clipped, step_name
from catchment.wire import Fact, Message

SIZE = 40_000
EPSILON, DELTA, BOUND = 1.3, 1e-6, 2.7
CLOSE = 0.025
TURN = RoundContext(0, tuple(f"c{k}" for k in range(10)))
ABOUT: dict[str, Fact] = {"kind": "weighted-sum", "facts": {}, "numbers": 2, "shapes": [[SIZE]]}


def normal_multiplier() -> float:
    """Return sigma of Balle and Wang (ICML 2018, theorem 8), for a sensitivity of 1."""

    def gap(s: float) -> float:
        first = norm.cdf(0.5 / s - EPSILON * s)
        return float(first - math.exp(EPSILON) * norm.cdf(-0.5 / s - EPSILON * s) - DELTA)

    return float(brentq(gap, 0.1, 100.0, xtol=1e-12))


def discrete_multiplier() -> float:
    """Return sigma of Canonne, Kamath and Steinke (2020, proposition 12), with rho = 1 / 2 s^2."""

    def log_delta(s: float) -> float:
        rho = 0.5 / s**2

        def exponent(log: float) -> float:
            a = 1 + math.exp(log)
            return (a - 1) * (a * rho - EPSILON) + a * math.log1p(-1 / a) - math.log(a - 1)

        return float(minimize_scalar(exponent, bounds=(-5, 10), method="bounded").fun)

    return float(brentq(lambda s: log_delta(s) - math.log(DELTA), 0.5, 50.0))


def noise(**settings: Any) -> GaussianNoise:
    given = {"epsilon": EPSILON, "delta": DELTA, "clip": Clip(bound=BOUND), "small_cohort": True}
    return GaussianNoise(**{"min_clients": 10, **given, **settings})


def released(protection: GaussianNoise, total: Clipped) -> Array:
    """Return the numbers of the sum as the algorithm gets them."""
    seen: list[Array] = []

    def read(parts: Message, context: RoundContext) -> WeightedSum:
        seen.append(parts.arrays[1])
        return WeightedSum.from_message(parts)

    protection.on_server(total, TURN, read)
    return seen[0]


def clients(protection: GaussianNoise, n: int = 10) -> Clipped:
    """Return the sum of what clients send whose own numbers are all zero."""
    upload = WeightedSum.of((np.zeros(SIZE),), 3.0)
    sent = [protection.on_client(upload, replace(TURN, client=f"c{k}")) for k in range(n)]
    total = reduce(add, sent)
    assert isinstance(total, Clipped)
    return total


@pytest.mark.parametrize(
    ("settings", "factor"),
    [({}, 1.0), ({"replacement": True}, 2.0), ({"releases": 4}, 2.0)],
    ids=["leave one out", "replace one", "four releases"],
)
def test_central_noise_on_float_sums(settings: dict[str, Any], factor: float) -> None:
    protection = noise(**settings)
    expected = normal_multiplier() * BOUND * factor
    assert protection.spread == pytest.approx(expected, rel=1e-6)
    drawn = released(protection, clients(protection))
    assert drawn.std() == pytest.approx(expected, rel=CLOSE)
    assert abs(drawn.mean()) < 6 * expected / math.sqrt(SIZE)


@pytest.mark.parametrize("replacement", [False, True])
def test_central_noise_on_whole_sums(replacement: bool) -> None:
    protection = noise(replacement=replacement)
    expected = discrete_multiplier() * BOUND * (2 if replacement else 1)
    amount = protection.amount(whole=True)
    assert amount.spread == pytest.approx(expected, rel=1e-6)
    zero = np.zeros(SIZE, dtype=np.int64)
    drawn = released(protection, Clipped(zero, 10, ABOUT, EPSILON, step_name(amount.step)))
    assert drawn.std() == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("colluding", [0, 4])
def test_distributed_noise_of_all_clients_together(colluding: int) -> None:
    """Four of ten may tell the server their noise: what the other six add is enough by itself."""
    protection = noise(distributed=True, colluding=colluding)
    expected = discrete_multiplier() * BOUND
    total = clients(protection)
    honest = total.vector * math.sqrt((10 - colluding) / 10)
    assert honest.std() == pytest.approx(expected, rel=CLOSE)


def test_distributed_noise_on_whole_numbers_is_the_same_in_steps() -> None:
    protection = noise(distributed=True, colluding=0)
    amount = protection.amount(whole=True)
    drawn = np.sum([amount.drawn(SIZE) for _ in range(10)], axis=0)
    expected = discrete_multiplier() * BOUND
    assert (drawn * amount.step).std() == pytest.approx(expected, rel=CLOSE)


def test_the_bound_that_noise_is_made_for_is_the_one_that_uploads_keep() -> None:
    """The other half of the promise: without noise no upload moves the sum further."""
    protection = noise()
    upload = WeightedSum.of((np.full(SIZE, 1.0),), 3.0)
    sent = protection.on_client(upload, replace(TURN, client="c0"))
    assert isinstance(sent, Clipped)
    assert 0.999 * BOUND < np.linalg.norm(sent.vector) <= BOUND
