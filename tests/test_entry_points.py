"""Four ways in, one answer: the same settings on the same clients give the same readout.

`fit`, scikit-learn's estimators, `federate` with one client and a plan built by hand are compared
to the bit; what the readout ought to be is solved by scikit-learn's own ridge on explicit states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

import catchment as ct
from catchment import Array
from catchment.data import Preprocessing, Recording, narma
from catchment.engine import data_of, run_locally
from catchment.features import EchoState, Pipeline
from catchment.federation.learn import FederatedScaling
from catchment.plans import parse_plan, run_plan
from catchment.readout import Model, nrmse
from catchment.sklearn import EchoStateClassifier, EchoStateRegressor

CLASSES = ("fast", "slow")


def series(n: int = 500, seed: int = 0) -> tuple[Array, Array]:
    """Return inputs (n, 2) of odd means and scales with a gap, and a target that remembers them."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 2)) * [3.0, 0.2] + [10.0, -1.0]
    y = np.convolve((u[:, 0] - 10) / 3, [0.5, 0.3, 0.2])[:n] + 0.1 * rng.normal(size=n)
    u[40:43, 1] = np.nan
    return u, y


def waves(n: int = 40, seed: int = 0) -> tuple[list[Array], list[str]]:
    """Return sequences (T, 2) of two pitches in odd units, and their classes."""
    rng = np.random.default_rng(seed)
    X = []
    for k in range(n):
        t = np.arange(40 + int(rng.integers(20))) / (3.0, 4.0)[k % 2] + rng.uniform(0, 6)
        X.append(5.0 + 100.0 * np.stack([np.sin(t), np.cos(t)], axis=1))
    return X, [CLASSES[k % 2] for k in range(n)]


def by_plan(
    description: EchoState, clients: dict[str, list[Recording]], **settings: Any
) -> tuple[Model, ct.RidgeStatistics]:
    """Return what plans written by hand learn: one for the scale, one for the readout."""
    first = next(iter(clients.values()))[0]
    scaling = FederatedScaling(channels=first.n_inputs, preprocessing=Preprocessing())
    preprocessing = run_locally(ct.Plan(algorithm=scaling), clients).result
    features = description.build(
        first.n_inputs, per_step=bool(first.per_step), classes="classes" in settings
    )
    learning = ct.FederatedRidge(features=features, **settings)
    result = run_locally(
        ct.Plan(algorithm=learning, preprocessing=preprocessing, channels=first.channels), clients
    )
    total = result.state.total
    assert total is not None
    return result.model, total


def assert_same_bits(first: Model, *others: Model) -> None:
    for other in others:
        assert other.pipeline.fingerprint == first.pipeline.fingerprint
        assert other.classes == first.classes
        assert other.readout.ridge == first.readout.ridge
        assert_array_equal(other.readout.weights, first.readout.weights)
        assert_array_equal(other.readout.intercept, first.readout.intercept)


@pytest.mark.parametrize("ridge", ["gcv", 0.3])
@pytest.mark.parametrize(
    "settings",
    [{}, {"leak_rate": 0.5, "washout": 20, "bias": True}, {"topology": "ring", "input": False}],
    ids=["defaults", "own leak", "ring"],
)
def test_same_bits_from_four_ways_in_with_a_target_per_step(
    ridge: Any, settings: dict[str, Any]
) -> None:
    u, y = series()
    description, data = EchoState(60, seed=3, **settings), [Recording(u, y)]
    alone = ct.fit(description, data, ridge=ridge)
    estimator = EchoStateRegressor(60, random_state=3, ridge=ridge, **settings).fit(u, y)
    run = ct.federate(description, {"ann": data}, ridge=ridge)
    planned, total = by_plan(description, {"ann": data}, ridge=ridge)
    assert_same_bits(alone, estimator.model_, run.model, planned)
    assert run.statistics == total == estimator.model_.statistics
    assert_array_equal(alone.predict(u), run.model.predict(u))


@pytest.mark.parametrize("n", [40, 700], ids=["few", "more than are read together"])
def test_same_bits_from_four_ways_in_with_classes(n: int) -> None:
    X, y = waves(n)
    description = EchoState(20, seed=1)
    data = [Recording.labeled(u, label, CLASSES) for u, label in zip(X, y, strict=True)]
    alone = ct.fit(description, data)
    estimator = EchoStateClassifier(20, random_state=1).fit(X, y)
    run = ct.federate(description, {"ann": data})
    planned, _ = by_plan(description, {"ann": data}, ridge="gcv", classes=CLASSES)
    assert_same_bits(alone, estimator.model_, run.model, planned)
    assert alone.predict(X) == estimator.predict(X).tolist() == run.model.predict(X)


def test_the_bits_do_not_depend_on_threads() -> None:
    u, y = series(4000)
    data = [Recording(u, y)]
    models = [ct.fit(EchoState(40), data, threads=threads) for threads in (1, 3, None)]
    assert_same_bits(*models, EchoStateRegressor(40, n_jobs=2).fit(u, y).model_)


def test_the_shared_readout_is_ridge_regression_on_scaled_inputs() -> None:
    u, y = series()
    model = ct.fit(EchoState(60, seed=3, washout=20), [Recording(u, y)], ridge=0.3)
    held = u.copy()
    held[40:43, 1] = held[39, 1]
    z = model.features.rows([(held - held.mean(axis=0)) / held.std(axis=0)])[0]
    theirs = Ridge(alpha=0.3, solver="svd").fit(z, y[20:])
    assert_allclose(model.predict(u)[:, 0], theirs.predict(z), rtol=1e-7, atol=1e-8)


