"""N4: data with a few different values are known again when a plan cuts them otherwise.

Under a policy of epsilon 1 a hundred releases of epsilon 1 were accepted, one for each share of the
test that a plan may name, because such data had no stretches that the ledger compared.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from catchment import Array
from catchment.data import Recording
from catchment.errors import BudgetError, RuleError
from catchment.federation import Cost
from catchment.privacy import Policy, Releases
from catchment.privacy.dp import concentrated_multiplier

RNG = np.random.default_rng(0)
LEVELS = {
    "levels": RNG.integers(0, 7, (400, 1)).astype(float),
    "switch": RNG.integers(0, 2, (400, 1)).astype(float),
    "two switches": RNG.integers(0, 2, (400, 2)).astype(float),
}
COST = Cost.of_discrete(concentrated_multiplier(1.0, 1e-6))


def accepted(parts: list[Array], *, noisy: bool) -> int:
    """Return how many of these were released, each by a plan of its own."""
    ledger, count = Releases({}, Policy(epsilon=1.0, delta=1e-6)), 0
    for k, part in enumerate(parts):
        list(ledger.reading(partial(list, [Recording(part)]))())
        if noisy:
            ledger.charge(COST, epsilon=1.0, delta=1e-6)
        ledger.upload(f"plan {k}", 0, "sums", session=str(k))
        try:
            ledger.release(str(k), ["ann", "ben", "cat"])
        except (BudgetError, RuleError):
            continue
        count += 1
    return count


@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize("name", LEVELS)
def test_a_step_less_is_no_new_data(name: str, noisy: bool) -> None:
    u = LEVELS[name]
    assert accepted([u[: 300 - k] for k in range(20)], noisy=noisy) == 1
    assert accepted([u[: 120 - k] for k in range(20)], noisy=noisy) == 1
    assert accepted([u[k:] for k in range(20)], noisy=noisy) == 1


@pytest.mark.parametrize("name", LEVELS)
def test_other_data_of_the_same_levels_are_other_data(name: str) -> None:
    u = LEVELS[name]
    assert accepted([u[:200], u[200:]], noisy=True) == 2
