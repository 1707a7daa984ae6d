"""What goes wrong on real machines, done to real processes: the round ends as documented.

Every test has a deployment of its own, because clients remember whom they have been summed with and
refuse sums whose difference would tell of a few.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="no Flower here; pip install 'catchment[fleet]'")

from catchment.federation import read_run
from catchment.federation.runs import Run
from catchment.plans import read_plan, run_plan
from catchment_fleet.deploy import node_settings
from tools.fleet.deployment import SUPERLINK, Deployment, find_nginx
from tools.fleet.processes import marked
from tools.fleet.up import APP, RUN, nodes_of, run_on, run_settings, sha256, up

try:
    find_nginx()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)

pytestmark = pytest.mark.long

NAMES = tuple(f"c{k}" for k in range(5))
PLAN = """
[data]
files = "people/*.csv"
inputs = ["u", "v"]
test = 0.2
test_of = "steps"

[preprocessing]
horizon = 1
scale = "none"

[features]
units = 8
washout = 10

[learn]
ridge = 1e-3
increments = {increments}

[[protections]]
name = "secure_aggregation"
min_clients = 3
rows_per_feature = 2.0
"""


def write_plan(folder: Path, names: tuple[str, ...] = NAMES, *, increments: int = 1) -> Path:
    """Write everybody's own file and a plan over them."""
    (folder / "people").mkdir(parents=True)
    for name in names:
        rng = np.random.default_rng(int(name[1:]))
        rows = rng.normal(size=(400, 2)).cumsum(axis=0) / 10
        np.savetxt(folder / "people" / f"{name}.csv", rows, "%.17g", ",", header="u,v", comments="")
    path = folder / "plan.toml"
    path.write_text(PLAN.format(increments=increments))
    return path


def alone(folder: Path, names: tuple[str, ...], *, increments: int = 1) -> str:
    """Return the SHA-256 of the model that one process makes of some people's files."""
    run_plan(read_plan(write_plan(folder, names, increments=increments)), folder / "run")
    return sha256(folder / "run" / "model.safetensors")


@contextmanager
def fleet(folder: Path, *, increments: int = 1) -> Iterator[Deployment]:
    with up(folder / "fleet", write_plan(folder / "own", increments=increments)) as deployment:
        yield deployment
    assert list(marked(str(deployment.processes.folder), None)) == []


def answers(deployment: Deployment) -> int:
    """Return how many answers nodes have sent through the proxy."""
    log = deployment.processes.folder / "nginx-access.log"
    return log.read_text().count("/v1/fleet/push-messages") if log.is_file() else 0


def asked_after(deployment: Deployment, n_answers: int) -> bool:
    """Return whether a node has fetched a letter since so many answers came."""
    log = deployment.processes.folder / "nginx-access.log"
    later = log.read_text().split("/v1/fleet/push-messages") if log.is_file() else []
    return len(later) > n_answers and "/v1/fleet/pull-object" in later[-1]


def wait_for(what: str, happened: Callable[[], bool], *, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.05)


def refusals(run: Run, stage: str) -> dict[str, str]:
    return {r.client: r.reason for record in run.rounds[stage] for r in record.refused}


def helper_of(deployment: Deployment, name: str) -> int:
    """Return the process that starts a node's app for every message."""
    for pid in marked(str(deployment.processes.folder), [f"node-{name}"]):
        if b"launch\0executor" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError(f"{name} has no helper")


def test_a_node_with_bad_data_and_one_with_another_plan_are_named(tmp_path: Path) -> None:
    with fleet(tmp_path) as deployment:
        (tmp_path / "own" / "people" / "c3.csv").write_text("u,w\n1,2\n3,4\n")
        other = tmp_path / "other.toml"
        other.write_text(PLAN.format(increments=1).replace("units = 8", "units = 9"))
        data = nodes_of(read_plan(tmp_path / "own" / "plan.toml"))["c4"]
        deployment.stop_node("c4")
        settings = {**node_settings(deployment.node("c4")), **data, "plan": str(other)}
        deployment.start_node("c4", settings)
        deployment.wait_for_nodes()
        model = run_on(deployment)
        own_log = deployment.processes.log("node-c3").read_text()
    run = read_run(model.parent)
    (record,) = run.rounds["training"]
    assert (record.n_asked, record.n_used) == (5, 3)
    why = refusals(run, "training")
    assert why.keys() == {"c3", "c4"}
    assert "another plan" in why["c4"]
    # What is in a file, and what is not, is for its owner to know.
    assert why["c3"].endswith("do not fit the plan; the log of the node says why")
    assert "no column 'v'" in own_log
    assert sha256(model) == alone(tmp_path / "three", NAMES[:3])


