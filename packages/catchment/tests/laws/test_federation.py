"""Laws of federated sums: who holds what, in which order and in which pieces does not matter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import sklearn.linear_model
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import FederatedRidge, Plan, Reservoir, federate, save
from catchment.data import Recording
from catchment.engine import LocalEngine
from catchment.features import EchoState
from catchment.federation import BLOCK, Limits, Sums, Tally, run
from catchment.federation.learn import RidgeState, unlearn
from catchment.readout import Model, RidgeStatistics, accumulate

Clients = dict[str, list[Recording]]
N_SEQUENCES = 12
NAMES = [f"client-{k}" for k in range(5)]
SUMS = ("feature_sum", "target_sum", "gram", "cross", "target_gram")


@cache
def features() -> EchoState:
    return EchoState.of(Reservoir(units=9, inputs=2, seed=4), washout=3)


@cache
def sequences() -> tuple[Recording, ...]:
    """Sequences of different lengths, one of them with targets missing."""
    rng = np.random.default_rng(1)
    made = []
    for k in range(N_SEQUENCES):
        u = rng.normal(size=(10 + 3 * k, 2))
        y = np.cumsum(u, axis=0) @ np.array([[1.0, 0.5], [-0.3, 2.0]])
        y[5] = np.nan if k == 2 else y[5]
        made.append(Recording(u, y))
    return tuple(made)


@cache
def rows() -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], ...]:
    """All feature rows and targets, as somebody with all the data would have them."""
    z = np.concatenate(features().rows([s.u for s in sequences()]))
    y = np.concatenate([s.y[features().washout :] for s in sequences() if s.y is not None])
    known = ~np.isnan(y).any(axis=1)
    return z[known], y[known]


partitions = st.lists(st.integers(0, 4), min_size=N_SEQUENCES, max_size=N_SEQUENCES)


def clients_of(owners: list[int], order: list[int] | None = None) -> Clients:
    """Return the clients that a list of owners makes, sequences in a given order."""
    held: Clients = {}
    for k in order or range(N_SEQUENCES):
        held.setdefault(f"client-{owners[k]}", []).append(sequences()[k])
    return held


def plan(
    ridge: float = 0.1, increments: int = 1
) -> Plan[RidgeState, Tally[RidgeStatistics], Model]:
    algorithm = FederatedRidge(features=features(), ridge=ridge, increments=increments)
    # Any split is one here, also where one client has ten times what others have.
    return Plan(algorithm=algorithm, rounds=increments, limits=Limits(over_median=1e9))


def assert_close(one: RidgeStatistics, other: RidgeStatistics, tolerance: float = 1e-12) -> None:
    assert one.n_rows == other.n_rows
    for name in SUMS:
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())


def total(result_state: RidgeState) -> RidgeStatistics:
    assert result_state.total is not None
    return result_state.total


def file_bytes(clients: Mapping[str, list[Recording]], threads: int | None = None) -> bytes:
    """Return the model file that comes of some clients."""
    model = federate(plan(), clients, threads=threads).model
    assert model is not None
    with TemporaryDirectory() as folder:
        return save(model, Path(folder) / "model.safetensors").read_bytes()


@settings(max_examples=30)
@given(owners=partitions)
def test_any_partition_gives_the_pooled_statistics(owners: list[int]) -> None:
    z, y = rows()
    pooled = RidgeStatistics.from_states(z, y)
    assert_close(total(federate(plan(), clients_of(owners)).state), pooled)


@settings(max_examples=30)
@given(owners=partitions, ridge=st.floats(1e-3, 1e3))
def test_any_partition_gives_scikit_learns_ridge(owners: list[int], ridge: float) -> None:
    z, y = rows()
    theirs = sklearn.linear_model.Ridge(alpha=ridge, solver="svd").fit(z, y)
    model = federate(plan(ridge), clients_of(owners)).model
    assert model is not None
    np.testing.assert_allclose(model.readout.weights, theirs.coef_.T, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.readout.intercept, theirs.intercept_, rtol=1e-6, atol=1e-8)


@settings(max_examples=20)
@given(owners=partitions, order=st.permutations(range(N_SEQUENCES)))
def test_any_order_within_clients_gives_the_same_statistics(
    owners: list[int], order: list[int]
) -> None:
    one = federate(plan(), clients_of(owners)).state
    other = federate(plan(), clients_of(owners, order)).state
    assert_close(total(one), total(other))


@settings(max_examples=20)
@given(owners=partitions, increments=st.integers(1, 5))
def test_any_chunking_gives_the_same_statistics(owners: list[int], increments: int) -> None:
    z, y = rows()
    by_and_by = federate(plan(increments=increments), clients_of(owners)).state
    assert_close(total(by_and_by), RidgeStatistics.from_states(z, y))


@settings(max_examples=15)
@given(owners=partitions, names=st.permutations(NAMES), threads=st.integers(1, 3))
def test_the_model_file_is_the_same_to_the_byte_whoever_is_listed_first(
    owners: list[int], names: list[str], threads: int
) -> None:
    clients = clients_of(owners)
    shuffled = {name: clients[name] for name in names if name in clients}
    assert file_bytes(shuffled, threads) == file_bytes(clients, 1)


@settings(max_examples=20)
@given(n=st.integers(1, 3 * BLOCK), seed=st.integers(0, 2**32 - 1), absent=st.integers(1, 9))
def test_two_levels_of_servers_give_the_same_bits(n: int, seed: int, absent: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, size=n)
    cohort = [f"c{k:04d}" for k in range(n)]
    answers = {cohort[k]: float(values[k]) for k in range(0, n, absent)}
    one = Sums(cohort)
    for name, value in answers.items():
        one.add(name, value)
    # Servers below, each with whole blocks of the cohort; the one above adds their sums.
    blocks = [cohort[k : k + BLOCK] for k in range(0, n, BLOCK)]
    below = [[answers[name] for name in block if name in answers] for block in blocks]
    assert one.total(1, []) == reduce(add, (reduce(add, block) for block in below if block))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 20), m=st.integers(1, 20))
def test_taking_away_what_was_added_changes_nothing(seed: int, n: int, m: int) -> None:
    # Integers add without rounding, so that the law is exact.
    rng = np.random.default_rng(seed)
    whole = [rng.integers(-9, 9, size=(k, 6)).astype(float) for k in (n, m)]
    one, other = (RidgeStatistics.from_states(part[:, :4], part[:, 4:]) for part in whole)
    assert (one + other) - other == one
    assert one + other == other + one


@settings(max_examples=20)
@given(owners=partitions, gone=st.integers(0, 4))
def test_forgetting_a_client_is_never_having_had_it(owners: list[int], gone: int) -> None:
    clients, name = clients_of(owners), f"client-{gone}"
    rest = {other: held for other, held in clients.items() if other != name}
    if name not in clients or not rest:
        return
    algorithm = FederatedRidge(features=features(), ridge=0.5)
    state = federate(Plan(algorithm=algorithm), clients).state
    after = unlearn(algorithm, state, name).state
    never = federate(Plan(algorithm=algorithm), rest).state
    assert total(after) == total(never)
    assert after.readout is not None
    assert never.readout is not None
    np.testing.assert_array_equal(after.readout.weights, never.readout.weights)


@settings(max_examples=15)
@given(owners=partitions, late=st.integers(0, 4))
def test_joining_late_is_having_been_there(owners: list[int], late: int) -> None:
    clients, name = clients_of(owners), f"client-{late}"
    early = {other: held for other, held in clients.items() if other != name}
    if name not in clients or not early:
        return
    mine = accumulate(features(), clients[name], threads=1)
    joined = total(federate(plan(), early).state) + mine
    assert_close(joined, total(federate(plan(), clients).state))


def test_the_loop_and_a_plain_sum_agree() -> None:
    clients = clients_of([k % 3 for k in range(N_SEQUENCES)])
    p = plan()
    by_loop = run(p, LocalEngine(p, clients)).state
    by_hand = reduce(add, (accumulate(features(), clients[n], threads=1) for n in sorted(clients)))
    assert total(by_loop) == by_hand
