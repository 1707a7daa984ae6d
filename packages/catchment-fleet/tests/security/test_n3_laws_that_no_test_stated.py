"""N3: laws of the client's rules that a fault could break without any test noticing."""

from __future__ import annotations

import numpy as np
import pytest

from catchment.errors import RuleError
from catchment.federation.measure import Score
from catchment.privacy import Policy
from catchment.privacy.secure_aggregation import as_bits
from catchment.readout import ErrorSums, Readout, RidgeStatistics, path_errors
from catchment.wire import NOTHING, Message, join, split
from catchment_fleet.apps import ScoreGuard
from tests.security.fleet import Fleet, RefusedError


def test_who_showed_no_keys_is_not_in_the_sum() -> None:
    """A client that is registered, and not of the round, is added to those who are present."""
    fleet = Fleet.drawn(8, min_share=0.5)
    names = sorted(fleet.vectors)
    exchange = fleet.open()
    fleet.step(exchange, "keys", names[:6])
    for stage in ("shares", "boxes"):
        fleet.step(exchange, stage)
    named = split(exchange.request("update", names[0], NOTHING), "secure-update")
    there = [*range(6), 7]
    forged = Message("secure-present", named["present"].facts, (as_bits(there, 8),))
    request = join("secure-update", {"present": forged, "payload": named["payload"]})
    with pytest.raises(RefusedError, match="not those that showed keys"):
        fleet.ask(names[0], "update", request)


def test_scores_are_counted_in_all_plans_together_unless_the_owner_pinned_some() -> None:
    """Whoever may send any plan has as many as it likes."""
    memory: dict[str, bytes] = {}
    y = np.arange(20.0)[:, None]
    scores = [Score(ErrorSums.of(y, scale * y)) for scale in (1.5, 2.0)]
    ScoreGuard(Policy(), "one workflow", memory)("model 1", scores[0])
    with pytest.raises(RuleError, match="has scored 1 models"):
        ScoreGuard(Policy(), "another workflow", memory)("model 2", scores[1])
    pinned = Policy(plans=("0" * 64,))
    for workflow in ("one workflow", "another workflow"):
        ScoreGuard(pinned, workflow, memory)("model 2", scores[1])
    with pytest.raises(RuleError, match="has scored 1 models"):
        ScoreGuard(pinned, "one workflow", memory)("model 3", scores[0])


def test_a_row_of_weight_two_is_two_rows() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(30, 4)) + 1.0, rng.normal(size=(30, 2)) - 3.0
    weight = rng.integers(1, 5, 30).astype(float)
    weighted = RidgeStatistics.from_states(z, y, weight=weight)
    repeated = RidgeStatistics.from_states(
        np.repeat(z, weight.astype(int), axis=0), np.repeat(y, weight.astype(int), axis=0)
    )
    readouts = [Readout(rng.normal(size=(4, 2)), rng.normal(size=2)) for _ in range(3)]
    found = path_errors(weighted, readouts)
    np.testing.assert_allclose(found, path_errors(repeated, readouts), rtol=1e-9)
    for row, readout in zip(found, readouts, strict=True):
        np.testing.assert_allclose(row, path_errors(weighted, [readout])[0], rtol=1e-12)
        bare = z @ readout.weights + readout.intercept - y
        np.testing.assert_allclose(row, (weight[:, None] * bare**2).sum(axis=0), rtol=1e-9)
