"""Choosing the ridge from sums: against explicit residuals of refitted ridges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from catchment import Array
from catchment.data import ACTIVITIES, Recording, contiguous, narma, synthetic_wearables
from catchment.engine import LocalEngine, run_locally
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.features import EchoState, Reservoir
from catchment.federation import Engine, Plan, Reply, RoundContext, Rows, Tally, run
from catchment.federation.learn import (
    Candidates,
    FederatedRidge,
    PathErrors,
    Race,
)
from catchment.privacy import SecureAggregation, generate_keys
from catchment.wire import Message, join

PER_STEP = EchoState.of(Reservoir(units=12, inputs=1, seed=1), washout=8)
POOLED = EchoState.of(Reservoir(units=8, inputs=6, seed=2), pool="mean_std")
SERIES = {
    name: [replace(s, y=np.column_stack([np.asarray(s.y), np.roll(s.u, 2)])) for s in part]
    for name, part in contiguous(narma(300, seed=3), 4).items()
}
PEOPLE = synthetic_wearables(4, seed=1, windows_per_user=16)


def explicit(
    features: EchoState, clients: Mapping[str, list[Recording]], ridges: Array
) -> tuple[Array, Array, dict[str, Array]]:
    """Return squared errors (R, K) and hits (R,) of ridges refitted without each client."""
    rows = {name: Rows.of(features, part).pair for name, part in clients.items()}
    squared: dict[str, Array] = {}
    hits = np.zeros(len(ridges))
    for name, (z, y) in rows.items():
        others = [rows[other] for other in rows if other != name]
        Z, Y = (np.concatenate([pair[k] for pair in others]) for k in (0, 1))
        outputs = [Ridge(alpha=r, solver="svd").fit(Z, Y).predict(z) for r in ridges]
        squared[name] = np.array([((y - out) ** 2).sum(axis=0) for out in outputs])
        hits += [(out.argmax(axis=1) == y.argmax(axis=1)).sum() for out in outputs]
    return np.sum(list(squared.values()), axis=0), hits, squared


def from_sums(features: EchoState, **settings: Any) -> Candidates:
    """Return the choice of a ridge by clients, for a server that sees nothing but sums."""
    return Candidates(features=(features,), store_per_client=False, **settings)


def select(algorithm: Candidates, clients: Any) -> Race:
    return run_locally(Plan(algorithm=algorithm, rounds=2), clients).state


def test_the_summed_errors_are_explicit_leave_one_client_out_residuals() -> None:
    state = select(from_sums(PER_STEP), SERIES)
    assert state.choice is not None
    squared, _, by_client = explicit(PER_STEP, SERIES, state.choice.ridges)
    assert state.errors is not None
    np.testing.assert_allclose(state.errors.squared, squared, rtol=1e-7)
    for name, errors in state.judged.items():
        np.testing.assert_allclose(errors.squared, by_client[name], rtol=1e-7)
    assert state.readout is not None
    assert state.readout.ridge == state.choice.ridges[squared.sum(axis=1).argmin()]


def test_two_rounds_of_sums_choose_what_the_server_with_all_statistics_chooses() -> None:
    sums = select(from_sums(PER_STEP), SERIES)
    kept = run_locally(Plan(algorithm=FederatedRidge(features=PER_STEP)), SERIES).state
    assert sums.readout is not None
    assert kept.readout is not None
    assert sums.choice is not None
    assert kept.choice is not None
    np.testing.assert_allclose(sums.choice.errors, kept.choice.errors, rtol=1e-9)
    assert sums.readout.weights.tobytes() == kept.readout.weights.tobytes()


def test_classes_are_counted_on_left_out_clients() -> None:
    state = select(from_sums(POOLED, classes=ACTIVITIES), PEOPLE)
    assert state.choice is not None
    squared, hits, _ = explicit(POOLED, PEOPLE, state.choice.ridges)
    assert state.errors is not None
    np.testing.assert_array_equal(state.errors.correct, hits)
    np.testing.assert_allclose(state.errors.squared, squared, rtol=1e-7)
    assert state.readout is not None
    assert state.readout.ridge == state.choice.ridges[squared.sum(axis=1).argmin()]
    np.testing.assert_allclose(state.errors.accuracy(), hits / 64)


def test_one_round_alone_makes_no_model() -> None:
    result = run_locally(Plan(algorithm=from_sums(PER_STEP), rounds=1), SERIES)
    with pytest.raises(FederationError, match="run all the rounds of the plan"):
        _ = result.model
    assert result.state.total is not None
    assert result.state.total.members[0].n_rows == 300 - 4 * 8
    assert result.state.by_client == {}
    assert result.state.clients == tuple(sorted(SERIES))


@dataclass(frozen=True)
class Absent(Engine):
    """An engine that loses one client's reply in one round."""

    inner: LocalEngine[Any, Any, Any]
    client: str
    round: int

    def clients(self) -> Sequence[str]:
        return self.inner.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        (message,) = set(requests.values())
        first = b'"kind":"alive"' in message
        for reply in self.inner.ask(requests):
            if reply.client != self.client or first != (self.round == 0):
                yield reply


