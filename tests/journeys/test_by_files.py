"""The first walk of a site, from kit to contribution, as the benchmark types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.by_files import journey


@pytest.mark.long
def test_a_site_types_the_line_of_its_page_and_the_leader_gets_a_model(tmp_path: Path) -> None:
    found = journey(tmp_path, sites=10, n_rows=3_000)
    assert (tmp_path / "kits" / "run" / "model.safetensors").is_file()
    # Seconds are a record (benchmarks/results/by_files.json); no test waits for a number of them.
    typed = {"kit", "contribute, first", "inspect", "kit to contribution", "assist"}
    assert typed <= set(found)
