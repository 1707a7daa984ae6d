"""What all tests share: the user's own folders are left alone; nothing has a deadline or waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

# Processes that tests start find the packages and the tests as pytest does.
ROOT = Path(__file__).parent
os.environ["PYTHONPATH"] = os.pathsep.join(
    map(str, [ROOT, *sorted(ROOT.glob("packages/*/src")), *sorted(ROOT.glob("packages/*"))])
)
# `tests` and its folders lie in several packages; pytest would make modules of those here alone.
for folder in [ROOT / "tests", *(ROOT / "tests").rglob("[!_.]*/")]:
    import_module(".".join(folder.relative_to(ROOT).parts))

# What `make test` leaves to `make nightly`, by the beginning of a test's name: each real component,
# a SuperLink with its nodes, Ray, an emulated board, a browser, the pages, has a test by day.
NIGHTLY = (
    "packages/catchment-edge/tests/playground/test_page.py",
    "packages/catchment-edge/tests/edge/test_federation.py",
    "packages/catchment-fleet/tests/fleet/test_fleet.py",
    "packages/catchment-fleet/tests/fleet/test_fleet_apps.py",
    "packages/catchment-fleet/tests/fleet/test_fleet_faults.py",
    "packages/catchment-fleet/tests/plans/test_weeks.py::test_the_guide_shows_what_is_printed",
    "packages/catchment-lab/tests/watch/test_page.py",
    "packages/catchment-research/tests/reproductions/",
    "tests/test_examples.py",
    "tests/test_notebooks.py",
)
DAILY = (
    "packages/catchment-edge/tests/edge/test_federation.py::test_the_sum_of_five_boards",
    "packages/catchment-fleet/tests/fleet/test_fleet.py::test_a_deployment_is_up_once",
    "packages/catchment-fleet/tests/fleet/test_fleet.py::test_a_node_with_an_unknown_key",
    "packages/catchment-fleet/tests/fleet/test_fleet.py::test_the_",
    "packages/catchment-lab/tests/watch/test_page.py::test_a_browser_follows_a_run",
    "packages/catchment-research/tests/reproductions/test_fedip_page.py",
    "packages/catchment-research/tests/reproductions/test_again.py",
    "packages/catchment-research/tests/reproductions/test_fedpt_docs.py",
    "packages/catchment-research/tests/reproductions/test_freeze_results.py",
    "packages/catchment-research/tests/reproductions/test_intervals.py",
    "packages/catchment-research/tests/reproductions/test_options.py",
    "packages/catchment-research/tests/reproductions/test_papers.py",
    "packages/catchment-research/tests/reproductions/test_parts.py",
    "packages/catchment-research/tests/reproductions/test_pixels.py",
    "packages/catchment-research/tests/reproductions/test_tables.py",
    "tests/test_examples.py::test_every_example",
    "tests/test_examples.py::test_sensor_folder",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is tested by night as long."""
    for item in items:
        if item.nodeid.startswith(NIGHTLY) and not item.nodeid.startswith(DAILY):
            item.add_marker(pytest.mark.long)


# An example that takes long on a busy machine is no failure. A build machine draws the same
# examples every time, and fewer where a test does not say how many; everybody else new ones.
CI = bool(os.environ.get("CI"))
settings.register_profile(
    "catchment", deadline=None, derandomize=CI, max_examples=50 if CI else 100
)
settings.load_profile("catchment")


@pytest.fixture(autouse=True)
def _state_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name a state folder for every test; it is made when it is first used."""
    place = tmp_path_factory.getbasetemp() / "state" / uuid4().hex
    monkeypatch.setenv("XDG_STATE_HOME", str(place))


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk() -> Iterator[None]:
    """What a killed process wrote is kept without it; it is for a loss of power, which none has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield
