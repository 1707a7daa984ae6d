"""The figures of the guide to partial networks are those of the results."""

from __future__ import annotations

import pytest

from reproductions.fedpt_docs import BLOCKS, PAGES, RESULT, page
from reproductions.fedpt_findings import at_edge, by_percent, spreads
from reproductions.fedpt_tables import load, markdown
from reproductions.fedpt_values import FedptResult


@pytest.fixture(scope="module")
def kept() -> FedptResult:
    return load(RESULT)


@pytest.fixture(scope="module")
def text(kept: FedptResult) -> str:
    return markdown(kept)


def test_the_pages_show_what_was_measured(kept: FedptResult) -> None:
    named = list[str]()
    for path in PAGES:
        shown = path.read_text("utf-8")
        assert page(shown, kept) == shown
        named += [name for name in BLOCKS if f"<!-- fedpt: {name} -->" in shown]
    assert sorted(named) == sorted(BLOCKS)


def test_the_tables_are_those_of_the_rows(text: str) -> None:
    assert (RESULT.with_suffix(".md")).read_text("utf-8") == text


def test_every_part_has_its_naive_guess(kept: FedptResult, text: str) -> None:
    assert set(kept.baselines) == {row.part for row in kept.rows}
    assert 0.11 < kept.baselines["writers"] < 0.12  # ones, of ten digits
    assert "most frequent word" in text
    assert "largest class" in text


def test_what_the_guide_says_of_clients_is_in_the_rows(kept: FedptResult) -> None:
    shares = {
        part: by_percent([row for row in kept.rows if row.part == part])
        for part in ("writers", "cifar_many")
    }
    full, less = (spreads(rows) for rows in shares["writers"].values())
    assert full.worst_tenth - less.worst_tenth > 2 * (full.mean - less.mean) > 0
    many = [spreads(rows) for rows in shares["cifar_many"].values()]
    assert max(of.deviation for of in many) - min(of.deviation for of in many) < 1
    # Parts are ahead of the whole network, also with the rate that is better for it at length.
    longer = spreads([row for row in kept.rows if row.part == "cifar_long"])
    assert many[0].mean < longer.mean < min(of.mean for of in many[1:])
    assert not at_edge(kept, "cifar_many")
