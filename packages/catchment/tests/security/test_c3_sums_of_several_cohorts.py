"""C3: sums over several sets of clients do not give one client, whatever is asked in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from catchment import Array
from catchment.data import Recording
from catchment.engine import LocalEngine
from catchment.errors import TooFewClientsError
from catchment.features import EchoState, Reservoir
from catchment.federation import Memory, Plan, run
from catchment.federation.learn import FederatedRidge
from catchment.privacy import Identities, Policy, SecureAggregation, generate_keys
from tests.security.fleet import Adding, Numbers

X, Y, VICTIM = ["x0", "x1", "x2"], ["y0", "y1", "y2"], "v"
EVERYBODY = [*X, *Y, VICTIM]


def _vectors() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=20) for name in EVERYBODY}


@dataclass(eq=False)
class People:
    """Clients who keep their memories while a server makes plans as it likes."""

    vectors: dict[str, Array] = field(default_factory=_vectors)
    keys: Identities = field(default_factory=lambda: generate_keys(EVERYBODY))
    policy: Policy = field(default_factory=Policy)

    def summed(self, names: Sequence[str], *, label: str = "", federation: str = "f") -> Array:
        """Return what the server reads of secure aggregation over these clients, agreed by all."""
        plan = self.plan(Adding(label=label), names, federation)
        data = {name: [Recording(self.vectors[name])] for name in names}
        state = run(plan, LocalEngine(plan, data, 1, self.memories, self.policy)).state
        assert isinstance(state, Numbers)
        return state.values

    def plan(self, algorithm: Any, names: Sequence[str], federation: str) -> Plan[Any, Any, Any]:
        masking = SecureAggregation(
            identities={name: self.keys[name] for name in names},
            min_clients=3,
            federation=federation,
            rows_per_feature=2,
        )
        return Plan(algorithm=algorithm, protections=(masking,))

    @property
    def memories(self) -> dict[str, Memory]:
        return self.keys.memories

    def expected(self, names: Sequence[str]) -> Array:
        return np.asarray(np.sum([self.vectors[name] for name in names], axis=0))


def test_three_sums_do_not_give_one_client() -> None:
    """S(v + X + Y) - S(X) - S(Y) would be the victim's numbers."""
    people = People()
    for names in (X, Y):
        np.testing.assert_allclose(people.summed(names), people.expected(names))
    with pytest.raises(TooFewClientsError, match="over another set of 3 clients"):
        people.summed(EVERYBODY)


def test_what_the_rule_prevents_is_real() -> None:
    """The owners may allow it; then the server reads the victim."""
    people = People(policy=Policy(exact="any clients"))
    found = people.summed(EVERYBODY) - people.summed(X) - people.summed(Y)
    np.testing.assert_allclose(found, people.vectors[VICTIM], rtol=1e-9)


def test_sixteen_other_sums_are_not_enough_to_forget_one() -> None:
    people = People()
    people.summed(EVERYBODY)
    for k in range(16):
        people.summed(EVERYBODY, label=f"another plan {k}")
    with pytest.raises(TooFewClientsError, match="over another set of 7 clients"):
        people.summed([*X, *Y])


@pytest.mark.parametrize("change", [{"federation": "g"}, {"label": "another plan"}])
def test_another_name_does_not_start_anew(change: Mapping[str, str]) -> None:
    people = People()
    people.summed(EVERYBODY)
    with pytest.raises(TooFewClientsError, match="over another set of 7 clients"):
        people.summed([*X, *Y], **change)


def test_another_recipe_does_not_start_anew() -> None:
    """Class counts of two recipes subtract as those of one."""
    people = People()
    rng = np.random.default_rng(1)
    data = {name: [_labeled(rng) for _ in range(12)] for name in EVERYBODY}

    def counts(seed: int, names: Sequence[str]) -> Array:
        F = EchoState.of(Reservoir(units=4 + seed, inputs=1, seed=seed))
        algorithm = FederatedRidge(
            features=F, ridge=1.0, store_per_client=False, classes=("a", "b")
        )
        plan = people.plan(algorithm, names, "f")
        chosen = {name: data[name] for name in names}
        total = run(plan, LocalEngine(plan, chosen, 1, people.memories)).state.total
        return np.asarray(total.target_sum)

    truth = np.sum([s.y for name in EVERYBODY for s in data[name] if s.y is not None], axis=0)
    np.testing.assert_allclose(counts(0, EVERYBODY), 20 * truth)  # each of 20 steps
    with pytest.raises(TooFewClientsError, match="over another set of 7 clients"):
        counts(1, [*X, *Y])
    counts(1, EVERYBODY)


def _labeled(rng: np.random.Generator) -> Recording:
    label = str(rng.choice(["a", "b"]))
    return Recording.labeled(rng.normal(size=(20, 1)), label=label, classes=("a", "b"))


def test_one_row_more_is_not_told() -> None:
    """S(after) - S(before) would be the new row of the one client that got one."""
    people = People()
    people.summed(EVERYBODY)
    people.vectors[VICTIM] = np.append(people.vectors[VICTIM], 7.0)
    others = {name: vector[:20] for name, vector in people.vectors.items() if name != VICTIM}
    people.vectors.update({name: np.append(v, 0.0) for name, v in others.items()})
    with pytest.raises(TooFewClientsError, match="released before and have changed since"):
        people.summed(EVERYBODY)


def test_a_client_without_a_ledger_of_its_own_keeps_one() -> None:
    """Secure aggregation notes what it releases even where nobody asked for it."""
    people = People()
    people.summed(X)
    assert all("releases/head" in people.memories[name] for name in X)
    with pytest.raises(TooFewClientsError, match="over another set of 3 clients"):
        people.summed([*X, VICTIM])
