"""The study of plasticity: what is searched, what is told of divergence, and how it is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catchment.features import EchoState, Reservoir
from catchment_lab.search import Adaptation, PlasticitySpace, adapt
from catchment_research.plasticity import IntrinsicPlasticity
from reproductions import fedip, fedip_search
from reproductions.cells import Cell, exact, read_subjects
from reproductions.fedip_findings import ahead, became_of, fedip_findings, over_sets, pair, settled
from reproductions.fedip_search import (
    READINGS,
    Judge,
    Key,
    Tried,
    decide,
    paper_rules,
    relative_rule,
)
from reproductions.findings import in_points
from reproductions.people import synthetic_people
from reproductions.pool import dealing
from reproductions.spaces import FEDIP_HHAR, Random
from reproductions.study import SetResult, StudyResult

PEOPLE = synthetic_people(n_users=6, windows=10)
TINY = fedip.FedIPSettings(
    trials=1,
    rounds=2,
    retrainings=2,
    shares=(1.0,),
    pools=("last", "mean"),
    finalists=1,
    most_units=100,
)
JUDGE = Judge(PEOPLE, PEOPLE.train, ("last", "mean", "mean_std"))


@pytest.fixture(scope="module")
def result() -> SetResult:
    return fedip.fedip(PEOPLE, TINY)


def test_methods_are_compared_at_equal_pooling(result: SetResult) -> None:
    kinds = ("incfed", "fedip-paper", "fedip-relative", "fedip-wide")
    assert set(result.methods) == {f"{kind}-{pool}" for kind in kinds for pool in TINY.pools}
    rules = {chosen.method: chosen.adaptation for chosen in result.selected}
    assert rules["incfed-last"] is None
    assert rules["fedip-wide-last"] is not None
    assert all(cell.gap < 1e-9 for cell in result.cells)
    assert all(sorted(cell.confusions) == sorted(PEOPLE.test) for cell in result.cells)


def test_every_method_chooses_from_the_same_recipes() -> None:
    found = fedip_search.explore(
        replace(JUDGE, pools=("mean",)), trials=2, rounds=1, most_units=100, seed=3
    )
    plain = [one.recipe for one in found.tried["incfed", "mean"]]
    assert [recipe.seed for recipe in plain] == [3, 4]
    assert [one.recipe for one in found.tried["fedip-paper", "mean"]] == [
        recipe for recipe in plain for _ in READINGS
    ]
    adapted = [one for key, tried in found.tried.items() if key[0] != "incfed" for one in tried]
    assert {one.recipe for one in adapted} <= set(plain)
    assert all(sorted(one.by_rounds) == [1] for one in adapted), "no rounds are no plasticity"
    tried = {key: n for key, (_, _, n) in found.rules.items()}
    assert tried == {
        **{("paper", *reading): 2 for reading in READINGS},
        ("relative", "step", "corrected"): 1,
        ("relative", "batch", "corrected"): 1,
        ("wide", "step", "corrected"): 2,
    }


def test_processes_give_the_same_cells(result: SetResult) -> None:
    with dealing(2) as deal:
        dealt = fedip.fedip(PEOPLE, TINY, None, deal)
    assert dealt.cells == result.cells
    assert (dealt.selected, dealt.remarks) == (result.selected, result.remarks)
    assert [one.bytes_up for one in dealt.traffic] == [one.bytes_up for one in result.traffic]


def test_where_every_rule_diverges_the_cells_are_the_plain_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wild = PlasticitySpace(target_std=(0.05, 0.051), relative_rate=(50.0, 51.0))
    monkeypatch.setattr(fedip_search, "FEDIP_HHAR", replace(FEDIP_HHAR, plasticity=wild))
    settings = replace(TINY, retrainings=1, rounds=1, pools=("mean",))
    found = fedip.fedip(PEOPLE, settings)
    assert "wide ranges: no rule was left, the cells are those of IncFed" in found.remarks
    assert became_of([found])["wide", "step", "corrected"] == (0, 1, 1)
    (plain,), (ours,) = found.of("incfed-mean", 1.0), found.of("fedip-wide-mean", 1.0)
    assert ours == replace(plain, method="fedip-wide-mean")
    assert fedip_findings(StudyResult(name="fedip", settings={}, sets=(found,)), in_points)


def test_an_adaptation_that_diverges_leaves_the_reservoir_as_drawn() -> None:
    recipe = Reservoir(units=10, inputs=6, seed=1)
    wild = IntrinsicPlasticity(target_std=0.01, learning_rate=1.0)
    chosen: dict[Key, Tried] = {
        ("incfed", "mean"): Tried(recipe, None, {0: 0.5}),
        ("fedip-wide", "mean"): Tried(recipe, wild, {1: 0.5}),
    }
    table = fedip.Table(PEOPLE, PEOPLE.train, replace(TINY, pools=("mean",)), chosen)
    cells = {cell.method: cell.test for cell in table.cells(0)}
    assert cells["fedip-wide-mean"] == cells["incfed-mean"]
    assert table.fell_back == 1
    told = fedip.remarks(fedip_search.Explored(), table)
    assert any(text.startswith("1 of 1 adaptations for the table diverged") for text in told)


def test_rounds_in_several_pieces_are_those_of_one_plan() -> None:
    recipe = Reservoir(units=15, inputs=6, seed=1)
    rule = IntrinsicPlasticity(target_std=0.4, learning_rate=1e-3)
    watched, below = JUDGE.adapted(recipe, rule, [1, 3])
    assert not below
    at_once, records = adapt(recipe, Adaptation(rule, 3), PEOPLE.train)
    assert len(records) == 3
    assert watched["mean"][3] == fedip.validated(at_once, "mean", PEOPLE)
    assert sorted(watched["last"]) == [1, 3]


@pytest.mark.parametrize("pool", ["last", "mean", "mean_std"])
def test_a_search_judges_like_the_readout_of_the_table(pool: str) -> None:
    reservoir = Reservoir(units=15, inputs=6, seed=2)
    features = EchoState.of(reservoir, input=False, pool=pool)  # type: ignore[arg-type]
    read = read_subjects(features, PEOPLE.everyone)
    train, held = ({n: read[n] for n in part} for part in (PEOPLE.train, PEOPLE.validation))
    assert JUDGE.validated(reservoir)[pool] == exact(train, held).accuracy  # type: ignore[index]


def test_finalists_are_judged_with_other_reservoirs_too() -> None:
    recipes = [Reservoir(units=10, inputs=6, seed=k) for k in range(3)]
    tried = [
        Tried(recipe, None, {0: value})
        for recipe, value in zip(recipes, (0.9, 0.8, 0.1), strict=True)
    ]
    key: Key = ("incfed", "mean")
    chosen = decide(JUDGE, {key: tried}, 2)[key]
    means = []
    for one in tried[:2]:
        again = JUDGE.plain(replace(one.recipe, seed=2000))["mean"][0]
        means.append((one.validation + again) / 2)
    assert chosen.validation == max(means)
    assert decide(JUDGE, {key: tried}, 1)[key] == tried[0]


def test_of_equal_rounds_the_fewest_are_taken() -> None:
    one = Tried(Reservoir(units=5), IntrinsicPlasticity(), {1: 0.5, 2: 0.7, 4: 0.7})
    assert one.rounds == 2
    assert one.adaptation == Adaptation(IntrinsicPlasticity(), 2)


def test_draws_stay_in_their_ranges() -> None:
    chooser = Random(np.random.default_rng(0))
    widths = []
    for _ in range(100):
        recipe, adaptation = fedip_search.space_of("wesad", 300).draw(chooser, inputs=8)
        assert isinstance(recipe.leak_rate, float)
        assert 0.1 <= recipe.leak_rate <= 0.8
        assert adaptation is not None
        assert 0.05 <= adaptation.rule.target_std <= 0.9
        rules = paper_rules(chooser)
        assert [(rule.updates, rule.equation) for rule in rules] == list(READINGS)
        assert len({(rule.target_std, rule.epochs) for rule in rules}) == 1
        steps, batches = (relative_rule(chooser, trial) for trial in (0, 1))
        assert (steps.updates, batches.updates) == ("step", "batch")
        for rule in (*rules, steps, batches):
            widths.append(rule.target_std)
            assert 0.005 <= rule.target_std <= 0.15
            assert rule.target_mean == 0
            assert rule.epochs in (3, 5, 10)
        assert {rule.learning_rate for rule in rules} == {0.01}
        assert 5e-4 <= steps.learning_rate / steps.target_std**2 <= 3e-2
        assert 0.02 <= batches.learning_rate / batches.target_std**2 <= 0.5
    assert np.mean(widths) == pytest.approx(0.0775, abs=0.01), "drawn evenly"


def right(method: str, name: str, *, n: int, correct: int, repetition: int = 0) -> Cell:
    table = [[correct, n - correct], [0, 0]]
    value = correct / n
    return Cell(method, 1.0, repetition, value, 1.0, 0.5, {name: value}, 1.0, 0.0, {name: table})


def a_set(name: str, n: int, ours: int, theirs: int) -> SetResult:
    cells = []
    for kind, correct in (("fedip-wide", ours), ("incfed", theirs)):
        for repetition in range(2):
            cells.append(right(f"{kind}-mean", "ann", n=n, correct=correct, repetition=repetition))
    return SetResult(
        name=name, notes=(), subjects={}, n_sequences=n, classes=("a", "b"), cells=tuple(cells)
    )


def test_sets_have_equal_weight_over_all() -> None:
    small, large = a_set("small", 10, 9, 8), a_set("large", 1000, 500, 700)
    found = over_sets([(one, pair(one, "wide", "mean", 1.0)) for one in (small, large)])
    assert found.value == pytest.approx((0.1 - 0.2) / 2)
    assert found.n_people == 2
    study = StudyResult(name="fedip", settings={}, sets=(small, large))
    assert ahead(study, "wide") == (1, 0, 2)
    assert settled(study, "wide") == (1, 1)


def test_what_became_of_rules_is_summed_over_folds_and_sets() -> None:
    line = (
        "paper ranges, an update a batch, printed equation: {} of 6 rules took gains below zero, "
        "2 were left out"
    )
    sets = [
        replace(a_set("one", 5, 4, 3), remarks=(f"fold 0: {line.format(5)}", "another remark")),
        replace(a_set("two", 5, 4, 3), remarks=(f"fold 0: {line.format(1)}",)),
    ]
    assert became_of(sets) == {("paper", "batch", "printed"): (6, 4, 12)}
