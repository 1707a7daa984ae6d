"""Very many clients in one process: what would grow with them is bounded, and says so."""

from __future__ import annotations

import logging
from dataclasses import replace
from inspect import getmodule

import numpy as np
import pytest

import catchment as ct
from catchment.engine import LocalClients
from catchment.federation import DELIVERY, EVALUATION, TRAINING, InMemory, Plan
from catchment.federation.learn import MANY
from catchment.federation.measure import Evaluation
from catchment.plans import About, PlanData
from catchment.report import MOST_MARKS, _places


def people(n_train: int, n_test: int) -> PlanData:
    recordings = [ct.Recording(np.zeros(3), np.zeros(3))]
    names = [f"p{k}" for k in range(n_train + n_test)]
    train, test = names[:n_train], names[n_train:]
    return PlanData(
        dict.fromkeys(train, recordings), dict.fromkeys(test, recordings), About(("x",))
    )


def test_of_very_many_clients_those_that_are_tested_are_given_the_model() -> None:
    few, many = people(MANY, 3), people(MANY + 1, 3)
    assert len(few.at(DELIVERY)) == MANY + 3
    assert sorted(many.at(DELIVERY)) == sorted(many.test)
    assert len(many.at(TRAINING)) == MANY + 1
    assert len(replace(many, test={}).at(DELIVERY)) == MANY + 1
    assert many.at(EVALUATION) == many.test


def test_scores_of_very_many_clients_are_kept_as_a_sum(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(getmodule(LocalClients), "MOST_APART", 4)
    plan = Plan(algorithm=Evaluation(sha256="", place=InMemory(b"")))
    for n_tested, apart in ((4, True), (5, False)):
        with caplog.at_level(logging.WARNING):
            held = people(3, n_tested)
            engines = LocalClients(clients=held.train, others={EVALUATION: held.test})
            allowed = engines.allowed(EVALUATION, plan)
        assert isinstance(allowed.algorithm, Evaluation)
        assert allowed.algorithm.store_per_client is apart
    assert [record.getMessage()[:46] for record in caplog.records] == [
        "5 clients are tested: their score is kept toge"
    ]


def test_a_chart_of_very_many_clients_has_few_marks() -> None:
    values = np.random.default_rng(0).random(50_000)
    marks = _places([*values.tolist(), float("nan")])
    assert len(marks) <= MOST_MARKS
    assert min(marks) == values.min()
    assert max(marks) == pytest.approx(values.max())
    assert _places([0.5] * 3000) == [0.5]
    assert _places([0.1, 0.2]) == [0.1, 0.2]
