"""Clients without labels: their rows are named, summed, hidden and forgotten as any."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment import Plan, Recording, federate, load
from catchment.cli import app
from catchment.data import synthetic_wearables
from catchment.errors import FederationError, TooFewClientsError
from catchment.features import DefaultMap, WindowStatistics
from catchment.federation import Limits, read_run
from catchment.federation.learn import FederatedRidge, RidgeState, unlearn
from catchment.federation.runs.ledger import bounds_of
from catchment.privacy import (
    Clip,
    GaussianNoise,
    Helper,
    SecureAggregation,
    generate_keys,
    new_helper,
)
from catchment.readout import (
    LDA,
    FixedPoint,
    RidgeStatistics,
    accumulate,
    scale_of,
    self_train,
    solve_readout,
)
from catchment.report import render
from tests.journeys.people import good_people

LABELED = ("user-000", "user-001", "user-002")
Clients = Mapping[str, list[Recording]]


@pytest.fixture(scope="module")
def people() -> Clients:
    """Return six people, of whom three have labels."""
    found = synthetic_wearables(6, 0, windows_per_user=30)
    return {
        name: own if name in LABELED else [without_label(one) for one in own]
        for name, own in found.items()
    }


def without_label(one: Recording) -> Recording:
    assert one.y is not None
    return replace(one, y=np.full_like(one.y, np.nan))


def ridge(people: Clients, **settings: object) -> FederatedRidge:
    first = people[LABELED[0]][0]
    features = DefaultMap(200).build(first.u.shape[1], per_step=False, classes=True)
    known = {"features": features, "classes": first.classes, "labels": "some", "ridge": 5.0}
    return FederatedRidge(**(known | settings))  # type: ignore[arg-type]


def trained(algorithm: FederatedRidge, clients: Clients) -> RidgeState:
    plan = Plan(algorithm=algorithm, rounds=algorithm.requirements.rounds)
    state = federate(plan, dict(clients)).state
    assert isinstance(state, RidgeState)
    return state


def test_the_sum_is_of_labels_and_of_names_by_the_model_of_those_with_labels(
    people: Clients,
) -> None:
    algorithm = ridge(people)
    state = trained(algorithm, people)
    fixed = FixedPoint.of(algorithm.features, classes=True)
    made = {name: accumulate(algorithm.features, own, classes=True) for name, own in people.items()}
    first = reduce(add, (made[name] for name in LABELED))
    readout = solve_readout(first, 5.0, scale=scale_of(first, algorithm.standardized))
    parts = [first]
    for name in sorted(set(people) - set(LABELED)):
        z = np.concatenate(algorithm.features.rows([one.u for one in people[name]]))
        named = self_train(first, readout, z, standardize=algorithm.standardized).after
        y = np.eye(len(algorithm.classes or ()))[named]
        parts.append(RidgeStatistics.from_states(z, y, fingerprint=first.fingerprint, fixed=fixed))
        assert state.by_client[name] == parts[-1]
    assert state.total == reduce(add, parts)
    assert state.total.n_rows == 180


def test_under_secure_aggregation_it_is_the_same_sum() -> None:
    # Half of everybody's windows have labels: both sums are of enough rows to be opened.
    found = synthetic_wearables(12, 0, windows_per_user=60)
    half = {n: [*own[:30], *map(without_label, own[30:])] for n, own in found.items()}
    features = WindowStatistics().build(half["user-000"][0].u.shape[1], per_step=False)
    algorithm = ridge(half, features=features, store_per_client=False)
    clear = trained(algorithm, half)
    assert clear.total is not None
    assert clear.total.n_rows == 12 * 60
    masks = SecureAggregation(generate_keys(half), rows_per_feature=2.0)
    plan = Plan(algorithm=algorithm, rounds=2, protections=(masks,))
    hidden = federate(plan, half).state
    assert hidden.total == clear.total
    assert not hidden.by_client


def some_labeled(n: int, labeled: int) -> Clients:
    """Return people of whom the first have all labels, and the others none at all."""
    found = sorted(synthetic_wearables(n, 0, windows_per_user=60).items())
    return {
        name: own if k < labeled else list(map(without_label, own))
        for k, (name, own) in enumerate(found)
    }


@pytest.mark.parametrize(("n", "labeled", "servers"), [(22, 11, 1), (40, 10, 2)])
def test_who_has_no_label_at_all_takes_part_under_secure_aggregation(
    n: int, labeled: int, servers: int
) -> None:
    clients = some_labeled(n, labeled)
    features = WindowStatistics().build(clients["user-000"][0].u.shape[1], per_step=False)
    algorithm = ridge(clients, features=features, store_per_client=False)
    clear = trained(algorithm, clients)
    assert clear.total is not None
    assert clear.total.n_rows == n * 60
    masks = SecureAggregation(generate_keys(clients), rows_per_feature=2.0, corrupt=0.1)
    if servers == 2:
        memory: dict[str, bytes] = {}
        masks = replace(masks, servers=2, helper=new_helper(memory))
        masks = replace(masks, assist=Helper(memory, masks).answer)
    limits = Limits(min_usable=labeled / n)
    plan = Plan(algorithm=algorithm, rounds=2, protections=(masks,), limits=limits)
    run = federate(plan, dict(clients))  # without a warning: who sits out a round is not left out
    assert run.state.total == clear.total
    first, second = run.records
    assert (first.n_used, second.n_used) == (labeled, n - labeled)


def test_noise_is_spread_over_both_sums() -> None:
    found = synthetic_wearables(100, 0, windows_per_user=4)
    half = {n: [*own[:2], *map(without_label, own[2:])] for n, own in found.items()}
    features = WindowStatistics().build(half["user-000"][0].u.shape[1], per_step=False)
    algorithm = ridge(half, features=features, store_per_client=False)
    noise = GaussianNoise(epsilon=1e10, delta=1e-5, clip=Clip(bound=1e4))
    with pytest.raises(ValueError, match="releases 2 sums but epsilon is spread over 1"):
        Plan(algorithm=algorithm, rounds=2, protections=(noise,))
    plan = Plan(algorithm=algorithm, rounds=2, protections=(replace(noise, releases=2),))
    # Clipped, a client counts as one row or so in each of the sums.
    weights = []
    for _ in range(2):
        total = federate(plan, half).state.total
        assert total is not None
        weights.append(total.weight)
    assert weights == pytest.approx([200, 200], rel=0.1)
    assert weights[0] != weights[1]


def test_who_has_no_label_does_not_count_among_those_of_a_sum(people: Clients) -> None:
    # Sums of zeros would otherwise leave the sum of the few others bare.
    many = {**people, **{f"{name}-too": own for name, own in people.items()}}
    features = WindowStatistics().build(people["user-000"][0].u.shape[1], per_step=False)
    algorithm = ridge(people, features=features, store_per_client=False)
    masks = SecureAggregation(generate_keys(many), rows_per_feature=2.0)
    with pytest.raises(TooFewClientsError, match="sits this round out"):
        federate(Plan(algorithm=algorithm, rounds=2, protections=(masks,)), many)


def test_forgetting_a_client_takes_its_named_rows_off_as_if_it_had_not_been_there(
    people: Clients,
) -> None:
    algorithm = ridge(people)
    state = trained(algorithm, people)
    without = unlearn(algorithm, state, "user-005")
    others = {name: own for name, own in people.items() if name != "user-005"}
    expected = trained(algorithm, others)
    assert without.certificate.how == "equality"
    assert without.certificate.n_rows == 30
    assert "if it had labels" in without.certificate.remains
    assert without.state.total == expected.total
    assert without.state.readout is not None
    assert expected.readout is not None
    np.testing.assert_array_equal(without.state.readout.weights, expected.readout.weights)


def test_nobody_with_labels_and_other_settings_are_refused(people: Clients) -> None:
    none = {name: own for name, own in people.items() if name not in LABELED}
    with pytest.raises((ValueError, FederationError), match="add data first"):
        trained(ridge(people), none)
    for settings in ({"head": LDA()}, {"increments": 2}, {"classes": None}):
        with pytest.raises(ValueError, match='labels is "some", which takes classes'):
            ridge(people, **settings)


PLAN = """
[data]
files = "people/*.csv"
label = "activity"
labels = "some"
test = "folds"
[preprocessing]
window = 40
[features]
map = "window_statistics"
"""


def drop_labels(path: Path) -> None:
    """Leave the column of labels out of a file."""
    held = list(csv.DictReader(path.read_text().splitlines()))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in held[0] if name != "activity"])
        writer.writeheader()
        writer.writerows({k: v for k, v in row.items() if k != "activity"} for row in held)


def test_a_file_without_the_column_takes_part_and_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good_people(Path("people"), 6)
    *_, last = sorted(Path("people").iterdir())
    drop_labels(last)
    Path("plan.toml").write_text(PLAN)
    done = CliRunner().invoke(app, ["run", "plan.toml", "--out", "runs/some"])
    assert done.exit_code == 0, done.output + str(done.exception)
    records = read_run("runs/some").rounds["training"]
    assert [record.n_used for record in records] == [6, 6]
    said = CliRunner().invoke(app, ["unlearn", "runs/some", last.stem])
    assert said.exit_code == 0, said.output + str(said.exception)
    assert load("runs/some/model.safetensors").classes
    Path("plan.toml").write_text(PLAN.replace('labels = "some"', ""))
    bare = CliRunner().invoke(app, ["run", "plan.toml", "--out", "runs/all"])
    assert "has no column 'activity'" in bare.output + str(bare.exception)


SECRET = """
[learn]
algorithm = "ridge"
ridge = 1.0
store_per_client = false
[run]
min_usable = 0.3
baselines = []
[[protections]]
name = "secure_aggregation"
rows_per_feature = 2.0
corrupt = 0.1
min_share = 0.3
"""


def test_who_takes_turns_under_secure_aggregation_is_not_said_to_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good_people(Path("people"), 24)
    for path in sorted(Path("people").iterdir())[::2]:
        drop_labels(path)
    text = PLAN.replace('"folds"', '0.1\ntest_of = "clients"\ninputs = ["ax", "ay"]')
    text = text.replace("window = 40", 'window = 40\nstep = 2\nscale = "own"')
    Path("plan.toml").write_text(text + SECRET)
    done = CliRunner().invoke(app, ["run", "plan.toml", "--out", "runs/secret", "--strict"])
    assert done.exit_code == 0, done.output + str(done.exception)
    turns = "22 of 22 clients trained (11 with labels, 11 with rows that lack them), 2 of 2 were"
    assert turns in done.output.splitlines()[0]
    assert "left out" not in done.output
    assert "22 clients trained (11 with labels," in render([read_run("runs/secret")])


NOISE = """
[learn]
algorithm = "ridge"
ridge = 0.0
store_per_client = false
[[protections]]
name = "gaussian_noise"
epsilon = 50.0
delta = 1e-5
releases = 2
clip = { bound = 30.0 }
"""


def test_a_plan_with_noise_spreads_it_over_both_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good_people(Path("people"), 140)
    for path in sorted(Path("people").iterdir())[::2]:
        drop_labels(path)
    text = PLAN.replace('"folds"', "0.2").replace("window = 40", 'window = 40\nscale = "own"')
    Path("plan.toml").write_text(text + NOISE.replace("releases = 2\n", ""))
    refused = CliRunner().invoke(app, ["run", "plan.toml", "--out", "runs/one"])
    assert "pass releases=2" in str(refused.exception)
    Path("plan.toml").write_text(text + NOISE)
    done = CliRunner().invoke(app, ["run", "plan.toml", "--out", "runs/two"])
    assert done.exit_code == 0, done.output + str(done.exception)
    run = read_run("runs/two")
    assert [record.n_used for record in run.rounds["training"]] == [112, 112]
    (bound,) = bounds_of(run)
    assert "epsilon 50 at delta 1e-05" in str(bound)
    assert run.comparison is not None
    # Who has no label to be scored by is not the worst.
    assert not any(np.isnan(row.worst) for row in run.comparison)


@pytest.mark.parametrize(
    "more",
    [
        '[learn]\nalgorithm = "averaging"\n',
        "[run]\nrounds = 1\n",
        '[[protections]]\nname = "secure_aggregation"\n'
        '[learn]\nalgorithm = "ridge"\nridge = "leave-one-client-out"\n',
    ],
)
def test_plans_at_odds_are_refused(more: str, tmp_path: Path) -> None:
    good_people(tmp_path / "people", 3)
    (tmp_path / "plan.toml").write_text(PLAN + more)
    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "r")]
    )
    assert 'labels = "some" is for a ridge on one map' in str(done.exception)
