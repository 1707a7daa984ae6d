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


@pytest.fixture(autouse=True)
def _state_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name a state folder for every test; it is made when it is first used."""
    place = tmp_path_factory.getbasetemp() / "state" / uuid4().hex
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
