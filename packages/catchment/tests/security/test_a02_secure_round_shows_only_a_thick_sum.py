"""A2: no client's sequence comes back from a secure round; thin cohorts stop at the client.

The attack is the walk of the null space: the states of every client lie in the range of the summed
Gram matrix, so while that has a null space each input solves Q' F(x, u) = 0 in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pytest
import scipy.optimize

from catchment import Array
from catchment.data import Recording
from catchment.engine import LocalEngine, run_locally
from catchment.errors import TooFewClientsError
from catchment.features import EchoState, Reservoir
from catchment.federation import Engine, Memory, Plan, Reply, RoundContext, run
from catchment.federation.learn import FederatedRidge
from catchment.privacy import (
    Clip,
    GaussianNoise,
    Helper,
    RecordLevel,
    SecureAggregation,
    generate_keys,
    new_helper,
)
from catchment.privacy.secure_aggregation import SecureRound
from catchment.readout import RidgeStatistics, unpack

N = 40
RESERVOIR = Reservoir(units=N, inputs=1, leak_rate=1.0, seed=3)
FEATURES = EchoState.of(RESERVOIR, input=False)


def clients(n_clients: int, n_steps: int, seed: int = 0) -> dict[str, list[Recording]]:
    rng = np.random.default_rng(seed)
    inputs = {f"c{k:02d}": rng.normal(size=(n_steps, 1)) for k in range(n_clients)}
    return {name: [Recording(u, np.roll(u, 1, axis=0))] for name, u in inputs.items()}


def step(x: Array, u: Array) -> Array:
    """Return the states (n, N) that inputs (n,) lead to from one state."""
    at = [np.arctanh(RESERVOIR.states(np.array([[v]]), x)[0]) for v in (0.0, 1.0)]
    x = np.tanh(at[0] + u[:, None] * (at[1] - at[0]))
    return x


def roots(Q: Array, x: Array) -> list[float]:
    """Return the inputs after which the state has nothing in the null space."""

    def left(u: float) -> float:
        return float(np.linalg.norm(step(x, np.array([u])) @ Q))

    grid = np.linspace(-4.0, 4.0, 801)
    sizes = np.linalg.norm(step(x, grid) @ Q, axis=1)
    dips = np.flatnonzero((sizes[1:-1] < sizes[:-2]) & (sizes[1:-1] < sizes[2:])) + 1
    found = []
    for k in dips:
        best = scipy.optimize.minimize_scalar(
            left, bounds=(grid[k - 1], grid[k + 1]), method="bounded", options={"xatol": 1e-12}
        )
        if best.fun < 1e-5:
            found.append(float(best.x))
    return found


def recovered(total: RidgeStatistics, data: dict[str, list[Recording]], n_steps: int) -> int:
    """Return how many clients' first inputs the walk finds, to three digits."""
    eigenvalues, vectors = np.linalg.eigh(unpack(total.gram))
    # With no null space left, the attacker makes do with the smallest directions.
    n_null = max(5, int((eigenvalues < 1e-9 * eigenvalues[-1]).sum()))
    Q = vectors[:, :n_null]
    paths = []
    for first in roots(Q, np.zeros(N)):
        path, x = [first], step(np.zeros(N), np.array([first]))[0]
        while len(path) < n_steps and (found := roots(Q, x)):
            path.append(found[0])
            x = step(x, np.array([found[0]]))[0]
        paths.append(np.array(path))
    truth = [sequences[0].u[:n_steps, 0] for sequences in data.values()]
    return sum(any(len(p) == n_steps and np.abs(p - u).max() < 1e-3 for p in paths) for u in truth)


def secure_plan(identities: Mapping[str, str], **settings: Any) -> Plan[Any, Any, Any]:
    return Plan(
        algorithm=FederatedRidge(features=FEATURES, ridge=1e-3, store_per_client=False),
        protections=(SecureAggregation(identities=identities, **settings),),
    )


def test_the_attack_works_on_a_thin_sum() -> None:
    data = clients(3, 8)
    rows = [RESERVOIR.states(sequences[0].u) for sequences in data.values()]
    parts = [RidgeStatistics.from_states(z, np.zeros((len(z), 1))) for z in rows]
    assert recovered(parts[0] + parts[1] + parts[2], data, 8) == 3


