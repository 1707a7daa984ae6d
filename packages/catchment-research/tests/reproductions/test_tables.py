"""Tables of studies on people: figures of every class and person, against scikit-learn's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score

from catchment.features import Reservoir
from reproductions.cells import Cell
from reproductions.findings import TOLERANCE, findings
from reproductions.intervals import paired
from reproductions.per_class import (
    balanced,
    by_validation,
    difference,
    macro_f1,
    majority,
    never_said,
)
from reproductions.pictures import draw
from reproductions.study import Selected, SetResult, StudyResult, Traffic, load_result
from reproductions.tables import is_stand_in, markdown, pool_table, spread, table

ROOT = Path(__file__).parents[4]
NAMES = ("calm", "glad", "tense")
# True classes of four people, six sequences each.
TRUE = np.array([[0, 0, 0, 0, 1, 2], [0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 1, 2]])


def made(method: str, said: np.ndarray, repetition: int = 0, fold: int = 0, **more: Any) -> Cell:
    people = range(2 * fold, 2 * fold + 2)
    confusions = {}
    for k in people:
        counts = np.zeros((3, 3), dtype=int)
        np.add.at(counts, (TRUE[k], said[k]), 1)
        confusions[f"p{k}"] = counts.tolist()
    rights = {f"p{k}": float(np.mean(TRUE[k] == said[k])) for k in people}
    mean = float(np.mean(list(rights.values())))
    return Cell(method, 1.0, repetition, mean, 0.9, 0.8, rights, 0.1, 0.0, confusions, fold, **more)


NEVER_GLAD = np.where(TRUE == 1, 0, TRUE)
ONE_WRONG = TRUE.copy()
ONE_WRONG[:, 0] = 2


def chosen(method: str, validation: float, fold: int) -> Selected:
    return Selected.of(method, Reservoir(units=5, inputs=2), validation, "mean", fold=fold)


def the_set(a: str = "incfed", b: str = "fedavg-samples", **more: Any) -> SetResult:
    cells = [
        made(method, said, k, fold)
        for fold in (0, 1)
        for k in (0, 1)
        for method, said in ((a, ONE_WRONG), (b, NEVER_GLAD))
    ]
    usual: dict[str, Any] = {
        "name": "wesad",
        "notes": ("compact form: statistics",),
        "subjects": {"train": 2, "validation": 1, "test": 2},
        "n_sequences": 24,
        "classes": NAMES,
        "cells": tuple(cells),
    }
    return SetResult(**{**usual, **more})


def study(one: SetResult, name: str = "incfed") -> StudyResult:
    return StudyResult(name=name, settings={}, sets=(one,), environment={"cores": 2})


def test_classes_count_as_scikit_learn_counts_them() -> None:
    one = the_set()
    for method, said in (("incfed", ONE_WRONG), ("fedavg-samples", NEVER_GLAD)):
        theirs = balanced_accuracy_score(TRUE.ravel(), said.ravel())
        assert balanced(one, method, 1.0) == pytest.approx(theirs)
        theirs = f1_score(TRUE.ravel(), said.ravel(), average="macro")
        assert macro_f1(one, method, 1.0) == pytest.approx(theirs)
    assert never_said(one, "fedavg-samples", 1.0) == ("glad",)
    assert never_said(one, "incfed", 1.0) == ()


def test_the_majority_is_the_class_most_sequences_have() -> None:
    (counts,) = majority(the_set(), 1.0)
    assert counts == {f"p{k}": (float(np.sum(TRUE[k] == 0)), 6.0) for k in range(4)}
    assert "| majority | 66.7 | 66.7 (" in table("incfed", the_set())
    with_its_own = the_set(b="majority")
    assert table("incfed", with_its_own).count("| majority |") == 1


def test_differences_pair_what_both_methods_have() -> None:
    one = the_set()
    found = difference(one, "incfed", "fedavg-samples", 1.0)
    assert found is not None
    expected = np.mean(TRUE == ONE_WRONG) - np.mean(TRUE == NEVER_GLAD)
    assert found.value == pytest.approx(expected)
    assert found.n_people == 4
    first = replace(one, cells=tuple(c for c in one.cells if c.repetition == 0))
    more = tuple(c for c in one.cells if c.repetition == 1 and c.method != "incfed")
    uneven = replace(first, cells=first.cells + more)
    names = "incfed", "fedavg-samples", 1.0
    assert difference(uneven, *names) == difference(first, *names)
    assert difference(one, "incfed", "another", 1.0) is None


def test_the_spread_is_over_people_not_within_folds() -> None:
    values = [np.mean(TRUE[k] == NEVER_GLAD[k]) for k in range(4)]
    assert spread(the_set(), "fedavg-samples") == pytest.approx(np.std(values, ddof=1))


def test_pooling_is_chosen_in_each_fold_by_its_validation() -> None:
    one = the_set(a="fedip-last", b="fedip-mean")
    one = replace(
        one,
        selected=(
            chosen("fedip-last", 0.9, 0),
            chosen("fedip-mean", 0.8, 0),
            chosen("fedip-last", 0.7, 1),
            chosen("fedip-mean", 0.8, 1),
        ),
    )
    first, second = by_validation(one, "fedip", 1.0)
    assert first == second
    assert first["p0"] == (float(np.sum(TRUE[0] == ONE_WRONG[0])), 6.0)
    assert first["p3"] == (float(np.sum(TRUE[3] == NEVER_GLAD[3])), 6.0)
    assert paired([first], [first]).value == 0


def test_the_text_says_whose_data_these_are() -> None:
    other = study(the_set())
    assert "the data of wesad are not the paper's" in markdown(other)
    own = the_set(notes=("the publisher's files",))
    assert not is_stand_in(own)
    assert "not the paper's" not in markdown(study(own))
    assert "In brackets the paper's figure where it has one." in markdown(study(own))
    assert "In brackets" not in markdown(study(the_set(name="uci_har")))


def test_a_document_has_people_intervals_and_what_was_sent_back() -> None:
    traffic = (Traffic("incfed", 2, 1, 4096, 1024, 0.5, 2048), Traffic("old", 2, 1, 4096, 0, 1.0))
    text = markdown(study(the_set(traffic=traffic)))
    assert "4 people tested, in 2 folds" in text
    assert "| incfed - fedavg-samples |" in text
    assert "| incfed | 2 | 1 | 2.0 | 1.5 | 1.0 | 0.5 |" in text
    assert "| old | 2 | 1 | 2.0 | 0.0 | none counted | 1.0 |" in text
    assert "| glad | 100 | 0 | 0 |" in text
    lines = findings(study(the_set()))
    assert "wesad: fedavg-samples never says glad at 100%" in lines
    assert any("incfed is +" in line or "incfed is -" in line for line in lines)


def test_results_without_confusions_still_make_a_document(tmp_path: Any) -> None:
    one = the_set()
    old = replace(one, cells=tuple(replace(c, confusions={}, fold=0) for c in one.cells))
    result = study(old)
    result.save(tmp_path / "old.json")
    text = markdown(load_result(tmp_path / "old.json"))
    assert "| incfed | " in text
    assert "| - | - |" in text
    draw(result)


def test_ways_and_poolings_make_a_table() -> None:
    cells = [
        replace(made(f"{way} / {pool}", said), repetition=k)
        for way, said in (("none", NEVER_GLAD), ("fedip", ONE_WRONG))
        for pool in ("last", "mean")
        for k in (0, 1)
    ]
    text = pool_table(the_set(cells=tuple(cells)))
    assert text.splitlines()[0] == "| wesad | last | mean |"
    right = 100 * np.mean(TRUE[:2] == NEVER_GLAD[:2])
    assert f"| none | {right:.1f} ± 0.0 |" in text


@pytest.mark.parametrize("name", ["incfed", "unseen", "variance"])
def test_recorded_tables_are_those_of_the_recorded_figures(name: str) -> None:
    path = ROOT / "results" / f"{name}.json"
    assert path.with_suffix(".md").read_text(encoding="utf-8") == markdown(load_result(path))


@pytest.mark.parametrize("name", ["variance", "unseen"])
def test_the_page_quotes_the_results(name: str) -> None:
    result = load_result(ROOT / "results" / f"{name}.json")
    page = (ROOT / "docs" / "research" / f"{name}.md").read_text()
    quoted = [line for line in findings(result) if not line.endswith(f"{TOLERANCE:g})")]
    assert quoted
    for line in quoted:
        assert f"- {line}\n" in page
    if name == "variance":
        assert all(pool_table(one) in page for one in result.sets)
    assert (ROOT / "results" / f"{name}.md").read_text() == markdown(result)
    assert len(draw(result).axes) == len(result.sets), "with one share there is no curve to draw"
