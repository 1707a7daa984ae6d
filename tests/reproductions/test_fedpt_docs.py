"""The figures of the guide to partial networks are those of the results."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproductions.fedpt_docs import BLOCKS, PAGE, RESULT, page
from reproductions.fedpt_findings import difference
from reproductions.fedpt_tables import load, markdown
from reproductions.fedpt_values import FedptResult


@pytest.fixture(scope="module")
def kept() -> FedptResult:
    return load(RESULT)


def test_the_guide_shows_what_was_measured(kept: FedptResult) -> None:
    shown = PAGE.read_text("utf-8")
    assert page(shown, kept) == shown
    named = [name for name in BLOCKS if f"<!-- fedpt: {name} -->" in shown]
    parts = {row.part for row in kept.rows}
    assert {"writers", "cifar", "text", "private", "hundred", "addresses"} <= set(named)
    assert ("cifar_many" in named) == ("cifar_many" in parts)
    assert ("memory" in named) == bool(kept.memory)


def test_the_tables_are_those_of_the_rows(kept: FedptResult) -> None:
    assert (RESULT.with_suffix(".md")).read_text("utf-8") == markdown(kept)


def test_every_part_has_its_naive_guess(kept: FedptResult) -> None:
    assert set(kept.baselines) == {row.part for row in kept.rows}
    assert 0.11 < kept.baselines["writers"] < 0.12  # ones, of ten digits
    text = markdown(kept)
    assert "most frequent word" in text
    assert "largest class" in text


def test_the_page_of_experiments_says_what_is_settled(kept: FedptResult) -> None:
    section = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text("utf-8")
    (told,) = [part for part in section.split("\n## ") if part.startswith("Networks trained in p")]
    rows = [row for row in kept.rows if row.part == "cifar_many"]
    full = [row for row in rows if row.percent == 100]
    for percent in sorted({row.percent for row in rows} - {100.0}):
        same = [row for row in rows if row.percent == percent]
        found = difference(same, full)
        word = "settled" if found.settled else "not settled"
        assert f"{percent:.2f} % {found.value:+.2f} points ({word})" in " ".join(told.split())
