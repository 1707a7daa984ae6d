"""C4: clients count what noise allows, and averaging over repeated rounds gains nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from catchment import Array
from catchment.data import Recording
from catchment.engine import LocalEngine
from catchment.errors import TooFewClientsError
from catchment.federation import Algorithm, Data, Memory, Plan, RoundContext, WeightedSum, run
from catchment.privacy import (
    Clip,
    GaussianNoise,
    Policy,
    PrivacyLedger,
    SecureAggregation,
    generate_keys,
)
from catchment.privacy.dp import Clipped
from catchment.wire import Message
from tests.security.fleet import Fleet, Tapped

NAMES = [f"c{k:02d}" for k in range(20)]
NOISE = GaussianNoise(
    epsilon=1.0,
    delta=1e-5,
    clip=Clip(bound=1.0),
    distributed=True,
    min_clients=20,
    small_cohort=True,
)


@dataclass(frozen=True, kw_only=True)
class Vectors(Algorithm[WeightedSum | None, WeightedSum, WeightedSum | None]):
    """Every client sends its numbers."""

    label: str = ""

    def start(self) -> WeightedSum | None:
        return None

    def client_update(self, received: Message, data: Data, context: RoundContext) -> WeightedSum:
        return WeightedSum.of((np.concatenate([r.u.ravel() for r in data()]),), 1.0)

    def server_update(
        self, state: WeightedSum | None, total: WeightedSum, context: RoundContext
    ) -> WeightedSum:
        return total

    def result(self, state: WeightedSum | None) -> WeightedSum | None:
        return state


def fleet(noise: GaussianNoise = NOISE, n_clients: int = 20, **settings: Any) -> Fleet:
    rng = np.random.default_rng(0)
    vectors = {name: rng.normal(size=30) for name in NAMES[:n_clients]}
    identities = generate_keys(vectors)
    secure = SecureAggregation(identities=identities, min_clients=n_clients, **settings)
    plan: Plan[Any, Any, Any] = Plan(algorithm=Vectors(), protections=(noise, secure))
    return Fleet(vectors, plan, identities.memories)


def values(state: Any) -> Array:
    assert isinstance(state, WeightedSum)
    return state.arrays[0]


@pytest.mark.parametrize("n_times", [4, pytest.param(400, marks=pytest.mark.long)])
def test_the_second_of_many_repetitions_is_refused_by_every_client(n_times: int) -> None:
    people, accepted = fleet(), []
    for number in range(n_times):
        tapped = Tapped(people.engine())
        try:
            accepted.append(values(people.run(tapped).state))
        except TooFewClientsError as error:
            assert "above this client's 1; nothing was sent" in str(error)  # noqa: PT017
            said = {
                client: Message.from_bytes(reply).facts.get("code")
                for (stage, client), reply in tapped.said.items()
                if stage == "update"
            }
            assert said == dict.fromkeys(NAMES, "budget"), number
    # The mean over all rounds that were accepted has the noise of one.
    assert len(accepted) == 1
    exact = np.sum([v / np.linalg.norm(v) for v in people.vectors.values()], axis=0)
    assert float(np.std(accepted[0] - exact)) > 0.5 * NOISE.spread


@pytest.mark.parametrize("other", ["plan", "federation", "seed"])
def test_no_other_name_makes_the_budget_new(other: str) -> None:
    noise = replace(NOISE, min_clients=4)
    people = fleet(noise, 4)
    people.run()
    plan: Plan[Any, Any, Any] = people.plan
    if other == "plan":
        plan = replace(plan, algorithm=Vectors(label="again"))
    elif other == "federation":
        plan = replace(plan, protections=(noise, replace(people.masking, federation="again")))
    else:
        plan = replace(plan, seed=5)
    with pytest.raises(TooFewClientsError, match="above this client's 1"):
        Fleet(people.vectors, plan, people.memories).run()


def test_a_plan_that_promises_less_is_refused_where_the_owner_allows_less() -> None:
    people = fleet()
    data = {name: [Recording(v)] for name, v in people.vectors.items()}
    strict = Policy(epsilon=0.5, delta=1e-5)
    with pytest.raises(TooFewClientsError, match=r"told epsilon 1 .* above this client's 0.5"):
        run(people.plan, LocalEngine(people.plan, data, 1, people.memories, strict))


def noisy(memory: Memory, vector: Array, context: RoundContext) -> Array:
    upload = NOISE.on_client(
        WeightedSum.of((vector,), 1.0), replace(context, ledger=PrivacyLedger(memory))
    )
    assert isinstance(upload, Clipped)
    return upload.vector


def test_noise_is_the_same_for_the_same_session_and_else_independent() -> None:
    memory: Memory = {}
    x, context = np.full(400, 0.01), RoundContext(0, (), client="ann", plan="p", session="s")
    first = noisy(memory, x, context)
    np.testing.assert_array_equal(first, noisy(memory, x, context))
    changed = x.copy()
    changed[0] = 0.02
    others = {
        "session": noisy(memory, x, replace(context, session="t")),
        "round": noisy(memory, x, replace(context, plan="q")),
        "vector": noisy(memory, changed, context),
        "client": noisy({}, x, context),
        "server": NOISE.on_client(WeightedSum.of((x,), 1.0), context).vector,
    }
    for name, other in others.items():
        assert not (first == other).any(), name
        assert abs(float(np.corrcoef(first, other)[0, 1])) < 0.3, name


def test_a_round_that_is_resumed_gets_the_same_bytes() -> None:
    """The update request comes twice; fresh noise would read as changed data."""
    people = fleet(n_clients=4, noise=replace(NOISE, min_clients=4))
    exchange = people.until("update")
    requests = {
        c: exchange.request("update", c, Message("none", {})) for c in exchange.asked("update")
    }
    client, request = next(iter(requests.items()))
    answers = [people.ask(client, "update", request).to_bytes() for _ in range(2)]
    assert answers[0] == answers[1]


def test_noise_is_spent_when_the_upload_leaves_whoever_opens_the_sum() -> None:
    """A server that never asks a client to unmask would have its upload for nothing."""
    people = fleet(n_clients=4, noise=replace(NOISE, min_clients=4))
    people.until("update")
    assert all(PrivacyLedger(memory).entries() == [] for memory in people.memories.values())
    people = fleet(n_clients=4, noise=replace(NOISE, min_clients=4))
    people.until("consistency")
    for memory in people.memories.values():
        (entry,) = PrivacyLedger(memory).entries()
        assert (entry.n_clients, entry.epsilon) == (4, NOISE.epsilon)
    with pytest.raises(TooFewClientsError, match="above this client's 1"):
        people.run()


def test_noise_of_the_server_is_exact_to_the_server() -> None:
    memory: Memory = {}
    ledger = PrivacyLedger(memory)
    central = replace(NOISE, distributed=False)
    list(ledger.reading(lambda: [Recording(np.arange(30.0))])())
    central.on_client(WeightedSum.of((np.ones(30),), 1.0), RoundContext(0, (), ledger=ledger))
    ledger.upload("p", 0, "clipped")
    (entry,) = ledger.entries()
    assert entry.is_exact
    assert entry.epsilon == 1.0


def test_a_fifth_of_the_clients_is_not_relied_upon() -> None:
    assert NOISE.n_colluding == 4
    assert NOISE.share == pytest.approx(NOISE.spread / 4)  # the root of 16
    assert replace(NOISE, distributed=False).n_colluding == 0
    assert replace(NOISE, colluding=0).share == pytest.approx(NOISE.spread / 20**0.5)