def test_a_client_that_missed_the_first_round_is_told_so() -> None:
    plan: Plan[Any, Any, Any] = Plan(algorithm=from_sums(PER_STEP), rounds=2)
    late = "client-002"
    state = run(plan, Absent(LocalEngine(plan, SERIES), late, 0)).state
    others = {name: part for name, part in SERIES.items() if name != late}
    expected = select(from_sums(PER_STEP), others)
    assert state.clients == tuple(sorted(others))
    assert state.errors.squared.tobytes() == expected.errors.squared.tobytes()  # type: ignore[union-attr]
    assert state.readout.weights.tobytes() == expected.readout.weights.tobytes()  # type: ignore[union-attr]


def test_a_client_that_misses_the_second_round_only_leaves_its_errors_out() -> None:
    plan: Plan[Any, Any, Any] = Plan(algorithm=from_sums(PER_STEP), rounds=2)
    state = run(plan, Absent(LocalEngine(plan, SERIES), "client-002", 1)).state
    _, _, by_client = explicit(PER_STEP, SERIES, state.choice.ridges)
    rest = sum(errors for name, errors in by_client.items() if name != "client-002")
    np.testing.assert_allclose(state.errors.squared, rest, rtol=1e-7)
    assert state.total.members[0].n_rows == 300 - 4 * 8


def test_a_client_notices_that_it_is_not_in_the_total() -> None:
    algorithm = from_sums(PER_STEP)
    context = RoundContext(1, (), client="a")
    others = {name: SERIES[name] for name in ("client-000", "client-001")}
    state = run_locally(Plan(algorithm=algorithm, rounds=1), others).state
    told = algorithm.broadcast(state, context)
    with pytest.raises(UploadError) as caught:
        algorithm.client_update(told, lambda: [s for p in SERIES.values() for s in p], context)
    assert caught.value.code == "not-summed"
    stranger = [replace(s, u=5 * s.u) for s in SERIES["client-002"]]
    with pytest.raises(UploadError) as caught:
        algorithm.client_update(told, lambda: stranger, context)
    assert caught.value.code == "not-summed"


def test_a_client_alone_has_nothing_to_be_left_out_of() -> None:
    algorithm = from_sums(PER_STEP)
    one = {"a": SERIES["client-000"]}
    state = run_locally(Plan(algorithm=algorithm, rounds=1), one).state
    with pytest.raises(UploadError) as caught:
        algorithm.client_update(
            algorithm.broadcast(state, RoundContext(1, ())), lambda: one["a"], RoundContext(1, ())
        )
    assert caught.value.code == "alone"


