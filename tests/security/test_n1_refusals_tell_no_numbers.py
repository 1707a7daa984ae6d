"""N1: a plan with a small bound does not make a client say its numbers in the refusal."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.security.fleet import Fleet, RefusedError

from catchment.privacy.secure_sum.ring import Ring, encode
from catchment.wire import NOTHING


def test_a_bound_of_the_servers_choice_reads_no_number() -> None:
    rng = np.random.default_rng(0)
    vectors = {f"c{k}": rng.normal(size=3) * 1e3 for k in range(4)}
    fleet = Fleet.of(vectors, bits=64, bound=2.0)
    letter = fleet.until("update").letter("update", "c0", NOTHING)
    with pytest.raises(RefusedError, match="too large") as refused:
        fleet.ask("c0", "update", letter)
    told = [float(text) for text in re.findall(r"-?\d+\.\d+", str(refused.value))]
    assert not any(np.isclose(vectors["c0"], number).any() for number in told)


def test_what_is_not_finite_is_still_said() -> None:
    with pytest.raises(ValueError, match="not finite"):
        encode(np.array([1.0, np.nan]), Ring())
