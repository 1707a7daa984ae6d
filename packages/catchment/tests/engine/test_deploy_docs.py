"""What the page on scale quotes is what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.flower import table

ROOT = Path(__file__).parents[4]
ROWS: list[dict[str, Any]] = json.loads(
    (ROOT / "benchmarks" / "results" / "flower.json").read_text()
)["rows"]
PAGE = (ROOT / "docs" / "guides" / "scale-measured.md").read_text()


def test_the_table_is_the_one_that_was_measured() -> None:
    assert table(ROWS) in PAGE


def test_the_estimate_starts_from_what_was_measured() -> None:
    last = [row for row in ROWS if row["runner"] == "deployment"][-1]
    up = last["TCP bytes beyond payload up, per message"]
    down = last["TCP bytes beyond payload down, per message"]
    assert f"extra_up, extra_down = {up:_}, {down:_}" in PAGE
    message = last["SuperLink CPU seconds per message"]
    poll = last["at rest, SuperLink CPU seconds per call"]
    assert f"message_seconds, poll_seconds = {message}, {poll}" in PAGE


def test_engines_of_one_size_made_one_model() -> None:
    models: dict[int, set[str]] = {}
    for row in ROWS:
        models.setdefault(row["clients"], set()).add(row["sha256 of the model"])
    assert {len(found) for found in models.values()} == {1}
