"""What all tests share: nothing is written into the user's own folders."""

from __future__ import annotations

from uuid import uuid4

import pytest


@pytest.fixture(autouse=True)
def _state_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name a state folder for every test; it is made when it is first used."""
    place = tmp_path_factory.getbasetemp() / "state" / uuid4().hex
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
