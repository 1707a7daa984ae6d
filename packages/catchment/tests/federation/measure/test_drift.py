"""Who changed, told from sums alone: by plain arithmetic on rows, and at the stated rate."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest

from catchment import Array, Recording
from catchment.engine import run_locally
from catchment.features import NVAR
from catchment.federation import ByRound, Plan
from catchment.federation.learn import FederatedRidge
from catchment.federation.measure import RoundScores, drifts, round_scores
from catchment.readout import RidgeStatistics


def rows(seed: int, n: int, *, slope: float = 1.0, level: float = 0.0) -> tuple[Array, Array]:
    """Return correlated features (n, 4) and a target (n, 1)."""
    rng = np.random.default_rng(seed)
    z = np.empty((n, 4))
    z[0] = rng.normal(size=4)
    for t in range(1, n):
        z[t] = 0.8 * z[t - 1] + 0.6 * rng.normal(size=4)
    z += level
    return z, slope * z[:, :1] - z[:, 1:2] + 0.5 * rng.normal(size=(n, 1))


def test_scores_are_those_of_the_rows() -> None:
    (z0, y0), (z1, y1), (z2, y2) = rows(1, 300), rows(2, 200), rows(3, 80, slope=2.0, level=0.5)
    old, other, new = (
        RidgeStatistics.from_states(*some) for some in ((z0, y0), (z1, y1), (z2, y2))
    )
    total = old + other
    readout = total.solve(0.1)
    found = round_scores({"a": new, "stranger": new}, {"a": old, "b": other}, total, readout)
    assert found.clients == ("a",)
    every = np.vstack([z0, z1])
    V = 0.9 * np.corrcoef(every.T) + 0.1 * np.eye(4)

    def error(z: Array, y: Array) -> float:
        return float(np.mean((z @ readout.weights + readout.intercept - y) ** 2))

    def distance(z: Array) -> float:
        away = (z - z0.mean(axis=0)) / every.std(axis=0)
        return float(np.mean(np.einsum("ni,ij,nj->n", away, np.linalg.inv(V), away)))

    np.testing.assert_allclose(found.errors, np.log(error(z2, y2) / error(z0, y0)), rtol=1e-9)
    np.testing.assert_allclose(found.inputs, abs(np.log(distance(z2) / distance(z0))), rtol=1e-9)


def history(
    seed: int, *, n_weeks: int = 40, n_clients: int = 8, odd: float = 1.0
) -> list[RoundScores]:
    """Return the scores of a fleet in which client 0 has another slope in the last week."""
    before: dict[str, RidgeStatistics] = {}
    found = []
    for week in range(n_weeks):
        new = {}
        for k in range(n_clients):
            slope = odd if k == 0 and week == n_weeks - 1 else 1.0
            z, y = rows(10_000 * seed + 100 * week + k, 40, slope=slope)
            new[f"c{k}"] = RidgeStatistics.from_states(z, y)
        if before:
            total = reduce(add, before.values())
            found.append(round_scores(new, before, total, total.solve(0.1), week))
        before = {name: before[name] + one if before else one for name, one in new.items()}
    return found


@pytest.mark.parametrize("rate", [0.05, 0.1])
def test_false_positive_rate_are_as_rare_as_stated_where_nothing_changes(rate: float) -> None:
    fleets = [history(seed) for seed in range(3)]
    judged = alarms = 0
    for fleet in fleets:
        early = next(k for k in range(40) if 8 * k >= 1 / rate - 1)
        judged += 2 * 8 * (len(fleet) - early)
        alarms += len(drifts(fleet, rate))
    # About 1800 judgements, which depend on each other a little: three standard errors of twice
    # the variance that independent ones would have.
    assert alarms / judged <= rate + 3 * np.sqrt(2 * rate * (1 - rate) / judged)
    assert alarms > 0


def test_a_client_that_changes_is_named_and_nobody_before_there_is_enough_to_compare() -> None:
    fleet = history(7, n_weeks=12, odd=-1.0)
    last = [one for one in drifts(fleet, 0.02) if one.round == 11]
    assert [(one.client, one.kind) for one in last] == [("c0", "errors")]
    assert last[0].p_value == pytest.approx(1 / 81)
    assert last[0].times > 3
    first = [RoundScores(1, ("a",), np.array([9.0]), np.array([9.0]))]
    assert drifts(first, 0.5) == ()
    with pytest.raises(ValueError, match="false_positive_rate is 0"):
        drifts(fleet, 0)


def fleet(n_weeks: int, changed: str = "") -> dict[str, ByRound]:
    made = {}
    for k in range(5):
        weeks = []
        for week in range(n_weeks):
            rng = np.random.default_rng([k, week])
            u = rng.normal(size=60)
            slope = 1 + 0.5 * k - (4 if f"c{k}" == changed and week == n_weeks - 1 else 0)
            y = slope * np.convolve(u, [0.7, 0.3])[:60] + 0.1 * rng.normal(size=60)
            weeks.append([Recording(u, y, name=f"week {week}")])
        made[f"c{k}"] = ByRound(*weeks)
    return made


FEATURES = NVAR(3, washout=3).build(1, per_step=True)


def test_whose_errors_grow_is_named() -> None:
    ridge = FederatedRidge(features=FEATURES, ridge=0.1, increments="new", false_positive_rate=0.05)
    done = run_locally(Plan(algorithm=ridge, rounds=8), fleet(8, "c3"))
    assert {one.client for one in ridge.drifts(done.state) if one.round == 7} == {"c3"}


def test_a_sum_alone_is_judged_as_a_whole() -> None:
    hidden = FederatedRidge(features=FEATURES, ridge=0.1, increments="new", store_per_client=False)
    state = run_locally(Plan(algorithm=hidden, rounds=3), fleet(3)).state
    assert [one.clients for one in state.history] == [("",), ("",)]
