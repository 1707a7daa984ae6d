"""A map that asks for standardized features, through every way in, against scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import catchment as ct
from catchment import Array
from catchment.data import RAW, Recording
from catchment.engine import run_locally
from catchment.errors import PrecisionWarning
from catchment.features import FeatureMap, Pipeline
from catchment.federation import Plan
from catchment.federation.learn import (
    Candidates,
    FederatedRidge,
    ReadoutAveraging,
)
from catchment.federation.measure import left_out_losses
from catchment.privacy import SecureAggregation, generate_keys
from catchment.readout import (
    FixedPoint,
    Readout,
    RidgeStatistics,
    accumulate,
    chosen_readout,
    scale_of,
    solve_readout,
    train,
)
from catchment.sklearn import leave_one_out

pytestmark = pytest.mark.processor

RIDGE = 7.0
UNITS = np.array([0.01, 1.0, 30.0, 2.0])


@dataclass(frozen=True)
class Moments(FeatureMap):
    """The mean of every channel, each in another unit."""

    n_features = 4
    bounds = np.full(4, 1e4)
    standardize = True
    power: int = 1

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [(u**self.power).mean(axis=0, keepdims=True) * UNITS for u in inputs]


FEATURES = Moments()
BEFORE = Pipeline(RAW, FEATURES)
NAMES = ("rest", "walk", "run")


def people(n: int = 10, each: int = 12) -> dict[str, list[Recording]]:
    rng = np.random.default_rng(4)
    found = {}
    for k in range(n):
        labels = rng.permutation(np.arange(each) % 3)
        inputs = [
            rng.normal(size=(8, 4)) + np.eye(4)[label] + 0.3 * rng.normal(size=4)
            for label in labels
        ]
        found[f"p{k}"] = [
            Recording.labeled(u, int(label), 3) for u, label in zip(inputs, labels, strict=True)
        ]
    return found


PEOPLE = people()
ALL = [one for name in sorted(PEOPLE) for one in PEOPLE[name]]


def rows(recordings: Sequence[Recording]) -> tuple[Array, Array]:
    z = np.concatenate(FEATURES.rows([one.u for one in recordings]))
    return z, np.array([one.y for one in recordings])


Z, Y = rows(ALL)


def theirs(z: Array, y: Array, ridge: float = RIDGE) -> Any:
    return make_pipeline(StandardScaler(), Ridge(alpha=ridge, solver="svd")).fit(z, y)


def same(readout: Readout, ridge: float = RIDGE) -> None:
    np.testing.assert_allclose(readout(Z), theirs(Z, Y, ridge).predict(Z), rtol=1e-9, atol=1e-9)


def planned(algorithm: Any, rounds: int = 1) -> Any:
    return run_locally(Plan(algorithm=algorithm, rounds=rounds), PEOPLE)


def hidden() -> ct.Run:
    protections = [SecureAggregation(generate_keys(PEOPLE))]
    return ct.federate(BEFORE, PEOPLE, ridge=RIDGE, classes=NAMES, protections=protections)


WAYS: dict[str, Callable[[], Readout]] = {
    "fit": lambda: ct.fit(BEFORE, ALL, ridge=RIDGE, classes=NAMES).readout,
    "train": lambda: train(BEFORE, ALL, RIDGE, classes=NAMES).readout,
    "federate": lambda: ct.federate(BEFORE, PEOPLE, ridge=RIDGE, classes=NAMES).model.readout,
    "secure aggregation": lambda: hidden().model.readout,
    "algorithm": lambda: planned(FederatedRidge(features=FEATURES, ridge=RIDGE)).model.readout,
    "increments": lambda: (
        planned(FederatedRidge(features=FEATURES, ridge=RIDGE, increments=3), 3).model.readout
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_standardizes_as_scikit_learn_does(way: str) -> None:
    same(WAYS[way]())


def test_one_client_and_one_owner_have_the_same_bits() -> None:
    for ridge in (RIDGE, "auto"):
        alone = ct.fit(BEFORE, ALL, ridge=ridge, classes=NAMES)
        together = ct.federate(BEFORE, {"all": ALL}, ridge=ridge, classes=NAMES).model
        assert np.array_equal(alone.readout.weights, together.readout.weights)
        assert np.array_equal(alone.readout.intercept, together.readout.intercept)


@pytest.mark.parametrize(
    ("algorithm", "rounds"),
    [
        (FederatedRidge(features=FEATURES, classes=NAMES), 1),
        (Candidates(features=(FEATURES,), classes=NAMES, store_per_client=False), 2),
        (Candidates(features=(FEATURES,), classes=NAMES), 1),
    ],
)
def test_a_ridge_chosen_by_clients_left_out(algorithm: Any, rounds: int) -> None:
    done = planned(algorithm, rounds)
    choice = done.state.choice
    scaler = StandardScaler().fit(Z)
    for ridge, error in list(zip(choice.ridges, choice.errors, strict=True))[8::6]:
        total = np.zeros(3)
        for name in PEOPLE:
            rest = [one for other in sorted(PEOPLE) if other != name for one in PEOPLE[other]]
            (z, y), (z_own, y_own) = rows(rest), rows(PEOPLE[name])
            fitted = Ridge(alpha=ridge, solver="svd").fit(scaler.transform(z), y)
            total += ((fitted.predict(scaler.transform(z_own)) - y_own) ** 2).sum(axis=0)
        np.testing.assert_allclose(error, total / len(Z), rtol=1e-7)
    same(done.model.readout, float(choice.best))


def test_client_solutions_use_the_clients_own_spread() -> None:
    sums = np.zeros((len(Z), 3))
    for own in PEOPLE.values():
        z, y = rows(own)
        expected = theirs(z, y).predict(Z)
        sums += expected * len(own)
        sent = accumulate(FEATURES, own)
        _, alone = chosen_readout(sent, RIDGE, classes=True, standardize=FEATURES.standardize)
        np.testing.assert_allclose(alone(Z), expected, atol=1e-9)
    mean = planned(ReadoutAveraging(features=FEATURES, ridge=RIDGE, classes=NAMES)).model
    np.testing.assert_allclose(mean.readout(Z), sums / len(Z), atol=1e-9)


def test_a_plan_may_say_otherwise() -> None:
    plain = planned(FederatedRidge(features=FEATURES, ridge=RIDGE, standardize=False)).model
    expected = Ridge(alpha=RIDGE, solver="svd").fit(Z, Y).predict(Z)
    np.testing.assert_allclose(plain.readout(Z), expected, atol=1e-9)


def test_flags_solve_what_the_plan_solves() -> None:
    sent = {name: accumulate(FEATURES, own) for name, own in PEOPLE.items()}
    losses = left_out_losses(sent, RIDGE, standardize=True)
    scaler = StandardScaler().fit(Z)
    rest = [one for name in sorted(PEOPLE) if name != "p0" for one in PEOPLE[name]]
    z, y = rows(rest)
    own = rows(PEOPLE["p0"])
    fitted = Ridge(alpha=RIDGE, solver="svd").fit(scaler.transform(z), y)
    wrong = fitted.predict(scaler.transform(own[0])) - own[1]
    assert losses["p0"] == pytest.approx((wrong**2).mean(), rel=1e-9)


def test_scores_of_rows_left_out_are_those_of_standardized_rows() -> None:
    statistics = RidgeStatistics.from_states(Z, Y)
    spread = StandardScaler().fit_transform(Z)
    inverse = np.linalg.inv(spread.T @ spread + RIDGE * np.eye(4))
    leverage = 1 / len(Z) + np.einsum("ij,jk,ik->i", spread, inverse, spread)
    readout = solve_readout(statistics, RIDGE, scale=scale_of(statistics, True))
    honest = leave_one_out(statistics, readout, Z, Y, standardize=True)
    left = Y - (Y - readout(Z)) / (1 - leverage)[:, None]
    np.testing.assert_allclose(honest, left, rtol=1e-9)


@pytest.mark.parametrize("bits", [None, 24])
def test_features_that_hardly_vary_for_their_size_are_told_of(bits: int | None) -> None:
    z = np.column_stack([np.sin(np.arange(400.0)), 1e6 + np.arange(400) % 2])
    z = np.column_stack([z, np.full(400, 1234.5)])  # which does not vary, and is not told of
    fixed = None if bits is None else FixedPoint.from_digits(24, np.array([20, 1, 4]), classes=True)
    z = z if fixed is None else np.rint(z / fixed.scale) * fixed.scale
    y = (np.arange(400.0) % 2)[:, None]
    statistics = RidgeStatistics.from_states(z, y, fixed=fixed)
    with pytest.warns(PrecisionWarning, match="1 of 3 features, such as number 1, vary by less"):
        chosen_readout(statistics, 1e-3)
    z[:, 1] -= 1e6
    _, readout = chosen_readout(RidgeStatistics.from_states(z, y, fixed=fixed), 1e-3)
    np.testing.assert_allclose(readout(z), y, atol=1e-2)
