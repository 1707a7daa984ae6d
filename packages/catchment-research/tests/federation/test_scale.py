"""Many clients: the sum does not show who was served with whom, nor by how many servers."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial, reduce
from operator import add

import numpy as np
import pytest

from catchment import Recording, Reservoir
from catchment.engine import run_locally
from catchment.features import EchoState
from catchment.federation import BLOCK, Plan, Tally
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.readout import Model, RidgeStatistics
from catchment_research.learn import AlignedRidge

FEATURES = EchoState.of(Reservoir(units=45, inputs=1, seed=1), washout=3)
ALGORITHM = FederatedRidge(features=FEATURES, ridge=1e-6, store_per_client=False)
PLAN: Plan[RidgeState, Tally[RidgeStatistics], Model] = Plan(algorithm=ALGORITHM)


def client_data(k: int) -> list[Recording]:
    wave = np.sin(np.arange(13 + k % 5) * (0.1 + k % 7 / 10) + k)
    return [Recording(wave[:-1], wave[1:])]


def clients(n: int) -> dict[str, Callable[[], list[Recording]]]:
    return {f"client-{k:04d}": partial(client_data, k) for k in range(n)}


def total_bytes(result: RidgeState) -> bytes:
    assert result.total is not None
    return result.total.parts().to_bytes()


def test_two_levels_of_servers_give_the_same_bytes_as_one() -> None:
    everyone = clients(BLOCK + 60)
    names = sorted(everyone)
    sums = []
    for first in range(0, len(names), BLOCK):
        block = {name: everyone[name] for name in names[first : first + BLOCK]}
        total = run_locally(PLAN, block).state.total
        assert total is not None
        sums.append(total)
    assert len(sums) == 2
    assert reduce(add, sums).parts().to_bytes() == total_bytes(run_locally(PLAN, everyone).state)


def test_groups_and_threads_do_not_show_in_the_sum() -> None:
    everyone = clients(40)
    one_by_one = AlignedRidge(ridge=ALGORITHM, alpha=1.0)  # the same, but not in groups
    alone = total_bytes(run_locally(Plan(algorithm=one_by_one), everyone, threads=1).state)
    for threads in (1, 2, 3):
        assert total_bytes(run_locally(PLAN, everyone, threads=threads).state) == alone


def test_a_bad_client_in_a_group_is_refused_alone() -> None:
    everyone = clients(40)
    everyone["client-0007"] = lambda: [Recording(np.full(9, np.nan), np.zeros(9))]
    everyone["client-0009"] = lambda: [Recording(np.zeros(2), np.zeros(2))]
    result = run_locally(PLAN, everyone, threads=1)
    assert result.records[0].n_used == 38
    refused = {refusal.client: refusal.reason for refusal in result.records[0].refused}
    assert sorted(refused) == ["client-0007", "client-0009"]
    assert "not finite" in refused["client-0007"]
    assert "fewer than washout" in refused["client-0009"]


def test_data_is_made_when_a_client_is_asked_and_not_kept() -> None:
    alive: set[int] = set()
    most = 0

    def make(k: int) -> list[Recording]:
        nonlocal most
        alive.add(k)
        (made,) = client_data(k)
        weakref.finalize(made, alive.discard, k)
        most = max(most, len(alive))
        return [made]

    run_locally(PLAN, {f"c{k:03d}": partial(make, k) for k in range(300)}, threads=1)
    assert most <= 2 * 32
    assert not alive


@pytest.mark.parametrize(
    ("n_clients", "n_threads", "size"),
    [(8, 2, 2), (21, 2, 5), (1000, 2, 32), (64, 16, 2), (3, 2, 1)],
)
def test_few_clients_are_spread_over_the_threads(n_clients: int, n_threads: int, size: int) -> None:
    assert ALGORITHM.group_size(n_clients, n_threads) == size
    pooled = FederatedRidge(features=EchoState.of(FEATURES.reservoir, pool="mean"))
    assert pooled.group_size(n_clients, n_threads) == 1