def test_a_killed_node_and_a_straggler_are_left_out_and_named(tmp_path: Path) -> None:
    with fleet(tmp_path) as deployment, ThreadPoolExecutor(1) as pool:
        future = pool.submit(run_on, deployment, timeout=60.0)
        # Letters of the round go out once everybody has said its name.
        wait_for("the first letter", lambda: asked_after(deployment, 5) or future.done())
        deployment.stop_node("c3", grace=0)
        # The others have made their keys and have handed out shares of them.
        wait_for("the second stage", lambda: answers(deployment) >= 13 or future.done())
        slow = helper_of(deployment, "c4")
        os.kill(slow, signal.SIGSTOP)
        states = deployment.folder / RUN / "states"
        wait_for("the round's end", lambda: any(states.glob("training*")) or future.done())
        # It now answers letters that nobody waits for any more.
        os.kill(slow, signal.SIGCONT)
        model = future.result()
    run = read_run(model.parent)
    (record,) = run.rounds["training"]
    assert (record.n_asked, record.n_used) == (5, 3)
    why = refusals(run, "training")
    assert why.keys() == {"c3", "c4"}
    assert "did not answer within 60 s" in why["c4"]
    assert sha256(model) == alone(tmp_path / "three", NAMES[:3])


def test_a_server_that_loses_its_power_goes_on_where_it_was(tmp_path: Path) -> None:
    with fleet(tmp_path, increments=2) as deployment:
        run_id = deployment.start_run(deployment.folder / APP, run_settings(deployment))
        states = deployment.folder / RUN / "states"
        wait_for("the first round", lambda: any(states.glob("training*")))
        before = answers(deployment)
        wait_for("half of a second round", lambda: answers(deployment) >= before + 7)
        deployment.processes.stop(SUPERLINK, grace=0)
        time.sleep(5)  # nodes knock in vain
        deployment.start_superlink()
        wait_for("notice of the loss", lambda: deployment.ended(run_id).status != "running")
        assert deployment.ended(run_id).status == "finished:failed"
        model = run_on(deployment)
    run = read_run(model.parent)
    assert [(r.round, r.n_used, r.refused) for r in run.rounds["training"]] == [
        (0, 5, ()),
        (1, 5, ()),
    ]
    assert sha256(model) == alone(tmp_path / "alone", NAMES, increments=2)
    with sqlite3.connect(model.parent / "run.sqlite") as database:
        (uploads,) = database.execute(
            "SELECT count(*) FROM (SELECT DISTINCT round, client FROM messages "
            "WHERE stage = 'training' AND direction = 'up')"
        ).fetchone()
    database.close()
    assert uploads == 10


def test_a_node_that_comes_back_takes_part_again(tmp_path: Path) -> None:
    with fleet(tmp_path) as deployment:
        deployment.stop_node("c2", grace=0)
        data = nodes_of(read_plan(tmp_path / "own" / "plan.toml"))["c2"]
        deployment.start_node("c2", {**node_settings(deployment.node("c2")), **data})
        deployment.wait_for_nodes(seconds=600)  # it is turned away for the first minute
        model = run_on(deployment)
    (record,) = read_run(model.parent).rounds["training"]
    assert (record.n_asked, record.n_used, record.refused) == (5, 5, ())
    assert sha256(model) == alone(tmp_path / "all", NAMES)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_up_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tools.fleet", "up", "--nodes", "3"]
    logs = tmp_path / "fleet" / "logs"
    started = subprocess.Popen(
        [*command, "--dir", str(tmp_path / "fleet")], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    said = []
    for line in started.stdout:
        said.append(line)
        if "Ctrl-C" in line:
            break
    started.send_signal(number)
    code = started.wait(60)
    started.stdout.close()
    assert any("3 nodes are online" in line for line in said)
    if number == signal.SIGKILL:
        # Nobody can clean up after that but the next one in the same folder.
        assert list(marked(str(logs), None))
        with up(tmp_path / "fleet", tmp_path / "fleet" / "plan.toml") as deployment:
            assert deployment.nodes.keys() == {"user-000", "user-001", "user-002"}
    else:
        assert code == 130
    assert list(marked(str(logs), None)) == []
    shutil.rmtree(tmp_path / "fleet")
