"""The page's figures of plasticity are those of the results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reproductions import fedip_tables
from reproductions.fedip_findings import (
    ahead,
    became_of,
    chosen_pair,
    over_sets,
    pair,
    pools_of,
    settled,
)
from reproductions.fedip_search import SEARCHES
from reproductions.intervals import paired
from reproductions.people import SETS, SPOKEN
from reproductions.study import StudyResult, load_result

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "research" / "fedip.md").read_text(encoding="utf-8")
TABLES = {
    "differences": fedip_tables.differences,
    "by_share": fedip_tables.by_share,
    "chosen": fedip_tables.chosen,
    "rules": fedip_tables.rules,
    "counts": fedip_tables.counts,
}


@pytest.fixture(scope="module")
def study() -> StudyResult:
    return load_result(ROOT / "results" / "fedip.json")


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_tables_of_the_result(name: str, study: StudyResult) -> None:
    assert TABLES[name](study) in PAGE


def test_the_verdict_is_that_of_the_figures(study: StudyResult) -> None:
    for search, least, most in (("paper", 0.0, 0.5), ("relative", 0.0, 0.5), ("wide", 0.5, 1)):
        better, _, n = ahead(study, search)
        assert least <= better / n <= most, search
    every = over_sets([(one, chosen_pair(one, 1.0)) for one in study.sets])
    assert not every.settled
    assert "interval over all sets includes 0: a search of recipes alone does as well" in PAGE
    better, _, n = ahead(study, "paper")
    assert better / n == 0.25, "a quarter of the cells"
    assert settled(study, "wide") == (1, 0), "only one difference is settled"
    for one in study.sets:
        found = [
            paired(*pair(one, search, pool, share))
            for search in ("paper", "relative")
            for pool in pools_of(one)
            for share in one.shares
        ]
        assert not any(known.settled and known.value > 0 for known in found)
        assert any(known.settled for known in found) == (one.name in ("fsdd", "hhar"))
    rules = [value for key, value in became_of(study.sets).items() if key[0] == "paper"]
    below, n = sum(one[0] for one in rules), sum(one[2] for one in rules)
    assert 0.9 < below / n < 0.96, "more than nine rules in ten"


def test_cells_computed_again_are_told(study: StudyResult) -> None:
    cells = json.loads((ROOT / "results" / "fedip-again.json").read_text())["cells"]
    for cell in cells:
        (one,) = (known for known in study.sets if known.name == cell["set"])
        (first,) = (
            known.test
            for known in one.of("fedip-paper-mean", 1.0)
            if (known.fold, known.repetition) == (cell["fold"], 0)
        )
        assert cell["kept"] == round(first, 4)
        shown = (f"{100 * cell[name]:.1f}" for name in ("kept", "again", "rounded"))
        head = (cell[name] for name in ("set", "fold", "update", "equation", "rounds"))
        assert f"| {' | '.join(map(str, (*head, *shown)))} |" in PAGE
    off = [100 * abs(cell["again"] - cell["kept"]) for cell in cells]
    rounded = [100 * abs(cell["rounded"] - cell["kept"]) for cell in cells]
    assert (sum(value == 0 for value in off), sum(value > 0 for value in rounded)) == (6, 9)
    assert f"up to {max(off):.1f} points" in PAGE
    assert f"by up to {max(rounded):.0f} points" in PAGE


def test_sets_that_were_not_run_are_named(study: StudyResult) -> None:
    known = {one.name for one in study.sets}
    missing = [name for name in (*SETS, SPOKEN) if name not in known]
    line = next((line for line in PAGE.splitlines() if "Not run in this form yet" in line), "")
    assert all(name in line for name in missing)
    assert not any(name in line for name in known)


def test_everybody_is_tested_once(study: StudyResult) -> None:
    for one in study.sets:
        for method in one.methods:
            for repetition in range(study.settings["retrainings"]):  # type: ignore[arg-type]
                cells = [c for c in one.of(method, 1.0) if c.repetition == repetition]
                tested = [name for cell in cells for name in cell.confusions]
                assert sorted({cell.fold for cell in cells}) == list(range(5)), (one.name, method)
                assert len(tested) == len(set(tested)), (one.name, method)


def test_the_page_says_how_it_was_set_up(study: StudyResult) -> None:
    assert f"In every fold {study.settings['trials']} recipes are drawn" in PAGE
    for name in ("steps", "search_steps", "adapt_steps"):
        assert f"{study.settings[name]:,}" in PAGE
    assert f"up to its {study.settings['most_units']} units" in PAGE


def test_the_page_has_the_differences_of_the_run_with_unequal_trials(study: StudyResult) -> None:
    earlier = load_result(ROOT / "results" / "earlier" / "fedip-5.json")
    table = fedip_tables.differences(earlier).splitlines()
    rows = [line for line in table if line.startswith("| all alike")]
    assert "\n".join([*table[:2], *rows]) in PAGE
    every = over_sets([(one, chosen_pair(one, 1.0)) for one in earlier.sets])
    assert f"where both had 60 trials, {every.shown(sign=True)}" in PAGE
    for one, said in ((earlier, "6.6, 1.4 and 2.7"), (study, "3.4, 5.9 and 4.2")):
        (hhar,) = (known for known in one.sets if known.name == "hhar")
        lost = [-100 * paired(*pair(hhar, "paper", pool, 1.0)).value for pool in pools_of(hhar)]
        assert "{:.1f}, {:.1f} and {:.1f}".format(*lost) == said
        assert said in PAGE
        (wesad,) = (known for known in one.sets if known.name == "wesad")
        pairs = (pair(wesad, search, p, 1.0) for search in SEARCHES for p in pools_of(wesad))
        assert not any(paired(*both).settled for both in pairs)


def test_the_page_has_the_differences_of_the_earlier_run() -> None:
    earlier = load_result(ROOT / "results" / "earlier" / "fedip-4.json")
    ahead = n = 0
    for one in earlier.sets:
        gains = []
        for pool in ("last", "mean", "mean_std"):
            for share in one.shares:
                gain = one.mean(f"fedip-{pool}", share) - one.mean(f"incfed-{pool}", share)
                ahead, n = ahead + (gain > 0), n + 1
            gains.append(f"{100 * gain:+.1f}")
        assert f"| {one.name} | {' / '.join(gains)} |" in PAGE
    assert f"FedIP was ahead in {ahead} of {n}" in PAGE
