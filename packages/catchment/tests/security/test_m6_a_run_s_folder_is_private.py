"""M6: a run's folder is its owner's, and keeps no private key when the run is over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import catchment as ct
from catchment.federation import RunFolder
from catchment.plans import parse_plan, run_plan

SECRET = """
[data]
source = "wearables"
users = 8
windows_per_user = 60
steps = 40
test = 0.25
[features]
units = 5
[learn]
ridge = "gcv"
store_per_client = false
[run]
baselines = []
[[protections]]
name = "secure_aggregation"
min_clients = 3
rows_per_feature = 2
"""


@pytest.fixture
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: path.stat().st_mode & 0o777 for name, path in found.items()}


@pytest.mark.usefixtures("open_to_all")
def test_nobody_else_can_read_any_of_it(tmp_path: Path) -> None:
    u = np.sin(np.arange(90.0) / 5)
    clients = {name: [ct.Recording(u[:-1], u[1:])] for name in ("ann", "ben")}
    ct.federate(ct.EchoState(10), clients, out=tmp_path / "run")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    found = modes(tmp_path / "run")
    assert {"run.sqlite", "model.safetensors", "states", "lock"} <= found.keys()
    assert any(name.startswith("states/training-") for name in found)
    for name, mode in found.items():
        assert mode & 0o077 == 0, (name, oct(mode))


@pytest.mark.usefixtures("open_to_all")
def test_it_is_private_while_it_is_written(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", plan="# a plan") as store:
        store.write_facts({"a": "b"})
        found = modes(tmp_path / "run")
        assert {"run.sqlite-wal", "run.sqlite-shm", "plan.toml"} <= found.keys()
        assert all(mode & 0o077 == 0 for mode in found.values()), found


def test_private_keys_are_gone_when_the_run_is_over(tmp_path: Path) -> None:
    plan = parse_plan(SECRET)
    seen: list[bool] = []

    def watch(*_: object) -> None:
        seen.append((tmp_path / "run" / "clients").is_dir())

    first = run_plan(plan, tmp_path / "run", watch=watch)
    assert any(seen)
    assert not (tmp_path / "run" / "clients").exists()
    again = run_plan(plan, tmp_path / "run", resume=True)
    assert not (tmp_path / "run" / "clients").exists()
    assert again.run.facts["model_sha256"] == first.run.facts["model_sha256"]