def test_the_attack_finds_nobody_in_a_secure_round_with_default_rules() -> None:
    data = clients(10, 20 * N // 10)
    identities = generate_keys(data)
    memories = identities.memories
    plan = secure_plan(identities)
    result = run(plan, LocalEngine(plan, data, 1, memories))
    assert result.state.by_client == {}
    assert result.state.total.n_rows == 20 * N
    assert recovered(result.state.total, data, 3) == 0


@dataclass(eq=False)
class Watching(Engine):
    """An engine that remembers who sent a masked vector."""

    engine: Engine
    uploaded: list[str] = field(default_factory=list)

    def clients(self) -> Sequence[str]:
        return self.engine.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in self.engine.ask(requests):
            if reply.message is not None and b"secure-upload" in reply.message:
                self.uploaded.append(reply.client)
            yield reply


def uploads_of(
    plan: Plan[Any, Any, Any], data: dict[str, list[Recording]], memories: dict[str, Memory]
) -> list[str]:
    """Return whose masked vectors left in a round that must end early."""
    engine = Watching(LocalEngine(plan, data, 1, memories))
    with pytest.raises(TooFewClientsError, match="nothing was released"):
        run(plan, engine)
    return engine.uploaded


@pytest.mark.parametrize("n_steps", [1, 2 * N // 4 - 1])
def test_a_cohort_below_two_rows_per_feature_stops_at_the_client(n_steps: int) -> None:
    data = clients(4, n_steps)
    identities = generate_keys(data)
    memories = identities.memories
    plan = secure_plan(identities, min_clients=4, rows_per_feature=2)
    assert uploads_of(plan, data, memories) == []


def test_the_same_cohort_with_enough_rows_is_summed() -> None:
    data = clients(4, 2 * N // 4)
    identities = generate_keys(data)
    memories = identities.memories
    plan = secure_plan(identities, min_clients=4, rows_per_feature=2)
    engine = Watching(LocalEngine(plan, data, 1, memories))
    assert run(plan, engine).state.total.n_rows == 2 * N
    assert engine.uploaded == sorted(data)


def test_a_cohort_below_three_clients_stops_at_the_client() -> None:
    data = clients(2, 20 * N)
    identities = generate_keys(data)
    memories = identities.memories
    assert uploads_of(secure_plan(identities, min_clients=3), data, memories) == []


def test_a_server_that_forgets_the_minimum_is_refused_by_the_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = clients(4, 20 * N)
    identities = generate_keys(data)
    memories = identities.memories
    plan = secure_plan(identities, min_clients=5, rows_per_feature=2)

    def careless(self: SecureAggregation, context: RoundContext, **_: object) -> SecureRound:
        return SecureRound(self, context, 1, None)

    monkeypatch.setattr(SecureAggregation, "open", careless)
    assert uploads_of(plan, data, memories) == []


@pytest.mark.parametrize(("setting", "value"), [("min_clients", 2), ("rows_per_feature", 1.9)])
def test_the_floors_cannot_be_lowered(setting: str, value: float) -> None:
    identities = generate_keys(["a", "b", "c"])
    with pytest.raises(ValueError, match=setting):
        secure_plan(identities, **{setting: value})


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("unit", ["client", "sequence"])
@pytest.mark.parametrize("distributed", [False, True])
def test_noise_lets_no_thin_sum_through(
    *, distributed: bool, unit: Literal["client", "sequence"], servers: Literal[1, 2]
) -> None:
    """An epsilon may be as large as a server likes, and its own noise comes after the sum."""
    data = clients(4, 24)
    ridge: Any = FederatedRidge(features=FEATURES, ridge=0.0, store_per_client=False)
    noise = GaussianNoise(
        epsilon=1e6,
        delta=1e-5,
        clip=Clip(bound=1e3),
        distributed=distributed,
        min_clients=3,
        small_cohort=True,
        colluding=0,
        unit=unit,
    )
    for rows_per_feature in (2.0, 3.0):  # of 40 features: 20 or 30 rows from each of four clients
        memory: Memory = {}
        helper: Any = {"servers": 2, "helper": new_helper(memory)} if servers == 2 else {}
        secure: Any = SecureAggregation(
            generate_keys(data),
            min_clients=4,
            rows_per_feature=rows_per_feature,
            corrupt=0.0,
            **helper,
        )
        if servers == 2:
            secure = replace(secure, assist=Helper(memory, secure).answer)
        algorithm = ridge if unit == "client" else RecordLevel(algorithm=ridge)
        plan = Plan(algorithm=algorithm, protections=(noise, secure))
        if rows_per_feature == 2.0:
            assert run_locally(plan, data).records[0].n_used == 4
        else:
            with pytest.raises(TooFewClientsError, match="too few rows for 40 features"):
                run_locally(plan, data)
