"""A4: the readout of secure aggregation is that of pooled data, whatever the order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest

from catchment import save
from catchment.data import Recording
from catchment.engine import LocalEngine, run_locally
from catchment.features import EchoState, Reservoir
from catchment.federation import Engine, Plan, Reply, Tally, run
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.federation.measure import Evaluation, Score
from catchment.privacy import SecureAggregation, generate_keys
from catchment.readout import Model, RidgeStatistics, accumulate

FEATURES = EchoState.of(Reservoir(units=60, inputs=1, leak_rate=0.1, spectral_radius=0.3, seed=2))
IDENTITIES = generate_keys(f"c{k:02d}" for k in range(12))
MEMORIES = IDENTITIES.memories
SECURE = SecureAggregation(identities=IDENTITIES)


def clients() -> dict[str, list[Recording]]:
    rng = np.random.default_rng(5)
    steps = {name: rng.integers(130, 230) for name in IDENTITIES}
    # Smooth, so that states are nearly collinear and the Gram matrix as bad as the test asks.
    u = {
        name: np.sin(rng.uniform(0.02, 0.2, 3) * np.arange(n)[:, None]).sum(axis=1)[:, None]
        for name, n in steps.items()
    }
    return {
        name: [Recording(x, np.hstack([np.roll(x, 3, axis=0), np.tanh(x) * np.roll(x, 1, axis=0)]))]
        for name, x in u.items()
    }


@dataclass(eq=False)
class Shuffled(Engine):
    """An engine whose replies come in an order of their own."""

    engine: Engine
    seed: int

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        replies = list(self.engine.ask(requests))
        order = np.random.default_rng(self.seed).permutation(len(replies))
        return (replies[k] for k in order)


def ridge() -> Plan[RidgeState, Tally[RidgeStatistics], Model]:
    algorithm = FederatedRidge(features=FEATURES, ridge=1e-4, store_per_client=False)
    return Plan(algorithm=algorithm, protections=(SECURE,))


@pytest.mark.parametrize("size", [1e4, 1e5, 1e6, 1e7, 1e8, 1e9])
def test_the_readout_is_as_near_to_the_pooled_one_as_float64_to_itself(size: float) -> None:
    data = clients()
    own = [accumulate(FEATURES, sequences, threads=1) for sequences in data.values()]
    pooled = reduce(add, own)
    total = secure_total(data)
    eigenvalues = np.linalg.eigvalsh(pooled.moments()[0])
    penalty = eigenvalues[-1] / size - eigenvalues[0]
    assert penalty > 0
    weights = pooled.solve(penalty).weights
    noise = 0.0
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(own))
        other = reduce(add, (own[k] for k in order)).solve(penalty).weights
        noise = max(noise, float(np.linalg.norm(other - weights)))
    assert noise > 0
    assert np.linalg.norm(total.solve(penalty).weights - weights) <= 10 * noise


def secure_total(data: dict[str, list[Recording]]) -> RidgeStatistics:
    total = run_locally(ridge(), data, threads=1, memories=MEMORIES).state.total
    assert total is not None
    return total


def test_arrival_order_does_not_change_a_byte_of_the_model(tmp_path: Path) -> None:
    data, files = clients(), []
    for seed in range(4):
        plan = ridge()
        result = run(plan, Shuffled(LocalEngine(plan, data, 2, MEMORIES), seed))
        assert result.model is not None
        files.append(save(result.model, tmp_path / f"{seed}.safetensors").read_bytes())
    assert len(set(files)) == 1


def test_evaluation_under_secure_aggregation_gives_the_very_counts() -> None:
    data = clients()
    model = run_locally(ridge(), data, threads=1, memories=MEMORIES).model
    assert model is not None
    plain = run_locally(
        Plan(algorithm=Evaluation(model_under_test=model, store_per_client=False)), data
    )
    hidden = run_locally(
        Plan(
            algorithm=Evaluation(model_under_test=model, store_per_client=False),
            protections=(SECURE,),
        ),
        data,
        memories=MEMORIES,
    )
    totals: list[Score] = [s for s in (plain.state.total, hidden.state.total) if s is not None]
    assert totals[0].errors.n == totals[1].errors.n
    assert totals[0].value == pytest.approx(totals[1].value, rel=1e-12)
    assert hidden.state.by_client == {}


def test_an_algorithm_that_keeps_clients_apart_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="pass store_per_client=False"):
        Plan(algorithm=FederatedRidge(features=FEATURES), protections=(SECURE,))
