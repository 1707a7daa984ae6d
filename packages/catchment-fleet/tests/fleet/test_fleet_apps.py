"""Code from the server, on real nodes: what a node runs, and what it refuses before it is loaded.

A SuperLink runs an app whose client module writes a file as soon as it is imported. Two nodes are
as `catchment flower node` starts them, one allows this very app, and one allows another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="no Flower here; pip install 'catchment[fleet]'")

from catchment.federation import read_run
from catchment.federation.runs import Run
from catchment_fleet.apps import PACKAGE, write_app
from catchment_fleet.deploy import app_hash, node_settings
from tools.fleet.deployment import Deployment, find_nginx
from tools.fleet.processes import marked
from tools.fleet.up import APP, RUN, run_settings, up, write_example

try:
    find_nginx()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)

pytestmark = pytest.mark.long

PRESENT = """
import os
from pathlib import Path
Path(os.environ["FLWR_HOME"], "ran").write_text("code of the server ran here")
"""
USUAL, TRUSTING, PINNED = ("user-000", "user-001"), "user-002", "user-003"


@dataclass
class Tried:
    """A deployment after a run of the server's own app, and what was said."""

    deployment: Deployment
    run: Run
    log: str

    def ran(self, name: str) -> bool:
        """Return whether the app's own code was imported on a node."""
        return (self.deployment.node(name) / "flwr" / "ran").exists()


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    folder = tmp_path_factory.mktemp("apps")
    plan = write_example(folder, 4)
    honest = app_hash(write_app(folder / "honest", plan)[0].parent)
    with up(folder, plan) as deployment:
        client = folder / APP / PACKAGE / "client.py"
        client.write_text(client.read_text() + PRESENT)
        theirs = app_hash(folder / APP)
        assert theirs != honest
        for name, apps in ((TRUSTING, [theirs]), (PINNED, [honest])):
            deployment.stop_node(name)
            settings = node_settings(deployment.node(name))
            deployment.start_node(name, settings, apps=apps)
        deployment.wait_for_nodes(seconds=300)
        ended = deployment.run(folder / APP, {**run_settings(deployment), "expect": 3})
        assert ended.ok, ended.log
        yield Tried(deployment, read_run(folder / RUN), ended.log)
    assert list(marked(str(deployment.processes.folder), None)) == []


def test_by_default_a_node_uses_the_plan_and_runs_none_of_the_code(tried: Tried) -> None:
    assert not any(tried.ran(name) for name in USUAL)
    (record,) = tried.run.rounds["training"]
    assert record.n_used == 3  # they took part all the same


def test_an_app_with_another_hash_is_refused_before_it_is_imported(tried: Tried) -> None:
    assert not tried.ran(PINNED)
    said = tried.deployment.processes.log(f"node-{PINNED}").read_text()
    assert "which is not in apps of this node's policy.toml" in said


def test_an_app_whose_hash_is_listed_is_run_as_it_is(tried: Tried) -> None:
    assert tried.ran(TRUSTING)


def test_no_token_is_on_a_command_line(tried: Tried) -> None:
    deployment = tried.deployment
    names = [f"node-{name}" for name in USUAL]
    pids = list(marked(str(deployment.processes.folder), names))
    assert pids
    assert not any(b"--token" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)