def test_a_hidden_sum_is_believed_without_names() -> None:
    algorithm = from_sums(PER_STEP)
    named = select(algorithm, SERIES)
    assert named.total is not None
    assert named.errors is not None
    nameless = RoundContext(0, tuple(SERIES))
    first = algorithm.server_update(
        algorithm.start(), algorithm.read_update(named.total.parts(), nameless), nameless
    )
    after = replace(nameless, round=1)
    second = algorithm.server_update(
        first, algorithm.read_update(named.errors.parts(), after), after
    )
    assert second.readout is not None
    assert named.readout is not None
    assert second.readout.weights.tobytes() == named.readout.weights.tobytes()


def errors(**changes: Any) -> PathErrors:
    value = PathErrors(5, 5.0, np.ones((2, 3)), np.array([1.0, 5.0]))
    return replace(value, **changes)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (errors(squared=np.full((2, 3), np.nan)), "not-finite"),
        (errors(weight=np.inf), "not-finite"),
        (errors(squared=-np.ones((2, 3))), "count"),
        (errors(n_rows=-5), "count"),
        (errors(weight=-5.0), "count"),
        (errors(correct=np.array([1.0, 6.0])), "count"),
        (errors(correct=np.array([-1.0, 5.0])), "count"),
    ],
)
def test_errors_that_cannot_be_are_refused(value: PathErrors, code: str) -> None:
    with pytest.raises(UploadError) as caught:
        PathErrors.from_message(value.parts()).checked()
    assert caught.value.code == code


def test_errors_of_different_paths_and_kinds_do_not_add() -> None:
    with pytest.raises(UploadError, match="do not add"):
        errors() + errors(squared=np.ones((3, 3)), correct=np.zeros(3))
    algorithm = from_sums(PER_STEP)
    statistics = select(algorithm, SERIES).total
    assert statistics is not None
    for round_, other in enumerate((errors(), statistics)):
        with pytest.raises(IntegrityError, match="expected"):
            algorithm.read_update(other.parts(), RoundContext(round_, ()))


def test_errors_before_a_total_stop_the_run() -> None:
    algorithm = from_sums(PER_STEP)
    with pytest.raises(FederationError, match="before there was a total"):
        algorithm.server_update(algorithm.start(), Tally(errors(), {}), RoundContext(1, ()))


def test_a_broadcast_that_is_not_a_path_is_refused_by_the_client() -> None:
    algorithm = from_sums(PER_STEP)
    for wrong in (Message("path"), join("other", {})):
        with pytest.raises(IntegrityError, match="expected"):
            algorithm.client_update(wrong, lambda: SERIES["client-000"], RoundContext(1, ()))


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ValueError, match="by is 'f1'"):
        from_sums(PER_STEP, by="f1")
    with pytest.raises(ValueError, match="needs classes"):
        from_sums(PER_STEP, by="accuracy")


def test_secure_aggregation_chooses_the_same_ridge_and_shows_no_client() -> None:
    small = EchoState.of(Reservoir(units=4, inputs=1, seed=1), washout=5)
    clients = contiguous(narma(400, seed=3), 4)
    identities = generate_keys(clients)
    memories = identities.memories
    secure = SecureAggregation(identities=identities, min_clients=3, rows_per_feature=2)
    algorithm = from_sums(small)
    plan: Plan[Any, Any, Any] = Plan(algorithm=algorithm, rounds=2, protections=(secure,))
    hidden = run_locally(plan, clients, memories=memories).state
    seen = select(algorithm, clients)
    assert hidden.clients == ()
    assert hidden.by_client == hidden.judged == {}
    assert seen.errors is not None
    np.testing.assert_allclose(hidden.errors.squared, seen.errors.squared, rtol=1e-9)
    assert seen.readout is not None
    assert hidden.readout.ridge == pytest.approx(seen.readout.ridge, rel=1e-9)
    np.testing.assert_allclose(hidden.readout.weights, seen.readout.weights, rtol=1e-9)
