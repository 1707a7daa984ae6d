"""The page about devices has the figures that were measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import edge

RESULTS = Path(edge.__file__).parent / "results" / "edge.json"


@pytest.mark.parametrize("name", edge.TABLES)
def test_tables_of_devices_are_those_that_were_measured(name: str) -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    _, shown = edge.PAGE.read_text(encoding="utf-8").split(f"<!-- table: {name} -->\n\n")
    assert shown.startswith(f"{edge.TABLES[name](results)}\n\n")


def test_every_device_fits_and_every_sum_is_what_the_page_says() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for found in (one for of_name in results["devices"].values() for one in of_name):
        assert found["ram"] <= 64 * 1024
        assert found["stack used"] < 3 * 1024
    for found in results["federations"].values():
        assert (found["devices"], found["data"]) == (21, "UCI HAR")
        assert found["agree"] >= 0.999 * found["tested"]
        assert found["device_agree"] >= 0.999 * found["tested"]
        assert found["digest"] == found["pooled_digest"]
