"""Small runs that the tests of reports share."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.federation import read_run
from catchment.federation.runs import Run
from catchment.plans import example_plan, parse_plan, run_plan


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two small runs: classes, and a forecast."""
    place = tmp_path_factory.mktemp("runs")
    small = {"users = 16": "users = 6", "units = 100": "units = 20", "units = 200": "units = 20"}
    made = []
    for name in ("wearables", "mackey_glass"):
        text = example_plan(name).replace("steps = 4000", "steps = 900")
        for large, less in small.items():
            text = text.replace(large, less)
        run_plan(parse_plan(text), place / name)
        made.append(place / name)
    return made


@pytest.fixture(scope="session")
def runs(folders: list[Path]) -> list[Run]:
    return [read_run(folder) for folder in folders]


@pytest.fixture(scope="session")
def descent(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a small run of several rounds that record a loss."""
    text = example_plan("gradient").replace("units = 60", "units = 20")
    folder = tmp_path_factory.mktemp("descent") / "run"
    run_plan(parse_plan(text.replace("rounds = 20", "rounds = 8")), folder)
    return read_run(folder)