def test_many_clients_by_federate_and_by_a_plan_have_the_same_bits() -> None:
    clients = {f"client-{k}": [Recording(*series(300, k))] for k in range(5)}
    description = EchoState(30, seed=2)
    run = ct.federate(description, clients)
    planned, total = by_plan(description, clients, ridge="leave-one-client-out")
    assert_same_bits(run.model, planned)
    assert run.statistics == total


PLAN = """
[data]
source = "narma"
steps = 1600
clients = 2
test = 0.5
test_of = "clients"

[features]
units = 60
seed = 3

[run]
baselines = []
"""


def test_a_plan_file_with_one_training_client_has_the_bits_of_fit(tmp_path: Path) -> None:
    file = parse_plan(PLAN)
    (held,) = file.load_data().train.values()
    (recording,) = data_of(held)()
    planned = run_plan(file, tmp_path / "run").model
    assert isinstance(planned, Model)
    alone = ct.fit(EchoState(60, seed=3), [recording])
    estimator = EchoStateRegressor(60, random_state=3).fit(recording.u, recording.y)
    assert_same_bits(planned, alone, estimator.model_)


@pytest.mark.parametrize(
    "data",
    ['source = "narma"\nsteps = 1600\nclients = 5', 'source = "wearables"\nusers = 6'],
    ids=["per step", "classes"],
)
def test_a_plan_file_with_many_clients_has_the_bits_of_federate(tmp_path: Path, data: str) -> None:
    text = f"[data]\n{data}\n\n[features]\nunits = 30\n\n[run]\nbaselines = []\n"
    file = parse_plan(text)
    held = file.load_data()
    planned = run_plan(file, tmp_path / "run").model
    assert isinstance(planned, Model)
    run = ct.federate(EchoState(30), held.train, classes=held.about.classes)
    assert_same_bits(planned, run.model)


def test_clients_with_a_class_of_their_own_are_not_left_out_to_choose_the_ridge() -> None:
    X, y = waves(60)
    data = [Recording.labeled(u, label, CLASSES) for u, label in zip(X, y, strict=True)]
    apart = {"ann": data[:40:2], "bob": data[1:40:2]}
    run = ct.federate(EchoState(30), apart)
    assert_same_bits(run.model, ct.federate(EchoState(30), apart, ridge="gcv").model)
    assert run.model.predict(X[40:]) == y[40:]
    mixed = {"ann": data[:20], "bob": data[20:40]}
    by_clients = ct.federate(EchoState(30), mixed, ridge="leave-one-client-out").model
    assert_same_bits(ct.federate(EchoState(30), mixed).model, by_clients)


def test_with_nothing_set_every_way_gives_the_same_good_model() -> None:
    train, test = narma(2000, seed=1000), narma(2000, seed=1001)
    assert train.y is not None
    assert test.y is not None
    alone = ct.fit(EchoState(), [train])
    estimator = EchoStateRegressor().fit(train.u, train.y)
    run = ct.federate(EchoState(), {"ann": [train]})
    assert_same_bits(alone, estimator.model_, run.model)
    assert nrmse(test.y[100:], alone.predict(test.u)[100:]) < 0.3
    X, y = waves(60)
    data = [Recording.labeled(u, label, CLASSES) for u, label in zip(X, y, strict=True)]
    classes = ct.fit(EchoState(), data[:40])
    classifier = EchoStateClassifier().fit(X[:40], y[:40])
    together = ct.federate(EchoState(), {"ann": data[:40]})
    assert_same_bits(classes, classifier.model_, together.model)
    assert classes.predict(X[40:]) == classifier.predict(X[40:]).tolist() == y[40:]
    shares = {"ann": data[:20], "bob": data[20:40]}
    assert ct.federate(EchoState(), shares).model.predict(X[40:]) == y[40:]
    total = ct.evaluate(classes, {"new": data[40:]}).total
    assert total is not None
    assert total.value == 1.0


def test_a_pipeline_says_what_the_estimators_say_by_their_settings() -> None:
    u, y = series()
    raw = Pipeline(Preprocessing(gaps="interpolate", scale="none"), EchoState(30))
    estimator = EchoStateRegressor(30, gaps="interpolate", scale=False).fit(u, y)
    assert_same_bits(ct.fit(raw, [Recording(u, y)]), estimator.model_)


def test_one_owner_hears_what_is_wrong_with_the_data_directly() -> None:
    u, y = series(30)
    with pytest.raises(ValueError, match="fewer than washout 100"):
        ct.fit(EchoState(10, washout=100), [Recording(u, y)])
    with pytest.raises(ValueError, match="no client has a recording"):
        ct.fit(EchoState(10), [])
    with pytest.raises(ValueError, match="one owner has no clients to leave out"):
        ct.fit(EchoState(10), [Recording(u, y)], ridge="leave-one-client-out")
    with pytest.raises(TypeError, match="Recording"):
        ct.fit(EchoState(10), [u])  # type: ignore[list-item]


def test_recordings_that_start_anew_after_gaps_are_learnt_in_float64() -> None:
    rng = np.random.default_rng(0)
    data = []
    for k in range(12):
        u = rng.normal(size=(60, 2)) + 3 * (k % 2)
        u[25 + k] = np.nan
        data.append(Recording.labeled(u, k % 2, CLASSES))
    pipeline = ct.Pipeline(Preprocessing(gaps="restart"), EchoState(20))
    alone = ct.fit(pipeline, data, ridge=0.1)
    assert alone.features.feature_bits is None
    run = ct.federate(pipeline, {"ann": data[:6], "bob": data[6:]}, ridge=0.1)
    assert run.model.features.fingerprint == alone.features.fingerprint
    assert_array_equal(run.model.predict(data), alone.predict(data))
