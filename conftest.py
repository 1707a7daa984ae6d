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
