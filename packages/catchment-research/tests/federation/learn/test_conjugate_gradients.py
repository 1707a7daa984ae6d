"""Ridge regression over rounds: the direct solution, whoever hides, drops out or resumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve
from sklearn.linear_model import Ridge

from catchment import Array, EchoState, Recording
from catchment.data import ACTIVITIES, narma, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import FederationError, UploadError
from catchment.features import FeatureMap
from catchment.federation import Plan, RoundContext, Rows
from catchment.privacy import SecureAggregation, generate_keys
from catchment.wire import NOTHING, Message
from catchment_research.learn import ConjugateGradients, fold_of

pytestmark = pytest.mark.processor

MAP = EchoState(40, seed=1).build(6, per_step=False, classes=True)
STEPS = EchoState(30, seed=2, washout=20).build(1, per_step=True)
Clients = Mapping[str, list[Recording]]


def users(n_users: int = 6, windows: int = 30) -> dict[str, list[Recording]]:
    return synthetic_wearables(n_users=n_users, windows_per_user=windows, steps=40)


def series() -> dict[str, list[Recording]]:
    return {f"c{k}": [narma(150, seed=k)] for k in range(4)}


def pooled(features: FeatureMap, clients: Clients) -> tuple[Array, Array]:
    rows = Rows.of(features, [s for name in sorted(clients) for s in clients[name]])
    return rows.pair


def direct(z: Array, y: Array, ridge: float) -> Array:
    """Weights with an intercept that is not penalized, by scipy."""
    z, y = z - z.mean(axis=0), y - y.mean(axis=0)
    return np.asarray(solve(z.T @ z + ridge * np.eye(z.shape[1]), z.T @ y, assume_a="pos"))


def distance(a: Array, b: Array) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def plan(algorithm: ConjugateGradients, **settings: Any) -> Plan[Any, Any, Any]:
    return Plan(algorithm=algorithm, rounds=algorithm.max_rounds, **settings)


@pytest.mark.parametrize("ridge", [0.1, 10.0])
def test_the_readout_is_that_of_the_pooled_rows_to_ten_digits(ridge: float) -> None:
    algorithm = ConjugateGradients(features=MAP, ridge=ridge, classes=ACTIVITIES)
    done = run_locally(plan(algorithm), users())
    z, y = pooled(MAP, users())
    assert distance(done.model.readout.weights, direct(z, y, ridge)) < 1e-10
    learned = Ridge(alpha=ridge, solver="cholesky").fit(z, y)
    np.testing.assert_allclose(done.model.readout(z), learned.predict(z), atol=1e-9)
    assert len(done.records) < algorithm.max_rounds
    assert done.records[-1].figures["error bound"] <= algorithm.tolerance


def test_a_series_with_a_target_per_step_is_solved_too() -> None:
    algorithm = ConjugateGradients(features=STEPS, ridge=1e-2)
    done = run_locally(plan(algorithm), series())
    assert distance(done.model.readout.weights, direct(*pooled(STEPS, series()), 1e-2)) < 1e-9


def test_the_ridge_acts_on_standardized_features_where_that_is_asked_for() -> None:
    algorithm = ConjugateGradients(features=MAP, ridge=3.0, classes=ACTIVITIES, standardize=True)
    done = run_locally(plan(algorithm), users())
    z, y = pooled(MAP, users())
    spread = z.std(axis=0)
    spread[spread < 1e-9] = 1.0
    expected = direct(z / spread, y, 3.0) / spread[:, None]
    assert distance(done.model.readout.weights, expected) < 1e-9


def held_out(z: Array, y: Array, fold: Array, ridges: Array) -> Array:
    errors = np.zeros(len(ridges))
    for k in np.unique(fold):
        inside, outside = fold != k, fold == k
        for r, ridge in enumerate(ridges):
            learned = Ridge(alpha=float(ridge), solver="cholesky").fit(z[inside], y[inside])
            errors[r] += ((learned.predict(z[outside]) - y[outside]) ** 2).sum()
    return errors


def test_the_ridge_of_folds_has_the_least_error_on_the_clients_left_out() -> None:
    everyone = users(n_users=9, windows=18)
    algorithm = ConjugateGradients(features=MAP, classes=ACTIVITIES)
    done = run_locally(plan(algorithm), everyone)
    z, y = pooled(MAP, everyone)
    owner = np.concatenate([[name] * len(everyone[name]) for name in sorted(everyone)])
    fold = np.array([fold_of(name, 0, 3) for name in owner])
    spread = ((z - z.mean(axis=0)) ** 2).sum(axis=0)
    ridges = np.logspace(-4, 1, 11) * spread[spread > 1e-9].mean()
    errors = held_out(z, y, fold, ridges)
    choice = done.state.choice
    assert choice is not None
    np.testing.assert_allclose(choice.ridges, ridges, rtol=1e-9)
    np.testing.assert_allclose(choice.errors.sum(axis=1), errors / len(z), rtol=1e-3)
    best = float(ridges[errors.argmin()])
    assert choice.best == pytest.approx(best)
    assert distance(done.model.readout.weights, direct(z, y, best)) < 1e-10


def test_products_add_under_secure_aggregation() -> None:
    everyone = users(n_users=4, windows=240)
    keys = generate_keys(everyone)
    secure = SecureAggregation(keys, min_clients=4, rows_per_feature=2.0)
    algorithm = ConjugateGradients(features=MAP, ridge=5.0, classes=ACTIVITIES)
    done = run_locally(plan(algorithm, protections=(secure,)), everyone, memories=keys.memories)
    assert distance(done.model.readout.weights, direct(*pooled(MAP, everyone), 5.0)) < 1e-10


def test_folds_are_refused_under_secure_aggregation_because_the_server_would_see_their_sums() -> (
    None
):
    with pytest.raises(ValueError, match="pass a number as the ridge"):
        plan(ConjugateGradients(features=MAP), protections=(SecureAggregation({"ann": "00" * 32}),))


def fading(clients: Clients, gone: str, after: int) -> dict[str, Callable[[], list[Recording]]]:
    """Return clients of whom one answers only so many rounds."""
    asked: list[int] = []

    def data(name: str) -> list[Recording]:
        if name == gone:
            asked.append(1)
            if len(asked) > after:
                raise OSError("the disk is gone")
        return clients[name]

    return {name: lambda name=name: data(name) for name in clients}  # type: ignore[misc]


@pytest.mark.parametrize("after", [1, 4])
def test_a_client_that_drops_out_is_left_out_and_the_rounds_begin_again(after: int) -> None:
    everyone = users()
    gone = max(everyone)
    algorithm = ConjugateGradients(features=MAP, ridge=1.0, classes=ACTIVITIES)
    done = run_locally(plan(algorithm), fading(everyone, gone, after), threads=1)
    rest = {name: held for name, held in everyone.items() if name != gone}
    assert done.state.restarts == 1
    assert distance(done.model.readout.weights, direct(*pooled(MAP, rest), 1.0)) < 1e-10


def test_a_client_with_other_rows_of_the_same_number_is_noticed() -> None:
    everyone, others = users(), users(n_users=7)
    name, seen = min(everyone), []

    def data() -> list[Recording]:
        seen.append(1)
        return everyone[name] if len(seen) < 4 else others["user-006"]

    changing: dict[str, Any] = {**everyone, name: data}
    algorithm = ConjugateGradients(features=MAP, ridge=1.0, classes=ACTIVITIES)
    done = run_locally(plan(algorithm), changing, threads=1)
    assert done.state.restarts == 1
    assert (
        distance(
            done.model.readout.weights,
            direct(*pooled(MAP, {**everyone, name: others["user-006"]}), 1.0),
        )
        < 1e-9
    )


def test_too_few_rounds_are_an_error_that_says_how_far_off_the_weights_may_be() -> None:
    algorithm = ConjugateGradients(features=MAP, ridge=0.1, classes=ACTIVITIES)
    done = run_locally(Plan(algorithm=algorithm, rounds=4), users())
    with pytest.raises(FederationError, match=r"did not reach a tolerance.*off by"):
        _ = done.model


def test_all_clients_in_one_fold_are_refused() -> None:
    one = {"ann": next(iter(users().values()))}
    with pytest.raises(FederationError, match="fell into one of 3 folds"):
        run_locally(plan(ConjugateGradients(features=MAP, classes=ACTIVITIES)), one)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ridge": "gcv"}, "give a number, more than 0, or 'folds'"),
        ({"ridge": 0.0}, "more than 0"),
        ({"folds": 1}, "2 or more"),
        ({"tolerance": 0.0}, "more than 0, less than 1"),
        ({"max_rounds": 2}, "3 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ConjugateGradients(features=MAP, **settings)


def test_sums_that_no_data_can_have_are_refused() -> None:
    algorithm = ConjugateGradients(features=MAP, classes=ACTIVITIES)
    name, held = next(iter(users().items()))
    context = RoundContext(0, (name,), client=name)
    made = algorithm.client_update(NOTHING, lambda: held, context).parts()

    def spoilt(place: int, factor: float) -> Message:
        arrays = list(made.arrays)
        arrays[place] = arrays[place] * factor
        return Message(made.kind, made.facts, tuple(arrays))

    for place, factor, code in ((5, 100.0, "bound"), (5, 0.01, "moments"), (1, 0.1, "moments")):
        with pytest.raises(UploadError) as refused:
            algorithm.read_update(spoilt(place, factor), context)
        assert refused.value.code == code
    other = next(n for n in "abcdefgh" if fold_of(n, 0, 3) != fold_of(name, 0, 3))
    with pytest.raises(UploadError, match="a fold that it is not in"):
        algorithm.read_update(made, replace(context, client=other))
