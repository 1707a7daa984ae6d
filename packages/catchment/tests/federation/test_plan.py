"""Plans: what both sides agree on, and what a change of any setting does to the fingerprint."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.features import NVAR, EchoState, Reservoir
from catchment.federation import Plan, RoundContext, describe
from catchment.federation.learn import (
    Candidates,
    FederatedRidge,
    PersonalReadouts,
    ReadoutAveraging,
)
from catchment.readout import LDA

RESERVOIR = Reservoir(units=5, inputs=1, seed=1)
FEATURES = EchoState.of(RESERVOIR)
PLAN: Plan[Any, Any, Any] = Plan(algorithm=FederatedRidge(features=FEATURES, ridge=0.1))
names = st.lists(st.text(min_size=1), unique=True, min_size=1, max_size=30)


@given(
    clients=names, share=st.floats(0.01, 1.0), seed=st.integers(0, 2**32), round_=st.integers(0, 99)
)
def test_a_cohort_depends_on_seed_and_round_and_not_on_the_order_of_clients(
    clients: list[str], share: float, seed: int, round_: int
) -> None:
    plan = replace(PLAN, client_fraction=share, seed=seed)
    cohort = plan.cohort(clients, round_)
    assert cohort == plan.cohort(clients[::-1], round_)
    assert list(cohort) == sorted(set(cohort))
    assert set(cohort) <= set(clients)
    assert len(cohort) == max(1, min(len(clients), round(share * len(clients))))


def test_cohorts_differ_from_round_to_round_and_reach_everybody() -> None:
    clients = [f"{k:02d}" for k in range(20)]
    plan = replace(PLAN, client_fraction=0.25)
    cohorts = [plan.cohort(clients, k) for k in range(40)]
    assert len(set(cohorts)) > 30
    assert set().union(*cohorts) == set(clients)
    assert PLAN.cohort(clients, 3) == tuple(clients)


def test_a_clients_generator_is_its_own() -> None:
    context = RoundContext(2, ("a", "b"), seed=5, client="a")
    draws = {
        t.rng().random()
        for t in (
            context,
            replace(context, client="b"),
            replace(context, round=3),
            replace(context, seed=6),
            replace(context, client="a"),
        )
    }
    assert len(draws) == 4
    assert context.rng().random() == replace(context, cohort=("a",)).rng().random()


OTHER_SETTINGS: dict[str, Plan[Any, Any, Any]] = {
    "rounds": replace(PLAN, rounds=2),
    "share": replace(PLAN, client_fraction=0.5),
    "min_clients": replace(PLAN, min_clients=2),
    "seed": replace(PLAN, seed=1),
    "ridge": Plan(algorithm=FederatedRidge(features=FEATURES, ridge=0.2)),
    "classes": Plan(algorithm=FederatedRidge(features=FEATURES, ridge=0.1, classes=("a", "b"))),
    "washout": Plan(
        algorithm=FederatedRidge(features=EchoState.of(RESERVOIR, washout=1), ridge=0.1)
    ),
    "reservoir": Plan(
        algorithm=FederatedRidge(
            features=EchoState.of(Reservoir(units=5, inputs=1, seed=2)),
            ridge=0.1,
        )
    ),
    "algorithm": Plan(algorithm=ReadoutAveraging(features=FEATURES, ridge=0.1)),
    "head": Plan(algorithm=FederatedRidge(features=FEATURES, classes=("a", "b"), head=LDA())),
    "its settings": Plan(
        algorithm=FederatedRidge(features=FEATURES, classes=("a", "b"), head=LDA(shrinkage=0.5))
    ),
}


def test_every_setting_is_in_the_fingerprint() -> None:
    prints = {name: plan.fingerprint() for name, plan in OTHER_SETTINGS.items()}
    prints["none"] = PLAN.fingerprint()
    assert len(set(prints.values())) == len(prints)


def test_the_fingerprint_is_that_of_equal_settings_not_of_one_object() -> None:
    rebuilt = EchoState.of(Reservoir(units=5, inputs=1, seed=1))
    again: Plan[Any, Any, Any] = Plan(algorithm=FederatedRidge(features=rebuilt, ridge=0.1))
    assert again.fingerprint() == PLAN.fingerprint()
    assert len(PLAN.fingerprint()) == 64


def test_a_description_is_plain_json_without_folders() -> None:
    text = json.dumps(
        describe({"a": (1, 2.5, None, True, "x"), "where": Path("/home/somebody/secret/plan.toml")})
    )
    assert "somebody" not in text
    assert json.loads(text) == {"a": [1, 2.5, None, True, "x"], "where": "plan.toml"}
    described = describe(LDA(ridge=0.5))
    assert isinstance(described, dict)
    assert next(iter(described.values()))["ridge"] == 0.5


@dataclass(frozen=True)
class Odd:
    what: object


@pytest.mark.parametrize("thing", [lambda: 1, object(), {1, 2}, 1j, Odd(lambda: 1), Odd])
def test_what_has_no_plain_settings_cannot_be_planned(thing: object) -> None:
    with pytest.raises(TypeError, match="a plan cannot hold"):
        describe(thing)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"client_fraction": 0.0}, "client_fraction is 0"),
        ({"client_fraction": 1.5}, "client_fraction is 1.5"),
        ({"client_fraction": float("nan")}, "client_fraction is nan"),
        ({"min_clients": 0}, "min_clients is 0"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **settings)


# As the last release before gave them, which had settings that are gone since.
RECORDED = {
    "FederatedRidge": "72cdc4c4e3cfe1ccdc2a3f8d25d2dfd8c6266f5c0f9b330cce3111cb84cdeaec",
    "Candidates": "91d54e4853969a08948cfbddad13050d0a10de29d4adc86dc159288496611087",
    "PersonalReadouts": "4e0bb3bbeb1929815f457173434905cd390cbca92e68638ce39457fb07e71197",
}


def test_plans_without_a_setting_that_is_gone_keep_their_fingerprint() -> None:
    two, three = (NVAR(delays, order=1).build(1, per_step=True) for delays in (2, 3))
    found: list[Any] = [
        FederatedRidge(features=two, ridge=0.1),
        Candidates(features=(two, three)),
        PersonalReadouts(ridge=FederatedRidge(features=two)),
    ]
    assert {type(one).__name__: Plan(algorithm=one).fingerprint() for one in found} == RECORDED
