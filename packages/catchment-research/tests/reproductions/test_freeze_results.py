"""What the page says of the study of what to freeze is what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from reproductions.freeze_tables import echo_table, layers_table, markdown, sent_table
from reproductions.freeze_values import load_freeze

ROOT = Path(__file__).resolve().parents[4]


def test_the_guide_shows_the_tables_that_were_measured() -> None:
    result = load_freeze(ROOT / "results" / "freeze.json")
    assert (ROOT / "results" / "freeze.md").read_text(encoding="utf-8") == markdown(result)
    guide = (ROOT / "docs" / "research" / "freeze.md").read_text(encoding="utf-8")
    for table in (
        layers_table(result),
        sent_table(result, "bits"),
        sent_table(result, "dropout"),
        echo_table(result),
    ):
        assert table
        for piece in table:
            assert piece in guide
    seeds = {row.job.seed for row in result.rows if not row.job.search}
    assert len(seeds) == 3
    assert result.settings["search_seed"] not in seeds
    held = f"{result.settings['rounds']} rounds of {result.settings['cohort']} clients"
    assert held in guide
