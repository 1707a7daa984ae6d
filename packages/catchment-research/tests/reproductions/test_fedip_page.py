"""The page's figures of plasticity are those of the results."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproductions import fedip_tables
from reproductions.fedip_findings import ahead, became_of, chosen_pair, over_sets
from reproductions.people import SETS, SPOKEN
from reproductions.study import StudyResult, load_result

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
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
    assert "over all sets includes 0. So 28 of 60 is not overturned" in PAGE
    rules = [value for key, value in became_of(study.sets).items() if key[0] == "paper"]
    below, n = sum(one[0] for one in rules), sum(one[2] for one in rules)
    assert 0.93 < below / n < 0.97, "nineteen rules in twenty"


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
    trials = study.settings["trials"]
    assert isinstance(trials, int)
    assert f"each with {4 * trials} rules in\na fold" in PAGE
    assert f"IncFed has {12 * trials} recipes in a fold" in PAGE
    for name in ("steps", "search_steps", "adapt_steps"):
        assert f"{study.settings[name]:,}" in PAGE
    assert f"at most {study.settings['most_units']} units" in PAGE


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
