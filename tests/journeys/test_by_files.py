"""The first walk of a site, from kit to contribution, as the benchmark types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.by_files import journey

ROOT = Path(__file__).parents[2]


def test_the_guide_says_the_seconds_of_the_record() -> None:
    found = json.loads((ROOT / "benchmarks/results/by_files.json").read_text(encoding="utf-8"))
    guide = (ROOT / "docs/guides/by-files.md").read_text(encoding="utf-8")
    said = re.search(r"take (\d+) seconds on two cores, (\d+) of them .* take (\d+)\.", guide, re.S)
    names = ("kit to contribution", "contribute, first", "contribute, later")
    assert said is not None
    assert [int(one) for one in said.groups()] == [round(found[name]) for name in names]
    assert found["machine"]["cores"] == 2


@pytest.mark.long
def test_a_site_types_the_line_of_its_page_and_the_leader_gets_a_model(tmp_path: Path) -> None:
    found = journey(tmp_path, sites=10, n_rows=3_000)
    assert (tmp_path / "kits" / "run" / "model.safetensors").is_file()
    # Seconds are a record (benchmarks/results/by_files.json); no test waits for a number of them.
    typed = {"kit", "contribute, first", "inspect", "kit to contribution", "assist"}
    assert typed <= set(found)
