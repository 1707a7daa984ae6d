"""A real deployment: SuperLink, nginx and three nodes as processes, a plan on them, and strangers.

One deployment serves all tests here; the plan runs on it while strangers knock.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="no Flower here; pip install 'catchment[fleet]'")

from catchment.errors import FederationError
from catchment.federation import read_run
from catchment.plans import read_plan, run_plan
from catchment_fleet.deploy import (
    CONNECTION,
    flwr,
    make_keys,
    make_node,
    node_command,
    try_flwr,
    write_connection,
)
from tools.fleet.deployment import Deployment, find_nginx, free_port
from tools.fleet.processes import marked
from tools.fleet.up import APP, run_on, sha256, up, write_example

try:
    find_nginx()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)


@dataclass
class Fleet:
    """A deployment, and the model that its plan is making meanwhile."""

    deployment: Deployment
    plan: Path
    model: Future[Path]
    stranger: Path  # Flower's home of somebody who has the authority's certificate

    def runs(self) -> int:
        listed = flwr(self.deployment.home, "list", CONNECTION, "--format", "json")
        return len(json.loads(listed)["runs"])

    def nodes(self) -> int:
        words = ("supernode", "list", CONNECTION, "--format", "json", "--verbose")
        return len(json.loads(flwr(self.deployment.home, *words))["nodes"])

    def knock(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Return how a command ends that a stranger sends to the proxy."""
        return try_flwr(self.stranger, *words)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    plan = write_example(folder, 3)
    with up(folder, plan) as deployment, ThreadPoolExecutor(1) as pool:
        stranger = tmp_path_factory.mktemp("stranger")
        authority = shutil.copy(deployment.server / "ca.crt", stranger / "ca.crt")
        write_connection(stranger, f"127.0.0.1:{deployment.proxy_port}", Path(authority))
        model = pool.submit(run_on, deployment)
        while not (folder / "run").exists() and not model.done():
            time.sleep(0.2)
        yield Fleet(deployment, plan, model, stranger)
    assert list(marked(str(deployment.processes.folder), None)) == []


def test_a_stranger_cannot_start_a_run(fleet: Fleet) -> None:
    before = fleet.runs()
    done = fleet.knock("run", str(fleet.deployment.folder / APP), CONNECTION)
    assert done.returncode != 0
    assert "404" in done.stdout + done.stderr
    # The run that the fixture started through the loopback address shows that the command is right.
    assert fleet.runs() == before == 1


def test_a_stranger_cannot_register_a_node(fleet: Fleet, tmp_path: Path) -> None:
    make_node(tmp_path, "mallory")
    before = fleet.nodes()
    words = ("supernode", "register", str(tmp_path / "nodes" / "mallory" / "node.pub"), CONNECTION)
    done = fleet.knock(*words)
    assert done.returncode != 0
    assert "404" in done.stdout + done.stderr
    assert fleet.nodes() == before == 3
    # The very same words succeed for whoever has a shell on the server.
    flwr(fleet.deployment.home, *words)
    assert fleet.nodes() == 4


@pytest.mark.parametrize("words", [("list",), ("stop", "1")])
def test_a_stranger_learns_nothing_and_stops_nothing(fleet: Fleet, words: tuple[str, ...]) -> None:
    done = fleet.knock(*words, CONNECTION)
    assert done.returncode != 0
    assert "404" in done.stdout + done.stderr


def test_a_node_with_an_unknown_key_is_not_let_in(fleet: Fleet, tmp_path: Path) -> None:
    make_node(tmp_path, "eve")
    key = tmp_path / "nodes" / "eve" / "node.key"
    assert "Failed to activate" in refused(fleet.deployment, ["--auth-supernode-private-key", key])


def test_a_node_without_a_key_cannot_register_itself(fleet: Fleet) -> None:
    assert "404" in refused(fleet.deployment, [])


def test_a_node_that_trusts_another_authority_does_not_talk_to_us(
    fleet: Fleet, tmp_path: Path
) -> None:
    make_keys(tmp_path, ["localhost"], ["ann"])
    command = node_command(
        tmp_path / "nodes" / "ann",
        f"127.0.0.1:{fleet.deployment.proxy_port}",
        {},
        port=free_port(),
    )
    said = ended("another-authority", fleet.deployment, command)
    assert "certificate" in said.lower()


def refused(deployment: Deployment, key: list[str | Path]) -> str:
    """Return the last words of a node that tries to come in through the proxy."""
    here = deployment.node("user-000")
    command = node_command(here, f"127.0.0.1:{deployment.proxy_port}", {}, port=free_port())
    at = command.index("--auth-supernode-private-key")
    command[at : at + 2] = [str(word) for word in key]
    return ended(f"stranger-{len(key)}", deployment, command)


def ended(name: str, deployment: Deployment, command: list[str]) -> str:
    """Return what a process says that is expected to end by itself."""
    process = deployment.processes.start(
        name, command, {"FLWR_HOME": str(deployment.folder / name)}
    )
    try:
        assert process.wait(60) != 0
        return deployment.processes.log(name).read_text()
    finally:
        deployment.processes.stop(name)


def test_the_superlink_listens_on_the_loopback_address_only(fleet: Fleet) -> None:
    listening = set()
    for table in ("tcp", "tcp6"):
        path = Path("/proc/net") / table
        lines = path.read_text().splitlines()[1:] if path.is_file() else []
        listening |= {line.split()[1] for line in lines if line.split()[3] == "0A"}
    port = f"{fleet.deployment.superlink_port:04X}"
    assert [address for address in listening if address.endswith(f":{port}")] == [
        f"0100007F:{port}"
    ]


def test_a_deployment_is_up_once(fleet: Fleet) -> None:
    with (
        pytest.raises(FederationError, match="is up already"),
        up(fleet.deployment.folder, fleet.plan),
    ):
        pass


def test_the_model_is_that_of_one_process_to_the_byte(fleet: Fleet, tmp_path: Path) -> None:
    alone = run_plan(read_plan(fleet.plan), tmp_path / "alone")
    model = fleet.model.result(timeout=600)
    assert sha256(model) == sha256(tmp_path / "alone" / "model.safetensors")
    run = read_run(model.parent)
    (record,) = run.rounds["training"]
    assert (record.n_asked, record.n_used, record.refused) == (3, 3, ())
    assert run.scores[""] == alone.run.scores[""]
