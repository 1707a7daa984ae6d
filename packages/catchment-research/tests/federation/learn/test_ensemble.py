"""Ensembles of clients with reservoirs of their own, against predictions averaged by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from catchment import Recording, Reservoir, save
from catchment.data import ACTIVITIES, narma, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.features import EchoState
from catchment.federation import Limits, Plan
from catchment.federation.learn import FederatedRidge
from catchment.federation.measure import Evaluation
from catchment.readout import load_model
from catchment.wire import Message, join, split
from catchment_research.learn import (
    Ensemble,
    ReservoirEnsemble,
    Stacking,
    joint_features,
    read_member,
    side_by_side,
    simplex_weights,
    with_own_seed,
)

RECIPE = Reservoir(units=30, inputs=1, spectral_radius=0.9, leak_rate=0.8, seed=5)
FEATURES = EchoState.of(RECIPE, washout=20)


def narma_clients(n_clients: int = 4, n_steps: int = 200) -> dict[str, list[Recording]]:
    return {f"client-{k}": [narma(n_steps + 30 * k, seed=k)] for k in range(n_clients)}


def trained(**settings: object) -> Ensemble:
    algorithm = ReservoirEnsemble(features=FEATURES, **settings)  # type: ignore[arg-type]
    return run_locally(Plan(algorithm=algorithm), narma_clients()).result


@pytest.mark.parametrize("weighting", ["mean", "samples"])
def test_the_model_is_the_weighted_mean_of_the_members(weighting: str) -> None:
    ensemble = trained(ridge=1e-3, weighting=weighting)
    u = narma(120, seed=99).u
    apart = [ensemble.alone(name).predict(u) for name in sorted(ensemble.members)]
    rows = np.array([180.0, 210.0, 240.0, 270.0])
    weights = np.ones(4) / 4 if weighting == "mean" else rows / rows.sum()
    np.testing.assert_allclose(
        ensemble.predict(u), np.tensordot(weights, apart, 1), rtol=1e-9, atol=1e-11
    )


def test_a_member_is_the_ridge_of_its_own_rows() -> None:
    ensemble = trained(ridge=1e-2)
    member = ensemble.members["client-1"]
    (task,) = narma_clients()["client-1"]
    assert task.y is not None
    z, y = ensemble.features["client-1"](task.u), task.y[20:]
    theirs = Ridge(alpha=1e-2, solver="svd").fit(z, y)
    np.testing.assert_allclose(member.readout(z), theirs.predict(z).reshape(-1, 1), rtol=1e-7)


def test_every_client_has_its_own_reservoir_and_sends_it_in_a_few_hundred_bytes() -> None:
    ensemble = trained(ridge=1e-3)
    prints = {features.fingerprint for features in ensemble.features.values()}
    assert len(prints) == 4
    message = ensemble.members["client-0"].parts().to_bytes()
    n_floats = FEATURES.n_features + 2  # readout, intercept and its ridge
    assert len(message) - 8 * n_floats < 900


@pytest.mark.parametrize(
    "settings",
    [
        {"pool": "mean_std", "segments": 2, "bias": True},
        {"pool": "max", "input": False},
        {"pool": "last", "state": False, "bias": True},
        {"washout": 4, "bias": True, "input": False},
    ],
)
def test_joint_readouts_for_every_kind_of_feature_and_depth(settings: dict[str, object]) -> None:
    rng = np.random.default_rng(3)
    deep = Reservoir(units=(6, 4), inputs=2, seed=1)
    features = EchoState.of(deep, **settings)  # type: ignore[arg-type]
    per_step = features.per_step
    data = {
        name: [
            Recording(rng.normal(size=(15, 2)), rng.normal(size=(15, 3) if per_step else 3))
            for _ in range(6)
        ]
        for name in "abc"
    }
    recipes = {"b": Reservoir(units=(3, 9), inputs=2, seed=8)}
    algorithm = ReservoirEnsemble(features=features, recipes=recipes, ridge=0.1)
    ensemble = run_locally(Plan(algorithm=algorithm), data).result
    u = rng.normal(size=(15, 2))
    expected = np.mean([ensemble.alone(name).predict(u) for name in "abc"], axis=0)
    np.testing.assert_allclose(ensemble.predict(u), expected, rtol=1e-9, atol=1e-12)


def test_classification_through_the_same_evaluation() -> None:
    users = synthetic_wearables(n_users=5, windows_per_user=24, steps=60)
    reservoir = Reservoir(units=25, inputs=6, leak_rate=0.5, seed=2)
    features = EchoState.of(reservoir, pool="mean_std")
    train = {name: windows[:18] for name, windows in users.items()}
    test = {name: windows[18:] for name, windows in users.items()}
    algorithm = ReservoirEnsemble(features=features, classes=ACTIVITIES)
    model = run_locally(Plan(algorithm=algorithm), train).model
    assert model is not None
    scores = run_locally(Plan(algorithm=Evaluation(model_under_test=model)), test).state
    labels = [int(w.y.argmax()) for windows in test.values() for w in windows if w.y is not None]
    guesses = model.classify([w for windows in test.values() for w in windows])
    right = np.mean([ACTIVITIES[k] == guess for k, guess in zip(labels, guesses, strict=True)])
    assert scores.total is not None
    assert scores.total.value == pytest.approx(right)
    assert right > 1.5 / len(ACTIVITIES)


def test_joint_statistics_of_all_reservoirs_are_federated_ridge_on_joint_features() -> None:
    ensemble = trained(ridge=1e-3)
    apart = [ensemble.features[name] for name in sorted(ensemble.members)]
    features = joint_features(apart)
    clients = narma_clients()
    algorithm = FederatedRidge(features=features, ridge=1e-2)
    result = run_locally(Plan(algorithm=algorithm), clients)
    tasks = [task for tasks in clients.values() for task in tasks]
    inputs = [task.u[20:] for task in tasks]
    states = [np.hstack([f.reservoir.states(task.u)[20:] for f in apart]) for task in tasks]
    z = np.hstack([np.concatenate(inputs), np.concatenate(states)])
    y = np.concatenate([task.y[20:] for task in tasks if task.y is not None])
    theirs = Ridge(alpha=1e-2, solver="svd").fit(z, y)
    ours = result.model.readout(z)
    np.testing.assert_allclose(ours, theirs.predict(z).reshape(-1, 1), rtol=1e-6, atol=1e-8)


def test_stacking_weights_minimize_the_error_on_rows_no_member_has_seen() -> None:
    clients = narma_clients(n_clients=3)
    recipes = {"client-0": Reservoir(units=3, inputs=1, seed=1)}
    algorithm = ReservoirEnsemble(features=FEATURES, recipes=recipes, ridge=1e-3)
    first = run_locally(Plan(algorithm=algorithm), clients).result
    result = run_locally(Plan(algorithm=Stacking(ensemble=first, n_folds=4)), clients)
    stacked = result.result

    columns, targets = [], []
    for name in sorted(clients):
        (task,) = clients[name]
        assert task.y is not None
        y = task.y[20:]
        guesses = []
        for other in sorted(clients):
            z = first.features[other](task.u)
            if other != name:
                guesses.append(first.members[other].readout(z))
                continue
            own = np.empty_like(y)
            fold = np.arange(len(y)) * 4 // len(y)
            for k in range(4):
                fitted = Ridge(alpha=1e-3, solver="svd").fit(z[fold != k], y[fold != k])
                own[fold == k] = fitted.predict(z[fold == k]).reshape(-1, 1)
            guesses.append(own)
        columns.append(np.hstack(guesses))
        targets.append(y)
    P, y = np.concatenate(columns), np.concatenate(targets)[:, 0]
    grid = np.array([(i, j, 200 - i - j) for i in range(201) for j in range(201 - i)]) / 200
    best = grid[((P @ grid.T - y[:, None]) ** 2).sum(axis=0).argmin()]
    np.testing.assert_allclose(stacked.weights, best, atol=0.01)
    assert stacked.weights[0] < 0.2  # the member of three units


def test_stacking_works_for_classes_and_helps_no_less_than_the_mean_on_its_own_rows() -> None:
    users = synthetic_wearables(n_users=4, windows_per_user=20, steps=50)
    reservoir = Reservoir(units=15, inputs=6, seed=2)
    algorithm = ReservoirEnsemble(
        features=EchoState.of(reservoir, pool="mean"), classes=ACTIVITIES, ridge=0.1
    )
    first = run_locally(Plan(algorithm=algorithm), users).result
    run = run_locally(Plan(algorithm=Stacking(ensemble=first)), users)
    assert run.state.total is not None
    assert run.state.total.n_features == 4
    assert run.model.classes == ACTIVITIES
    assert run.result.weights.min() >= 0
    assert run.result.weights.sum() == pytest.approx(1)


def reread(algorithm: Any, state: Any) -> Any:
    whole = algorithm
    return whole.load_state(Message.from_bytes(whole.save_state(state).to_bytes()))


def test_states_survive_saving() -> None:
    algorithm = ReservoirEnsemble(features=FEATURES, ridge=1e-3)
    run = run_locally(Plan(algorithm=algorithm), narma_clients())
    again = algorithm.result(reread(algorithm, run.state))
    u = narma(60, seed=50).u
    np.testing.assert_array_equal(again.predict(u), run.result.predict(u))
    with pytest.raises(FederationError, match="no client has sent a member yet"):
        algorithm.result(reread(algorithm, algorithm.start()))
    stacking = Stacking(ensemble=run.result)
    stacked = run_locally(Plan(algorithm=stacking), narma_clients())
    kept = stacking.result(reread(stacking, stacked.state))
    np.testing.assert_array_equal(kept.weights, stacked.result.weights)
    fresh = stacking.result(reread(stacking, stacking.start()))
    np.testing.assert_array_equal(fresh.weights, run.result.weights)


def test_an_ensemble_is_saved_as_any_model(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "ensemble.catchment"
    model = trained(ridge=1e-3).model
    save(model, path)
    u = narma(60, seed=50).u
    np.testing.assert_array_equal(load_model(path).predict(u), model.predict(u))


def test_a_later_round_adds_members_and_replaces_those_that_answer_again() -> None:
    algorithm = ReservoirEnsemble(features=FEATURES, ridge=1e-3, weighting="samples")
    result = run_locally(
        Plan(algorithm=algorithm, rounds=2, client_fraction=0.5, seed=1), narma_clients()
    )
    assert 2 <= len(result.result.members) <= 4
    assert result.result.weights.sum() == pytest.approx(1)


def test_bad_members_are_refused_with_a_code() -> None:
    member = trained(ridge=1e-3).members["client-0"]
    good = member.parts()
    counts, weights, intercept, ridge = good.arrays
    huge = Reservoir(units=10**6, inputs=1)
    for parts, code in (
        (replace(good, arrays=(counts, weights * np.nan, intercept, ridge)), "not-finite"),
        (replace(good, arrays=(-counts, weights, intercept, ridge)), "count"),
        (replace(good, arrays=(counts, weights[:-1], intercept, ridge)), "shape"),
        (replace(member, recipe=huge).parts(), "shape"),
    ):
        with pytest.raises(UploadError) as caught:
            read_member(parts, FEATURES)
        assert caught.value.code == code
    named = split(good, "member")
    with pytest.raises(IntegrityError, match="lacks 'recipe'"):
        read_member(join("member", {**named, "": replace(named[""], facts={})}), FEATURES)
    forged = member.recipe.to_json().replace(str(member.recipe.fingerprint), "0" * 64)
    other = replace(named[""], facts={"recipe": forged})
    with pytest.raises(ValueError, match="fingerprint"):
        read_member(join("member", {**named, "": other}), FEATURES)


def test_a_client_with_too_little_data_is_refused_with_a_reason() -> None:
    reservoir = Reservoir(units=5, inputs=1)
    features = EchoState.of(reservoir, pool="mean")
    rng = np.random.default_rng(0)
    enough = [Recording(rng.normal(size=9), np.eye(2)[k % 2]) for k in range(8)]
    data = {
        "rich": enough,
        "poor": enough[:1],
        "broken": [Recording(np.array([np.nan, 1.0]), np.eye(2)[0])],
    }
    plan = Plan(algorithm=ReservoirEnsemble(features=features), limits=Limits(min_usable=0.3))
    result = run_locally(plan, data)
    assert list(result.result.members) == ["rich"]
    reasons = {r.client: r.reason for r in result.records[0].refused}
    assert "pass a number" in reasons["poor"]
    assert "not finite" in reasons["broken"]


def test_wrong_settings_are_errors() -> None:
    with pytest.raises(ValueError, match="weighting"):
        ReservoirEnsemble(features=FEATURES, weighting="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ridge"):
        ReservoirEnsemble(features=FEATURES, ridge="gcv")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_folds"):
        ReservoirEnsemble(features=FEATURES, n_folds=1)
    with pytest.raises(ValueError, match="no members"):
        Stacking(ensemble=Ensemble())
    bare = EchoState.of(Reservoir.from_matrices([[0.5]], [[1.0]]))
    with pytest.raises(ValueError, match="no recipe for x"):
        ReservoirEnsemble(features=bare).recipe_of("x")
    with pytest.raises(ValueError, match="differently"):
        joint_features([FEATURES, replace(FEATURES, washout=0)])


def test_reservoirs_of_other_inputs_or_depths_do_not_stand_side_by_side() -> None:
    one = Reservoir(units=4, inputs=1)
    with pytest.raises(ValueError, match="1, 2 inputs"):
        side_by_side([one, Reservoir(units=4, inputs=2)])
    with pytest.raises(ValueError, match="1, 2 layers"):
        side_by_side([one, Reservoir(units=(2, 2), inputs=1)])
    with pytest.raises(ValueError, match="no reservoirs"):
        side_by_side([])


def test_seeds_differ_between_clients_and_recipes() -> None:
    seeds = {
        with_own_seed(replace(RECIPE, seed=s), f"c{k}").seed for s in (0, 1) for k in range(50)
    }
    assert len(seeds) == 100
    in_fixed_point = replace(RECIPE, bits=20).prepared()
    assert not with_own_seed(in_fixed_point, "c0").is_prepared


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_no_weights_on_the_simplex_do_better(n_members: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(n_members + 3, n_members)) * rng.uniform(0.01, 10, n_members)
    E = errors.T @ errors
    w = simplex_weights(E)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1)
    others = rng.dirichlet(np.ones(n_members), size=200)
    assert w @ E @ w <= np.einsum("ij,jk,ik->i", others, E, others).min() * (1 + 1e-9)


def test_members_without_errors_share_the_weight() -> None:
    np.testing.assert_array_equal(simplex_weights(np.zeros((2, 2))), [0.5, 0.5])
