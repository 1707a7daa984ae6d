"""H5: an upload that names a client is one client's, whatever number it says.

On the code that was reviewed one client that said it was a million clients passed the clip's bound
with a vector a million bounds long, and the fewest clients of a release with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from catchment import FederatedRidge, Plan, Recording, Reservoir, generate_keys
from catchment.engine import LocalEngine, run_locally
from catchment.errors import FederationError, TooFewClientsError, UploadError
from catchment.features import EchoState
from catchment.federation import Data, Engine, Reply, RoundContext, run
from catchment.federation.learn import ReadoutAveraging
from catchment.privacy import Clip, GaussianNoise, RecordLevel, SecureAggregation
from catchment.privacy.dp import Clipped
from catchment.wire import Message

MILLION = 10**6
CLIP = Clip(bound=4.0)
MAP = EchoState.of(Reservoir(units=8, inputs=1, seed=1), washout=5)
RIDGE = FederatedRidge(features=MAP, ridge=1e-2, store_per_client=False)
Change = Callable[[Clipped], Clipped]


def clients(n: int, pieces: int = 1) -> dict[str, list[Recording]]:
    """Return clients with a wave each, in one recording or in several."""
    made = {}
    for k in range(n):
        u = np.random.default_rng(k).uniform(-0.8, 0.8, 60)
        whole = Recording(u[1:], u[:-1])
        cuts = np.linspace(0, 59, pieces + 1).astype(int).tolist()
        made[f"c{k:02d}"] = [whole.part(a, b) for a, b in pairwise(cuts)]
    return made


def noise(**settings: Any) -> GaussianNoise:
    given = {"epsilon": 8.0, "delta": 1e-5, "clip": CLIP, "small_cohort": True, **settings}
    return GaussianNoise(**given)


@dataclass
class Tampering(Engine):
    """An engine on which the last client's upload is another."""

    plan: Plan[Any, Any, Any]
    data: Mapping[str, list[Recording]]
    change: Callable[[Message], Message]

    def clients(self) -> Sequence[str]:
        return sorted(self.data)

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for reply in LocalEngine(self.plan, self.data).ask(requests):
            assert reply.message is not None
            if reply.client == max(self.data):
                sent = self.change(Message.from_bytes(reply.message)).to_bytes()
                reply = Reply(reply.client, sent)
            yield reply


def clipped(change: Change) -> Callable[[Message], Message]:
    return lambda parts: change(Clipped.from_message(parts)).parts()


def a_million(one: Clipped) -> Clipped:
    return replace(one, vector=one.vector * MILLION, n_clients=MILLION)


def test_a_client_that_says_it_is_a_million_does_not_make_a_release() -> None:
    """The review's case: three clients, a release for a hundred or more."""
    data = clients(3)
    plan: Plan[Any, Any, Any] = Plan(
        algorithm=RIDGE, protections=(noise(min_clients=100, small_cohort=False),)
    )
    with pytest.raises(TooFewClientsError, match="3 clients are in the sum"):
        run_locally(plan, data)
    with pytest.raises(TooFewClientsError, match="2 clients are in the sum"):
        run(plan, Tampering(plan, data, clipped(a_million)))


def test_it_is_refused_and_named_and_the_others_go_on() -> None:
    data = clients(6)
    plan: Plan[Any, Any, Any] = Plan(algorithm=RIDGE, protections=(noise(min_clients=5),))
    result = run(plan, Tampering(plan, data, clipped(a_million)))
    ((refusal),) = result.records[0].refused
    assert (refusal.client, refusal.code) == ("c05", "clients")
    assert refusal.reason == "1000000 clients are claimed, 1 sent it"
    assert result.records[0].n_used == 5
    assert result.state.total.weight < 5 + 40 * plan.protections[0].spread  # type: ignore[attr-defined]


def test_a_vector_beyond_the_bound_of_one_client_is_refused() -> None:
    data = clients(6)
    plan: Plan[Any, Any, Any] = Plan(algorithm=RIDGE, protections=(noise(min_clients=5),))
    for times, code in ((2, "clients"), (1, "bound")):
        result = run(
            plan,
            Tampering(
                plan,
                data,
                clipped(lambda one, n=times: replace(one, vector=one.vector * 100, n_clients=n)),  # type: ignore[misc]
            ),
        )
        assert [(r.client, r.code) for r in result.records[0].refused] == [("c05", code)]


