"""The study of adapting without labels: its arithmetic, its choices, and its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from catchment.readout import SelfTraining
from reproductions.adapt import (
    ADAPTED,
    AS_TRAINED,
    AdaptResult,
    Cell,
    Rows,
    adapt,
    add_counts,
    chosen,
    grid,
    load_adapt,
    rows_of,
    trained_by,
    ungated,
)
from reproductions.adapt_methods import BASELINES, LABELS
from reproductions.adapt_tables import (
    FEW,
    MAIN,
    counts,
    f1,
    gains,
    guide_sentence,
    guide_table,
    markdown,
    pooled,
    readme_sentence,
    worth,
    write,
)
from reproductions.map_sets import folded

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return rows_of(folded("synthetic"), seed=0)


def test_what_is_computed_from_scores_and_q_is_what_the_library_solves(rows: Rows) -> None:
    trained, _ = trained_by(rows, 0)
    name = rows.data.folds[0][0]
    z, label = rows.z[name], rows.label[name]
    person = trained.person(z, label)
    np.testing.assert_allclose(person.S0, trained.readout(z), atol=1e-9)
    plain = SelfTraining(share=0.5, weight=0.2, enough=10, renamed=0)
    for rule in (SelfTraining(), plain, replace(plain, renamed=len(z))):
        np.testing.assert_allclose(person.adapted(rule), trained.adapted(z, rule)(z), atol=1e-7)


def test_taking_somebody_out_of_the_sums_is_training_without_them(rows: Rows) -> None:
    trained, parts = trained_by(rows, 0)
    name = next(iter(parts))
    without = trained.without(parts[name])
    others = [part for other, part in parts.items() if other != name]
    again = type(trained).of(others, float(np.mean(trained.readout.ridge)))
    z = rows.z[name]
    np.testing.assert_allclose(without.readout(z), again.readout(z), atol=1e-7)


def cell(gains_by_rule: list[list[float]]) -> Cell:
    return Cell("choice", "synthetic", 0, rules=[gains_by_rule])


def test_the_largest_gain_with_few_losers_in_every_set_is_taken() -> None:
    # 40 people: the first rule gains most and loses some, the second nearly as much and loses none.
    most = [0.196] * 20 + [-0.02] * 4 + [0.0] * 16
    safe = [0.19] * 20 + [0.0] * 20
    little = [0.01] * 40
    others = [[0.0] * 40] * (len(grid()) - 4)
    result = AdaptResult(cells=(cell([most, little, little, safe, *others]),))
    assert chosen(result, 0) == grid()[3]
    assert ungated(result, 0) == grid()[3]  # of those without a gate: 0, 3, ...
    alone = AdaptResult(cells=(cell([most, little, little, little, *others]),))
    assert chosen(alone, 0) == grid()[1]
    assert ungated(alone, 0) == grid()[0]
    # One set in which too many lose is enough, however many people the others have.
    small = replace(
        alone.cells[0], set="small", rules=[[one[18:24] for one in alone.cells[0].rules[0]]]
    )
    assert chosen(AdaptResult(cells=(*alone.cells, small)), 0) == grid()[1]


def test_rules_that_differ_in_the_gate_alone_are_gated_as_if_each_was_solved(rows: Rows) -> None:
    trained, _ = trained_by(rows, 0)
    name = rows.data.folds[0][0]
    person = trained.person(rows.z[name], rows.label[name])
    every = [SelfTraining(renamed=k) for k in (0, len(person))]
    assert person.gains(every) == [person.gain(person.adapted(rule)) for rule in every]
    assert person.gains(every)[1] == 0.0


def test_labels_are_worth_what_gains_the_same() -> None:
    right = {AS_TRAINED: [50.0]}
    for k, by_labels in zip(LABELS, (52.0, 54.0, 58.0, 60.0, 62.0), strict=True):
        right |= {f"{k} labels: as trained": [50.0], f"{k} labels: adapted": [56.0]}
        right[f"{k} labels"] = [by_labels]
    found = Cell("test", "synthetic", 0, people={"ann": 100}, right=right)
    assert worth([found]) == pytest.approx(np.sqrt(2 * 5))
    assert pooled([found], "5 labels") == 0.58
    assert gains([found], "5 labels").tolist() == [[pytest.approx(0.08)]]
    assert counts([found], AS_TRAINED) == [{"ann": (50.0, 100.0)}]


def test_macro_f1_is_that_of_scikit_learn_over_everybody_and_the_mean_of_draws() -> None:
    rng, classes, theirs = np.random.default_rng(3), dict[str, list[list[list[int]]]](), []
    people = [[(rng.integers(4, size=n), rng.normal(size=(n, 4))) for n in (30, 50)] for _ in "ab"]
    for draw, who in enumerate(people):
        for label, scores in who:
            add_counts(classes, "own", draw, label, scores)
        label, scores = (np.concatenate(part) for part in zip(*who, strict=True))
        theirs.append(f1_score(label, scores.argmax(1), average="macro"))
    assert f1([Cell("test", "synthetic", 0, classes=classes)], "own") == pytest.approx(
        np.mean(theirs)
    )


@pytest.mark.slow
def test_a_quick_run_is_kept_taken_up_again_and_drawn(tmp_path: Path) -> None:
    path, said = tmp_path / "adapt-quick.json", list[str]()
    result = adapt(
        ("synthetic",), seeds=1, quick=True, kept=lambda found: found.save(path), began=said.append
    )
    assert len(said) == 2
    kept = load_adapt(path)
    assert markdown(kept) == markdown(result)
    again = adapt(("synthetic",), seeds=1, quick=True, earlier=kept, began=said.append)
    assert len(said) == 2
    assert again.cells == kept.cells
    files = write(result, tmp_path)
    assert [one.suffix for one in files] == [".json", ".md", ".png"]
    methods = result.of("test")[0].right
    assert {AS_TRAINED, ADAPTED, *BASELINES} <= methods.keys()


def test_the_committed_page_is_that_of_the_committed_figures() -> None:
    result = load_adapt(ROOT / "results/adapt.json")
    assert not result.quick
    assert {(one.kind, one.set, one.seed) for one in result.cells} == {
        (kind, name, seed)
        for kind in ("choice", "test")
        for name in ("uci_har", "motionsense", "hhar", "wisdm_watch")
        for seed in range(5)
    }
    for one in result.of("test"):  # what is counted by class is what is counted by person
        for method, draws in one.classes.items():
            right = sum({**one.labeled, **one.right}[method])
            assert np.mean([np.sum(draw, axis=0)[0] for draw in draws]) == pytest.approx(right)
            assert {np.sum(draw, axis=0)[2] for draw in draws} == {sum(one.people.values())}
        assert {*MAIN, *FEW} <= one.classes.keys()
    assert (ROOT / "results/adapt.md").read_text(encoding="utf-8") == markdown(result) + "\n"
    guide = (ROOT / "docs/guides/adapt.md").read_text(encoding="utf-8")
    assert guide_table(result) in guide
    assert guide_sentence(result) in " ".join(guide.split())
    assert readme_sentence(result) in " ".join((ROOT / "README.md").read_text("utf-8").split())
