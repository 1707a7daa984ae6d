"""Plans with devices in exported C: in one process and over a network, the file of all-Python."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import catchment as ct
from catchment.cli import app
from catchment.data import wearable_user
from catchment.errors import DeviceError
from catchment.federation import ByRound, read_run
from catchment.federation.runs import MODEL
from catchment.plans import read_plan, run_plan
from catchment.privacy import PlainStatisticsWarning
from catchment_edge.client import EdgeClient
from catchment_edge.training import sensor_bytes, to_device
from catchment_fleet.apps import PlanNode
from tests.plans.test_flower import fleet
from tools.edge.devices import build_host, host

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no gcc here; install build tools"
)
PLAN = """
[data]
source = "wearables"
users = 5
windows_per_user = 170
steps = 6
test = 0.2
[features]
map = "echo_state"
units = 2
pool = "mean"
[learn]
ridge = "gcv"
upload = "statistics"
store_per_client = false
[run]
baselines = []
"""
SECURE = '[[protections]]\nname = "secure_aggregation"\nmin_clients = 3\n'


def people() -> dict[str, list[ct.Recording]]:
    return {f"user-{k:03d}": wearable_user(0, k, windows_per_user=170, steps=6) for k in range(5)}


def built(folder: Path, text: str) -> Path:
    (folder / "plan.toml").write_text(text)
    to_device(folder / "plan.toml", folder / "board", name="device", port="host")
    return build_host(folder / "board", model="device")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("firmware"), PLAN)


@contextmanager
def running(program: Path, folder: Path, *names: str, segments: int = 2) -> Iterator[list[str]]:
    """Yield the addresses of devices whose sensors have these people's recordings."""
    with ExitStack() as stack:
        found = []
        for name in names:
            sensor = folder / f"{name}.sensor"
            sensor.write_bytes(segments * sensor_bytes(people()[name], classes=6))
            found.append(stack.enter_context(host(program, sensor)).address)
        yield found


def plan_of(folder: Path, text: str = PLAN) -> Any:
    (folder / "plan.toml").write_text(text)
    return read_plan(folder / "plan.toml")


def trained(file: Any) -> list[str]:
    return sorted(file.load_data().train)


def test_a_plan_with_devices_gives_the_file_of_the_plan_without(
    program: Path, tmp_path: Path
) -> None:
    file = plan_of(tmp_path)
    run_plan(file, tmp_path / "python")
    first, second, *_ = trained(file)
    with running(program, tmp_path, first, second) as (a, b):
        devices = {first: EdgeClient(a), second: EdgeClient(b)}
        run_plan(file, tmp_path / "mixed", devices=devices)
        assert EdgeClient(a).hello().has_readout
    made = (tmp_path / "mixed" / MODEL).read_bytes()
    assert made == (tmp_path / "python" / MODEL).read_bytes()
    run = read_run(tmp_path / "mixed")
    assert {stage: records[0].n_used for stage, records in run.rounds.items()} == {
        "scaling": 4,
        "training": 4,
        "delivery": 5,
        "evaluation": 1,
    }


@pytest.mark.parametrize("text", [PLAN, PLAN + SECURE], ids=["plain", "secure aggregation"])
def test_what_a_device_sent_is_explained_though_the_plan_has_no_data_of_it(
    tmp_path: Path, text: str
) -> None:
    program = built(tmp_path, text)
    with running(program, tmp_path, "user-004") as (address,):
        run_plan(plan_of(tmp_path, text), tmp_path / "run", devices={"board": EdgeClient(address)})
    said = CliRunner().invoke(app, ["diagnose", str(tmp_path / "run"), "--client", "board"])
    assert said.exit_code == 0, said.output
    assert "it was a device" in " ".join(said.output.split())
    nobody = CliRunner().invoke(app, ["diagnose", str(tmp_path / "run"), "--client", "nobody"])
    assert nobody.exit_code != 0


def test_one_device_under_two_names_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    devices = {name: EdgeClient("tcp://127.0.0.1:7007") for name in ("a", "b")}
    with pytest.raises(ValueError, match="a and b are both the device at"):
        run_plan(plan_of(tmp_path), tmp_path / "run", devices=devices)
    assert not (tmp_path / "run").exists()


def test_a_device_without_a_row_is_left_out_as_any_client_without_data(
    program: Path, tmp_path: Path
) -> None:
    file = plan_of(tmp_path)
    first = trained(file)[0]
    with running(program, tmp_path, first, segments=1) as (address,):
        run_plan(file, tmp_path / "run", devices={first: EdgeClient(address)})
    run = read_run(tmp_path / "run")
    (training,) = run.rounds["training"]
    assert training.n_used == 3
    assert "the device's sums have no row" in training.refused[0].reason


def test_a_device_predicts_with_the_readout_that_came_back(program: Path, tmp_path: Path) -> None:
    file = plan_of(tmp_path)
    first = trained(file)[0]
    with running(program, tmp_path, first, segments=3) as (address,):
        done = run_plan(file, tmp_path / "run", devices={first: EdgeClient(address)})
        scores = np.concatenate(EdgeClient(address).predict())
    wanted = done.model.scores(people()[first])
    np.testing.assert_allclose(scores, wanted, atol=1e-4)


