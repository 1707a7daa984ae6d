"""N4: data with a few different values are known again when a plan cuts them otherwise.

Under a policy of epsilon 1 a hundred releases of epsilon 1 were accepted, one for each share of the
test that a plan may name, because such data had no segments that the ledger compared.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from catchment import Array
from catchment.data import Recording
from catchment.errors import BudgetError, RuleError
from catchment.federation import Cost, Memory
from catchment.privacy import Policy, PrivacyLedger
from catchment.privacy.dp import concentrated_multiplier

RNG = np.random.default_rng(0)
LEVELS = {
    "levels": RNG.integers(0, 7, (400, 1)).astype(float),
    "switch": RNG.integers(0, 2, (400, 1)).astype(float),
    "two switches": RNG.integers(0, 2, (400, 2)).astype(float),
}
COST = Cost.of_discrete(concentrated_multiplier(1.0, 1e-6))


def accepted(parts: list[Array], *, noisy: bool, units: list[str] | None = None) -> int:
    """Return how many of these were released, each by a plan of its own."""
    memory: Memory = {}
    count = 0
    for k, part in enumerate(parts):
        unit = "data" if units is None else units[k]
        ledger = PrivacyLedger(memory, Policy(epsilon=1.0, delta=1e-6), unit)
        list(ledger.reading(partial(list, [Recording(part)]))())
        if noisy:
            ledger.charge(COST, epsilon=1.0, delta=1e-6)
        try:
            ledger.upload(f"plan {k}", 0, "sums", str(k), ["ann", "ben", "cat"])
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
def test_other_data_are_other_data_if_their_owner_says_so(name: str) -> None:
    u = LEVELS[name]
    assert accepted([u[:200], u[200:]], noisy=True) == 1
    assert accepted([u[:200], u[200:]], noisy=True, units=["monday", "tuesday"]) == 2
    assert accepted([u, u], noisy=True, units=["monday", "tuesday"]) == 1