def test_weighted_sums_count_a_client_once() -> None:
    plan: Plan[Any, Any, Any] = Plan(algorithm=ReadoutAveraging(features=MAP))

    def change(parts: Message) -> Message:
        numbers = parts.arrays[0].copy()
        numbers[1] = MILLION
        return replace(parts, arrays=(numbers, *parts.arrays[1:]))

    result = run(plan, Tampering(plan, clients(3), change))
    ((refusal),) = result.records[0].refused
    assert (refusal.client, refusal.code) == ("c02", "clients")
    assert refusal.reason == "1000000 clients are claimed, 1 sent it"


def per_sequence() -> Plan[Any, Any, Any]:
    return Plan(
        algorithm=RecordLevel(algorithm=RIDGE),
        protections=(noise(min_clients=5, unit="sequence"),),
    )


def test_privacy_per_sequence_bounds_a_client_by_the_sequences_that_it_has() -> None:
    data, plan = clients(6, pieces=3), per_sequence()
    assert run_locally(plan, data).records[0].refused == ()

    def longer(one: Clipped) -> Clipped:
        assert (one.n_clients, one.n_records) == (1, 3)
        return replace(one, vector=one.vector * 4)

    result = run(plan, Tampering(plan, data, clipped(longer)))
    assert [(r.client, r.code) for r in result.records[0].refused] == [("c05", "bound")]


def test_sequences_that_are_claimed_are_compared_with_the_other_clients() -> None:
    """How many there are is the client's word: it is bounded as rows are, no more."""
    data, plan = clients(6, pieces=3), per_sequence()

    def many(one: Clipped, n: int) -> Clipped:
        return replace(one, vector=one.vector * n, n_records=3 * n)

    for n, refused in ((1000, [("c05", "over-median")]), (9, [])):
        result = run(plan, Tampering(plan, data, clipped(lambda one, n=n: many(one, n))))  # type: ignore[misc]
        assert [(r.client, r.code) for r in result.records[0].refused] == refused


def test_the_exact_number_of_sequences_is_not_told_under_distributed_noise() -> None:
    """In the sum it would be released without noise."""
    protection = noise(min_clients=10, unit="sequence", distributed=True)
    upload = RecordLevel(algorithm=RIDGE).client_update(
        Message(""), lambda: clients(1, pieces=3)["c00"], RoundContext(0, (), client="c00")
    )
    sent = protection.on_client(upload, RoundContext(0, (), client="c00"))
    assert isinstance(sent, Clipped)
    assert (sent.n_clients, sent.n_records) == (1, 0)


@dataclass(frozen=True, kw_only=True)
class Crowd(ReadoutAveraging):
    """A client that says under secure aggregation, where nobody sees it, that it is a hundred."""

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Any:
        made = super().client_update(received, data, context)
        return Sealed(replace(made, n_clients=100).parts()) if context.client == "c00" else made


@dataclass(frozen=True)
class Sealed:
    sent: Message

    def parts(self) -> Message:
        return self.sent


def test_under_secure_aggregation_the_clients_must_be_as_many_as_there_are() -> None:
    data = clients(10)
    secure = SecureAggregation(generate_keys(data), min_clients=10, rows_per_feature=2)
    plan: Plan[Any, Any, Any] = Plan(algorithm=Crowd(features=MAP), protections=(secure,))
    with pytest.raises(FederationError, match="109 clients are claimed, 10 sent it"):
        run_locally(plan, data)


def test_a_sum_of_several_clients_has_their_bounds() -> None:
    """What nobody is named for is a sum, and may be as long as its clients."""
    protection = noise(min_clients=5)
    vector = np.full(4, CLIP.bound)
    total = Clipped(vector, 2, {})
    read = protection.read_update(total.parts(), RoundContext(0, ()), lambda parts, context: total)
    assert read.n_clients == 2
    with pytest.raises(UploadError, match="above the clip's bound"):
        protection.read_update(
            replace(total, n_clients=1).parts(), RoundContext(0, ()), lambda p, t: total
        )
