"""Uneven clients: the exact sum does not see how windows are dealt, averages do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catchment.features import EchoState, Reservoir
from catchment_lab.search import Adaptation, adapt
from catchment_research.plasticity import IntrinsicPlasticity, plasticity_of
from reproductions.cells import exact, read_subjects
from reproductions.dealings import (
    IID,
    ONE,
    PEOPLE,
    dealt,
    label_distance,
    largest_gap,
    regrouped,
)
from reproductions.people import People, rotations, synthetic_recordings
from reproductions.pictures import draw
from reproductions.quotes import skew_deviations, skew_gains
from reproductions.skew import QUICK, adapted, chosen_rule, skew
from reproductions.skew_tables import dealings, findings, gain, measured
from reproductions.study import SetResult, StudyResult, joined, load_result
from reproductions.tables import markdown

SETTINGS = replace(QUICK, alphas=(0.05, 10.0), units=15, initializations=2, steps=10**6)


@pytest.fixture(scope="module")
def splits() -> tuple[People, ...]:
    return rotations(synthetic_recordings(n_users=6, windows=12), folds=3)


@pytest.fixture(scope="module")
def result(splits: tuple[People, ...]) -> SetResult:
    first, *others = (skew(people, SETTINGS) for people in splits[:2])
    for other in others:
        first = joined(first, other)
    return first


def test_every_dealing_has_the_same_windows(splits: tuple[People, ...]) -> None:
    made = dealt(splits[0], SETTINGS.alphas)
    assert list(made) == ["alpha 0.05", "alpha 10", IID, ONE, PEOPLE]
    windows = [
        sorted(id(s) for part in clients.values() for s in part) for clients in made.values()
    ]
    assert all(one == windows[0] for one in windows)
    n = len(splits[0].train)
    assert [len(clients) for clients in made.values()] == [n, n, n, 1, n]
    distances = [label_distance(clients) for clients in made.values()]
    assert distances[0] == max(distances)
    assert distances[3] == 0


def test_the_exact_sum_does_not_depend_on_the_dealing(splits: tuple[People, ...]) -> None:
    people = splits[0]
    features = EchoState.of(Reservoir(units=20, inputs=6, seed=1), pool="mean")
    train, test = read_subjects(features, people.train), read_subjects(features, people.test)
    chosen = exact(train, read_subjects(features, people.validation))
    as_dealt = [
        regrouped(train, people, clients) for clients in dealt(people, SETTINGS.alphas).values()
    ]
    assert largest_gap(chosen, as_dealt, test) < 1e-9
    rows = [np.concatenate([s.z for s in clients.values()]) for clients in as_dealt]
    assert all(len(z) == len(rows[0]) for z in rows)
    # A window that is lost changes the sum, and must be noticed.
    fewer = dict(as_dealt[0])
    del fewer[max(fewer, key=lambda name: len(fewer[name].z))]
    with pytest.raises(ArithmeticError, match="the exact sum differs"):
        largest_gap(chosen, [fewer], test)


def test_rounds_with_a_look_at_the_drift_are_fedips_rounds(splits: tuple[People, ...]) -> None:
    reservoir = Reservoir(units=10, inputs=6, seed=2)
    rule = Adaptation(IntrinsicPlasticity(target_std=0.3, learning_rate=1e-3), 2)
    ours, (gains, shifts) = adapted(reservoir, rule, splits[0].train)
    theirs, _ = adapt(reservoir, rule, splits[0].train)
    for a, b in zip(plasticity_of(ours), plasticity_of(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert gains > 0
    assert shifts > 0
    everything = {"all": [s for part in splits[0].train.values() for s in part]}
    _, alone = adapted(reservoir, rule, everything)
    assert alone == (0.0, 0.0)


def test_rules_that_diverge_do_not_end_the_study(splits: tuple[People, ...]) -> None:
    recipe = Reservoir(units=10, inputs=6, seed=2)
    settings = replace(SETTINGS, rules=((0.0, 0.3), (0.2, 0.3)), relative_rate=3e9)
    first = chosen_rule(splits[0], settings, recipe, lambda text: None).rule
    with pytest.raises(ArithmeticError, match="diverged"):
        adapted(recipe, Adaptation(first, 1), splits[0].train)
    assert first.target_mean == 0.0


def test_the_study_has_every_method_at_every_dealing(result: SetResult) -> None:
    names = dealings(result)
    assert names == ("alpha 0.05", "alpha 10", IID, ONE, PEOPLE)
    assert result.largest_gap < 1e-9
    for pool in ("mean", "last"):
        methods = ["incfed / any", "moments / any", *(f"fedip / {name}" for name in names)]
        if pool == "mean":
            methods += [f"{kind} / {name}" for kind in ("fedavg", "rounds") for name in names]
        for method in methods:
            assert len(result.of(f"{method} / {pool}", 1.0)) == 2 * 2
            assert gain(result, method, pool).n_people == 4
    # One client's average is the exact sum itself.
    one_client = result.values(f"fedavg / {ONE} / mean", 1.0)
    assert one_client == result.values("incfed / any / mean", 1.0)
    assert measured(result, "drift of gains", ONE) == 0 < measured(result, "drift of gains", PEOPLE)


def test_a_result_is_printed_drawn_and_read_again(result: SetResult, tmp_path: Path) -> None:
    study = StudyResult(name="skew", settings={}, sets=(result,), environment={"cores": 2})
    study.save(tmp_path / "skew.json")
    again = load_result(tmp_path / "skew.json")
    text = markdown(again)
    assert text.count("| moments, any |") == 2
    cells = result.of("incfed / any / mean", 1.0)
    table = np.sum([one for cell in cells for one in cell.confusions.values()], axis=0)
    f1 = 2 * table.diagonal() / (table.sum(0) + table.sum(1))
    assert re.search(rf"^\| {IID} \| [\d.]+ ± [\d.]+ \({f1.mean():.3f}\) \|", text, re.MULTILINE)
    lines = findings(again)
    assert any("exact scores differ by at most" in line for line in lines)
    assert any("gains drift" in line for line in lines)
    assert len(draw(again).axes) == 3


def test_the_page_of_experiments_quotes_the_recorded_figures() -> None:
    root = Path(__file__).parents[4]
    study = load_result(root / "results" / "skew.json")
    page = (root / "docs" / "research" / "skew.md").read_text(encoding="utf-8")
    assert skew_gains(study) in page
    assert skew_deviations(study) in page
    gap = max(one.largest_gap for one in study.sets)
    flat = " ".join(page.split())
    assert f"differ by at most {gap:.0e} between dealings" in flat
    assert (root / "results" / "skew.md").read_text(encoding="utf-8") == markdown(study)
    n_folds = len({cell.fold for one in study.sets for cell in one.cells})
    people = [(one, one.interval("incfed / any / mean", 1.0).n_people) for one in study.sets]
    tested = ", ".join(f"{n} of {one.name}" for one, n in people)
    assert f"The recorded run has {n_folds} of 5 folds: {tested}." in flat
    # What the page says of the skew, with the figures themselves.
    worst = dealings(study.sets[0])[0]
    for one in study.sets:
        for pool in ("mean", "last"):
            a, b = f"fedip / {worst} / {pool}", f"fedip / {IID} / {pool}"
            assert not one.difference(a, b, 1.0).settled
        lost = one.difference(f"fedavg / {worst} / mean", f"fedavg / {IID} / mean", 1.0)
        assert -0.345 < lost.value < -0.185
        assert lost.settled
        drift = [measured(one, "drift of gains", name) for name in (worst, IID)]
        assert drift[0] > 5 * drift[1]