def test_rounds_of_new_data_go_on_within_a_recording(program: Path, tmp_path: Path) -> None:
    file = plan_of(tmp_path)
    held = {name: people()[name] for name in trained(file)}
    pooled = ct.federate(ct.EchoState(2, pool="mean"), held, ridge=1.0)
    first = next(iter(held))
    one = held[first][-1]
    named = replace(one, name="last")
    clients: dict[str, Any] = {
        name: ByRound([*held[name][:-1], named.part(0, 4)], [named.part(4, 6)])
        if name == first
        else ByRound(held[name])
        for name in held
    }
    algorithm = ct.FederatedRidge(
        features=pooled.known.maps[0], ridge=1.0, classes=one.classes, increments="new"
    )
    plan = ct.Plan(algorithm=algorithm, rounds=2, preprocessing=pooled.model.preprocessing)
    python = ct.federate(plan, clients)
    sensor = tmp_path / "sensor"
    early = sensor_bytes([*held[first][:-1], named.part(0, 4)], classes=6, open_end=True)
    sensor.write_bytes(early + sensor_bytes([named.part(4, 6)], classes=6))
    with host(program, sensor) as device:
        mixed = ct.federate(plan, {**clients, first: EdgeClient(device.address)})
    assert mixed.records[0].n_used == len(held)
    for made in (python, mixed):
        assert made.state.total is not None
        assert made.state.total.digest() == pooled.statistics.digest()


def test_the_command_takes_devices(program: Path, tmp_path: Path) -> None:
    plan_of(tmp_path)
    first = trained(read_plan(tmp_path / "plan.toml"))[0]
    out = tmp_path / "run"
    with running(program, tmp_path, first) as (address,):
        words = ["run", str(tmp_path / "plan.toml"), "--out", str(out)]
        done = CliRunner().invoke(app, [*words, "--edge-client", f"{first}={address}"])
    assert done.exit_code == 0, done.output
    assert read_run(out).rounds["training"][0].n_used == 4
    twice = ["--edge-client", f"a={address}", "--edge-client", f"a={address}"]
    wrong = (
        ["--edge-client", address],
        twice,
        ["--edge-client", f"a={address}", "--engine", "flower"],
    )
    for options in wrong:
        said = CliRunner().invoke(app, [*words, "--force", *options])
        assert "--edge-client" in str(said.exception or said.output)


def test_a_node_is_the_gateway_of_a_device(program: Path, tmp_path: Path) -> None:
    file = plan_of(tmp_path)
    run_plan(file, tmp_path / "python")
    first = trained(file)[0]
    names = sorted(people())
    allow = {"allow-plain-statistics": True, "plan": str(tmp_path / "plan.toml")}
    configs: dict[str, dict[str, Any]] = {name: {"name": name, **allow} for name in names}
    with running(program, tmp_path, first) as (address,):
        configs[first]["device"] = address
        nodes = fleet(tmp_path, PLAN, configs, secret=False)
        with pytest.warns(PlainStatisticsWarning):
            there = nodes.serve("there", allow_plain=True)
        assert EdgeClient(address).hello().has_readout
    assert there == (tmp_path / "python" / MODEL).read_bytes()
    assert read_run(tmp_path / "there").rounds["delivery"][0].n_used == 5


@pytest.mark.slow
def test_the_gateway_masks_for_its_device(tmp_path: Path) -> None:
    text = PLAN + SECURE
    program = built(tmp_path, text)
    file = read_plan(tmp_path / "plan.toml")
    run_plan(file, tmp_path / "python")
    first = trained(file)[0]
    configs: dict[str, dict[str, Any]] = {
        name: {"name": name, "plan": str(tmp_path / "plan.toml")} for name in people()
    }
    with running(program, tmp_path, first) as (address,):
        configs[first]["device"] = address
        nodes = fleet(tmp_path, text, configs)
        there = nodes.serve("there")
    assert there == (tmp_path / "python" / MODEL).read_bytes()


def test_a_config_with_a_device_has_no_data_and_no_test(tmp_path: Path) -> None:
    plan_of(tmp_path)
    address = "tcp://127.0.0.1:7007"
    for other in ({"data": "*.csv"}, {"test": True}):
        with pytest.raises(ValueError, match="leave out data and test"):
            PlanNode({"name": "a", "device": address, **other}, tmp_path / "plan.toml")
    node = PlanNode({"name": "a", "device": address}, tmp_path / "plan.toml")
    assert node.stages == ("scaling", "plasticity", "training", "delivery")
    with pytest.raises(ValueError, match="has no name"):
        _ = PlanNode({"device": address, "partition-id": 0}, tmp_path / "plan.toml").name


def test_firmware_of_another_plan_is_refused_by_its_workflow(program: Path, tmp_path: Path) -> None:
    file = plan_of(tmp_path, PLAN.replace('ridge = "gcv"', "ridge = 0.1"))
    first = trained(file)[0]
    with running(program, tmp_path, first) as (address,):
        workflow = file.workflow(file.about())
        with pytest.raises(DeviceError, match="exported from the plan"):
            EdgeClient(address).within(workflow).hello()
