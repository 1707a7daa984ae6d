"""What all tests share: the user's own folders are left alone, and no property has a deadline."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest
from hypothesis import settings

# An example that takes long on a busy machine is no failure. A build machine draws the same
# examples every time, everybody else new ones.
settings.register_profile("catchment", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("catchment")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run all tests of a file, so that what they share is made once.

    Files that share nothing are spread: a long one would keep a worker busy to the end.
    """
    for item in items:
        grouped = item.get_closest_marker("xdist_group") or item.get_closest_marker("spread")
        if grouped is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(autouse=True)
def _state_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name a state folder for every test; it is made when it is first used."""
    place = tmp_path_factory.getbasetemp() / "state" / uuid4().hex
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
