"""Cells are what the protocols give, and the pooled rows give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from catchment import FederatedRidge, Plan, Reservoir, federate
from catchment.features import EchoState
from catchment.federation.learn import ReadoutAveraging
from catchment.readout import Readout, RidgeStatistics
from catchment_lab.search import ridges_of
from reproductions.cells import (
    WEIGHTINGS,
    Subject,
    accuracy,
    averaged_paths,
    best_of,
    cell,
    exact,
    pooled_readout,
    read_subjects,
    summed,
)
from reproductions.people import synthetic_people

PEOPLE = synthetic_people(n_users=6, windows=14)
FEATURES = EchoState.of(Reservoir(units=20, inputs=6, seed=1), input=False, pool="mean")
UNEVEN = {name: rows[: 4 + 3 * k] for k, (name, rows) in enumerate(PEOPLE.train.items())}
TRAIN = read_subjects(FEATURES, UNEVEN)
VALIDATION = read_subjects(FEATURES, PEOPLE.validation)
TEST = read_subjects(FEATURES, PEOPLE.test)


def test_the_exact_readout_is_the_protocols_and_the_pooled_one() -> None:
    chosen = exact(TRAIN, VALIDATION)
    plan = Plan(
        algorithm=FederatedRidge(features=FEATURES, ridge=chosen.ridge, classes=PEOPLE.classes)
    )
    model = federate(plan, UNEVEN).model
    assert model is not None
    np.testing.assert_allclose(chosen.readout.weights, model.readout.weights, rtol=1e-7, atol=1e-9)
    z = np.concatenate([s.z for s in TRAIN.values()])
    y = np.concatenate([s.y for s in TRAIN.values()])
    theirs = Ridge(alpha=chosen.ridge, solver="svd").fit(z, y)
    pooled = pooled_readout(TRAIN, chosen.ridge)
    for subject in TEST.values():
        expected = theirs.predict(subject.z)
        np.testing.assert_allclose(chosen.readout(subject.z), expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(pooled(subject.z), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_averages_are_the_protocols(weighting: Any) -> None:
    ridges = ridges_of(summed(TRAIN), 9)
    paths = averaged_paths(TRAIN, ridges)
    for k in (0, 4, 8):
        algorithm = ReadoutAveraging(
            features=FEATURES,
            ridge=float(ridges[k]),
            weighting=weighting,
            classes=PEOPLE.classes,
        )
        model = federate(Plan(algorithm=algorithm), UNEVEN).model
        assert model is not None
        ours = paths[weighting][k]
        np.testing.assert_allclose(ours.weights, model.readout.weights, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours.intercept, model.readout.intercept, rtol=1e-6, atol=1e-8)


def test_a_cell_counts_rows_not_subjects() -> None:
    def subject(labels: list[int]) -> Subject:
        y = np.eye(2)[labels]
        z = np.eye(2)[[0] * len(labels)]
        return Subject(z, y, RidgeStatistics.from_states(z, y))

    subjects = {"a": subject([0, 0, 0]), "b": subject([1])}
    readout = Readout(np.eye(2), np.zeros(2))
    assert accuracy(readout, subjects) == 0.75
    chosen = best_of([readout], np.array([1.0]), subjects)
    made = cell("m", chosen, train=subjects, test=subjects, share=1.0, repetition=0)
    assert made.test == 0.75
    assert made.by_subject == {"a": 1.0, "b": 0.0}
    assert made.spread == np.sqrt(0.5)
    assert made.confusion.confusion.tolist() == [[3, 0], [1, 0]]
    assert np.isnan(made.gap)


def test_a_wrong_readout_shows_in_the_gap() -> None:
    chosen = exact(TRAIN, VALIDATION)
    other = pooled_readout(TRAIN, 2 * chosen.ridge)
    where: dict[str, Any] = {"train": TRAIN, "test": TEST, "share": 1.0, "repetition": 0}
    assert cell("m", chosen, pooled=other, **where).gap > 1e-6
    right = pooled_readout(TRAIN, chosen.ridge)
    assert cell("m", chosen, pooled=right, **where).gap < 1e-9


def test_of_equal_ridges_the_stiffer_is_chosen() -> None:
    readout = Readout(np.zeros((20, 6)), np.eye(6)[0])
    assert best_of([readout, readout], np.array([1.0, 2.0]), VALIDATION).ridge == 2.0
